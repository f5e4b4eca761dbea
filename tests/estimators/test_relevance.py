"""RVC and RVR: predictions, intervals, words of warning, and the bands that a prototype set."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from smaller import RVC, RVR
from smaller.datasets import make_sinc

Array = Any


def noisy(n: int = 60, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=n) > 0.5).astype(int)


def dense_evidence(model: RVC, X: Array, codes: Array) -> float:
    """Laplace's evidence from the fitted attributes alone, in the user's units."""
    q = model.dual_coef_.shape[0]
    K = np.exp(-model.gamma * ((X[:, None] - model.support_vectors_) ** 2).sum(axis=2))
    eta = K @ model.dual_coef_.T + model.intercept_
    full = np.column_stack([np.zeros(len(X)), eta]) if q == 1 else eta
    P = np.exp(full - full.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    loss = -np.log(P[np.arange(len(X)), codes]).sum()
    P = P[:, 1:] if q == 1 else P
    outputs, columns = np.nonzero(np.isfinite(model.relevance_))
    a, w = model.relevance_[outputs, columns], model.dual_coef_[outputs, columns]
    free = q if q == 1 else q - 1
    D = np.column_stack([K[:, columns], np.ones((len(X), free))])
    outputs = np.append(outputs, np.arange(free))
    rows = P[:, :, None] * np.eye(q) - P[:, :, None] * P[:, None, :]
    H = np.einsum("ni,nj,nij->ij", D, D, rows[:, outputs][:, :, outputs]) + np.diag(np.append(a, np.zeros(free)))
    value = -loss - 0.5 * a @ w**2 + 0.5 * np.log(a).sum() - 0.5 * np.linalg.slogdet(H)[1]
    return float(value + 0.5 * free * math.log(2 * math.pi))


def test_evidence_follows_from_the_attributes() -> None:
    X, y = noisy()
    two = RVC(gamma=0.5).fit(X, y)
    assert_allclose(two.log_evidence_, dense_evidence(two, X, y), atol=1e-8)
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    three = RVC(gamma=0.25).fit(X, y)
    assert_allclose(three.log_evidence_, dense_evidence(three, X, y), atol=1e-7)


def test_regression_evidence_follows_from_the_attributes() -> None:
    X, y = make_sinc(50, random_state=3)
    model = RVR(gamma=0.2).fit(X, 7.0 + 30.0 * y)
    K = np.exp(-0.2 * (X - model.support_vectors_.T) ** 2)
    covariance = model.noise_variance_ * np.eye(50) + (K / model.relevance_) @ K.T
    basis = np.linalg.qr(np.column_stack([np.ones(50), np.eye(50)[:, 1:]]))[0][:, 1:]
    C, t = basis.T @ covariance @ basis, basis.T @ (30.0 * y)
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * C)[1] + t @ np.linalg.solve(C, t))
    assert_allclose(model.log_evidence_, expected, rtol=1e-9)


def test_standard_deviations_are_those_of_the_dense_posterior() -> None:
    X, y = make_sinc(60, random_state=0)
    model = RVR(gamma=0.2).fit(X, y)
    new = np.linspace(-12, 12, 9)[:, None]
    mean, std = model.predict(new, return_std=True)
    K, k = (np.exp(-0.2 * (rows - model.support_vectors_.T) ** 2) for rows in (X, new))
    d = k - K.mean(axis=0)
    K = K - K.mean(axis=0)
    noise = model.noise_variance_
    Sigma = np.linalg.inv(K.T @ K / noise + np.diag(model.relevance_))
    assert_allclose(std**2, noise + noise / 60 + np.einsum("ij,jk,ik->i", d, Sigma, d), rtol=1e-7)
    assert_allclose(mean, model.predict(new))


def test_intervals_cover_new_observations() -> None:
    inside = []
    for seed in range(10):
        X, y = make_sinc(100, random_state=seed)
        model = RVR(gamma=0.195).fit(X, y)
        X, y = make_sinc(400, random_state=100 + seed)
        mean, std = model.predict(X, return_std=True)
        inside.append(np.mean(np.abs(y - mean) < 1.96 * std))
    assert 0.91 < np.mean(inside) < 0.97


def test_moderation_shrinks_where_the_data_leave_much_open() -> None:
    X, y = noisy()
    model = RVC(gamma=0.5).fit(X, y)
    plain = RVC(gamma=0.5, moderate=False).fit(X, y)
    near, far = model.decision_function(X), plain.decision_function(X)
    assert (np.abs(near) <= np.abs(far)).all()
    assert np.array_equal(np.sign(near), np.sign(far))
    K = np.exp(-0.5 * ((X[:, None] - model.support_vectors_) ** 2).sum(axis=2))
    P = 1.0 / (1.0 + np.exp(-far))
    D = np.column_stack([K, np.ones(len(X))])
    H = (D * (P * (1 - P))[:, None]).T @ D + np.diag(np.append(model.relevance_[0], 0.0))
    variance = np.einsum("ij,jk,ik->i", D, np.linalg.inv(H), D)
    assert_allclose(near, far / np.sqrt(1 + np.pi / 8 * variance), rtol=1e-6)


def test_several_classes_are_moderated_towards_equal_shares() -> None:
    X, y = load_iris(return_X_y=True)
    X = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    P, certain = (RVC(gamma=0.2, moderate=how).fit(X, y).predict_proba(X) for how in (True, False))
    assert_allclose(P.sum(axis=1), 1.0)
    assert P.max(axis=1).mean() < certain.max(axis=1).mean()
    assert np.mean(P.argmax(axis=1) == certain.argmax(axis=1)) > 0.97


def test_linear_basis_finds_the_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30))
    t = 3.0 * X[:, 4] - 2.0 * X[:, 9] + 0.5 * rng.normal(size=200)
    model = RVR(kernel=None).fit(X, t)
    assert {4, 9} <= set(model.active_features_)
    assert model.n_active_ < 12
    assert_allclose(model.coef_[[4, 9]], [3.0, -2.0], atol=0.15)
    assert len(model.relevance_) == model.n_active_
    classifier = RVC(kernel=None).fit(X, t > 0)
    assert {4, 9} <= set(classifier.active_features_)


def test_features_need_no_common_scale() -> None:
    """Columns are brought to one length inside: units of the features do not change the model."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 6))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=80) > 0
    units = np.array([1e-3, 1.0, 1e4, 1.0, 1e-6, 10.0])
    one, other = RVC(kernel=None).fit(X, y), RVC(kernel=None).fit(X * units + 5.0 * units, y)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-8)
    assert_allclose(one.predict_proba(X), other.predict_proba(X * units + 5.0 * units), atol=1e-6)


