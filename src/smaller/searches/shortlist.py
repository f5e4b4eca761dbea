"""Several import points at a time: chosen one after the other from a shortlist, under Hessian weights that stand still.

All candidates are scored once (`candidates`). Among the best of them the choice of a point b lowers what the others
still bring, by the same Newton step:  ``num_l -= C_lb num_b / s_b``,  ``C -= c_b c_b' / s_b``,  where C is the matrix
whose diagonal is ``s``. That is one look at the candidates' kernel columns for a whole block of points.
"""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array
from smaller.searches.candidates import Candidates
from smaller.searches.submodel import Submodel

__all__ = ["by_joint_promise", "promises"]

_LISTED = 4  # candidates on the shortlist for every point to be chosen


def promises(model: Submodel, candidates: Candidates, g: Array) -> tuple[Array, Array]:
    """Return the decrease that every candidate promises (N,), -1 for those in the span of the points; and ``num``."""
    open_to, s = candidates.admissible(), candidates.curvatures(model)
    num = candidates.numerators(model, g)
    decrease = np.full(len(open_to), -1.0)
    decrease[open_to] = 0.5 * np.sum(num[open_to].T ** 2 / s[:, open_to], axis=0)
    return decrease, num


def by_joint_promise(
    model: Submodel, candidates: Candidates, g: Array, count: int, least: float
) -> tuple[Array, float]:
    """Return at most ``count`` candidates that together lower H most, and what the first of them promises.

    None but the first promises less than ``least``.
    """
    decrease, num = promises(model, candidates, g)
    size = min(_LISTED * count, len(decrease))
    listed = np.argpartition(-decrease, size - 1)[:size]
    listed = listed[decrease[listed] > 0.0]
    if not len(listed):
        return listed, 0.0
    C, rest = candidates.couplings(model, listed)
    chosen = _greedy(C, rest, num[listed], candidates.noise, count, least)
    return listed[chosen], float(decrease[listed].max())


def _greedy(C: Array, rest: Array, num: Array, noise: float, count: int, least: float) -> list[int]:
    """Return the positions chosen; ``rest`` is what the chosen points leave of K, and tells copies."""
    floor, own = noise * np.einsum("hll->hl", C), noise * np.diag(rest)
    chosen: list[int] = []
    for _ in range(count):
        s = np.maximum(np.einsum("hll->hl", C), floor)
        decrease = np.where(np.diag(rest) > own, 0.5 * np.sum(num.T**2 / s, axis=0), -1.0)
        best = int(np.argmax(decrease))
        if decrease[best] <= (least if chosen else 0.0):
            break
        chosen.append(best)
        c = C[:, best] / s[:, best, None]  # (h, r)
        num = num - (c * num[best][:, None]).T
        C = C - C[:, best, :, None] * c[:, None, :]
        rest = rest - np.outer(rest[best], rest[best]) / rest[best, best]
    return chosen
