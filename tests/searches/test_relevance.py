"""The relevance search: every number it goes by against brute force, and the traps it must not fall into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from smaller.kernels import RBF
from smaller.likelihoods import Multinomial
from smaller.problem import Status
from smaller.searches.marginal import Classes, Regression, standardise
from smaller.searches.relevance import _changed, find_relevant, gains

Array = Any


def data(n: int = 30, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-5, 5, (n, 1))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=n)


def regression(intercept: bool = True, weight: Array | None = None, seed: int = 0) -> Regression:
    X, t = data(seed=seed)
    columns = standardise(RBF(0.5)(X, X), weight, center=intercept)
    return Regression(columns.P, t, weight, fit_intercept=intercept)


def density(model: Regression, pairs: Array, a: Array, precision: float) -> float:
    """Log density of the responses with the weights integrated out; an intercept leaves what is orthogonal to ones."""
    n = len(model.t)
    P = model.P[:, pairs]
    covariance = np.eye(n) / precision + (P / a) @ P.T
    t = model.t
    if model.total > model.N:
        basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
        covariance, t = basis.T @ covariance @ basis, basis.T @ t
    return float(multivariate_normal.logpdf(t, cov=covariance))


@pytest.mark.parametrize("intercept", [True, False])
def test_evidence_and_every_gain_are_those_of_the_dense_covariance(intercept: bool) -> None:
    model = regression(intercept)
    pairs, a = np.array([3, 11, 20, 7, 25]), np.array([0.3, 2.0, 5.0, 1.0, 800.0])
    fit = model.refit(pairs, a, None)
    before = density(model, pairs, a, fit.precision)
    assert_allclose(fit.log_evidence, before, rtol=1e-10)
    change = gains(fit)
    kinds = {"add": 0, "move": 0, "delete": 0}
    for j in np.flatnonzero(change.gain):
        inside = j in pairs
        kinds["add" if not inside else "move" if np.isfinite(change.a[j]) else "delete"] += 1
        others = pairs != j
        after_pairs, after_a = pairs[others], a[others]
        if np.isfinite(change.a[j]):
            after_pairs, after_a = np.append(after_pairs, j), np.append(after_a, change.a[j])
        assert_allclose(density(model, after_pairs, after_a, fit.precision) - before, change.gain[j], atol=1e-10)
    assert min(kinds.values()) > 0, kinds


def test_gains_of_clipped_strengths_are_exact_too() -> None:
    model = regression()
    fit = model.refit(np.array([3, 11]), np.array([0.3, 2.0]), None)
    change = gains(fit)
    shifted = np.clip(change.a, 10.0, 1e12)
    j = int(np.flatnonzero(shifted != change.a)[0])
    S, Q, a = fit.S[j], fit.Q[j], 10.0
    gain = 0.5 * (Q**2 / (a + S) - math.log1p(S / a))
    after = density(model, np.append(fit.pairs, j), np.append(fit.a, a), fit.precision)
    assert_allclose(after - fit.log_evidence, gain, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_laplace_evidence_overlap_and_quality_are_those_of_dense_matrices(n_classes: int, intercept: bool) -> None:
    """The evidence at the mode, and S and Q of every pair in and out, from the joint Hessian written out."""
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(40, 2)), rng.integers(0, n_classes, 40)
    labels = np.where(X[:, 0] ** 2 > 1, 0, labels)
    columns = standardise(RBF(0.7)(X, X), None, center=intercept)
    likelihood = Multinomial(n_classes)
    model = Classes(columns.P, likelihood, likelihood.encode(labels), None, fit_intercept=intercept)
    q = model.n_outputs
    pairs = np.array([2 * q, 9 * q + q - 1, 9 * q, 17 * q + q - 1])[: 4 if q > 1 else 3]
    pairs = np.unique(pairs)
    a = np.linspace(0.5, 3.0, len(pairs))
    fit = model.refit(pairs, a, None)
    f = model.n_free
    D = np.column_stack([columns.P[:, pairs // q], np.ones((40, f))])
    outputs = np.append(pairs % q, np.arange(f))
    eta = np.zeros((40, q)) + fit.b
    np.add.at(eta.T, pairs % q, (D[:, : len(pairs)] * fit.w).T)
    full = np.column_stack([np.zeros(40), eta]) if q == 1 else eta
    P = np.exp(full - full.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    loss = -np.log(P[np.arange(40), labels]).sum()
    P = P[:, 1:] if q == 1 else P
    rows = P[:, :, None] * np.eye(q) - P[:, :, None] * P[:, None, :]  # (n, q, q)
    H = np.einsum("ni,nj,nij->ij", D, D, rows[:, outputs][:, :, outputs]) + np.diag(np.append(a, np.zeros(f)))
    evidence = -loss - 0.5 * a @ fit.w**2 + 0.5 * np.log(a).sum() - 0.5 * np.linalg.slogdet(H)[1]
    assert_allclose(fit.log_evidence, evidence + 0.5 * f * math.log(2 * math.pi), atol=1e-8)
    residual = model.y - P
    for pair in range(q * columns.P.shape[1]):
        x, k = columns.P[:, pair // q], pair % q
        cross = np.einsum("ni,n,ni->i", D, x, rows[:, outputs, k])
        S = x**2 @ rows[:, k, k] - cross @ np.linalg.solve(H, cross)
        assert_allclose([fit.S[pair], fit.Q[pair]], [S, x @ residual[:, k]], atol=1e-7)
    assert_allclose(fit.Q[pairs], a * fit.w, atol=1e-7)  # at the mode


def test_weights_are_repetitions_for_the_evidence() -> None:
    X, t = data()
    weight = np.random.default_rng(2).integers(1, 4, 30)
    K = RBF(0.5)(X, X)
    one = find_relevant(Regression(standardise(K, weight * 1.0, center=True).P, t, weight * 1.0), tol=1e-4)
    rows = np.repeat(np.arange(30), weight)
    many = find_relevant(Regression(standardise(K[rows], None, center=True).P, t[rows], None), tol=1e-4)
    assert_allclose(one.fit.log_evidence, many.fit.log_evidence, rtol=1e-9)
    assert_allclose(np.sort(one.fit.pairs), np.sort(many.fit.pairs))


def classes(X: Array, labels: Array, gamma: float) -> Classes:
    likelihood = Multinomial(int(labels.max()) + 1)
    columns = standardise(RBF(gamma)(X, X), None, center=True)
    return Classes(columns.P, likelihood, likelihood.encode(labels), None)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_state_seen_is_returned_where_the_approximate_evidence_falls(seed: int) -> None:
    """T1: noise labels under a narrow kernel make the search fall and cycle; it ends, and never below its best."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    found = find_relevant(classes(X, labels, 5.0), max_iter=400)
    assert found.status is Status.STATIONARY
    assert found.n_iter < 400
    assert found.fit.log_evidence == max(found.history)


