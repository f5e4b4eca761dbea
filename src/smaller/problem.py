"""The sum to be minimised, a point in it, and the proof that a point is good enough.

    F(w, b) = sum_i c_i loss(y_i, eta_i) + penalty(w),      eta = offset + X w + 1 b'

A :class:`Problem` is frozen. Solvers move from :class:`Point` to :class:`Point`; a :class:`Certificate` bounds how
far a point is from the optimum; a :class:`Solution` is what a user keeps.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, from_host, solve_symmetric, to_host
from smaller.designs import Design
from smaller.likelihoods import Curvature, Likelihood
from smaller.likelihoods.protocol import means
from smaller.priors import Prior

__all__ = [
    "Certificate",
    "Point",
    "Problem",
    "Solution",
    "Status",
    "canonical_place",
    "rounding",
]

_LARGEST_FREE_BLOCK = 2000  # coordinates that one exact Newton solve takes on
_EXACT = 1e-12  # of the loss: as well as intercepts alone can be found
_LEAST_SCALE = 1e-8  # of the null loss


class Status(enum.Enum):
    """How a fit ended; the value is the sentence shown to the user."""

    CONVERGED = "The solution is optimal to the requested tolerance."
    STATIONARY = "A stationary point was reached; the problem is not convex, so it need not be the global optimum."
    MAX_ITER = "The iteration limit was reached before the tolerance: raise max_iter or tol."
    STOPPED = "A callback asked to stop before the tolerance was met."
    STALLED = (
        "Next to no progress was left before the tolerance was met (rounding, or columns of very different size): "
        "raise tol, or scale unscaled features."
    )
    SEPARABLE = "The classes are separable and nothing is penalised, so no finite optimum exists: use alpha > 0."
    INTERPOLATES = (
        "The noise variance fell until the weights nearly interpolate the responses, and the objective falls without "
        "end: raise alpha, give noise or a noise_scale > 0, or use prior='jeffreys'."
    )
    KINK = "The number of weights jumps where alpha * sum|w| would equal it; the sparser side of the jump is returned."
    NO_FIXED_POINT = (
        "At no alpha does alpha * sum|w| equal the number of weights, so the data do not determine alpha: the features "
        "may hold little signal, or be too many for the rows. Choose alpha by cross-validation (SMLRCV) instead."
    )

    # Pickles and skops files keep the name: a sentence may be reworded, a file must still load.
    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        return Status, (self.name,)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[Status], tuple[str]]:
        return self.__reduce__()

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        return cls.__members__.get(str(value))


def rounding(eta: Array) -> float:
    """Return what rounding leaves in a sum of this size, and of many terms."""
    xp = array_namespace(eta)
    return 32 * float(np.finfo(np.float64).eps) * max(float(xp.max(eta)), -float(xp.min(eta)))


@dataclass(frozen=True)
class Point:
    """Weights with everything that one evaluation of the loss gives."""

    w: Array  # (d, q)
    b: Array  # (q,)
    eta: Array  # (n, q)
    loss: float
    residual: Array  # (n, q), gradient of the loss in eta
    penalty: float
    drift: float = 0.0  # what rounding may have left in eta since it was formed from the weights
    G: Array | None = None  # (d, q) gradient of the loss in w, where it is known

    @property
    def objective(self) -> float:
        return self.loss + self.penalty

    @cached_property
    def gb(self) -> Array:
        """Gradient of the loss in the intercepts (q,)."""
        return array_namespace(self.residual).sum(self.residual, axis=0)


@dataclass(frozen=True)
class Certificate:
    """``gap`` bounds the distance of the objective from its minimum; None where there is no dual."""

    objective: float
    violation: float  # largest violation of the optimality conditions, in units of the gradient
    gap: float | None


@dataclass(frozen=True)
class Solution:
    """The end of a fit; usable as the start of another."""

    w: Array
    b: Array
    objective: float
    violation: float
    gap: float | None
    n_iter: int
    status: Status
    solver: str
    scale: float = 1.0  # negative log-likelihood of the null model, less soft labels' entropy: `tol` is relative to it
    history: tuple[float, ...] = field(default=(), repr=False)  # objective after every iteration

    def __repr__(self) -> str:
        """Say in one line how it ended."""
        gap = "no dual" if self.gap is None else f"gap {self.gap:.2g} of a null loss of {self.scale:.6g}"
        return (
            f"<Solution by {self.solver!r}: {self.status.name} after {self.n_iter} iterations, objective "
            f"{self.objective:.10g}, {gap}, {self.n_active} weights>"
        )

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.status in (Status.CONVERGED, Status.STATIONARY, Status.KINK)

    @property
    def n_active(self) -> int:
        """Number of non-zero weights."""
        return int(np.count_nonzero(to_host(self.w)))


@dataclass(frozen=True)
class Problem:
    """One likelihood, one prior and one design put together; see the module's formula."""

    design: Design
    y: Array  # (n, q) targets
    weight: Array | None
    likelihood: Likelihood
    prior: Prior
    fit_intercept: bool = True
    offset: Array | None = None  # (n, q), or None for zeros
    soft: bool = False  # whether targets are shares of several classes, so that no model has a loss of zero

    @property
    def n_columns(self) -> int:
        return self.design.shape[1]

    def with_prior(self, prior: Prior) -> Problem:
        return replace(self, prior=prior)

    def sample(self, count: int) -> tuple[Array, Problem]:
        """Draw about ``count`` rows; returns their indices and the problem in which each stands for several.

        Rows that hold much of some column's variance, or much weight, are drawn more often: a column of a few ones
        among a million zeros would be flat in a sample that misses them.
        """
        n, d = self.design.shape
        chance = 1.0 / n + self.design.leverage / d
        if self.weight is not None:
            chance = chance + self.weight / self.weight.sum()
        chance = np.minimum(count / chance.sum() * chance, 1.0)
        rows = np.flatnonzero(np.random.default_rng(0).random(n) < chance)
        weight = 1.0 / chance[rows] if self.weight is None else self.weight[rows] / chance[rows]
        offset = None if self.offset is None else np.asfortranarray(self.offset[rows])
        y = np.asfortranarray(self.y[rows])
        return rows, replace(self, design=self.design.rows(rows), y=y, weight=weight, offset=offset)

    def forward(self, w: Array, b: Array) -> Array:
        eta = self.design.forward(w)
        eta += b
        if self.offset is not None:
            eta += self.offset
        return eta

    def at(self, w: Array, b: Array, eta: Array | None = None, drift: float = math.inf) -> Point:
        """Evaluate at ``(w, b)``; ``eta`` is passed when it is known already, up to a ``drift``."""
        if eta is None:
            eta, drift = self.forward(w, b), 0.0
        loss, residual = self.evaluate(eta)
        return Point(w, b, eta, loss, residual, self.prior.penalty(w), drift)

    def evaluate(self, eta: Array) -> tuple[float, Array]:
        """Return the loss and its gradient in ``eta``."""
        return self.likelihood.evaluate(eta, self.y, self.weight)

    def null(self) -> Point:
        """Return the model without weights."""
        xp = array_namespace(self.y)
        q = self.likelihood.n_outputs
        w = xp.zeros((self.n_columns, q), dtype=xp.float64, device=self.y.device)
        b = self.likelihood.null(self.y, self.weight)
        if not self.fit_intercept:
            b = xp.zeros_like(b)
        if self.offset is None:
            return self.at(w, b, xp.zeros_like(self.y) + b, drift=0.0)
        # Beside an offset the best intercepts have no closed form; those for its mean are where there is curvature.
        if self.fit_intercept:
            b = b - means(self.offset, self.weight)
        point = self.at(w, b, self.offset + b, drift=0.0)
        return self.settle(point, tol=_EXACT * max(point.loss, 1e-300), columns=False)

    def scale(self, null: Point) -> float:
        """Return what tolerances are relative to: the loss without weights, less the entropy of soft labels."""
        if not self.soft:
            return max(null.loss, 1e-300)
        entropy = self.likelihood.dual(0.0 * null.residual, self.y, self.weight) or 0.0
        # Equal shares in all rows leave nothing to explain, and rounding decides what the difference is.
        return max(null.loss - entropy, _LEAST_SCALE * null.loss, 1e-300)

    def gradient(self, point: Point) -> Array:
        """Return the gradient of the loss in w (d, q)."""
        return self.design.adjoint(point.residual) if point.G is None else point.G

    def curvature(self, point: Point, *, bound: bool = False) -> Curvature:
        return self.likelihood.curvature(point.eta, self.y, self.weight, bound=bound)

    def certify(self, point: Point, G: Array) -> Certificate:
        """Recompute violation and duality gap at a point whose gradient in w is ``G``.

        The dual point is the residual scaled into the feasible set. The free block must balance exactly in the dual;
        what its solve left over enters the gap as ``|b| |imbalance|``. Free columns may be too many for a solve, so
        that theirs is everything there is to do: see `_reach`.
        """
        xp = array_namespace(G)
        violation = float(xp.max(self.prior.violation(point.w, G))) if G.size else 0.0
        imbalance = xp.abs(point.gb) if self.fit_intercept else 0.0 * point.b
        violation = max(violation, float(xp.max(imbalance)))
        scale = self.prior.feasible(G)
        dual = self.likelihood.dual(scale * point.residual, self.y, self.weight)
        if dual is None or scale == 0.0:
            return Certificate(point.objective, violation, None)
        if self.offset is not None:
            dual += scale * float(xp.sum(point.residual * self.offset))
        slack = float(xp.sum(imbalance * xp.abs(point.b)))
        if len(self._free):
            slack += float(xp.sum(xp.abs(G[self._free]) * self._reach(point)))
        gap = point.objective - (dual - self.prior.conjugate(scale * G)) + slack
        return Certificate(point.objective, violation, max(gap, 0.0))

    @cached_property
    def _free(self) -> np.ndarray[Any, Any]:
        """Indices of the columns without a penalty."""
        return self.prior.free(self.n_columns)

    @cached_property
    def _free_units(self) -> Array:
        """The change of each free column's weights that moves eta by one, as a root mean square over rows (m, 1)."""
        xp = array_namespace(self.y)
        c = xp.ones_like(self.y[:, :1]) if self.weight is None else self.weight[:, None]
        square = self.design.take(self._free).squares(c) / xp.sum(c)
        moves = square > 0
        return xp.where(moves, 1.0 / xp.sqrt(xp.where(moves, square, xp.ones_like(square))), xp.zeros_like(square))

    def _reach(self, point: Point) -> Array:
        """Return how far the best weights of free columns may lie from zero: their present size and a unit of eta.

        ``F(w) - min F <= gap + |gradient| |w*|``. Without the unit, zero weights would hide a gradient of any size.
        """
        return array_namespace(point.w).abs(point.w[self._free]) + self._free_units

    def settle(self, point: Point, *, tol: float, max_iter: int = 50, columns: bool = True) -> Point:
        """Minimise exactly over the free block: intercepts and (if asked for) columns without a penalty.

        Newton with step halving; without this the dual point is infeasible and the gap cannot close.
        """
        q = self.likelihood.n_outputs
        free = self._free
        if not columns or len(free) * q > _LARGEST_FREE_BLOCK:  # left to the solver's own steps, and to the gap
            free = free[:0]
        if not self.fit_intercept and len(free) == 0:
            return point
        block = self.design.take(free) if len(free) else None
        members = np.append(free, self.n_columns) if self.fit_intercept else free
        at = np.repeat(members, q), np.tile(np.arange(q), len(members))
        xp = array_namespace(point.w)
        for _ in range(max_iter):
            parts, left = [], 0.0
            if block is not None:
                parts.append(xp.reshape(block.adjoint(point.residual), (-1,)))
                left = float(xp.sum(xp.abs(parts[0]) * xp.reshape(self._reach(point), (-1,))))
            if self.fit_intercept:
                parts.append(point.gb)
                left += float(xp.sum(xp.abs(point.gb) * (1.0 + xp.abs(point.b))))
            if left <= tol:
                break
            g = xp.concat(parts) if len(parts) > 1 else parts[0]
            if block is None:
                H = self._intercept_hessian(point)
            else:
                H = from_host(self.design.gram(self.curvature(point), at), point.w)
            step = solve_symmetric(H, -g)
            moved = self._free_step(point, block, free, step, float(xp.sum(step * g)))
            if moved is None:
                break
            point = moved
        return point

    def _intercept_hessian(self, point: Point) -> Array:
        xp = array_namespace(point.eta)
        curvature = self.curvature(point)
        total = xp.sum(curvature.d, axis=0)
        H = xp.eye(total.shape[0], dtype=total.dtype, device=total.device) * total
        return H if curvature.u is None else H - xp.matmul(xp.matrix_transpose(curvature.u), curvature.u)

    def _free_step(self, point: Point, block: Design | None, free: Array, step: Array, slope: float) -> Point | None:
        """Take a Newton step in the free block, halved until the loss falls; None when rounding forbids it."""
        xp = array_namespace(point.w)
        q = self.likelihood.n_outputs
        dw = xp.reshape(step[: len(free) * q], (-1, q))
        db = step[len(free) * q :] if self.fit_intercept else 0.0 * point.b
        move = db[None, :] if block is None else block.forward(dw) + db
        t = 1.0
        for _ in range(40):
            eta = point.eta + t * move
            loss, residual = self.evaluate(eta)
            # A step that promises less than the loss can resolve is taken on the model's word.
            if loss <= point.loss + 1e-4 * t * slope or (t == 1.0 and -slope <= 1e-12 * abs(point.loss)):
                w = point.w
                if block is not None:
                    w = from_host(to_host(w).copy(), w)
                    w[free] = w[free] + t * dw
                return Point(w, point.b + t * db, eta, loss, residual, point.penalty, point.drift + rounding(eta))
            t /= 2.0
        return None

    def canonical(self, w: Array, b: Array) -> tuple[Array, Array]:
        """Return the canonical point among equivalent ones (symmetric coding has flat directions)."""
        return canonical_place(self.likelihood, self.prior, self.fit_intercept, w, b)

    def alpha_max(self) -> float:
        """Return the factor by which the penalty must be multiplied for all penalised weights to be zero.

        The null model here is the optimum of the free block. Infinite when a penalised column has no slope.
        """
        null = self.null()
        point = self.settle(null, tol=_EXACT * max(null.loss, 1e-300))
        return self.prior.critical(self.gradient(point))


def canonical_place(
    likelihood: Likelihood, prior: Prior, fit_intercept: bool, w: Array, b: Array
) -> tuple[Array, Array]:
    """Return the canonical point among equivalent ones (symmetric coding has flat directions)."""
    if not likelihood.shift_invariant:
        return w, b
    xp = array_namespace(w)
    centred = prior.center(w)
    # Keep the shift only where it does not cost anything: rounding must not raise the penalty.
    if prior.penalty(centred) > prior.penalty(w) * (1.0 + 1e-12):
        centred = w
    return centred, b - xp.mean(b) if fit_intercept else b
