"""Arithmetic in extended precision, from the formulas alone: what a fit claims is held against it.

A :class:`Claim` is a sum ``loss(Xw + b) + slope |w| + ridge w^2 / 2`` with the weights that a fit returned. Where
float64 cannot hold the answer itself (columns at 1e8), no fit can be better than its rounding: ``slack`` bounds what
that costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import linalg, special

Array = Any
LD = np.longdouble
EPS = float(np.finfo(np.float64).eps)


class Loss(Protocol):
    """A sum over rows of a convex function of each row's outputs."""

    def value(self, eta: Array) -> Array:
        """Return the weighted loss of every row (n,)."""

    def gradient(self, eta: Array) -> Array:
        """Return its derivative (n, q)."""

    def hessian(self, eta: Array) -> Array:
        """Return the second derivatives (n, q, q), in double precision."""


@dataclass(frozen=True)
class Softmax:
    """Log-loss of K classes; ``estimated`` lists the classes that have an output, the others have eta = 0."""

    codes: Array
    n_classes: int
    weight: Array
    estimated: tuple[int, ...]
    shares: Array | None = None  # (n, K) of soft labels, in the place of codes
    offset: Array | None = None  # (n, K)

    @property
    def targets(self) -> Array:
        return np.eye(self.n_classes, dtype=LD)[self.codes] if self.shares is None else self.shares

    def log_probabilities(self, eta: Array) -> Array:
        full = np.zeros((len(eta), self.n_classes), dtype=LD) if self.offset is None else self.offset.astype(LD)
        full[:, list(self.estimated)] += eta
        full -= full.max(axis=1, keepdims=True)
        return full - np.log(np.exp(full).sum(axis=1, keepdims=True))

    def value(self, eta: Array) -> Array:
        log_p = self.log_probabilities(eta)
        if self.shares is not None:
            return -self.weight * np.sum(self.shares * log_p, axis=1)
        return -self.weight * log_p[np.arange(len(eta)), self.codes]

    def gradient(self, eta: Array) -> Array:
        P = np.exp(self.log_probabilities(eta)) - self.targets
        return self.weight[:, None] * P[:, list(self.estimated)]

    def hessian(self, eta: Array) -> Array:
        P = np.exp(self.log_probabilities(eta))[:, list(self.estimated)].astype(float)
        H = -P[:, :, None] * P[:, None, :]
        H[:, np.arange(P.shape[1]), np.arange(P.shape[1])] += P
        return self.weight.astype(float)[:, None, None] * H

    def dual(self, scaled: Array) -> LD | None:
        """Return minus the conjugate at a residual; None outside its domain."""
        full = np.zeros((len(scaled), self.n_classes), dtype=LD)
        full[:, list(self.estimated)] = scaled / np.where(self.weight > 0, self.weight, 1)[:, None]
        full += self.targets
        if len(self.estimated) < self.n_classes:
            pinned = next(k for k in range(self.n_classes) if k not in self.estimated)
            full[:, pinned] = 1 - np.delete(full, pinned, axis=1).sum(axis=1)
        if full.min() < -1e-12:
            return None
        full = np.maximum(full, 0)
        known = 0 if self.offset is None else np.sum(self.weight[:, None] * (full - self.targets) * self.offset)
        entropy = np.sum(self.weight[:, None] * np.where(full > 0, full * np.log(np.where(full > 0, full, 1)), 0))
        return known - entropy


@dataclass(frozen=True)
class ProbitLoss:
    """``-c log Phi(l eta)`` for every output; no cancellation, so that SciPy's double precision serves."""

    signs: Array  # (n, q)
    weight: Array

    def value(self, eta: Array) -> Array:
        return -(self.weight[:, None] * special.log_ndtr((self.signs * eta).astype(float))).sum(axis=1)

    def _mills(self, margin: Array) -> Array:
        return np.exp(-0.5 * margin**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(margin))

    def gradient(self, eta: Array) -> Array:
        return -self.weight[:, None] * self.signs * self._mills((self.signs * eta).astype(float))

    def hessian(self, eta: Array) -> Array:
        margin = (self.signs * eta).astype(float)
        mills = self._mills(margin)
        H = np.zeros((*eta.shape, eta.shape[1]))
        at = np.arange(eta.shape[1])
        H[:, at, at] = self.weight.astype(float)[:, None] * np.maximum(mills * (mills + margin), 0.0)
        return H

    def dual(self, scaled: Array) -> LD | None:
        return None


