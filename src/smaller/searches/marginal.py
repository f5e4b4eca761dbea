r"""Evidence of a linear model whose weights have a variance each, and what every column would add to it.

    w_j ~ Normal(0, 1/a_j) for the pairs (column, output) in use, all other weights zero; a free intercept

What a pair contributes depends on two numbers (Tipping and Faul 2003): ``Q``, how well its column fits what the others
leave over, and ``S``, how far it overlaps with them. A :class:`Fit` holds both for every pair:

* :class:`Regression`: the evidence is exact; symbols ``G = P'CP``, ``h = P'Ct``, precision ``b`` of the noise.
* :class:`Classes`: Laplace's approximation at the mode; ``D = [P 1]``, one column a coordinate.

Columns come at unit length (:func:`standardise`), responses at unit variance, and zero is their mean where there is an
intercept: that leaves the evidence as it is and takes the intercept out of the regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from smaller.arrays import Array
from smaller.likelihoods import Curvature, Likelihood

__all__ = ["Classes", "Columns", "Fit", "Marginal", "Regression", "standardise"]

_FLAT = 1e-12  # of a column's largest entry: below, its spread is rounding
_FLOOR = 1e-12  # of the responses' variance: below, the noise counts as zero
_FIRST_NOISE = 0.1  # of that variance
_CLOSE = 1e-10  # Newton decrement after which one more step is exact
_ROUNDING = 1e-12  # of the loss: promises below it cannot be checked
_MOST_STEPS = 100
_LOG_2_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Columns:
    """Candidate columns as the search sees them, and the way back."""

    P: Array  # (n, M), rows of positive weight, columns in order
    index: Array  # (M,) their places in the design; constant and repeated columns are left out
    mean: Array  # (M,)
    scale: Array  # (M,)


def standardise(X: Array, weight: Array | None, *, center: bool) -> Columns:
    """Return the columns of ``X`` (n, d) at unit mean square, moved to mean zero with ``center``.

    Of equal columns only the first stays: together they could do no more, and would share its weight at will.
    """
    c = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
    largest = np.abs(X).max(axis=0, initial=0.0)
    mean = c @ X if center else np.zeros(X.shape[1])
    P = X - mean
    if center:
        correction = c @ P  # what rounding left
        mean, P = mean + correction, P - correction
    unit = np.where(largest > 0, largest, 1.0)  # squares of extreme columns would overflow, or vanish
    scale = unit * np.sqrt(c @ (P / unit) ** 2)
    first: dict[bytes, int] = {}
    for j in np.flatnonzero(scale > _FLAT * np.maximum(largest, 1e-300)):
        first.setdefault(np.ascontiguousarray(X[:, j]).tobytes(), int(j))
    index = np.fromiter(first.values(), dtype=np.int64)
    return Columns(np.asfortranarray(P[:, index] / scale[index]), index, mean[index], scale[index])


@dataclass(frozen=True)
class Fit:
    """The best weights of some pairs at given strengths; pair ``j q + k`` is column j in output k."""

    pairs: Array  # (k,)
    a: Array  # (k,) strengths
    w: Array  # (k,)
    b: Array  # (q,)
    variances: Array  # (k,) diagonal of the weights' covariance
    log_evidence: float
    S: Array  # (M q,) overlap
    Q: Array  # (M q,) quality
    root: Array  # L of L L' = Hessian over the pairs and the free intercepts
    precision: float = 1.0  # of the noise, at which all this was computed
    renewed: float = 1.0  # what the fit makes of it


class Marginal(Protocol):
    """What the search asks of a model."""

    n_outputs: int
    P: Array  # (n, M) columns
    weight: Array | None

    def refit(self, pairs: Array, a: Array, start: Fit | None) -> Fit:
        """Return the fit of the pairs at strengths ``a``, close to ``start``."""

    def cosines(self, pair: int, pairs: Array) -> Array:
        """Return the cosines (k,) between the columns of a pair and of others; 0 for pairs of another output."""


def _factor(H: Array) -> tuple[Array, Array]:
    """Return the Cholesky factor of ``H``, raised on its diagonal as far as rounding demands, and its inverse."""
    if not len(H):
        return H, H
    # LAPACK itself: systems are small and many, and the checks of scipy.linalg would take longer than the work.
    L, failed = linalg.lapack.dpotrf(H, lower=1)
    shift = 1e-14
    size = np.abs(H).max(axis=0)  # saturated rows leave diagonals that are zero but for rounding
    size = np.where(size > 0, size, 1.0)
    while failed and shift < 1.0:
        L, failed = linalg.lapack.dpotrf(H + shift * np.diag(size), lower=1)
        shift *= 10.0
    return L, linalg.lapack.dtrtri(L, lower=1)[0]


def _log_determinant(L: Array) -> float:
    """Return half the logarithm of ``|L L'|``."""
    return float(np.log(np.diag(L)).sum())


