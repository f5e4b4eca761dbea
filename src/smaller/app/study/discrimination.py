"""How well probabilities order rows: areas under curves, and the sensitivity at a chosen specificity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from smaller.app.study.intervals import LEVEL
from smaller.arrays import Array

__all__ = ["Operation", "area", "area_interval", "average_precision", "operate", "sensitivity_interval"]

DRAWS, MANY = 500, 200_000  # of the bootstrap; fewer where there are many probabilities


def _placements(positive: Array, score: Array) -> tuple[Array, Array]:
    """Return for each positive row the share of negatives below it, and for each negative that of positives above.

    Scores of shape (repeats, n) give the means over the repeats.
    """
    score = np.atleast_2d(score)
    up, down = score[:, positive], score[:, ~positive]
    ranks, inside = stats.rankdata(score, axis=1), (stats.rankdata(up, axis=1), stats.rankdata(down, axis=1))
    above = (ranks[:, positive] - inside[0]) / down.shape[1]
    return above.mean(axis=0), (1.0 - (ranks[:, ~positive] - inside[1]) / up.shape[1]).mean(axis=0)


def area(positive: Array, score: Array) -> float | None:
    """Return the chance that a positive row scores above a negative one (ties count half); None without both."""
    if not 0 < np.count_nonzero(positive) < len(positive):
        return None
    return float(_placements(positive, score)[0].mean())


def area_interval(positive: Array, score: Array, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the interval of the area (DeLong, DeLong and Clarke-Pearson 1988), on the scale of its log-odds.

    The rows are taken as independent draws. None where a side has fewer than two rows, or nothing overlaps: then the
    variance of the formula is zero, and says nothing.
    """
    if min(np.count_nonzero(positive), np.count_nonzero(~positive)) < 2:
        return None
    above, below = _placements(positive, score)
    value = float(above.mean())
    variance = float(above.var(ddof=1) / len(above) + below.var(ddof=1) / len(below))
    if variance == 0.0 or value in (0.0, 1.0):
        return None
    middle = np.log(value / (1.0 - value))
    half = stats.norm.ppf(0.5 + level / 2.0) * np.sqrt(variance) / (value * (1.0 - value))
    low, high = 1.0 / (1.0 + np.exp(-(middle - half))), 1.0 / (1.0 + np.exp(-(middle + half)))
    return float(low), float(high)


def average_precision(positive: Array, score: Array) -> float:
    """Return the area under the precision-recall curve as a sum of steps, ties as one step."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.r_[np.diff(score[order]) != 0, True])
    hits = np.cumsum(positive[order])[last]
    return float((np.diff(np.r_[0, hits]) * hits / (last + 1)).sum() / hits[-1])


@dataclass(frozen=True)
class Operation:
    """A test that says "positive" from a threshold of the probability on."""

    threshold: float
    sensitivity: float
    specificity: float


def operate(positive: Array, score: Array, specificity: float) -> Operation:
    """Return the lowest threshold that calls at least a share ``specificity`` of the negatives negative.

    Rows are positive from the threshold on; infinity (none is) where no score is high enough.
    """
    negatives, positives = np.sort(score[~positive]), score[positive]
    least = int(np.ceil(specificity * len(negatives) - 1e-9))  # so many negatives must lie below the threshold
    if least == 0:
        threshold = float(score.min())
    else:
        above = score[score > negatives[least - 1]]
        threshold = float(above.min()) if len(above) else np.inf
    return Operation(threshold, float((positives >= threshold).mean()), float((negatives < threshold).mean()))


def sensitivity_interval(
    positive: Array, score: Array, specificity: float, groups: Array | None, seed: int, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile interval of the sensitivity when rows (or groups) are drawn again.

    The threshold is found anew in every draw, so that its own uncertainty counts.

    Parameters
    ----------
    positive : ndarray of shape (n,)
        Which rows are positive.
    score : ndarray of shape (repeats, n)
        Their probabilities; the sensitivity is the mean over repeats.
    specificity, groups, seed, level
        The share of negatives called negative, rows drawn together, the random numbers, the confidence.
    """
    rng = np.random.default_rng(seed)
    units = np.arange(len(positive)) if groups is None else np.unique(groups, return_inverse=True)[1]
    order, size = np.argsort(units, kind="stable"), np.bincount(units)
    start = np.cumsum(size) - size
    drawn = []
    for _ in range(DRAWS if score.size < MANY else DRAWS // 5):
        chosen = rng.integers(0, len(size), size=len(size))
        within = np.arange(size[chosen].sum()) - np.repeat(np.cumsum(size[chosen]) - size[chosen], size[chosen])
        rows = order[np.repeat(start[chosen], size[chosen]) + within]
        if 0 < np.count_nonzero(positive[rows]) < len(rows):
            drawn.append(np.mean([operate(positive[rows], one[rows], specificity).sensitivity for one in score]))
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(drawn, [tail, 100.0 - tail])
    return float(low), float(high)