@dataclass(frozen=True)
class SquaredLoss:
    """``c (eta - y)^2 / (2 v)``."""

    y: Array  # (n, 1)
    weight: Array
    variance: LD

    def value(self, eta: Array) -> Array:
        return (self.weight[:, None] * (eta - self.y) ** 2).sum(axis=1) / (2 * self.variance)

    def gradient(self, eta: Array) -> Array:
        return self.weight[:, None] * (eta - self.y) / self.variance

    def hessian(self, eta: Array) -> Array:
        return (self.weight / self.variance).astype(float)[:, None, None] * np.ones((1, 1, 1))

    def dual(self, scaled: Array) -> LD | None:
        weight = np.where(self.weight > 0, self.weight, 1)[:, None]
        return -np.sum(scaled * self.y) - self.variance / 2 * np.sum(scaled**2 / weight)


@dataclass(frozen=True)
class Claim:
    """Weights that are said to minimise a sum."""

    X: Array  # (n, d)
    loss: Any
    w: Array  # (d, q)
    b: Array  # (q,)
    slope: Array  # (d,)
    ridge: Array  # (d,)
    free_intercept: bool = True

    @property
    def eta(self) -> Array:
        return self.X @ self.w + self.b

    def objective(self) -> LD:
        penalty = np.sum(self.slope[:, None] * np.abs(self.w) + self.ridge[:, None] * self.w**2 / 2)
        return self.loss.value(self.eta).sum() + penalty

    def rounding(self) -> Array:
        """Return what float64 leaves in eta (n, q), if every product and sum is rounded."""
        return 4 * EPS * (np.abs(self.X) @ np.abs(self.w) + np.abs(self.b))

    def slack(self) -> float:
        """Return what that rounding is worth in the objective; a row's loss itself is known to EPS of its weight."""
        worth = np.sum(np.abs(self.loss.gradient(self.eta)) * self.rounding())
        worth += np.einsum(
            "nk,nkl,nl->", *(a.astype(float) for a in (self.rounding(), self.loss.hessian(self.eta), self.rounding()))
        )
        return float(worth) + EPS * (64 * abs(float(self.objective())) + float(np.sum(self.loss.weight)))

    def violations(self) -> Array:
        """Return the violation of the optimality conditions of every weight (d, q)."""
        G = self.X.T @ self.loss.gradient(self.eta) + self.ridge[:, None] * self.w
        slope = self.slope[:, None]
        return np.where(self.w != 0, np.abs(G + slope * np.sign(self.w)), np.maximum(np.abs(G) - slope, 0))

    def settled(self) -> Claim:
        """Return the claim with the best intercepts: their last digits are not what is being judged."""
        if not self.free_intercept:
            return self
        claim, value = self, self.objective()
        for _ in range(30):
            eta = claim.eta
            g = claim.loss.gradient(eta).sum(axis=0).astype(float)
            H = claim.loss.hessian(eta).sum(axis=0)
            step = linalg.pinvh(H) @ g
            better = replace(claim, b=claim.b - step)
            if not np.isfinite(step).all() or not better.objective() < value:
                break
            claim, value = better, better.objective()
        return claim

    def gap(self) -> float:
        """Return a duality gap at the claim's weights with the best intercepts; infinite where there is none."""
        claim = self.settled()
        residual = claim.loss.gradient(claim.eta)
        G = claim.X.T @ residual
        bound, slope, ridge = np.abs(G), self.slope[:, None], self.ridge[:, None]
        if np.any((bound > 1e-12 * np.abs(claim.X).T @ np.abs(residual)) & (slope + ridge == 0)):
            return np.inf
        hard = (ridge == 0) & (slope > 0) & (bound > slope)
        s = np.min(np.where(hard, slope / np.where(hard, bound, 1), 1), initial=1)
        dual = claim.loss.dual(s * residual)
        if dual is None:
            return np.inf
        excess = np.maximum(s * bound - slope, 0)
        conjugate = np.sum(np.where(ridge > 0, excess**2 / (2 * np.where(ridge > 0, ridge, 1)), 0))
        return float(claim.objective() - dual + conjugate)

    def improvement(self, *, steps: int = 25) -> float:
        """Return how far proximal Newton steps lower the objective: a proof, whatever the gap says.

        They are taken on columns centred and scaled, in double precision; only the objective must be exact.
        """
        c = np.maximum(self.loss.hessian(self.eta * 0).sum(axis=(1, 2)), 0)
        c = c / c.sum() if c.sum() > 0 else np.full(len(c), 1.0 / len(c))
        mean = (c @ self.X) if self.free_intercept else 0 * self.X[0]
        spread = np.sqrt(c @ (self.X - mean) ** 2)
        used = spread > 1e-14 * (np.abs(mean) + np.abs(self.X).max(axis=0, initial=0))
        spread = np.where(used, spread, 1)
        Z = np.where(used, (self.X - mean) / spread, 0)
        slope, ridge = self.slope / spread, self.ridge / spread**2
        moved = replace(
            self,
            X=Z,
            w=np.where(used[:, None], self.w * spread[:, None], 0),
            b=self.b + mean @ self.w,
            slope=slope,
            ridge=ridge,
        )
        first = self.objective()
        best = moved.settled()
        value = best.objective()
        if best.w.size <= 1500:
            for _ in range(steps):
                candidate = _newton(best, value)
                if candidate is None:
                    break
                gained = float(value - candidate.objective())
                best, value = candidate, candidate.objective()
                if gained <= 1e-9 * float(first - value) or gained <= 8 * EPS * abs(float(value)):
                    break
        return float(first - value)


