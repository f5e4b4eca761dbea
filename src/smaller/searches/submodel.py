"""Kernel logistic regression on whitened columns: the model that import points extend, and KLR on all of them.

    H(w, b) = sum_i c_i loss(y_i, Phi_i w + b) + alpha/2 |w|^2

Symbols: n rows, q outputs, ``D = [1 Phi]`` (n, d), ``g`` the gradient of H, ``A = D'WD + P`` its Hessian with
``P = diag(0, alpha, ..., alpha)`` and frozen weights ``W``, ``A = C C'``. Newton's equations are solved by conjugate
gradients that ``A`` preconditions, so W may be old, or a bound shared by many classes.
"""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array
from smaller.factors import cholesky, lower_inverse, weighted_gram
from smaller.likelihoods import Multinomial

__all__ = ["Submodel"]

MOST_OWN_FACTORS = 4  # outputs up to which each has its own Hessian factor; beyond, one bound serves all


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
        self.n_steps = 0  # Newton steps so far
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
    def capacity(self) -> int:
        """Columns for which there is room."""
        return int(self._inverse.shape[1])

    @property
    def objective(self) -> float:
        return self.loss + 0.5 * self.alpha * float(np.vdot(self.w, self.w))

    def gradient(self) -> Array:
        """Return ``g = D' r + P beta`` (d, q)."""
        g = self.D.T @ self.residual
        g[self.first :] += self.alpha * self.w
        if self.likelihood.shift_invariant and self.first:  # H is flat along a common shift of the intercepts
            g[0] -= g[0].mean()
        return g

    def renew(self) -> None:
        """Renew the weights W at the present fit, and their factors; the shared bound needs this once a strength."""
        self._spent = 0  # products since then
        count = np.ones(self.n) if self.weight is None else self.weight
        if self.shared:  # softmax Hessian <= (I - 11'/K)/2 <= I/2
            self.W = 0.5 * count[:, None]
        else:
            diagonal = self.likelihood.curvature(self.eta, self.y, self.weight).diagonal()
            self.W = np.maximum(diagonal, 1e-12 * count[:, None])
        for k in range(self.W.shape[1]):
            A = weighted_gram(self.D, self.W[:, k])
            A[np.diag_indices(self.d)] += np.append(np.zeros(self.first), np.full(self.d - self.first, self.alpha))
            A[np.diag_indices(self.d)] += 1e-10 * np.trace(A) / max(self.d, 1)
            self.factors[k] = lower_inverse(cholesky(A))

    def append(self, psi: Array) -> tuple[Array, Array]:
        """Add whitened columns (n, r); return what couples them to the others (h, d, r), and their factor (h, r, r).

        With ``A = C C'`` before, afterwards ``C = [[C, 0], [V', c]]``: V and c are returned.
        """
        r = psi.shape[1]
        old, new = slice(self.d), slice(self.d, self.d + r)
        self._reserve(new.stop)
        couplings, corners = np.zeros((len(self._inverse), self.d, r)), np.zeros((len(self._inverse), r, r))
        for k, inverse in enumerate(self.factors):
            weighted = self.W[:, k, None] * psi
            V = inverse @ (self.D.T @ weighted)
            c = cholesky(_at_least(psi.T @ weighted - V.T @ V, self.alpha))
            own = lower_inverse(c)
            self._inverse[k, new, old] = -own @ (V.T @ inverse)
            self._inverse[k, new, new] = own
            couplings[k], corners[k] = V, c
        self._D[:, new] = psi
        self._beta[new] = 0.0
        self.d = new.stop
        return couplings, corners

    def _reserve(self, size: int) -> None:
        old = self._D.shape[1]
        if size <= old:
            return
        more = max(old, size - old)
        D = np.empty((self.n, old + more), order="F")
        D[:, :old] = self._D
        self._D = D
        self._beta = np.pad(self._beta, ((0, more), (0, 0)))
        self._inverse = np.pad(self._inverse, ((0, 0), (0, more), (0, more)))

    def precondition(self, g: Array) -> Array:
        """Return ``A^-1 g`` (d, q), output by output."""
        if len(self._inverse) == 1:
            return self.factors[0].T @ (self.factors[0] @ g)
        return np.column_stack([C.T @ (C @ g[:, k]) for k, C in enumerate(self.factors)])

    def refit(self, accuracy: float, max_steps: int = 20, *, renewing: bool = False) -> Array:
        """Take Newton steps until the next one promises less than ``accuracy`` times H; return the gradient.

        ``renewing`` pays for new factors as soon as the products spent on old ones cost about as much.
        """
        g = self.gradient()
        for _ in range(max_steps):
            step = self.precondition(g)
            if 0.5 * float(np.vdot(g, step)) <= accuracy * self.objective:
                break
            if not self._advance(*self._newton(g, step), g):
                break
            self.n_steps += 1
            if renewing and self._spent > 10 + self.d // 20:
                self.renew()
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
            self._spent += 1
            Dp = D @ p
            Hp = D.T @ curvature.apply(Dp) + ridge * p
            bend = float(np.vdot(p, Hp))
            if not bend > 0.0:
                break
            t = rz / bend
            x, Dx, r = x + t * p, Dx + t * Dp, r - t * Hp
            z = self.precondition(r)
            rz, old = float(np.vdot(r, z)), rz
            if rz <= 1e-2 * first:
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
            # A step that promises less than H can resolve is taken on the model's word.
            if -slope <= 1e-12 * H or loss + 0.5 * self.alpha * float(np.vdot(w, w)) <= H + 1e-4 * t * slope:
                self.eta, self.loss, self.residual = eta, loss, residual
                return True
            t /= 2.0
        self._beta[: self.d] = beta
        return False

    def try_column(self, psi: Array, accuracy: float) -> float:
        """Return H at the optimum with one more column (n, 1); the model stays as it is."""
        kept = self.d, self.beta.copy(), self.eta, self.loss, self.residual
        self.append(psi)
        self.refit(accuracy)
        H = self.objective
        self.d, beta, self.eta, self.loss, self.residual = kept
        self._beta[: self.d] = beta
        return H


def _at_least(rest: Array, alpha: float) -> Array:
    """Return ``rest + alpha I`` with no eigenvalue below alpha.

    A Schur complement of D'WD + P is at least that of P, which is alpha: what is less is rounding.
    """
    values, vectors = np.linalg.eigh(0.5 * (rest + rest.T))
    return (vectors * (np.maximum(values, 0.0) + alpha)) @ vectors.T
