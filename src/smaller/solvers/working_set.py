"""Which weights may move now, and the quadratic problem in them.

Coordinates are pairs (column j, output k), sorted by output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smaller.arrays import Array
from smaller.designs import Coordinates
from smaller.priors import Prior
from smaller.solvers import core

__all__ = ["WorkingSet", "choose", "minimise_quadratic"]

_SHORT, _ROUNDS = 40, 25  # sweeps before a direct solve on the support, and how often
_FACTORS = 10  # of the support's Hessian in one such solve
_JITTER, _LEAST_JITTER, _MOST_JITTER = 1e-12, 1e-16, 1e-6  # of the largest curvature
_RUNAWAY = 1e100  # times the weights there are: no step
_SHRINK, _GROW = 0.3, 100.0  # of the jitter, after a solve that helped and one that did not


@dataclass(frozen=True)
class WorkingSet:
    """Coordinates sorted by output, with their penalty."""

    at: Coordinates  # columns and outputs (m,) int64
    first: Array  # (q + 1,) int64
    slope: Array  # (m,)
    ridge: Array  # (m,)
    soon: Coordinates  # likely to be needed before long

    @property
    def columns(self) -> Array:
        return self.at[0]

    @property
    def outputs(self) -> Array:
        return self.at[1]

    def violation(self, w: Array, g: Array) -> Array:
        gradient = g + self.ridge * w
        at_zero = np.maximum(np.abs(gradient) - self.slope, 0.0)
        return np.where(w == 0, at_zero, np.abs(gradient + self.slope * np.sign(w)))

    def worst(self, w: Array, g: Array) -> float:
        """Return the largest violation at the weights ``w`` (d, q), g being their gradient here."""
        return float(np.max(self.violation(w[self.at], g)))

    def penalty_change(self, old: Array, new: Array) -> float:
        # In this order: columns of 1e-200 have weights whose squares overflow, where there is no ridge to ask for them.
        with np.errstate(over="ignore", invalid="ignore"):  # a step that runs away is refused by whoever asks
            return float(self.slope @ (np.abs(new) - np.abs(old)) + 0.5 * ((self.ridge * (new - old)) @ (new + old)))


def choose(
    prior: Prior, w: Array, G: Array, *, room: int, margin: float = 0.0, soon: Callable[[int], int] = lambda m: 0
) -> tuple[WorkingSet, bool]:
    """All non-zero weights, and as many of the worst violators again; says whether these are all violators.

    There is ``room`` for so many zero weights at least. ``margin`` is that of the sequential strong rule: on a path,
    gradients that will reach the slope soon are admitted before they do, which saves a round. ``soon(m)`` coordinates
    are named as likely to follow a working set of m.
    """
    slope, ridge = prior.linearise(w, "l1")
    active = w != 0
    active[prior.free(len(w))] = True
    excess = np.abs(G + ridge * w) - slope
    chosen = ((excess > -margin * slope) | active).ravel()
    room = max(room, int(np.count_nonzero(active)))
    candidates = np.flatnonzero(chosen & ~active.ravel())
    complete = True
    if len(candidates) > room:
        promise = excess.ravel()[candidates]
        least = np.argpartition(promise, -room)[:-room]
        chosen[candidates[least]] = False
        complete = bool(promise[least].max() <= 0.0)
    chosen = chosen.reshape(active.shape)
    columns, outputs = np.divmod(np.flatnonzero(chosen), active.shape[1])
    order = np.argsort(outputs, kind="stable")
    columns, outputs = columns[order], outputs[order]
    first = np.searchsorted(outputs, np.arange(active.shape[1] + 1))
    at = (columns, outputs)
    count = soon(len(columns))
    following = _best_of(np.where(chosen, -np.inf, excess), count) if count else (columns[:0], outputs[:0])
    return WorkingSet(at, first, slope[at], ridge[at], following), complete


def _best_of(promise: Array, count: int) -> Coordinates:
    """Return the ``count`` coordinates that promise most."""
    columns, outputs = np.unravel_index(np.argpartition(promise.ravel(), -count)[-count:], promise.shape)
    return columns, outputs


def minimise_quadratic(H: Array, gradient: Array, slope: Array, ridge: Array, w: Array, tol: float) -> None:
    """Minimise ``gradient' dw + dw' H dw / 2`` plus penalty in place; ``gradient`` is kept up to date.

    Sweeps find the support; where correlation makes them slow, a direct solve on the support takes over. Its jitter
    matters only along directions that the model leaves flat, as far as rounding can tell: it grows where a solve went
    astray, as Levenberg's and Marquardt's does, and shrinks where one was good but stopped short. Where rounding has
    bent a flat direction downwards there is no minimum: then nothing moves.
    """
    start = w.copy(), gradient.copy()
    _descend(H, gradient, slope, ridge, w, tol)
    if not np.abs(w).max(initial=0.0) <= _RUNAWAY * np.abs(start[0]).max(initial=1.0):
        w[:], gradient[:] = start


def _descend(H: Array, gradient: Array, slope: Array, ridge: Array, w: Array, tol: float) -> None:
    jitter = _JITTER
    for _ in range(_ROUNDS):
        if core.descend_gram(H, gradient, slope, ridge, w, _SHORT, tol) < _SHORT:
            return
        new, moved = _solve_on_support(H, gradient, slope, ridge, w, jitter)
        change = new - w
        # Halves of the gradients at both ends: exact for a quadratic, and no difference of sums.
        gain = -(0.5 * (gradient + moved) + 0.5 * ridge * (w + new)) @ change - slope @ (np.abs(new) - np.abs(w))
        if gain > 0.0:
            w[:], gradient[:] = new, moved
            jitter = max(_SHRINK * jitter, _LEAST_JITTER)
        elif jitter > _MOST_JITTER:
            return
        else:
            jitter *= _GROW


def _solve_on_support(
    H: Array, gradient: Array, slope: Array, ridge: Array, w: Array, jitter: float
) -> tuple[Array, Array]:
    """Take Newton's steps for the non-zero weights with their signs held; who reaches zero on the way leaves.

    The first factor finds the step. Those who leave are then dealt with one by one through the inverse, which loses a
    row and a column each time (its Schur complement), and the rest gets a factor of its own again. Returns the weights
    and the gradient there.
    """
    w, gradient = w.copy(), gradient.copy()
    for _ in range(_FACTORS):
        support = np.flatnonzero(w)
        if len(support) == 0:
            break
        inner = H[np.ix_(support, support)]
        inner[np.diag_indices_from(inner)] += ridge[support] + jitter * inner.diagonal().max()
        old, sign = w[support], np.sign(w[support])
        pull = gradient[support] + ridge[support] * old + slope[support] * sign
        try:
            # NumPy's routines throughout: SciPy brings its own BLAS, and two pools of threads fight for the cores.
            np.linalg.cholesky(inner)  # or there is no minimum
            step = np.linalg.solve(inner, -pull)
        except np.linalg.LinAlgError:
            break
        whole = not ((old + step) * sign < 0).any()
        new = old + step if whole else _until_signs_hold(inner, old, step)
        w[support] = new
        gradient += H[:, support] @ (new - old)
        if whole:
            break
    return w, gradient


def _until_signs_hold(H: Array, old: Array, step: Array) -> Array:
    """Return where steps end that stop whenever a weight reaches zero, go on without it, and cross no zero."""
    w, sign = old.copy(), np.sign(old)
    moving = np.full(len(w), True)
    inverse = np.linalg.inv(H)
    for _ in range(len(w)):
        crosses = moving & ((w + step) * sign < 0)
        if not crosses.any():
            return w + step
        ratio = np.where(crosses, -w, np.inf) / np.where(crosses, step, 1.0)
        k = int(ratio.argmin())
        t = float(ratio[k])
        if not 0.0 <= t <= 1.0:
            return w
        w += t * step
        w[k], moving[k] = 0.0, False
        if inverse[k, k] <= 0.0:
            return w
        column = inverse[:, k].copy()
        inverse -= np.outer(column, column / column[k])
        # What is left of the step, without what k would have made of it.
        step = (1.0 - t) * (step - column * (step[k] / column[k]))
        step[~moving] = 0.0
    return w
