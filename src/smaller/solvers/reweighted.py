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
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from smaller.arrays import Array, array_namespace, is_numpy_array, solve_symmetric
from smaller.designs import BLOCK_BYTES, Design
from smaller.likelihoods import Curvature
from smaller.problem import Certificate, Point, Problem
from smaller.solvers.driver import line_search, only_single_weights

__all__ = ["Reweighted", "bound_gram", "majorised_minimiser"]

_LARGEST_DIRECT = 2000  # coordinates up to which a factorisation beats conjugate gradients


class Reweighted:
    """Newton (``bound=False``) or the bound's majorise-minimise step, with a line search."""

    name = "newton"
    pace = 20

    def __init__(self, *, bound: bool = False) -> None:
        self.bound = bound

    @staticmethod
    def suits(problem: Problem) -> str | None:
        """Beside an absolute value the majoriser's ridge is infinite at zero, and every weight starts there."""
        if problem.prior.limited:
            return only_single_weights("newton", problem)
        xp = array_namespace(problem.y)
        zero = xp.zeros((problem.n_columns, 1), dtype=xp.float64, device=problem.y.device)
        if bool(xp.all(xp.isfinite(problem.prior.linearise(zero, "l2")[1]))):
            return None
        return (
            "solver='newton' needs a smooth penalty: beside an absolute value a weight that is zero would stay zero. "
            "Use 'auto' or 'coordinate', or take the absolute value away (l1_ratio=0, or RMLR)."
        )

    def advance(self, problem: Problem, point: Point, G: Array, certificate: Certificate, aim: float) -> Point:
        """Take one step; the same point is returned when rounding forbids any."""
        w, b = majorised_minimiser(problem, point, G, bound=self.bound)
        dw, db = w - point.w, b - point.b
        xp = array_namespace(w)
        slope = float(xp.sum(G * dw) + xp.sum(point.gb * db))

        def move(t: float) -> tuple[Callable[[], Array], float]:
            trial = w if t == 1.0 else point.w + t * dw
            return lambda: trial, problem.prior.penalty(trial) - point.penalty

        found = line_search(problem, point, slope, db, db, move, problem.design, dw)
        return point if found is None else replace(found[0], G=found[2])


def majorised_minimiser(
    problem: Problem,
    point: Point,
    G: Array,
    *,
    bound: bool,
    gram: Array | None = None,
    largest_direct: int = _LARGEST_DIRECT,
) -> tuple[Array, Array]:
    """Return the minimiser (w, b) of the quadratic that replaces loss and prior at ``point``.

    ``gram``, from :func:`bound_gram`, spares a repeated step with the bound the work of forming its matrix. Separable
    outputs are solved one by one; with the bound, an output with more columns than rows in the dual (n, n) form.
    """
    curvature = problem.curvature(point, bound=bound)
    _, ridge = problem.prior.linearise(point.w, "l2")
    xp = array_namespace(point.w)
    alive = xp.isfinite(ridge)
    if is_numpy_array(point.w):
        systems = _systems(problem, alive, curvature)
        duals = [bound and gram is None and _prefers_dual(problem, system, ridge) for system in systems]
        n = problem.design.shape[0]
        if all((n if dual else len(s.columns)) <= largest_direct for s, dual in zip(systems, duals, strict=True)):
            w, b = point.w.copy(), point.b.copy()
            for system, dual in zip(systems, duals, strict=True):
                if dual:
                    _solve_dual(problem, point, curvature, ridge, system, w, b)
                else:
                    _solve_primal(problem, point, G, curvature, ridge, system, gram, w, b)
            return w, b
    return _conjugate_gradients(problem, point, G, curvature, xp.where(alive, ridge, xp.zeros_like(ridge)), alive)


def bound_gram(problem: Problem, point: Point, *, largest_direct: int = _LARGEST_DIRECT) -> Array | None:
    """Return the bound's matrix over all coordinates, weights by row and then intercepts; None if it is too large.

    Separable outputs share one bound, hence the matrix of a single output.
    """
    curvature = problem.curvature(point, bound=True)
    q = 1 if curvature.u is None else point.w.shape[1]
    d = problem.n_columns
    if d * q > largest_direct:
        return None
    members = d + 1 if problem.fit_intercept else d
    return problem.design.gram(curvature, (np.repeat(np.arange(members), q), np.tile(np.arange(q), members)))


@dataclass(frozen=True)
class _System:
    """Coordinates that have to be solved together: weights, and the outputs whose intercept moves with them."""

    columns: Array
    outputs: Array
    free: Array
    separable: bool


