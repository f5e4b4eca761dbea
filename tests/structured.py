"""Independent arithmetic for penalties with groups, limits, offsets and soft labels: plain NumPy from the formulas.

`judge` recomputes objective and duality gap; `descend` is a slow accelerated proximal gradient method of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import GroupNorm, Limited
from smaller.problem import Problem

Array = Any


@dataclass(frozen=True)
class Structured:
    """A problem; every column belongs to a group, groups of norm zero are none, limits may be infinite."""

    X: Array  # (n, d)
    Y: Array  # (n, K) class probabilities
    weight: Array  # (n,)
    offset: Array  # (n, K), of the classes
    group: Array  # (d,)
    norm: Array  # (groups,)
    slope: Array  # (d,)
    ridge: Array  # (d,)
    lower: Array  # (d,)
    upper: Array  # (d,)
    coding: str = "symmetric"
    fit_intercept: bool = True

    @property
    def outputs(self) -> slice:
        K = self.Y.shape[1]
        return slice(1, 2) if K == 2 else slice(0, K if self.coding == "symmetric" else K - 1)

    def problem(self, storage: str = "dense") -> Problem:
        K = self.Y.shape[1]
        likelihood = Multinomial(K, self.coding)
        if np.isfinite([self.lower, self.upper]).any():
            prior: Any = Limited(*(part[:, None] for part in (self.slope, self.ridge, self.lower, self.upper)))
        else:
            first = np.array([np.flatnonzero(self.group == g)[0] for g in range(len(self.norm))])
            prior = GroupNorm(self.group, self.norm, self.slope[first], self.ridge[first])
        X = sparse.csc_array(self.X) if storage == "csc" else np.asfortranarray(self.X)
        weight = None if (self.weight == 1.0).all() else self.weight
        y = likelihood.encode(self.Y)
        offset = likelihood.contrasts(self.offset) if self.offset.any() else None
        soft = bool(((self.Y > 0) & (self.Y < 1)).any())
        return Problem(as_design(X), y, weight, likelihood, prior, self.fit_intercept, offset, soft)


class Judgement(NamedTuple):
    objective: float
    gap: float
    imbalance: float  # gradient left in the intercepts, which the gap takes to be zero


def lengths(case: Structured, a: Array) -> Array:
    return np.array([np.linalg.norm(a[case.group == g]) for g in range(len(case.norm))])


def soft(a: Array, t: Array) -> Array:
    return np.sign(a) * np.maximum(np.abs(a) - t, 0.0)


def penalty(case: Structured, w: Array) -> float:
    slope, ridge = case.slope[:, None], case.ridge[:, None]
    return float(case.norm @ lengths(case, w) + np.sum(slope * np.abs(w)) + 0.5 * np.sum(ridge * w**2))


def probabilities(case: Structured, w: Array, b: Array) -> tuple[Array, Array]:
    eta = case.offset.copy()
    eta[:, case.outputs] += case.X @ w + b
    eta -= eta.max(axis=1, keepdims=True)
    log_p = eta - np.log(np.exp(eta).sum(axis=1, keepdims=True))
    return log_p, np.exp(log_p)


def loss_and_gradient(case: Structured, w: Array, b: Array) -> tuple[float, Array]:
    log_p, P = probabilities(case, w, b)
    return -float(np.sum(case.weight[:, None] * case.Y * log_p)), case.weight[:, None] * (P - case.Y)


def inside(case: Structured, G: Array, s: float) -> bool:
    """Whether the penalty's conjugate is finite at ``-s G``."""
    length = lengths(case, soft(s * G, case.slope[:, None]))
    hard = np.array([(case.ridge[case.group == g] == 0).all() for g in range(len(case.norm))])
    if np.isfinite([case.lower, case.upper]).any():
        slope, lone = case.slope[:, None], (case.ridge == 0)[:, None]
        up = lone & np.isinf(case.upper)[:, None] & (-s * G > slope)
        down = lone & np.isinf(case.lower)[:, None] & (s * G > slope)
        return not (up.any() or down.any())
    return not (hard & (length > case.norm)).any()


def conjugate(case: Structured, G: Array) -> float:
    """The conjugate at ``-G``, a feasible one."""
    if np.isfinite([case.lower, case.upper]).any():
        total = 0.0
        for pull, limit in ((-G, case.upper), (G, -case.lower)):
            for j in range(len(G)):
                for excess in np.maximum(pull[j] - case.slope[j], 0.0):
                    best = min(excess / case.ridge[j] if case.ridge[j] > 0 else np.inf, limit[j])
                    if excess > 0 and np.isfinite(best):
                        total += excess * best - 0.5 * case.ridge[j] * best**2
        return total
    excess = np.maximum(lengths(case, soft(G, case.slope[:, None])) - case.norm, 0.0)
    ridge = np.array([case.ridge[case.group == g][0] for g in range(len(case.norm))])
    return float(np.sum(excess[ridge > 0] ** 2 / (2.0 * ridge[ridge > 0])))


