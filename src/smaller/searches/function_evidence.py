"""Evidence of kernel logistic regression: how likely the labels are under a strength and a kernel width.

Laplace's approximation at the optimum of H (`submodel`), with the weights integrated over their Normal prior, variance
``1/alpha``, and f free intercepts over a flat one:

    log Z = -H - 1/2 log|A| + m q / 2 log alpha + f / 2 log 2 pi,      A the Hessian of H over weights and intercepts

For two classes A is ``D'WD + P``; for q symmetric outputs it joins them, and the last intercept stays at zero, for a
common shift changes nothing. `climb` looks for the pair of settings where log Z is largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from smaller.arrays import Array
from smaller.factors import cholesky, weighted_gram
from smaller.searches.submodel import Submodel

__all__ = ["climb", "log_evidence"]

Place = tuple[int, int]


def log_evidence(model: Submodel) -> float:
    """Return log Z of a model at its optimum."""
    m, q = model.w.shape
    free = (q - model.likelihood.shift_invariant) * model.first
    half_log_determinant = float(np.log(np.diag(cholesky(_hessian(model)))).sum())
    constant = 0.5 * m * q * math.log(model.alpha) + 0.5 * free * math.log(2.0 * math.pi)
    return float(constant - half_log_determinant - model.objective)


def _hessian(model: Submodel) -> Array:
    """Return the lower triangle of A."""
    curvature = model.likelihood.curvature(model.eta, model.y, model.weight)
    d, q = model.d, model.q
    ridge = np.append(np.zeros(model.first), np.full(d - model.first, model.alpha))
    A = np.zeros((q * d, q * d))
    for k in range(q):
        for r in range(k + 1):
            sign = 1.0 if k == r else -1.0  # of the entry's rows
            block = sign * np.tril(weighted_gram(model.D, sign * curvature.block(k, r)))
            A[k * d : (k + 1) * d, r * d : (r + 1) * d] = block + np.tril(block, -1).T
        A[k * d : (k + 1) * d, k * d : (k + 1) * d] += np.diag(ridge)
    if model.likelihood.shift_invariant and model.first:
        kept = np.delete(np.arange(q * d), (q - 1) * d)
        A = A[np.ix_(kept, kept)]
    return A


def climb(
    value: Callable[[Place], float], *, starts: tuple[Place, ...], moves: tuple[Place, ...], most: int
) -> dict[Place, float]:
    """Walk on a grid from the best of some places to one without a higher neighbour; return all values seen.

    Each place is evaluated once, at most ``most`` of them. A move that gained is tried first, again.
    """
    seen = {place: value(place) for place in starts}
    here, last = max(seen, key=lambda place: seen[place]), None
    while True:
        for move in sorted(moves, key=lambda step: step != last):
            there = (here[0] + move[0], here[1] + move[1])
            if there not in seen:
                if len(seen) >= most:
                    return seen
                seen[there] = value(there)
            if seen[there] > seen[here]:
                here, last = there, move
                break
        else:
            return seen
