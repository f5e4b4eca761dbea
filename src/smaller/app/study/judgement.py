"""Held-out probabilities turned into numbers a report can show: aggregates only, no row is ever passed on."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.intervals import LEVEL, binomial_interval, mean_interval, share_interval
from smaller.arrays import Array

__all__ = ["calibration", "confusion", "decision_tables", "performance", "pooled", "stacked"]

GAIN_LEVEL = 0.99  # of the gain in log-loss: a second look at the same evidence must cost something
BINS = 10
PRIOR_STEPS, THRESHOLD_STEPS = 19, 41
MOST_CLASSES_WITH_TABLES = 30


def performance(
    codes: Array, proba: Array, groups: Array | None = None, decided: Array | None = None
) -> dict[str, Any]:
    """Return error and log-loss with intervals, and what guessing would give.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Classes of the rows predicted.
    proba : ndarray of shape (n, K) or (repeats, n, K)
        Their probabilities; means are over the repeats.
    groups : ndarray of shape (n,), optional
        Rows that an interval must take as one draw.
    decided : ndarray of shape (repeats, n), optional
        Classes decided for; the most probable ones if left out.
    """
    P = stacked(proba)
    decided = P.argmax(axis=2) if decided is None else decided
    n, K = P.shape[1:]
    wrong = (decided != codes).astype(np.float64)
    losses = -np.log(P[:, np.arange(n), codes])
    frequency = np.bincount(codes, minlength=K) / n
    share = np.log(np.maximum(frequency, 1e-300))[codes]
    per_repeat = wrong.mean(axis=1)
    return {
        "rows": n,
        "repeats": len(P),
        "wrong": float(wrong.sum() / len(P)),
        "error": float(per_repeat.mean()),
        "error_interval": list(share_interval(wrong, groups)),
        "error_range": [float(per_repeat.min()), float(per_repeat.max())],
        "log_loss": float(losses.mean()),
        "log_loss_interval": list(mean_interval(losses, groups)),
        "gain_interval": list(mean_interval(-share - losses, groups, GAIN_LEVEL)),
        "brier": float(((P - np.eye(K)[codes]) ** 2).sum(axis=2).mean()),
        "baseline_error": float(1.0 - frequency.max()),
        "baseline_log_loss": float(-share.mean()),
        "units": None if groups is None else len(np.unique(groups)),
        "level": LEVEL,
    }


def stacked(proba: Array) -> Array:
    """Return probabilities as (repeats, n, K)."""
    return proba.reshape(-1, *proba.shape[-2:])


def pooled(codes: Array, proba: Array) -> tuple[Array, Array, int]:
    """Return the rows of all repeats one after the other, and the number of repeats."""
    P = stacked(proba)
    return np.tile(codes, len(P)), P.reshape(-1, P.shape[2]), len(P)


def calibration(codes: Array, proba: Array) -> dict[str, Any]:
    """Return how often the decision was right among rows of similar confidence, in bins of equal size."""
    codes, proba, repeats = pooled(codes, proba)
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    bins, error = [], 0.0
    for rows in np.array_split(order, min(BINS, max(1, len(order) // (10 * repeats)))):
        k, n, mean = float(right[rows].sum()) / repeats, len(rows) / repeats, float(confidence[rows].mean())
        bins.append({"confidence": mean, "right": k / n, "rows": n, "interval": list(binomial_interval(k, n))})
        error += n * repeats * abs(k / n - mean) / len(order)
    return {"bins": bins, "expected_calibration_error": error}


def confusion(codes: Array, proba: Array, decided: Array | None = None) -> list[list[float]]:
    """Return counts, true class by class decided for (by default the most probable); means over the repeats."""
    codes, proba, repeats = pooled(codes, proba)
    K = proba.shape[1]
    decided = proba.argmax(axis=1) if decided is None else decided.ravel()
    counts = np.bincount(codes * K + decided, minlength=K * K).reshape(K, K)
    return [[count / repeats if count % repeats else count // repeats for count in row] for row in counts.tolist()]


def decision_tables(codes: Array, proba: Array, train_priors: Array) -> dict[str, Any] | None:
    """Return rejected share and error for every reject threshold, and for other shares of each class.

    Entry ``tables[k][i][j]`` is ``[rejected, error among the others]`` when class k makes up ``priors[i]`` of the cases
    (the others in proportion; ``i = 0`` leaves all shares as in training) and rows of risk above ``thresholds[j]`` are
    rejected. Held-out rows are weighted accordingly. None when there are too many classes.
    """
    codes, proba, _ = pooled(codes, proba)
    K = proba.shape[1]
    if K > MOST_CLASSES_WITH_TABLES:
        return None
    thresholds = np.linspace(0.0, 1.0 - 1.0 / K, THRESHOLD_STEPS)
    priors = np.linspace(0.05, 0.95, PRIOR_STEPS)
    size = np.bincount(codes, minlength=K)
    tables = []
    for k in [1] if K == 2 else range(K):
        # Probabilities are left as they are where the shares are: rounding could break ties differently.
        rows = [_reject_table(codes, proba, (train_priors / np.maximum(size, 1))[codes], thresholds)]
        for share in priors:
            new = train_priors * (1.0 - share) / (1.0 - train_priors[k])
            new[k] = share
            adjusted = proba * (new / train_priors)  # `adjust_priors`, without its checks of every table
            adjusted /= adjusted.sum(axis=1, keepdims=True)
            weight = (new / np.maximum(size, 1))[codes]
            rows.append(_reject_table(codes, adjusted, weight, thresholds))
        tables.append(rows)
    return {"thresholds": thresholds.round(4).tolist(), "priors": priors.round(4).tolist(), "tables": tables}


def _reject_table(codes: Array, proba: Array, weight: Array, thresholds: Array) -> list[list[float]]:
    risk, wrong = 1.0 - proba.max(axis=1), proba.argmax(axis=1) != codes
    first = np.searchsorted(thresholds + 1e-12, risk, side="left")  # threshold at which a row is answered
    accepted = np.cumsum(np.bincount(first, weight, len(thresholds) + 1))
    lost = np.cumsum(np.bincount(first, weight * wrong, len(thresholds) + 1))
    kept = accepted[:-1] / accepted[-1]
    error = np.divide(lost[:-1], accepted[:-1], out=np.zeros(len(thresholds)), where=accepted[:-1] > 0)
    return [[round(float(1.0 - a), 5), round(float(b), 5)] for a, b in zip(kept, error, strict=True)]