class Regression:
    """Responses with Gaussian noise of unknown precision b; the intercept is integrated out.

    ``log evidence = 1/2 [N log b - b rss - a'w^2 + sum log a - log|H| - N log 2 pi]``, ``H = b G_AA + diag(a)``, where
    N counts the rows, less one for the intercept.
    """

    n_outputs = 1

    def __init__(self, P: Array, t: Array, weight: Array | None, *, fit_intercept: bool = True) -> None:
        self.P, self.weight = P, weight
        total = float(len(t) if weight is None else weight.sum())
        self.mean = float(np.average(t, weights=weight)) if fit_intercept else 0.0
        self.scale = math.sqrt(float(np.average((t - self.mean) ** 2, weights=weight))) or 1e-150
        self.t = (t - self.mean) / self.scale
        self.total, self.N = total, total - fit_intercept
        self._weighted = P if weight is None else np.asfortranarray(P * weight[:, None])
        self.h = self._weighted.T @ self.t
        self._rows: dict[int, Array] = {}  # of G, as pairs enter

    @property
    def constant(self) -> bool:
        """Whether there is nothing to explain."""
        return self.scale <= 1e-14 * abs(self.mean) or self.scale <= 1e-150 or self.N <= 0

    def _products(self, pairs: Array) -> Array:
        """Return rows of G (k, M)."""
        for j in pairs.tolist():
            if j not in self._rows:
                self._rows[j] = self._weighted[:, j] @ self.P
        return np.array([self._rows[j] for j in pairs.tolist()]).reshape(len(pairs), self.P.shape[1])

    def cosines(self, pair: int, pairs: Array) -> Array:
        return self._products(pairs)[:, pair] / self.total

    def refit(self, pairs: Array, a: Array, start: Fit | None) -> Fit:
        precision = 1.0 / _FIRST_NOISE if start is None else start.renewed
        G = self._products(pairs)
        H = precision * G[:, pairs]
        H[np.diag_indices(len(a))] += a
        L, inverse = _factor(H)
        w = precision * (inverse.T @ (inverse @ self.h[pairs]))
        error = self.t - self.P[:, pairs] @ w
        rss = float(error @ error if self.weight is None else self.weight @ error**2)
        V = inverse @ G
        variances = np.einsum("ij,ij->j", inverse, inverse)
        log_evidence = 0.5 * (
            self.N * (math.log(precision) - _LOG_2_PI) - precision * rss - float(a @ w**2) + float(np.log(a).sum())
        ) - _log_determinant(L)
        left = max(self.N - len(a) + float(a @ variances), 1e-8 * max(self.N, 1.0))  # N less the determined weights
        return Fit(
            pairs,
            a,
            w,
            np.zeros(1),
            variances,
            log_evidence,
            precision * self.total - precision**2 * np.einsum("ij,ij->j", V, V),
            precision * (self.h - w @ G),
            L,
            precision,
            1.0 / max(rss / left, _FLOOR),
        )

    def evidence(self, fit: Fit) -> float:
        """Return the log evidence in the responses' own unit."""
        return fit.log_evidence - self.N * math.log(self.scale)


