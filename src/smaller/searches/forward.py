"""Import vectors: few kernel columns, chosen one after the other (Zhu and Hastie 2005, Algorithms 1-3).

The model lives on the whitened basis: with chosen rows S and ``K_SS = L L'``, ``phi(x) = L^-1 k_S(x)``,

    H(w, b) = sum_i c_i loss(y_i, Phi_i w + b) + alpha/2 |w|^2 ,

so a new point appends one column ``psi = (k_l - Phi phi_l) / sqrt(rho_l)``, ``rho_l = K_ll - |phi_l|^2``, and changes
nothing else. Symbols: n rows, N candidates, q outputs, ``D = [1 Phi]`` (n, d), ``g`` the gradient of H on the submodel,
``A = D'WD + P`` its Hessian with ``P = diag(0, alpha, ..., alpha)`` and frozen weights ``W``, ``A = C C'``.

One Newton step that adds candidate l lowers H by ``num_l^2 / (2 s_l)`` (a sum over outputs), where

    num_l = k_l' r + alpha phi_l' w - V_l' C^-1 g ,   V_l = C^-1 (D'W k_l + alpha [0; phi_l]) ,
    s_l   = k_l' W k_l + alpha K_ll - |V_l|^2 ,       r = dloss/deta.

``V`` grows by a row with every point, so an addition costs two products with the candidates' columns. The third term
of ``num`` removes what the submodel itself still has to gain: without it selection is wrong unless the submodel is
fully converged.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from smaller.arrays import Array
from smaller.kernels import Kernel, Precomputed
from smaller.likelihoods import Multinomial

__all__ = ["Candidates", "Forward", "ImportPath", "Stage", "Submodel", "select"]

_log = logging.getLogger("smaller")

MOST_OWN_FACTORS = 4  # outputs up to which each has its own Hessian factor; beyond, one bound serves all
DOUBLE_BYTES = 1 << 23  # candidate columns up to this size are held in double precision, larger ones in single
CHUNK_BYTES = 1 << 24  # kernel columns computed at a time
CACHE_BYTES = 1 << 22  # held columns worked on at a time
SEPARATED = 1e-7  # of n log 2: an objective below this means separable data and almost no penalty


@dataclass(frozen=True)
class ImportPath:
    """What happened at each addition."""

    points: Array  # (m,) row chosen
    alphas: Array  # (m,) strength at that time
    objective: Array  # (m,) H after the addition
    validation_error: Array  # (m,) misclassified share of the watched rows; NaN without any


@dataclass(frozen=True)
class Stage:
    """The model at the end of one strength."""

    alpha: float
    n_points: int
    objective: float
    validation_error: float
    validation_loss: float  # mean log-loss


@dataclass(frozen=True)
class Forward:
    """Settings of a forward selection.

    Attributes
    ----------
    eps, window
        Stop when the last ``window`` points lowered H by less than ``eps H``.
    max_points
        Stop at this number of points.
    selection
        "lazy": largest predicted decrease, weights W renewed every ``refresh`` additions. "onestep": smallest true H
        after one Newton step for every candidate (Algorithm 2). "exact": smallest H after full convergence for every
        candidate (Algorithm 1).
    refresh
        Additions between two renewals of W in "lazy".
    memory_limit
        Bytes of candidate columns that may be held.
    n_candidates
        Rows drawn at random as candidates. None: all rows if their columns fit ``memory_limit``, else as many as fit.
        A number whose columns do not fit has them computed anew, in blocks, at every addition.
    """

    eps: float = 1e-3
    window: int = 1
    max_points: int = 500
    selection: str = "lazy"
    refresh: int = 10
    memory_limit: int = 1 << 28
    n_candidates: int | None = None


class Submodel:
    """The model on the points chosen so far, its optimum, and factors of its Hessian."""

    def __init__(
        self,
        likelihood: Multinomial,
        y: Array,
        weight: Array | None,
        alpha: float,
        *,
        fit_intercept: bool = True,
        phi: Array | None = None,
    ) -> None:
        self.likelihood, self.y, self.weight, self.alpha = likelihood, y, weight, alpha
        self.n, self.q = y.shape
        self.shared = self.q > MOST_OWN_FACTORS
        self.first = int(fit_intercept)  # index of the first kernel column
        self.d = self.first + (0 if phi is None else phi.shape[1])
        capacity = max(16, self.d)
        self._D = np.ones((self.n, capacity), order="F")
        if phi is not None:
            self._D[:, self.first : self.d] = phi
        self._beta = np.zeros((capacity, self.q))
        self._inverse = np.zeros((1 if self.shared else self.q, capacity, capacity))
        if fit_intercept:
            self._beta[0] = likelihood.null(y, weight)
        self.eta = np.asfortranarray(np.zeros_like(y) + (self._beta[0] if fit_intercept else 0.0))
        self.loss, self.residual = likelihood.evaluate(self.eta, y, weight)
        self.renew()

    @property
    def D(self) -> Array:  # noqa: N802
        """Columns ``[1 Phi]`` (n, d)."""
        return self._D[:, : self.d]

    @property
    def beta(self) -> Array:
        """Intercepts, then weights (d, q)."""
        return self._beta[: self.d]

    @property
    def w(self) -> Array:
        return self._beta[self.first : self.d]

    @property
    def b(self) -> Array:
        return self._beta[0] if self.first else np.zeros(self.q)

    @property
    def phi(self) -> Array:
        """Whitened kernel columns (n, m)."""
        return self._D[:, self.first : self.d]

    @property
    def factors(self) -> Array:
        """``C^-1`` for every output, or the one they share (h, d, d)."""
        return self._inverse[:, : self.d, : self.d]

    @property
    def objective(self) -> float:
        return self.loss + 0.5 * self.alpha * float(np.vdot(self.w, self.w))

    def gradient(self) -> Array:
        """Return ``g = D' r + P beta`` (d, q)."""
        g = self.D.T @ self.residual
        g[self.first :] += self.alpha * self.w
        return g

    def renew(self) -> None:
        """Renew the weights W at the present fit, and their factors; the shared bound needs this once a strength."""
        count = np.ones(self.n) if self.weight is None else self.weight
        if self.shared:  # softmax Hessian <= (I - 11'/K)/2 <= I/2
            self.W = 0.5 * count[:, None]
        else:
            diagonal = self.likelihood.curvature(self.eta, self.y, self.weight).diagonal()
            self.W = np.maximum(diagonal, 1e-12 * count[:, None])
        for k in range(self.W.shape[1]):
            A = self.D.T @ (self.D * self.W[:, k, None])
            A[np.diag_indices(self.d)] += np.append(np.zeros(self.first), np.full(self.d - self.first, self.alpha))
            A[np.diag_indices(self.d)] += 1e-10 * np.trace(A) / max(self.d, 1)
            C = linalg.cholesky(A, lower=True, check_finite=False)
            self.factors[k] = linalg.solve_triangular(C, np.eye(self.d), lower=True, check_finite=False)

    def append(self, psi: Array) -> tuple[Array, Array]:
        """Add a whitened column; return the new off-diagonal row (h, d) and diagonal (h,) of the factors."""
        self._reserve(self.d + 1)
        rows, diagonal = np.zeros((len(self._inverse), self.d)), np.zeros(len(self._inverse))
        for k, inverse in enumerate(self.factors):
            weighted = self.W[:, k] * psi
            v = inverse @ (self.D.T @ weighted)
            # A Schur complement of D'WD + P is at least that of P, which is alpha.
            c = math.sqrt(max(float(psi @ weighted) + self.alpha - float(v @ v), self.alpha))
            self._inverse[k, self.d, : self.d] = v @ inverse / -c
            self._inverse[k, self.d, self.d] = 1.0 / c
            rows[k], diagonal[k] = v, c
        self._D[:, self.d] = psi
        self._beta[self.d] = 0.0
        self.d += 1
        return rows, diagonal

    def _reserve(self, size: int) -> None:
        old = self._D.shape[1]
        if size <= old:
            return
        D = np.empty((self.n, 2 * old), order="F")
        D[:, :old] = self._D
        self._D = D
        self._beta = np.pad(self._beta, ((0, old), (0, 0)))
        self._inverse = np.pad(self._inverse, ((0, 0), (0, old), (0, old)))

    def precondition(self, g: Array) -> Array:
        """Return ``A^-1 g`` (d, q), output by output."""
        if self.shared:
            return self.factors[0].T @ (self.factors[0] @ g)
        return np.column_stack([C.T @ (C @ g[:, k]) for k, C in enumerate(self.factors)])

    def refit(self, accuracy: float, max_steps: int = 20) -> Array:
        """Take Newton steps until the next one promises less than ``accuracy`` times H; return the gradient."""
        g = self.gradient()
        for _ in range(max_steps):
            step = self.precondition(g)
            if 0.5 * float(np.vdot(g, step)) <= accuracy * self.objective:
                break
            if not self._advance(*self._newton(g, step), g):
                break
            g = self.gradient()
        return g

    def _newton(self, g: Array, z: Array) -> tuple[Array, Array]:
        """Solve the Newton equations by conjugate gradients, preconditioned by A; return the step and D times it.

        The factors of an older W, or of a bound, differ from the Hessian by a modest factor: a few products suffice.
        """
        curvature = self.likelihood.curvature(self.eta, self.y, self.weight)
        ridge = np.full((self.d, 1), self.alpha)
        ridge[: self.first] = 0.0
        D, r, z = self.D, -g, -z
        x, Dx, p = np.zeros_like(g), np.zeros_like(self.eta), z
        rz = first = float(np.vdot(r, z))
        for _ in range(50):
            Dp = D @ p
            Hp = D.T @ curvature.apply(Dp) + ridge * p
            bend = float(np.vdot(p, Hp))
            if not bend > 0.0:
                break
            t = rz / bend
            x, Dx, r = x + t * p, Dx + t * Dp, r - t * Hp
            z = self.precondition(r)
            rz, old = float(np.vdot(r, z)), rz
            if rz <= 1e-3 * first:
                break
            p = z + (rz / old) * p
        return x, Dx

    def _advance(self, x: Array, Dx: Array, g: Array) -> bool:
        """Halve the step until H falls enough; False when rounding forbids any step."""
        slope, H = float(np.vdot(g, x)), self.objective
        beta, t = self.beta.copy(), 1.0
        for _ in range(30):
            eta = self.eta + t * Dx
            loss, residual = self.likelihood.evaluate(eta, self.y, self.weight)
            self._beta[: self.d] = beta + t * x
            w = self.w
            if loss + 0.5 * self.alpha * float(np.vdot(w, w)) <= H + 1e-4 * t * slope:
                self.eta, self.loss, self.residual = eta, loss, residual
                return True
            t /= 2.0
        self._beta[: self.d] = beta
        return False

    def try_column(self, psi: Array, accuracy: float) -> float:
        """Return H at the optimum with one more column; the model stays as it is."""
        kept = self.d, self.beta.copy(), self.eta, self.loss, self.residual
        self.append(psi)
        self.refit(accuracy)
        H = self.objective
        self.d, beta, self.eta, self.loss, self.residual = kept
        self._beta[: self.d] = beta
        return H


