"""Held-out probabilities turned into numbers a report can show: aggregates only, no row is ever passed on."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from smaller.arrays import Array
from smaller.decisions import adjust_priors

__all__ = ["calibration", "confusion", "decision_tables", "performance"]

LEVEL = 0.95
BINS = 10
PRIOR_STEPS, THRESHOLD_STEPS = 19, 41
MOST_CLASSES_WITH_TABLES = 30


def performance(codes: Array, proba: Array) -> dict[str, Any]:
    """Return error and log-loss with intervals, and what guessing the commonest class would give."""
    n, wrong = len(codes), int((proba.argmax(axis=1) != codes).sum())
    losses = -np.log(proba[np.arange(n), codes])
    spread = stats.norm.ppf(0.5 + LEVEL / 2) * losses.std(ddof=1) / np.sqrt(n)
    frequency = np.bincount(codes, minlength=proba.shape[1]) / n
    positive = frequency[frequency > 0]
    return {
        "rows": n,
        "wrong": wrong,
        "error": wrong / n,
        "error_interval": list(_binomial_interval(wrong, n)),
        "log_loss": float(losses.mean()),
        "log_loss_interval": [float(losses.mean() - spread), float(losses.mean() + spread)],
        "brier": float(((proba - np.eye(proba.shape[1])[codes]) ** 2).sum(axis=1).mean()),
        "baseline_error": float(1.0 - frequency.max()),
        "baseline_log_loss": float(-(positive * np.log(positive)).sum()),
        "level": LEVEL,
    }


def _binomial_interval(k: int, n: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a share."""
    tail = (1.0 - LEVEL) / 2.0
    low = 0.0 if k == 0 else float(stats.beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(stats.beta.ppf(1.0 - tail, k + 1, n - k))
    return low, high


def calibration(codes: Array, proba: Array) -> dict[str, Any]:
    """Return how often the decision was right among rows of similar confidence, in bins of equal size."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    bins, error = [], 0.0
    for rows in np.array_split(order, min(BINS, max(1, len(order) // 10))):
        k, n, mean = int(right[rows].sum()), len(rows), float(confidence[rows].mean())
        bins.append({"confidence": mean, "right": k / n, "rows": n, "interval": list(_binomial_interval(k, n))})
        error += n * abs(k / n - mean) / len(order)
    return {"bins": bins, "expected_calibration_error": error}


def confusion(codes: Array, proba: Array) -> list[list[int]]:
    """Return counts, true class by predicted class."""
    K = proba.shape[1]
    counts: list[list[int]] = np.bincount(codes * K + proba.argmax(axis=1), minlength=K * K).reshape(K, K).tolist()
    return counts


def decision_tables(codes: Array, proba: Array, train_priors: Array) -> dict[str, Any] | None:
    """Return rejected share and error for every reject threshold, and for other shares of each class.

    Entry ``tables[k][i][j]`` is ``[rejected, error among the others]`` when class k makes up ``priors[i]`` of the cases
    (the others in proportion; ``i = 0`` leaves all shares as in training) and rows of risk above ``thresholds[j]`` are
    rejected. Held-out rows are weighted accordingly. None when there are too many classes.
    """
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
            adjusted, _ = adjust_priors(proba, train_priors, new)
            weight = (new / np.maximum(size, 1))[codes]
            rows.append(_reject_table(codes, adjusted, weight, thresholds))
        tables.append(rows)
    return {"thresholds": thresholds.round(4).tolist(), "priors": priors.round(4).tolist(), "tables": tables}


def _reject_table(codes: Array, proba: Array, weight: Array, thresholds: Array) -> list[list[float]]:
    risk, wrong = 1.0 - proba.max(axis=1), proba.argmax(axis=1) != codes
    order = np.argsort(risk, kind="stable")
    accepted = np.r_[0.0, np.cumsum(weight[order])]
    lost = np.r_[0.0, np.cumsum((weight * wrong)[order])]
    index = np.searchsorted(risk[order], thresholds + 1e-12, side="right")
    kept = accepted[index] / accepted[-1]
    error = np.divide(lost[index], accepted[index], out=np.zeros(len(index)), where=accepted[index] > 0)
    return [[round(float(1.0 - a), 5), round(float(b), 5)] for a, b in zip(kept, error, strict=True)]