def judge(case: Structured, w: Array, b: Array) -> Judgement:
    assert np.all((w >= case.lower[:, None]) & (w <= case.upper[:, None]))
    loss, R = loss_and_gradient(case, w, b)
    G = case.X.T @ R[:, case.outputs]
    low, high = 0.0, 1.0
    if inside(case, G, 1.0):
        low = 1.0
    else:
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if inside(case, G, middle) else (low, middle)
    # -sum_i c_i l*(s r_i / c_i), l(eta) = log sum exp(eta + offset) - Y eta: entropy of Q = Y + s r / c, plus r' offset
    c = case.weight[:, None]
    Q = case.Y + low * np.divide(R, c, out=np.zeros_like(R), where=c > 0)
    entropy = -np.sum(c * Q * np.log(np.where(Q > 0, Q, 1.0)))
    # the offset enters the loss with the labels, too: log-loss of eta + offset under Y
    dual = entropy + low * np.sum(R * case.offset) - conjugate(case, low * G)
    objective = loss + penalty(case, w)
    imbalance = np.abs(R[:, case.outputs].sum(axis=0)).max() if case.fit_intercept else 0.0
    return Judgement(objective, objective - dual, float(imbalance))


def shrink(case: Structured, a: Array, step: float) -> Array:
    w = soft(a, step * case.slope[:, None])
    length = lengths(case, w)
    factor = np.where(length > 0, np.maximum(1.0 - step * case.norm / np.where(length > 0, length, 1.0), 0.0), 0.0)
    w = w * factor[case.group][:, None] / (1.0 + step * case.ridge[:, None])
    return np.clip(w, case.lower[:, None], case.upper[:, None])


def descend(case: Structured, steps: int = 20_000, tol: float = 1e-11) -> tuple[Array, Array]:
    """Accelerated proximal gradient with restarts, until the objective stands still or the gap is small."""
    n, d = case.X.shape
    q = case.Y[:, case.outputs].shape[1]
    ones = np.column_stack([case.X, np.full(n, float(case.fit_intercept))])
    L = 0.5 * np.linalg.norm(np.sqrt(case.weight)[:, None] * ones, 2) ** 2
    w, b = np.zeros((d, q)), np.zeros(q)
    vw, vb, t, last = w, b, 1.0, np.inf
    for step in range(steps):
        _, R = loss_and_gradient(case, vw, vb)
        R = R[:, case.outputs]
        new_w = shrink(case, vw - case.X.T @ R / L, 1.0 / L)
        new_b = vb - R.sum(axis=0) / L if case.fit_intercept else b
        value = loss_and_gradient(case, new_w, new_b)[0] + penalty(case, new_w)
        if value > last:
            vw, vb, t, last = w, b, 1.0, np.inf
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        vw, vb = new_w + (t - 1.0) / following * (new_w - w), new_b + (t - 1.0) / following * (new_b - b)
        w, b, t, last = new_w, new_b, following, value
        if step % 50 == 49:
            found = judge(case, w, b)
            if found.gap + found.imbalance * (1.0 + np.abs(b).sum()) < tol * max(1.0, value):
                break
    return w, b


def random_structured(seed: int) -> Structured:
    """A small problem with a random choice of everything."""
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(20, 50)), int(rng.integers(2, 9)), int(rng.integers(2, 5))
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1)) * (rng.random() < 0.3)
    scores = X @ (rng.standard_normal((d, K)) * (rng.random((d, 1)) < 0.6)) + rng.gumbel(size=(n, K))
    labels = scores.argmax(axis=1)
    labels[rng.permutation(n)[:K]] = np.arange(K)
    Y = np.eye(K)[labels]
    group = np.sort(rng.integers(0, d, d)) if rng.random() < 0.6 else np.arange(d)
    group = rng.permutation(np.unique(group, return_inverse=True)[1])
    strength = rng.choice([0.3, 1.0, 3.0])
    limits = rng.random() < 0.5
    lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
    if limits:
        group = np.arange(d)
        lower = rng.choice([-np.inf, 0.0, -0.1, -0.5], d)
        upper = rng.choice([np.inf, 0.0, 0.1, 0.5], d)
    sizes = np.bincount(group)
    both = rng.random() < 0.4
    factors = rng.choice([0.5, 1.0, 2.0], len(sizes))
    norm = np.zeros(d) if limits else strength * factors * np.sqrt(sizes) * (0.5 if both else 1.0)
    slope = strength * factors * (1.0 if limits else 0.5 * both)
    ridge = strength * factors * 0.3 * (rng.random() < 0.3)
    return Structured(
        X,
        Y,
        rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.4 else np.ones(n),
        np.zeros((n, K)),
        group,
        norm,
        slope[group],
        ridge[group],
        lower,
        upper,
        "reference" if K > 2 and rng.random() < 0.3 else "symmetric",
        bool(rng.random() < 0.8),
    )