def _systems(problem: Problem, alive: Array, curvature: Curvature) -> list[_System]:
    """Return one system an output where outputs are separable, else one in all."""
    every = np.arange(alive.shape[1])
    if curvature.u is not None:
        columns, outputs = np.nonzero(alive)
        return [_System(columns, outputs, every if problem.fit_intercept else every[:0], separable=False)]
    systems = []
    for k in every:
        columns = np.flatnonzero(alive[:, k])
        free = every[k : k + 1] if problem.fit_intercept else every[:0]
        systems.append(_System(columns, np.full(len(columns), k), free, separable=True))
    return systems


def _prefers_dual(problem: Problem, system: _System, ridge: Array) -> bool:
    """Whether the (n, n) system is smaller; it divides by ridges, and by curvatures where only a bound is safe."""
    wide = system.separable and len(system.columns) > problem.design.shape[0]
    return wide and bool((ridge[system.columns, system.outputs] > 0).all())


def _solve_primal(
    problem: Problem,
    point: Point,
    G: Array,
    curvature: Curvature,
    ridge: Array,
    system: _System,
    gram: Array | None,
    w: Array,
    b: Array,
) -> None:
    """Newton's form of the step, written into ``w`` and ``b``."""
    place, free = (system.columns, system.outputs), system.free
    old, m = point.w[place], len(system.columns)
    r = np.append(ridge[place], np.zeros(len(free)))
    gradient = np.append(G[place] + ridge[place] * old, point.residual.sum(axis=0)[free])
    columns = np.append(system.columns, np.full(len(free), problem.n_columns))
    outputs = np.append(system.outputs, free)
    if gram is None:
        H = problem.design.gram(curvature, (columns, outputs))
    else:
        chosen = columns if system.separable else columns * w.shape[1] + outputs
        H = gram[np.ix_(chosen, chosen)]
    if problem.likelihood.shift_invariant and len(free):
        # A common shift of the intercepts costs nothing, and no gradient points that way: any stiffness will do.
        H[m:, m:] += np.trace(H[m:, m:]) / len(free) ** 2
    # Scaling by 1/sqrt(ridge), the papers' Upsilon, keeps the system well conditioned as weights die.
    s = 1.0 / np.sqrt(np.where(r > 0, r, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        H *= s[:, None]
        H *= s[None, :]
        scaled = -s * gradient
    if not (np.isfinite(H).all() and np.isfinite(scaled).all()):
        return  # ridges next to zero under columns next to nothing: no step can be computed, and none is taken
    H[np.diag_indices_from(H)] += r > 0
    step = s * _solve_positive(H, scaled)
    w[place] = old + step[:m]
    b[free] += step[m:]


def _solve_dual(
    problem: Problem, point: Point, curvature: Curvature, ridge: Array, system: _System, w: Array, b: Array
) -> None:
    """Solve the same system as ``w = S X' P (z - b)``, S = 1/ridge, P = C^1/2 (I + C^1/2 X S X' C^1/2)^-1 C^1/2.

    ``z = eta - C^-1 residual`` is the working response; a free intercept makes ``1' P (z - b)`` vanish.
    """
    columns, k = system.columns, system.outputs[0]
    root = np.sqrt(curvature.d[:, k])
    heavy = root > 0
    scaled = np.where(heavy, point.residual[:, k] / np.where(heavy, root, 1.0), 0.0)
    B = _outer(problem.design, columns, 1.0 / ridge[columns, k])
    B *= root[:, None]
    B *= root[None, :]
    B[np.diag_indices_from(B)] += 1.0
    fixed = 0.0 if problem.fit_intercept else point.b[k]
    sides = np.column_stack([root * (point.eta[:, k] - fixed) - scaled, root])
    response, ones = (root[:, None] * _solve_positive(B, sides)).T
    if problem.fit_intercept:
        b[k] = response.sum() / ones.sum()
        response = response - b[k] * ones
    w[columns, k] = problem.design.take(columns).adjoint(response[:, None])[:, 0] / ridge[columns, k]


def _outer(design: Design, columns: Array, scale: Array) -> Array:
    """Return ``X_A diag(scale) X_A'`` (n, n), a block of columns at a time."""
    n = design.shape[0]
    total = np.zeros((n, n))
    width = max(1, BLOCK_BYTES // (8 * n))
    for start in range(0, len(columns), width):
        block = design.take(columns[start : start + width]).X  # type: ignore[attr-defined]
        A = block.toarray() if sparse.issparse(block) else block
        A = A * np.sqrt(scale[start : start + width])
        total += A @ A.T
    return total


def _solve_positive(H: Array, g: Array) -> Array:
    """Cholesky; where that fails (a common shift of the outputs, collinear free columns) the minimum-norm solution."""
    try:
        factor = linalg.cho_factor(H, lower=True, check_finite=False)
        # A pivot that has lost most of its diagonal entry is rounding, whatever the size of the others.
        if (np.diag(factor[0]) > 1e-7 * np.sqrt(np.diag(H))).all():
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