def _newton(claim: Claim, value: Any) -> Claim | None:
    """Take one damped proximal Newton step, its quadratic model minimised by coordinate descent."""
    eta = claim.eta
    n, (d, q) = len(claim.X), claim.w.shape
    g, H = claim.loss.gradient(eta).astype(float), claim.loss.hessian(eta)
    D = np.column_stack([claim.X.astype(float), np.full(n, float(claim.free_intercept))])
    A = np.einsum("ni,nkl,nj->ikjl", D, H, D, optimize=True).reshape((d + 1) * q, (d + 1) * q)
    A[np.diag_indices_from(A)] += 1e-12 * A.diagonal().max(initial=0) + 1e-300
    slope, ridge = (np.repeat(np.append(part.astype(float), 0.0), q) for part in (claim.slope, claim.ridge))
    start = np.append(claim.w, claim.b[None, :], axis=0).astype(float).ravel()
    gradient = (D.T @ g).ravel() + ridge * start
    A[np.diag_indices_from(A)] += ridge
    x = start.copy()
    diagonal = A.diagonal().copy()
    for _ in range(30):
        moved = 0.0
        for j in np.flatnonzero(diagonal > 1e-200):
            centre = x[j] - gradient[j] / diagonal[j]
            new = np.sign(centre) * max(abs(centre) - slope[j] / diagonal[j], 0.0)
            if new != x[j]:
                gradient += A[j] * (new - x[j])
                moved = max(moved, diagonal[j] * (new - x[j]) ** 2)
                x[j] = new
        if moved <= 1e-14 * abs(float(value)):
            break
    if not np.isfinite(x).all():
        return None
    step = (x - start).reshape(d + 1, q)
    t = 1.0
    for _ in range(20):
        candidate = replace(
            claim, w=claim.w + t * step[:-1], b=claim.b + t * step[-1] if claim.free_intercept else claim.b
        )
        if candidate.objective() < value:
            return candidate
        t /= 2
    return None