def test_copies_of_a_column_do_not_enter_twice() -> None:
    """T2: exact copies are removed beforehand; what differs by rounding is refused by its cosine."""
    X, t = data()
    K = RBF(0.5)(X, X)
    nearly = K * (1.0 + 1e-10 * np.random.default_rng(0).normal(size=K.shape))
    columns = standardise(np.column_stack([K, K, nearly]), None, center=True)
    assert len(columns.index) == 60
    found = find_relevant(Regression(columns.P, t, None), tol=1e-4)
    alone = find_relevant(regression(), tol=1e-4)
    cosines = np.abs(columns.P[:, found.fit.pairs].T @ columns.P[:, found.fit.pairs]) / 30 - np.eye(len(found.fit.w))
    assert cosines.max() < 1 - 1e-8
    assert_allclose(found.fit.log_evidence, alone.fit.log_evidence, atol=1e-4)


def test_separated_classes_keep_finite_strengths() -> None:
    """T3: S tends to zero and the best strength with it."""
    X = np.linspace(-1, 1, 40)[:, None] + np.sign(np.linspace(-1, 1, 40))[:, None] * 3
    found = find_relevant(classes(X, (X[:, 0] > 0).astype(np.int64), 0.1))
    assert np.isfinite(found.fit.log_evidence)
    assert found.fit.a.min() >= 1e-6
    assert np.isfinite(found.fit.w).all()


def test_wide_kernels_start_from_several_columns() -> None:
    """T4: no single column of a very wide kernel gains anything on XOR, two together do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    labels = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    found = find_relevant(classes(X, labels, 0.01))
    assert len(found.fit.pairs) > 2


def test_deleting_the_last_column_gives_the_null_model() -> None:
    """The null model is a fit without columns, not one with infinite strengths."""
    model = classes(np.random.default_rng(0).normal(size=(20, 1)), np.arange(20) % 2, 1.0)
    fit = model.refit(np.array([4]), np.array([1e3]), None)
    change = gains(fit)
    change.a[4] = np.inf
    pairs, a = _changed(fit, change, 4)
    null = model.refit(pairs, a, fit)
    assert len(pairs) == 0
    assert np.isfinite(null.log_evidence)
    assert_allclose(null.b, 0.0, atol=1e-8)
