"""How well probabilities order rows: the area under the ROC curve, with its interval."""

from __future__ import annotations

import numpy as np
from scipy import stats

from smaller.app.study.intervals import LEVEL
from smaller.arrays import Array

__all__ = ["area", "area_interval"]


def _placements(positive: Array, score: Array) -> tuple[Array, Array]:
    """Return for each positive row the share of negatives below it, and for each negative that of positives above."""
    up, down = score[positive], score[~positive]
    ranks, inside = stats.rankdata(score), (stats.rankdata(up), stats.rankdata(down))
    above = (ranks[positive] - inside[0]) / len(down)
    return above, 1.0 - (ranks[~positive] - inside[1]) / len(up)


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