def test_constant_responses_and_single_rows() -> None:
    X, _ = make_sinc(20, random_state=0)
    model = RVR().fit(X, np.full(20, 3.5))
    assert model.n_active_ == 0
    assert_allclose(model.predict(X), 3.5)
    assert model.noise_variance_ == 0.0
    assert_allclose(RVR().fit(X[:1], [2.0]).predict(X[:2]), 2.0)
    two = RVR().fit(X[:2], [1.0, 2.0])
    assert np.isfinite(two.predict(X)).all()


def test_a_kernel_that_is_too_narrow_is_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match="too narrow"):
        RVC(gamma=5.0).fit(X, y)


def test_an_interpolation_is_named() -> None:
    X = np.linspace(0, 1, 12)[:, None]
    with pytest.warns(UserWarning, match="interpolates"):
        RVR(kernel=None).fit(X, 2.0 * X[:, 0])


def test_noise_labels_are_named_if_nothing_is_kept() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RVC(gamma=0.01).fit(X, y)
    assert (model.n_active_ == 0) == any("kept no kernel" in str(w.message) for w in caught)


def test_sinc_within_the_band() -> None:
    """Mean over twenty draws; the prototype had .052 and 5.1 columns."""
    errors, kept = [], []
    grid = np.linspace(-10, 10, 400)[:, None]
    for seed in range(20):
        X, y = make_sinc(50, random_state=seed)
        model = RVR(gamma=1 / (2 * 1.6**2)).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(grid) - np.sinc(grid[:, 0] / np.pi)) ** 2)))
        kept.append(model.n_active_)
    assert np.mean(errors) <= 0.060
    assert 4 <= np.mean(kept) <= 7