class Candidates:
    """Kernel columns of the rows that may be chosen, and what each would bring.

    Scores rank and are compared with ``eps H``; single precision is enough for that where the columns are many.
    """

    def __init__(self, kernel: Kernel, X: Any, rows: Array, memory_limit: int) -> None:
        self.kernel, self.X, self.rows = kernel, X, rows
        n = X.shape[0]
        self.diagonal = np.asarray(kernel.diagonal(X), dtype=np.float64)
        self.rho = self.diagonal[rows].copy()
        double = 8 * n * len(rows) <= min(DOUBLE_BYTES, memory_limit)
        self.dtype = np.float64 if double else np.float32
        self.noise = 1e-8 if double else 1e-5
        held = len(rows) * n * np.dtype(self.dtype).itemsize <= memory_limit
        self._held = self._gather(n) if held else None
        self.V = np.zeros((0, 0, len(rows)), dtype=self.dtype)
        self.s = self.d = np.zeros((0, len(rows)))

    def column(self, rows: Array) -> Array:
        """Return ``K(x_i, x_l)`` in double precision (n, len(rows))."""
        centers = rows if isinstance(self.kernel, Precomputed) else self.X[rows]
        return np.asarray(self.kernel(self.X, centers), dtype=np.float64)

    def _gather(self, n: int) -> Array:
        columns = np.empty((len(self.rows), n), dtype=self.dtype)
        for part, block in self._computed(n):
            columns[part] = block
        return columns

    def _computed(self, n: int) -> Iterator[tuple[slice, Array]]:
        step = max(1, CHUNK_BYTES // (8 * n))
        for start in range(0, len(self.rows), step):
            part = slice(start, min(start + step, len(self.rows)))
            rows = self.rows[part]
            if isinstance(self.kernel, Precomputed):
                block = self.kernel(self.X, rows).T
            else:
                block = self.kernel(self.X[rows], self.X)
            yield part, block

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield parts of the transposed columns, each (some candidates, n)."""
        if self._held is None:
            yield from self._computed(self.X.shape[0])
            return
        step = max(1, CACHE_BYTES // self._held[:1].nbytes)
        for start in range(0, len(self.rows), step):
            part = slice(start, min(start + step, len(self.rows)))
            yield part, self._held[part]

    def products(self, U: Array, *, squared: bool = False) -> Array:
        """Return ``K_l' U`` (N, r), or with ``squared`` the products with the squared columns."""
        scale = float(np.abs(U).max(initial=0.0)) or 1.0  # residuals of separable data would underflow
        narrow = np.asfortranarray(U / scale, dtype=self.dtype)
        out = np.empty((len(self.rows), U.shape[1]), order="F")
        for part, block in self.blocks():
            block = np.asarray(block, dtype=self.dtype)
            block = block * block if squared else block
            if U.shape[1] > 4:
                out[part] = block @ narrow
            else:  # a thin matrix product is slower than its columns
                for k in range(U.shape[1]):
                    out[part, k] = block @ narrow[:, k]
        return scale * out

    def renew(self, model: Submodel) -> None:
        """Compute V and s from scratch for the model's present factors."""
        h, d = model.W.shape[1], model.d
        capacity = model._inverse.shape[1]
        if self.V.shape[:2] != (h, capacity):
            self.V = np.empty((h, capacity, len(self.rows)), dtype=self.dtype)
        self.d = self.products(model.W, squared=True).T + model.alpha * self.diagonal[self.rows]
        self.s = self.d.copy()
        penalty = model.alpha * model.phi[self.rows].T
        for k in range(h):
            B = self.products(model.D * model.W[:, k, None]).T
            B[model.first :] += penalty
            self.V[k, :d] = model.factors[k] @ B
            self.s[k] -= np.einsum("dl,dl->l", self.V[k, :d], self.V[k, :d], dtype=np.float64)

    def extend(self, model: Submodel, rows: Array, diagonal: Array) -> None:
        """Append the row of V that belongs to the model's last column."""
        j = model.d - 1
        if j >= self.V.shape[1]:
            self.V = np.concatenate([self.V, np.empty_like(self.V)], axis=1)
        psi = model.D[:, j]
        cross = self.products(model.W * psi[:, None]).T + model.alpha * psi[self.rows]
        for k, (v, c) in enumerate(zip(rows, diagonal, strict=True)):
            new = (cross[k] - v.astype(self.dtype) @ self.V[k, :j]) / c
            self.V[k, j] = new
            self.s[k] -= new * new

    def numerators(self, model: Submodel, g: Array) -> Array:
        """Return ``num`` (N, q)."""
        num = self.products(model.residual)
        num += model.alpha * (model.eta - model.b)[self.rows]
        for k in range(model.q):
            h = 0 if model.shared else k
            num[:, k] -= (model.factors[h] @ g[:, k]).astype(self.dtype) @ self.V[h, : model.d]
        return num

    def curvatures(self, model: Submodel) -> Array:
        """Return ``s`` (h, N), kept above its rounding error and above its lower bound ``alpha rho``."""
        return np.maximum(np.maximum(self.s, self.noise * self.d), model.alpha * np.maximum(self.rho, 0.0))

    def admissible(self) -> Array:
        """Return which candidates are not yet in the span of the chosen ones (N,): no row is chosen twice."""
        return self.rho > self.noise * self.diagonal[self.rows]

    def whitened(self, model: Submodel, index: int) -> Array:
        """Return the column ``psi`` of a candidate (n,)."""
        row = self.rows[index]
        phi = model.phi[row]
        psi = self.column(self.rows[index : index + 1])[:, 0] - model.phi @ phi
        return psi / math.sqrt(psi[row])

    def forget(self, psi: Array) -> None:
        """Lower ``rho`` by a column that was added; a clearly negative value means that the kernel is indefinite."""
        self.rho -= psi[self.rows] ** 2
        if self.rho.min() < -1e-6 * float(np.abs(self.diagonal).max()):
            raise ValueError(
                "kernel must be positive semi-definite for import vectors, and this one is not: choose another kernel, "
                "or SMLR, which takes any."
            )


def select(
    kernel: Kernel,
    X: Any,
    likelihood: Multinomial,
    y: Array,
    weight: Array | None,
    alphas: Sequence[float],
    settings: Forward,
    *,
    rows: Array | None = None,
    fit_intercept: bool = True,
    rng: np.random.Generator | None = None,
    watched: Array | None = None,
    watched_weight: Array | None = None,
) -> tuple[Submodel, ImportPath, list[Stage]]:
    """Run Algorithm 2 for one strength, Algorithm 3 for several (decreasing): points and weights are carried over.

    ``rows`` may be chosen; None: all of positive weight. ``watched`` rows must have weight zero: they are predicted but not learnt from, and never chosen. Their error, with
    weights ``watched_weight``, is recorded after every addition.
    """
    if rows is None:
        rows = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
    candidates = Candidates(kernel, X, _sampled(rows, X.shape[0], settings, rng), settings.memory_limit)
    if candidates.rho.min() < 0.0:
        raise ValueError("kernel must be positive semi-definite for import vectors: K(x, x) < 0 was found.")
    model = Submodel(likelihood, y, weight, float(alphas[0]), fit_intercept=fit_intercept)
    watch = _Watch(model, watched, watched_weight)
    points: list[int] = []
    records: list[tuple[float, float, float]] = []
    stages = []
    for alpha in alphas:
        model.alpha = float(alpha)
        for point in _additions(model, candidates, settings, len(points)):
            points.append(point)
            records.append((model.alpha, model.objective, watch.error()))
        stages.append(watch.stage())
    table = np.asarray(records).reshape(-1, 3)
    path = ImportPath(np.asarray(points, dtype=np.int64), table[:, 0], table[:, 1], table[:, 2])
    return model, path, stages


def _sampled(rows: Array, n: int, settings: Forward, rng: np.random.Generator | None) -> Array:
    count = settings.n_candidates
    if count is None:
        count = max(1, settings.memory_limit // (4 * n))
    if count >= len(rows):
        return rows
    return np.sort((rng or np.random.default_rng()).choice(rows, count, replace=False))


def _additions(model: Submodel, candidates: Candidates, settings: Forward, m: int) -> Iterator[int]:
    """Add points at one strength until the stopping rule holds; yield each row after the model was refitted."""
    accuracy = 1e-2 * settings.eps / settings.window
    choose = _CHOICES[settings.selection]
    period = settings.refresh if settings.selection == "lazy" else 1
    g = model.refit(accuracy)
    history = [model.objective]
    age, at = 0, history[0]  # additions since W was renewed, and H then
    model.renew()
    candidates.renew(model)
    while m < settings.max_points:
        index, promise = choose(model, candidates, g)
        if age and index >= 0 and promise < settings.eps * history[-1] / settings.window:
            # Never stop on old weights: on separable data they may be wrong by orders of magnitude.
            age = _renewed(model, candidates)
            index, promise = choose(model, candidates, g)
        # A bound's promise is only a lower bound on the decrease, so there the decrease itself decides.
        if index < 0 or (not model.shared and promise < settings.eps * history[-1] / settings.window):
            return
        psi = candidates.whitened(model, index)
        rows, diagonal = model.append(psi)
        candidates.forget(psi)
        g = model.refit(accuracy)
        m += 1
        history.append(model.objective)
        _log.debug("import point %d: row %d, objective %.10g", m, candidates.rows[index], history[-1])
        yield int(candidates.rows[index])
        if _converged(history, settings, model):
            return
        if not model.shared and (age + 1 >= period or history[-1] < 0.5 * at):
            age, at = _renewed(model, candidates), history[-1]
        else:
            candidates.extend(model, rows, diagonal)
            age += 1


def _renewed(model: Submodel, candidates: Candidates) -> int:
    model.renew()
    candidates.renew(model)
    return 0


def _converged(history: list[float], settings: Forward, model: Submodel) -> bool:
    """Whether the last ``window`` points brought too little (section 3.3), or the classes are separated."""
    total = float(model.n if model.weight is None else model.weight.sum())
    if history[-1] < SEPARATED * total * math.log(2.0):
        return True
    if len(history) <= settings.window:
        return False
    return abs(history[-1 - settings.window] - history[-1]) < settings.eps * abs(history[-1])


def _by_promise(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate of the largest predicted decrease, and this decrease."""
    scores = np.sum(candidates.numerators(model, g).T ** 2 / candidates.curvatures(model), axis=0)
    scores[~candidates.admissible()] = -1.0
    best = int(np.argmax(scores))
    return (best, 0.5 * float(scores[best])) if scores[best] > 0.0 else (-1, 0.0)


def _by_one_step(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate whose model after one Newton step has the smallest H (3.13), and the decrease."""
    num, s = candidates.numerators(model, g), candidates.curvatures(model)
    coefficient = -num / (s.T if not model.shared else s[0][:, None])
    own = model.precondition(g)
    H = np.full(len(candidates.rows), np.inf)
    allowed = candidates.admissible()
    for part, block in candidates.blocks():
        for column, index in zip(block, range(part.start, part.stop), strict=True):
            if allowed[index]:
                H[index] = _after_one_step(model, candidates, index, coefficient[index], own, column)
    best = int(np.argmin(H))
    return (best, model.objective - float(H[best])) if np.isfinite(H[best]) else (-1, 0.0)


def _after_one_step(model: Submodel, candidates: Candidates, index: int, c: Array, own: Array, column: Array) -> float:
    """Return H after the Newton step with candidate ``index``, whose new coefficient is ``c`` (q,)."""
    V = candidates.V[:, : model.d, index].astype(np.float64)
    moved = np.column_stack([model.factors[h].T @ V[h] for h in range(len(V))]) * c
    x = -own - moved
    Dx = model.D @ x + column.astype(np.float64)[:, None] * c
    phi, diagonal = model.phi[candidates.rows[index]], candidates.diagonal[candidates.rows[index]]
    values = []
    # With several outputs the step treats them one by one and may be too long by a factor of at most two.
    for t in (1.0,) if model.q == 1 else (1.0, 0.5):
        w, a = model.w + t * x[model.first :], t * c
        norm = float(np.vdot(w, w) + 2.0 * phi @ w @ a + diagonal * a @ a)
        loss, _ = model.likelihood.evaluate(model.eta + t * Dx, model.y, model.weight)
        values.append(loss + 0.5 * model.alpha * norm)
    return min(values)


def _exactly(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate whose converged model has the smallest H (3.12), and the decrease."""
    H = np.full(len(candidates.rows), np.inf)
    for index in np.flatnonzero(candidates.admissible()):
        H[index] = model.try_column(candidates.whitened(model, int(index)), 1e-8)
    best = int(np.argmin(H))
    return (best, model.objective - float(H[best])) if np.isfinite(H[best]) else (-1, 0.0)


_CHOICES: dict[str, Callable[[Submodel, Candidates, Array], tuple[int, float]]] = {
    "lazy": _by_promise,
    "onestep": _by_one_step,
    "exact": _exactly,
}


class _Watch:
    """Errors on rows of weight zero, which the model predicts without learning from them."""

    def __init__(self, model: Submodel, rows: Array | None, weight: Array | None) -> None:
        self.model, self.rows = model, rows
        if rows is None:
            return
        self.y, self.weight = model.y[rows], weight
        # Targets of one output say whether it is class 1, those of several which class it is.
        self.labels = self.y[:, 0] if model.q == 1 else self.y.argmax(axis=1)

    def error(self) -> float:
        if self.rows is None:
            return math.nan
        wrong = self.model.likelihood.predict(self.model.eta[self.rows]).argmax(axis=1) != self.labels
        return float(np.average(wrong, weights=self.weight))

    def stage(self) -> Stage:
        model, loss = self.model, math.nan
        if self.rows is not None:
            total = len(self.rows) if self.weight is None else float(self.weight.sum())
            loss = model.likelihood.evaluate(model.eta[self.rows], self.y, self.weight)[0] / total
        return Stage(model.alpha, len(model.w), model.objective, self.error(), loss)
