r"""Ranges of a kernel model's probabilities: kernel logistic regression as a Gaussian process with kernel k / alpha.

    f(x) ~ N(m, s^2),     s^2 = phi'(Phi' W Phi + alpha I)^-1 phi + (k(x, x) - |phi|^2) / alpha

phi is the whitened basis, W the curvature at the optimum; a free intercept is a further column without a prior. The
second term is what the centres do not reach: without it the variance would vanish far from the data. Several classes
have a function each; m_k is then the log-odds of a class against the rest, with the gradient g in the functions:
s_k^2 = J' C J + |g|^2 (k - |phi|^2) / alpha, J = g (x) phi. The prior is normal, so the mode is the centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import ndtri
from scipy.stats import qmc

from smaller.arrays import Array, log_partition
from smaller.bases import Whitened
from smaller.designs import Dense, blocks
from smaller.inference.logits import gradients, logits, probabilities
from smaller.inference.posterior import quantile
from smaller.likelihoods import Multinomial

__all__ = ["ProcessPosterior", "approximate_process"]

_POINTS = 64  # and as many mirrored, for averages over several functions


@dataclass(frozen=True)
class ProcessPosterior:
    """What a kernel model keeps for its ranges."""

    basis: Whitened
    likelihood: Multinomial
    alpha: float
    factor: Array = field(repr=False)  # of the precision of the weights and, last, the determined intercepts
    fit_intercept: bool

    reach = None  # nothing is left out
    beyond_reach = False
    sound = takes_nothing_as_given = True

    def interval(self, X: Any, shown: Array, level: float) -> tuple[Array, Array]:
        """Return the ends (n, K) of the ranges around the outputs ``shown``."""
        q = quantile(level)
        s = self.standard_errors(X, shown)
        m = logits(self.likelihood, shown)
        return probabilities(self.likelihood, m - q * s), probabilities(self.likelihood, m + q * s)

    def standard_errors(self, X: Any, eta: Array) -> Array:
        """Return s (n, K) of the log-odds of every class."""
        g = gradients(self.likelihood, eta)
        variance = np.zeros(g.shape[:2])
        for rows, phi, rest in self._parts(X):
            for k in range(g.shape[1]):
                variance[rows, k] = self._quadratic(phi, g[rows, k]) + rest * (g[rows, k] ** 2).sum(axis=1)
        return np.sqrt(variance)

    def averaged(self, X: Any, eta: Array) -> Array:
        """Return the class probabilities averaged over the process (n, K).

        Two classes: the logistic function of ``m / sqrt(1 + pi s^2 / 8)`` (MacKay 1992), right to about .004. More: an
        average over antithetic points of a Sobol sequence in the differences from the last class.
        """
        if eta.shape[1] == 1:
            s = self.standard_errors(X, eta)[:, 1:]
            m = eta / np.sqrt(1.0 + math.pi * s**2 / 8.0)
            return np.column_stack([probabilities(self.likelihood, sign * m) for sign in (-1.0, 1.0)])
        K = eta.shape[1]
        contrasts = np.eye(K)[: K - 1] - np.eye(K)[K - 1]
        points = _antithetic(K - 1)
        P = np.empty_like(eta)
        for rows, phi, rest in self._parts(X):
            covariance = self._covariance(phi, contrasts) + rest[:, None, None] * (contrasts @ contrasts.T)
            L = np.linalg.cholesky(covariance + 1e-14 * np.eye(K - 1))
            drawn = (eta[rows] @ contrasts.T)[:, None, :] + np.einsum("sj,nij->nsi", points, L)
            flat = drawn.reshape(-1, K - 1)
            _, some = log_partition(flat, pinned=True)
            mean = some.reshape(drawn.shape).mean(axis=1)
            P[rows] = np.column_stack([mean, np.maximum(1.0 - mean.sum(axis=1), 0.0)])
        return P

    def _parts(self, X: Any) -> Any:
        """Yield blocks of rows with phi, a column of ones where there is an intercept, and what phi does not reach."""
        m = self.basis.centers.shape[0] * self.likelihood.n_outputs
        for rows in blocks(X.shape[0], 24 * (m + 1) * self.likelihood.n_outputs):
            phi = self.basis.expand(X[rows]).X
            rest = self.basis.remainder(X[rows], phi) / self.alpha
            yield rows, np.column_stack([phi, np.ones(len(phi))]) if self.fit_intercept else phi, rest

    def _quadratic(self, phi: Array, g: Array) -> Array:
        return np.asarray((self._roots(phi, g) ** 2).sum(axis=0))

    def _covariance(self, phi: Array, G: Array) -> Array:
        """Return the covariance (n, r, r) of the outputs' combinations ``G`` (r, q), without the rest."""
        roots = np.stack([self._roots(phi, np.broadcast_to(g, (len(phi), len(g)))) for g in G])
        return np.einsum("imn,jmn->nij", roots, roots)

    def _roots(self, phi: Array, g: Array) -> Array:
        """Return ``L^-1 J`` (parameters, n) for ``J = g (x) phi``, parameters class by class, intercepts last."""
        m = self.basis.centers.shape[0]
        J = np.concatenate([g[:, [k]] * phi[:, :m] for k in range(g.shape[1])], axis=1)
        if self.fit_intercept:
            J = np.column_stack([J, g[:, : _determined(self.likelihood)]])
        return np.asarray(linalg.solve_triangular(self.factor, J.T, lower=True, check_finite=False))


def approximate_process(
    basis: Whitened,
    phi: Array,
    likelihood: Multinomial,
    y: Array,
    weight: Array | None,
    eta: Array,
    alpha: float,
    *,
    fit_intercept: bool,
) -> ProcessPosterior:
    """Approximate the process at its mode, whose outputs on the training rows (with basis ``phi``) are ``eta``."""
    m, q = phi.shape[1], likelihood.n_outputs
    columns, outputs = np.tile(np.arange(m), q), np.repeat(np.arange(q), m)
    if fit_intercept:
        determined = _determined(likelihood)
        columns = np.append(columns, np.full(determined, m))
        outputs = np.append(outputs, np.arange(determined))
    A = Dense(phi).gram(likelihood.curvature(eta, y, weight), (columns, outputs))
    A[np.arange(m * q), np.arange(m * q)] += alpha
    try:
        factor = linalg.cholesky(A, lower=True)
    except linalg.LinAlgError:
        raise ValueError(
            f"The posterior cannot be computed: alpha={alpha:g}, or an intercept, is lost in rounding beside columns "
            f"of the kernel as large as {float(np.abs(phi).max()):.2g}. Scale the features or raise alpha; without "
            "error bars the model can be fitted."
        ) from None
    return ProcessPosterior(basis, likelihood, alpha, factor, fit_intercept)


def _determined(likelihood: Multinomial) -> int:
    """Return how many intercepts the data determine."""
    return likelihood.n_outputs - likelihood.shift_invariant


def _antithetic(d: int) -> Array:
    """Return normal points (s, d) in mirrored pairs; half a step keeps the sequence away from 0 and 1."""
    U = qmc.Sobol(d, scramble=False).random(_POINTS) + 0.5 / _POINTS
    half = ndtri(U)
    return np.concatenate([half, -half])
