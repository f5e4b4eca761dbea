"""Relevance vectors: columns enter, move and leave as the evidence tells (Tipping 2001; Tipping and Faul 2003).

Each weight has a strength ``a_j`` of its own. As a function of one of them the evidence has one maximum,

    a_j = s_j^2 / (q_j^2 - s_j)  where  q_j^2 > s_j,   infinite, so that the column is out, elsewhere

with ``q, s`` the quality and the overlap of column j against the others. Of all columns the one that gains most is
added, changed or deleted, and the weights are refitted exactly. The evidence is not convex: this ends at a local
optimum. For classes it is Laplace's approximation, under which a step may even lose: the best state seen is returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smaller.arrays import Array
from smaller.problem import Certificate, Status
from smaller.searches.marginal import Fit, Marginal
from smaller.solvers.driver import Progress

__all__ = ["Gains", "Relevance", "find_relevant", "gains"]

_SMALLEST, _LARGEST = 1e-6, 1e12  # strengths: separable classes would send them to zero
_COSINE = 1.0 - 1e-8  # between two columns that count as the same
_PATIENCE = 25  # rounds without a gain
_SETTLED = 1e-3  # relative change of the noise
_FEW = 2  # columns at the end that ask for another start
_SECOND_START, _SECOND_STRENGTH = 20, 1e-2  # its columns, and their strengths


@dataclass(frozen=True)
class Relevance:
    """Where the search ended."""

    fit: Fit
    n_iter: int
    status: Status
    gain: float  # in log evidence, that one more change would bring
    history: tuple[float, ...]  # log evidence of every round


@dataclass(frozen=True)
class Gains:
    """What the best change of every pair is, and what it brings."""

    a: Array  # (M q,) new strength, infinite: out
    gain: Array  # (M q,) in log evidence, at frozen curvature and noise; 0 where a pair that is out stays out


def gains(fit: Fit) -> Gains:
    """Return what adding, changing or deleting each pair brings; exact for a strength that was clipped, too."""
    S, Q = np.maximum(fit.S, 0.0), fit.Q
    s, q = S.copy(), Q.copy()
    # At the mode Q = a w and S = a - a^2 var, so that without the pair itself s = 1 / var - a and q = w / var.
    s[fit.pairs] = np.maximum(1.0 / fit.variances - fit.a, 0.0)
    q[fit.pairs] = fit.w / fit.variances
    theta = q**2 - s
    wanted = theta > 0
    with np.errstate(over="ignore", divide="ignore"):
        a = np.where(wanted, np.clip(s**2 / np.where(wanted, theta, 1.0), _SMALLEST, _LARGEST), np.inf)
    # Where it is out and stays out this is zero: a = inf.
    gain = 0.5 * (Q**2 / (a + S) - np.log1p(S / a))
    gain[fit.pairs] = _inside(fit, a[fit.pairs])
    return Gains(a, gain)


def _inside(fit: Fit, a: Array) -> Array:
    """Return the gains of pairs in use that move to ``a``, or leave where that is infinite."""
    stay = np.isfinite(a)
    d = np.where(stay, 1.0 / np.where(stay, a, 1.0), 0.0) - 1.0 / fit.a
    shrunk = np.minimum(fit.a * fit.variances, 1.0)  # 1 - S / a, and rounding must not make S negative
    # 1 + S d with S = a - a^2 var, free of cancellation: 1 + S / a_new - S / a
    left = np.where(stay, shrunk + (1.0 - shrunk) * fit.a / np.where(stay, a, 1.0), shrunk)
    return 0.5 * ((fit.a * fit.w) ** 2 * d / left - np.log(left))


def find_relevant(
    model: Marginal, *, tol: float = 1e-3, max_iter: int = 1000, progress: Progress | None = None
) -> Relevance:
    """Search for the columns of largest evidence, from the null model.

    Where no single column helps, two or more together may: an end with hardly any column is compared with the end from
    a start of twenty columns that differ.
    """
    found = _ascend(model, np.zeros(0, dtype=np.int64), np.zeros(0), tol, max_iter, progress)
    if len(found.fit.pairs) > _FEW * model.n_outputs or found.status is Status.STOPPED:
        return found
    pairs = _different(model, _SECOND_START)
    if not len(pairs):
        return found
    other = _ascend(model, pairs, np.full(len(pairs), _SECOND_STRENGTH), tol, max_iter, progress)
    return max(found, other, key=lambda end: end.fit.log_evidence)


def _ascend(model: Marginal, pairs: Array, a: Array, tol: float, max_iter: int, progress: Progress | None) -> Relevance:
    """Go up from given pairs and strengths until nothing gains more than ``tol``, or nothing has for long."""
    fit = best = model.refit(pairs, a, None)
    history, since, gain, status = [fit.log_evidence], 0, math.inf, Status.MAX_ITER
    for iteration in range(max_iter):
        change = gains(fit)
        chosen, gain = _choose(model, fit, change)
        settled = abs(math.log(fit.renewed / fit.precision)) < _SETTLED
        if (gain < tol and settled) or since >= _PATIENCE:
            status = Status.STATIONARY
            break
        if progress is not None and progress(iteration, Certificate(-fit.log_evidence, max(gain, 0.0), None)):
            status = Status.STOPPED
            break
        fit = model.refit(*_changed(fit, change, chosen if gain >= tol else -1), fit)
        history.append(fit.log_evidence)
        since = 0 if fit.log_evidence > best.log_evidence + tol else since + 1
        best = fit if fit.log_evidence > best.log_evidence else best
    gain = max(_choose(model, best, gains(best))[1], 0.0)
    return Relevance(best, len(history), status, gain, tuple(history))


def _choose(model: Marginal, fit: Fit, change: Gains) -> tuple[int, float]:
    """Return the pair that gains most; a column that is nearly one in use may not enter."""
    gain = change.gain
    while len(gain):
        best = int(gain.argmax())
        if gain[best] <= 0.0 or best in fit.pairs:
            return best, float(gain[best])
        if np.abs(model.cosines(best, fit.pairs)).max(initial=0.0) <= _COSINE:
            return best, float(gain[best])
        gain = gain.copy()
        gain[best] = -np.inf
    return -1, -math.inf


def _changed(fit: Fit, change: Gains, chosen: int) -> tuple[Array, Array]:
    """Return pairs and strengths after the chosen change; other moves that gain go half their way (in logarithms).

    All the way they would overshoot, for each is computed with the others at rest.
    """
    wanted = change.a[fit.pairs]
    moves = np.isfinite(wanted) & (change.gain[fit.pairs] > 0)
    a = np.where(moves, np.sqrt(fit.a * np.where(moves, wanted, 1.0)), fit.a)
    if chosen < 0:
        return fit.pairs, a
    at = np.flatnonzero(fit.pairs == chosen)
    if not len(at):
        return np.append(fit.pairs, chosen), np.append(a, change.a[chosen])
    if np.isfinite(change.a[chosen]):
        a[at] = change.a[chosen]
        return fit.pairs, a
    return np.delete(fit.pairs, at), np.delete(a, at)


def _different(model: Marginal, count: int) -> Array:
    """Return the pairs of columns that differ most: pivots of the Cholesky factorisation of ``P'P``.

    The first is the column of best quality on its own: columns of one length give the factorisation no first choice.
    """
    q = model.n_outputs
    quality = model.refit(np.zeros(0, dtype=np.int64), np.zeros(0), None).Q
    P = model.P.copy(order="F") if model.weight is None else model.P * np.sqrt(model.weight)[:, None]
    left = np.sum(quality.reshape(-1, q) ** 2, axis=1)
    least = 1e-8 * float(np.einsum("ij,ij->j", P, P).max(initial=0.0))
    chosen: list[int] = []
    while len(chosen) < min(count, P.shape[1]):
        j = int(left.argmax())
        length = float(P[:, j] @ P[:, j])
        if length <= least:
            break
        chosen.append(j)
        unit = P[:, j] / math.sqrt(length)
        P -= np.outer(unit, unit @ P)
        left = np.einsum("ij,ij->j", P, P)
        left[chosen] = 0.0
    return (np.array(chosen, dtype=np.int64)[:, None] * q + np.arange(q)).ravel()
