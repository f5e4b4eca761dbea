"""One linear system a step: Newton, IRLS and the papers' EM are the same thing with other ingredients.

The loss is replaced by a quadratic (its Hessian, or with ``bound`` a constant matrix above it), the prior by its l2
majoriser ``sum ridge w^2 / 2``, and the sum is minimised:

    (X' C X + diag(ridge)) w_new = X' C X w - G          (the intercept joins without a ridge)

With the Normal prior and the Hessian this is Newton; with the bound it is (10) of the 2005 paper; with Laplace and the
bound it is (13); with the probit bound 1 it is the EM of 2003 and 2004. Small systems are factored, large ones (and
arrays on other devices) solved by conjugate gradients. A weight at zero has an infinite ridge and stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from smaller.arrays import Array, array_namespace, is_numpy_array, solve_symmetric
from smaller.likelihoods import Curvature
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import line_search

__all__ = ["Reweighted", "bound_gram", "majorised_minimiser"]

_LARGEST_DIRECT = 2000  # coordinates up to which a factorisation beats conjugate gradients


class Reweighted:
    """Newton (``bound=False``) or the bound's majorise-minimise step, with a line search."""

    name = "newton"

    def __init__(self, *, bound: bool = False) -> None:
        self.bound = bound

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Take one step; the same point is returned when rounding forbids any."""
        w, b = majorised_minimiser(problem, point, G, bound=self.bound)
        dw, db = w - point.w, b - point.b
        delta = problem.design.forward(dw) + db

        def move(t: float) -> tuple[Callable[[], Array], float]:
            trial = w if t == 1.0 else point.w + t * dw
            return lambda: trial, problem.prior.penalty(trial) - point.penalty

        found = line_search(problem, point, delta, db, move)
        return point if found is None else found[0]


def majorised_minimiser(
    problem: Problem, point: Point, G: Array, *, bound: bool, gram: Array | None = None
) -> tuple[Array, Array]:
    """Return the minimiser (w, b) of the quadratic that replaces loss and prior at ``point``.

    ``gram``, from :func:`bound_gram`, spares a repeated step with the bound the work of forming its matrix.
    """
    curvature = problem.curvature(point, bound=bound)
    _, ridge = problem.prior.linearise(point.w, "l2")
    xp = array_namespace(point.w)
    alive = xp.isfinite(ridge)
    if is_numpy_array(point.w) and int(alive.sum()) <= _LARGEST_DIRECT:
        return _direct(problem, point, G, curvature, ridge, alive, gram)
    return _conjugate_gradients(problem, point, G, curvature, xp.where(alive, ridge, xp.zeros_like(ridge)), alive)


def bound_gram(problem: Problem, point: Point) -> Array | None:
    """Return the bound's matrix over all coordinates, weights by row and then intercepts; None if it is too large."""
    if point.w.size > _LARGEST_DIRECT:
        return None
    every = np.ones(point.w.shape, dtype=bool)
    return problem.design.gram(problem.curvature(point, bound=True), _coordinates(problem, every))


def _coordinates(problem: Problem, alive: Array) -> tuple[Array, Array]:
    """Return columns and outputs of the weights to be moved, followed by the intercepts if they are free."""
    columns, outputs = np.nonzero(alive)
    if not problem.fit_intercept:
        return columns, outputs
    q = alive.shape[1]
    return np.append(columns, np.full(q, problem.n_columns)), np.append(outputs, np.arange(q))


def _direct(
    problem: Problem, point: Point, G: Array, curvature: Curvature, ridge: Array, alive: Array, gram: Array | None
) -> tuple[Array, Array]:
    w, r = point.w[alive], ridge[alive]
    gradient = G[alive] + r * w
    if problem.fit_intercept:
        r = np.append(r, np.zeros_like(point.b))
        gradient = np.append(gradient, point.residual.sum(axis=0))
    if gram is None:
        H = problem.design.gram(curvature, _coordinates(problem, alive))
    else:
        chosen = np.flatnonzero(np.append(alive.ravel(), np.ones(len(r) - len(w), dtype=bool)))
        H = gram[np.ix_(chosen, chosen)]
    # Scaling by 1/sqrt(ridge), the papers' Upsilon, keeps the system well conditioned as weights die.
    s = 1.0 / np.sqrt(np.where(r > 0, r, 1.0))
    H *= s[:, None] * s[None, :]
    H[np.diag_indices_from(H)] += r > 0
    step = s * _solve_positive(H, -s * gradient)
    new = point.w.copy()
    m = len(w)
    new[alive] = w + step[:m]
    return new, point.b + step[m:] if problem.fit_intercept else point.b


def _solve_positive(H: Array, g: Array) -> Array:
    """Cholesky; where that fails (a common shift of the outputs, collinear free columns) the minimum-norm solution."""
    try:
        factor = linalg.cho_factor(H, lower=True, check_finite=False)
        diagonal = np.diag(factor[0])
        if diagonal.min(initial=np.inf) > 1e-7 * diagonal.max(initial=0.0):
            return linalg.cho_solve(factor, g, check_finite=False)
    except linalg.LinAlgError:
        pass
    return solve_symmetric(H, g)


def _conjugate_gradients(
    problem: Problem, point: Point, G: Array, curvature: Curvature, ridge: Array, alive: Array
) -> tuple[Array, Array]:
    """Solve the same system by preconditioned conjugate gradients, tighter as the gradient falls (superlinear)."""
    xp = array_namespace(point.w)
    mask = xp.astype(alive, point.w.dtype)
    free = 1.0 if problem.fit_intercept else 0.0

    def multiply(dw: Array, db: Array) -> tuple[Array, Array]:
        moved = curvature.apply(problem.design.forward(dw) + db)
        return (problem.design.adjoint(moved) + ridge * dw) * mask, xp.sum(moved, axis=0) * free

    def dot(a: tuple[Array, Array], c: tuple[Array, Array]) -> float:
        return float(xp.sum(a[0] * c[0]) + xp.sum(a[1] * c[1]))

    diagonal = curvature.diagonal()
    scale_w = problem.design.squares(diagonal) + ridge
    scale_b = xp.sum(diagonal, axis=0)
    scale_w = xp.where(scale_w > 0, scale_w, xp.ones_like(scale_w))
    scale_b = xp.where(scale_b > 0, scale_b, xp.ones_like(scale_b))

    r = (-(G + ridge * point.w) * mask, -xp.sum(point.residual, axis=0) * free)
    x = (0.0 * point.w, 0.0 * point.b)
    z = (r[0] / scale_w, r[1] / scale_b)
    p, rz = z, dot(r, z)
    start = rz
    accuracy = min(1e-2, math.sqrt(rz) / (1.0 + abs(point.objective))) ** 2
    for _ in range(500):
        if rz <= accuracy * start or rz == 0.0:
            break
        Hp = multiply(*p)
        curvature_along = dot(p, Hp)
        if curvature_along <= 0.0:
            break
        step = rz / curvature_along
        x = (x[0] + step * p[0], x[1] + step * p[1])
        r = (r[0] - step * Hp[0], r[1] - step * Hp[1])
        z = (r[0] / scale_w, r[1] / scale_b)
        rz, old = dot(r, z), rz
        p = (z[0] + (rz / old) * p[0], z[1] + (rz / old) * p[1])
    return point.w + x[0], point.b + x[1]