class Classes:
    """Labels under a likelihood with outputs; Laplace's approximation of the evidence.

    ``log evidence = -loss - a'w^2 / 2 + 1/2 [sum log a - log|H| + f log 2 pi]``, H the Hessian of the penalised loss
    over the pairs and the f free intercepts, at its minimum. Of intercepts with a common shift the last one stays at
    zero.
    """

    def __init__(
        self, P: Array, likelihood: Likelihood, y: Array, weight: Array | None, *, fit_intercept: bool = True
    ) -> None:
        self.P, self.likelihood, self.y, self.weight = P, likelihood, y, weight
        self.n_outputs = q = likelihood.n_outputs
        self.n_free = q - likelihood.shift_invariant if fit_intercept else 0
        self.null = np.zeros(q)
        if fit_intercept:
            self.null = likelihood.null(y, weight)
            self.null = self.null - self.null[-1] * likelihood.shift_invariant
        self.total = float(len(P) if weight is None else weight.sum())

    @cached_property
    def _squares(self) -> Array:
        return self.P**2

    def cosines(self, pair: int, pairs: Array) -> Array:
        q = self.n_outputs
        x = self.P[:, pair // q] if self.weight is None else self.P[:, pair // q] * self.weight
        return np.where(pairs % q == pair % q, x @ self.P[:, pairs // q] / self.total, 0.0)

    def refit(self, pairs: Array, a: Array, start: Fit | None) -> Fit:
        q, k = self.n_outputs, len(pairs)
        outputs = np.append(pairs % q, np.arange(self.n_free))
        D = np.empty((len(self.P), k + self.n_free), order="F")
        D[:, :k], D[:, k:] = self.P[:, pairs // q], 1.0
        beta, ridge = np.append(np.zeros(k), self.null[: self.n_free]), np.append(a, np.zeros(self.n_free))
        if start is not None:
            found = np.zeros(self.P.shape[1] * q)
            found[start.pairs] = start.w
            beta = np.append(found[pairs], start.b[: self.n_free])
        mode = _Mode(self, D, outputs, ridge, beta).found()
        w, curvature = mode.beta[:k], mode.curvature
        inverse = mode.inverse
        S = self._squares.T @ curvature.diagonal()
        for r in range(q):
            V = inverse @ (_coupled(D, outputs, curvature, r).T @ self.P)
            S[:, r] -= np.einsum("ij,ij->j", V, V)
        log_evidence = -mode.loss - 0.5 * float(a @ w**2) + 0.5 * float(np.log(a).sum())
        log_evidence += 0.5 * self.n_free * _LOG_2_PI - _log_determinant(mode.L)
        b = np.append(mode.beta[k:], np.zeros(q - self.n_free))
        variances = np.einsum("ij,ij->j", inverse, inverse)[:k]
        Q = -(self.P.T @ mode.residual)
        return Fit(pairs, a, w, b, variances, log_evidence, S.ravel(), Q.ravel(), mode.L)


def _coupled(D: Array, outputs: Array, curvature: Curvature, output: int) -> Array:
    """Return ``D_i H[outputs_i, output]`` (n, k), H being each row's own Hessian."""
    coupled = D * np.where(outputs == output, curvature.d[:, output, None], 0.0)
    if curvature.u is not None:
        coupled -= D * curvature.u[:, outputs] * curvature.u[:, output, None]
    return coupled


@dataclass
class _Mode:
    """Where Newton's method stands on the penalised loss."""

    model: Classes
    D: Array  # (n, k + f)
    outputs: Array  # (k + f,)
    ridge: Array  # (k + f,)
    beta: Array  # (k + f,)

    def found(self) -> _Mode:
        """Return the minimum."""
        eta = self._eta(self.beta)
        self._evaluate(eta)
        last = False
        for _ in range(_MOST_STEPS):
            g, H = self._derivatives(eta)
            self.L, self.inverse = _factor(H)
            if last or not len(g):
                break
            step = -(self.inverse.T @ (self.inverse @ g))
            slope = float(g @ step)
            last = -slope < _CLOSE
            moved = self._search(eta, self._eta(step), step, slope)
            if moved is None:
                break
            eta = moved
        return self

    def _eta(self, beta: Array) -> Array:
        eta = np.zeros((len(self.D), self.model.n_outputs), order="F")
        for r in range(self.model.n_outputs):
            mine = self.outputs == r
            eta[:, r] = self.D[:, mine] @ beta[mine]
        return eta

    def _evaluate(self, eta: Array) -> None:
        self.loss, self.residual = self.model.likelihood.evaluate(eta, self.model.y, self.model.weight)

    def _penalised(self) -> float:
        return self.loss + 0.5 * float(self.ridge @ self.beta**2)

    def _derivatives(self, eta: Array) -> tuple[Array, Array]:
        self.curvature = self.model.likelihood.curvature(eta, self.model.y, self.model.weight)
        g = np.einsum("ij,ij->j", self.D, self.residual[:, self.outputs]) + self.ridge * self.beta
        H = np.diag(self.ridge)
        for r in np.unique(self.outputs):
            mine = self.outputs == r
            H[:, mine] += _coupled(self.D, self.outputs, self.curvature, r).T @ self.D[:, mine]
        return g, 0.5 * (H + H.T)

    def _search(self, eta: Array, move: Array, step: Array, slope: float) -> Array | None:
        """Halve the step until the sum falls enough; None when rounding forbids it."""
        before, beta, t = self._penalised(), self.beta, 1.0
        loss, residual = self.loss, self.residual
        for _ in range(40):
            self.beta, trial = beta + t * step, eta + t * move
            self._evaluate(trial)
            unseen = t == 1.0 and -slope <= _ROUNDING * abs(before)
            if unseen or self._penalised() <= before + 1e-4 * t * slope:
                return trial
            t /= 2.0
        self.beta, self.loss, self.residual = beta, loss, residual
        return None


def without_weight(fit: Fit) -> Fit:
    """Return the fit without pairs whose weight is exactly zero."""
    kept = fit.w != 0
    return fit if kept.all() else replace(fit, pairs=fit.pairs[kept], a=fit.a[kept], w=fit.w[kept])
