"""How each class fares: a rare one must not hide behind the error of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.discrimination import area, area_interval, average_precision
from smaller.app.study.judgement import pooled, stacked
from smaller.arrays import Array

__all__ = ["by_class"]


def by_class(codes: Array, proba: Array, decided: Array, groups: Array | None = None) -> dict[str, Any]:
    """Return recall, precision, F1, areas and Brier score of every class against all others, and the balanced accuracy.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        True classes.
    proba : ndarray of shape (repeats, n, K)
        Probabilities; areas and scores are means over the repeats.
    decided : ndarray of shape (repeats, n)
        Classes decided for; counts are means over the repeats.
    groups : ndarray of shape (n,), optional
        Rows that belong together: the interval of an area, which knows single rows only, is left out.
    """
    P = stacked(proba)
    K = P.shape[2]
    true, _, repeats = pooled(codes, P)
    table = np.bincount(true * K + decided.ravel(), minlength=K * K).reshape(K, K) / repeats
    classes = [_one(k, codes, P[:, :, k], table, groups is None) for k in range(K)]
    found = [one["found"] for one in classes if one["found"] is not None]
    areas = [one["area"] for one in classes if one["area"] is not None]
    return {
        "classes": classes,
        "balanced_accuracy": float(np.mean(found)),
        "area": float(np.mean(areas)) if areas else None,
    }


def _one(k: int, codes: Array, score: Array, table: Array, alone: bool) -> dict[str, Any]:
    right, there, said = float(table[k, k]), float(table[k].sum()), float(table[:, k].sum())
    is_k = codes == k
    both = 0 < there < len(codes)
    interval = area_interval(is_k, score) if both and alone else None
    return {
        "rows": round(there),
        "found": right / there if there else None,
        "precision": right / said if said else None,
        "f1": 2.0 * right / (there + said) if there + said else None,
        "area": area(is_k, score),
        "area_interval": None if interval is None else list(interval),
        "average_precision": float(np.mean([average_precision(is_k, one) for one in score])) if both else None,
        "brier": float(((score - is_k) ** 2).mean()),
    }
