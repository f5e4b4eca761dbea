"""JCFO's first phase: EM, whose M-step minimises over the scales with the best weights for each of them (16)-(19)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smaller.arrays import Array
from smaller.likelihoods import Gaussian
from smaller.searches.projected import bounded
from smaller.searches.scaled import Journal, ScaledProblem, State
from smaller.solvers.reweighted import bound_gram, majorised_minimiser

__all__ = ["warm_up"]

_INNER = 8  # L-BFGS-B iterations in one M-step: any decrease will do
_INNER_TOL = 1e-4  # and its relative tolerance
_PRUNE = 1e-4  # of the largest weight or scale: smaller ones are dropped during EM
_MAY_RISE = 1e-6  # relative rise of F that pruning may cost
_EM_TOL = 1e-3  # relative decrease of F below which EM hands over


def warm_up(scaled: ScaledProblem, state: State, n_iter: int, journal: Journal) -> State:
    """Run EM with the weights solved out of the M-step; zeros stay zeros, and small values are dropped."""
    if "warm-up" not in journal.phases:  # else the rounds go on
        journal.note("warm-up", state.objective)
    for _ in range(n_iter):
        centers, features = scaled.used(state.w), np.flatnonzero(state.theta)
        if len(centers) == 0 or len(features) == 0 or journal.stopped:
            break
        part = scaled.restrict(centers, features)
        rows = scaled.rows(centers)
        inner = _maximise(part, state.theta[features], state.w[rows], state.b)
        moved = _prune(part, inner)
        if moved.objective > state.objective:
            break
        settled = state.objective - moved.objective <= _EM_TOL * abs(state.objective)
        state = state.embed(moved, rows, features)
        journal.note("warm-up", state.objective)
        if settled:
            break
    return state


def _maximise(part: ScaledProblem, theta: Array, w: Array, b: Array) -> State:
    """Take one EM step: the loss gives way to squares around v (12), both priors to ridges (13)-(14)."""
    problem = part.at(theta)
    here = problem.at(w, b)
    _, residual = part.likelihood.evaluate(here.eta, part.y, None)
    bound = float(part.likelihood.curvature(here.eta, part.y, None, bound=True).d.max())
    latent = {"y": here.eta - residual / bound, "likelihood": Gaussian(1.0 / bound, len(b))}
    _, ridge = problem.prior.linearise(w, "l2")
    ridge = np.where(np.isfinite(ridge), ridge, 0.0)  # such a weight is zero and stays there
    delta, unit = part.rate / theta, float(theta.max())
    best: tuple[float, Array, Array, Array] = (np.inf, theta, w, b)

    def reduced(u: Array) -> tuple[float, Array]:
        """Return Q after its minimisation over the weights (19); its slope needs no derivative of theirs."""
        nonlocal best
        t = unit * u
        regression = replace(part.at(t), **latent)
        point = regression.at(w, b)
        gram = bound_gram(regression, point) if len(b) > 1 else None
        w_t, b_t = majorised_minimiser(regression, point, regression.gradient(point), bound=True, gram=gram)
        point = regression.at(w_t, b_t)
        value = point.loss + 0.5 * float(np.sum(ridge * w_t**2) + delta @ t**2)
        if value < best[0]:
            best = value, t, w_t, b_t
        return value, unit * (part.slope(regression, t, point.residual, w_t) + delta * t)

    bounded(reduced, theta / unit, np.zeros(len(theta)), maxiter=_INNER, ftol=_INNER_TOL)
    return part.state(*best[1:])


def _prune(part: ScaledProblem, state: State) -> State:
    """Drop what is small against the largest, unless F would notice."""
    m = part.shape[0]
    size = np.abs(state.w[:m]).max(axis=1, initial=0.0)
    w, theta = state.w.copy(), state.theta.copy()
    w[:m][size < _PRUNE * size.max(initial=0.0)] = 0.0
    theta[theta < _PRUNE * theta.max()] = 0.0
    pruned = part.state(theta, w, state.b)
    return pruned if pruned.objective <= state.objective + _MAY_RISE * abs(state.objective) else state
