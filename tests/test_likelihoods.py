"""Every likelihood obeys the contract: derivatives, bounds, duality, weights, extremes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import array_api_strict
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from smaller import arrays
from smaller.likelihoods import ALL_LIKELIHOODS, Gaussian, Multinomial, Probit

seeds = st.integers(0, 2**32 - 1)
every_likelihood = pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=repr)
MULTINOMIAL = [Multinomial(2), Multinomial(3), Multinomial(4), Multinomial(5, "reference")]


def sample(likelihood: Any, seed: int, n: int = 12, scale: float = 2.0) -> tuple[Any, Any, Any]:
    """Return (eta, y, weight) with every class present."""
    rng = np.random.default_rng(seed)
    if isinstance(likelihood, Gaussian):
        labels = rng.standard_normal(n)
    else:
        K = getattr(likelihood, "n_classes", max(2, likelihood.n_outputs))
        labels = rng.permutation(np.arange(n) % K)
    eta = scale * rng.standard_normal((n, likelihood.n_outputs))
    return eta, likelihood.encode(labels), rng.random(n) + 0.1


@every_likelihood
@given(seed=seeds, weighted=st.booleans())
def test_gradient_by_differences(likelihood: Any, seed: int, weighted: bool) -> None:
    eta, y, weight = sample(likelihood, seed)
    weight = weight if weighted else None
    _, gradient = likelihood.evaluate(eta, y, weight)
    direction = np.random.default_rng(seed + 1).standard_normal(eta.shape)
    h = 1e-5
    up, _ = likelihood.evaluate(eta + h * direction, y, weight)
    down, _ = likelihood.evaluate(eta - h * direction, y, weight)
    expected = (up - down) / (2 * h)
    assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@every_likelihood
@given(seed=seeds)
def test_curvature_by_differences(likelihood: Any, seed: int) -> None:
    eta, y, weight = sample(likelihood, seed)
    V = np.random.default_rng(seed + 1).standard_normal(eta.shape)
    h = 1e-5
    _, up = likelihood.evaluate(eta + h * V, y, weight)
    _, down = likelihood.evaluate(eta - h * V, y, weight)
    curvature = likelihood.curvature(eta, y, weight)
    np.testing.assert_allclose(curvature.apply(V), (up - down) / (2 * h), atol=1e-7)


def dense_hessians(curvature: Any, q: int) -> Any:
    return np.moveaxis(np.array([[curvature.block(k, l) for l in range(q)] for k in range(q)]), 2, 0)  # noqa: E741


@every_likelihood
def test_the_views_of_a_curvature_agree(likelihood: Any) -> None:
    eta, y, weight = sample(likelihood, 3)
    q = likelihood.n_outputs
    for bound in (False, True):
        curvature = likelihood.curvature(eta, y, weight, bound=bound)
        H = dense_hessians(curvature, q)
        np.testing.assert_allclose(curvature.apply(eta), np.einsum("nkl,nl->nk", H, eta), atol=1e-14)
        np.testing.assert_allclose(curvature.diagonal(), np.einsum("nkk->nk", H), atol=1e-15)
        damped = curvature.damped(np.arange(len(eta)), weight)
        added = np.arange(len(eta)) * (1.0 if weight is None else weight)
        np.testing.assert_allclose(dense_hessians(damped, q), H + added[:, None, None] * np.eye(q), atol=1e-13)


@every_likelihood
@given(seed=seeds, scale=st.sampled_from([0.01, 1.0, 10.0, 1e3]))
def test_the_bound_lies_above_the_hessian(likelihood: Any, seed: int, scale: float) -> None:
    eta, y, weight = sample(likelihood, seed, scale=scale)
    q = likelihood.n_outputs
    exact = dense_hessians(likelihood.curvature(eta, y, weight), q)
    bound = dense_hessians(likelihood.curvature(eta, y, weight, bound=True), q)
    assert np.linalg.eigvalsh(exact).min() >= -1e-12
    assert np.linalg.eigvalsh(bound - exact).min() >= -1e-12
    np.testing.assert_array_equal(bound, dense_hessians(likelihood.curvature(0 * eta, y, weight, bound=True), q))


@every_likelihood
@pytest.mark.parametrize("size", [1e4, -1e4, 1e8])
def test_extreme_predictors_stay_finite(likelihood: Any, size: float) -> None:
    eta, y, weight = sample(likelihood, 0)
    eta = size * np.sign(eta)
    loss, gradient = likelihood.evaluate(eta, y, weight)
    curvature = likelihood.curvature(eta, y, weight)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    assert np.isfinite(curvature.apply(np.ones_like(eta))).all()
    P = likelihood.predict(eta)
    assert np.isfinite(P).all()
    if not isinstance(likelihood, Gaussian):
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)


@every_likelihood
@given(seed=seeds)
def test_weight_is_repetition(likelihood: Any, seed: int) -> None:
    eta, y, _ = sample(likelihood, seed)
    times = np.random.default_rng(seed).integers(1, 4, len(eta))
    again = np.repeat(np.arange(len(eta)), times)
    loss, gradient = likelihood.evaluate(eta, y, times.astype(float))
    repeated, rows = likelihood.evaluate(eta[again], y[again], None)
    assert loss == pytest.approx(repeated, rel=1e-12)
    np.testing.assert_allclose(gradient.sum(axis=0), rows.sum(axis=0), atol=1e-12)
    expected = likelihood.null(y[again], None)
    np.testing.assert_allclose(likelihood.null(y, times.astype(float)), expected, rtol=1e-9, atol=1e-12)


@every_likelihood
@given(seed=seeds, weighted=st.booleans())
def test_null_is_the_best_intercept(likelihood: Any, seed: int, weighted: bool) -> None:
    eta, y, weight = sample(likelihood, seed)
    weight = weight if weighted else None
    b = likelihood.null(y, weight)
    loss, gradient = likelihood.evaluate(0 * eta + b, y, weight)
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-12)
    best = optimize.minimize(lambda x: likelihood.evaluate(0 * eta + x, y, weight)[0], b + 0.3)
    assert loss <= best.fun + 1e-12 * abs(best.fun)
    assert loss == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("likelihood", [*MULTINOMIAL, Probit(1), Probit(3)], ids=repr)
@given(seed=seeds)
def test_predictions_are_probabilities(likelihood: Any, seed: int) -> None:
    eta, _, _ = sample(likelihood, seed, scale=20.0)
    P = likelihood.predict(eta)
    assert P.shape == (len(eta), max(2, getattr(likelihood, "n_classes", likelihood.n_outputs)))
    assert P.min() >= 0.0
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("likelihood", MULTINOMIAL, ids=repr)
@given(seed=seeds)
def test_the_loss_is_the_log_loss_of_the_prediction(likelihood: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = likelihood.n_classes
    labels, weight = rng.integers(0, K, 9), rng.random(9)
    eta = 3 * rng.standard_normal((9, likelihood.n_outputs))
    P = likelihood.predict(eta)
    loss, _ = likelihood.evaluate(eta, likelihood.encode(labels), weight)
    assert loss == pytest.approx(-np.sum(weight * np.log(P[np.arange(9), labels])), rel=1e-11)


@given(seed=seeds)
def test_two_classes_are_logistic_regression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, eta = rng.integers(0, 2, 9), 5 * rng.standard_normal((9, 1))
    for coding in ("symmetric", "reference"):
        likelihood = Multinomial(2, coding)
        loss, gradient = likelihood.evaluate(eta, likelihood.encode(labels), None)
        sign = 2 * labels - 1
        assert loss == pytest.approx(np.sum(np.log1p(np.exp(-sign * eta[:, 0]))), rel=1e-12)
        p = 1 / (1 + np.exp(-eta[:, 0]))
        np.testing.assert_allclose(gradient[:, 0], p - labels, atol=1e-14)
        np.testing.assert_allclose(likelihood.predict(eta)[:, 1], p, rtol=1e-12)


@given(seed=seeds, K=st.integers(3, 6))
def test_relabelling_the_classes_changes_nothing(seed: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    likelihood, labels, order = Multinomial(K), rng.integers(0, K, 9), rng.permutation(K)
    eta = 3 * rng.standard_normal((9, K))
    place = np.argsort(order)  # class k becomes place[k]
    loss, gradient = likelihood.evaluate(eta, likelihood.encode(labels), None)
    renamed, permuted = likelihood.evaluate(eta[:, order], likelihood.encode(place[labels]), None)
    assert renamed == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(permuted, gradient[:, order], atol=1e-14)
    shifted, _ = likelihood.evaluate(eta + rng.standard_normal((9, 1)), likelihood.encode(labels), None)
    assert shifted == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("likelihood", MULTINOMIAL, ids=repr)
@given(seed=seeds, weighted=st.booleans(), s=st.floats(0, 1))
def test_weak_duality_and_equality_at_the_probabilities(likelihood: Any, seed: int, weighted: bool, s: float) -> None:
    """-sum f*(r) + <r, eta> <= f(eta), with equality when r is the gradient."""
    eta, y, weight = sample(likelihood, seed)
    weight = weight if weighted else None
    loss, residual = likelihood.evaluate(eta, y, weight)
    dual = likelihood.dual(residual, y, weight)
    assert dual + np.sum(residual * eta) == pytest.approx(loss, rel=1e-10)
    other, _ = likelihood.evaluate(np.roll(eta, 1, axis=0), y, weight)
    assert likelihood.dual(s * residual, y, weight) + s * np.sum(residual * np.roll(eta, 1, axis=0)) <= other + 1e-9
    assert likelihood.dual(0 * residual, y, weight) == pytest.approx(0.0, abs=1e-12)


@given(seed=seeds, variance=st.floats(0.1, 10.0))
def test_gaussian_duality(seed: int, variance: float) -> None:
    likelihood = Gaussian(variance)
    eta, y, weight = sample(likelihood, seed)
    for c in (None, weight):
        loss, residual = likelihood.evaluate(eta, y, c)
        assert likelihood.dual(residual, y, c) + np.sum(residual * eta) == pytest.approx(loss, rel=1e-9)
        other, _ = likelihood.evaluate(2 * eta, y, c)
        assert likelihood.dual(residual, y, c) + np.sum(residual * 2 * eta) <= other * (1 + 1e-12)


def test_probit_has_no_dual() -> None:
    eta, y, weight = sample(Probit(3), 0)
    assert Probit(3).dual(eta, y, weight) is None


@pytest.mark.parametrize("likelihood", MULTINOMIAL, ids=repr)
@given(seed=seeds)
def test_soft_labels_are_mixtures_of_hard_ones(likelihood: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = likelihood.n_classes
    eta, soft = 3 * rng.standard_normal((6, likelihood.n_outputs)), rng.dirichlet(np.ones(K), size=6)
    loss, gradient = likelihood.evaluate(eta, likelihood.encode(soft), None)
    parts = [likelihood.evaluate(eta, likelihood.encode(np.full(6, k)), soft[:, k].copy()) for k in range(K)]
    assert loss == pytest.approx(sum(part[0] for part in parts), rel=1e-11)
    np.testing.assert_allclose(gradient, sum(part[1] for part in parts), atol=1e-13)
    hard = rng.integers(0, K, 6)
    np.testing.assert_array_equal(likelihood.encode(np.eye(K)[hard]), likelihood.encode(hard))


def test_zero_weights_silence_a_row() -> None:
    for likelihood in ALL_LIKELIHOODS:
        eta, y, weight = sample(likelihood, 1)
        weight[0] = 0.0
        loss, residual = likelihood.evaluate(eta, y, weight)
        eta[0] += 7.0
        assert likelihood.evaluate(eta, y, weight)[0] == pytest.approx(loss, rel=1e-15)
        assert not residual[0].any()
        dual = likelihood.dual(residual, y, weight)
        assert dual is None or np.isfinite(dual)


@given(seed=seeds)
def test_the_noise_is_re_estimated_by_maximum_likelihood(seed: int) -> None:
    likelihood = Gaussian(0.7)
    eta, y, weight = sample(likelihood, seed)
    for c in (None, weight):
        fresh = likelihood.refresh(eta, y, c)
        assert fresh.variance == pytest.approx(np.average((y - eta)[:, 0] ** 2, weights=c), rel=1e-12)
    assert likelihood.refresh(y, y, None).variance > 0.0
    assert Multinomial(3).refresh(eta, y, None) == Multinomial(3)
    assert replace(likelihood, variance=2.0).variance == 2.0


def test_unknown_coding_is_refused() -> None:
    with pytest.raises(ValueError, match="coding must be 'symmetric' or 'reference'"):
        Multinomial(3, "onehot")


MILLS_POINTS = [
    -1e8,
    -1e6,
    -1e4,
    -1e3,
    -201.0,
    -200.0,
    -199.0,
    -50.0,
    -10.0,
    -5.0,
    -1.0,
    0.0,
    1.0,
    5.0,
    20.0,
    30.0,
    37.0,
]


@pytest.mark.parametrize("u", MILLS_POINTS)
def test_mills_ratio_against_mpmath(u: float) -> None:
    with mpmath.workdps(60):
        # log Phi by erfc; 60 digits survive the cancellation of u + mills(u) at -1e8.
        x = mpmath.mpf(u)
        ratio = mpmath.npdf(x) / (mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
        mills, tilted = float(ratio), float(x + ratio)
        log_cdf = float(mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2))
    at = np.array([u])
    assert arrays.mills(at)[0] == pytest.approx(mills, rel=1e-13)
    assert arrays.tilted(at)[0] == pytest.approx(tilted, rel=1e-10)
    assert arrays.log_normal_cdf(at)[0] == pytest.approx(log_cdf, rel=1e-12)
    # The curvature mills * tilted lies in (0, 1): that is why the bound is 1.
    assert 0.0 < arrays.mills(at)[0] * arrays.tilted(at)[0] < 1.0 + 1e-12 or u >= 30.0


@pytest.mark.parametrize(
    "likelihood", [Multinomial(2), Multinomial(3), Multinomial(4, "reference"), Gaussian(0.7)], ids=repr
)
def test_strict_array_api_round_trip(likelihood: Any) -> None:
    eta, y, weight = sample(likelihood, 4)
    there = [array_api_strict.asarray(a) for a in (eta, y, weight)]
    loss, gradient = likelihood.evaluate(eta, y, weight)
    strict_loss, strict_gradient = likelihood.evaluate(*there)
    assert strict_loss == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(arrays.to_host(strict_gradient), gradient, atol=1e-14)
    for bound in (False, True):
        V = likelihood.curvature(*there, bound=bound).apply(there[0])
        np.testing.assert_allclose(
            arrays.to_host(V), likelihood.curvature(eta, y, weight, bound=bound).apply(eta), atol=1e-14
        )
    np.testing.assert_allclose(arrays.to_host(likelihood.predict(there[0])), likelihood.predict(eta), atol=1e-14)
    np.testing.assert_allclose(arrays.to_host(likelihood.null(*there[1:])), likelihood.null(y, weight), atol=1e-13)
    assert likelihood.dual(strict_gradient, *there[1:]) == pytest.approx(
        likelihood.dual(gradient, y, weight), rel=1e-12
    )
    if isinstance(likelihood, Multinomial):
        codes = np.array([0, 1, 1, 0])
        encoded = likelihood.encode(array_api_strict.asarray(codes))
        np.testing.assert_array_equal(arrays.to_host(encoded), likelihood.encode(codes))


@given(seed=seeds, n=st.integers(1, 8), rank=st.integers(1, 8))
def test_solve_symmetric_is_the_minimum_norm_solution_of_a_scaled_system(seed: int, n: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, min(rank, n)))
    H, g = A @ A.T, A @ rng.standard_normal(min(rank, n))
    x = arrays.solve_symmetric(H, g)
    np.testing.assert_allclose(H @ x, g, atol=1e-6 * max(1.0, np.abs(g).max()))
    two = arrays.solve_symmetric(H, np.column_stack([g, 2 * g]))
    np.testing.assert_allclose(two[:, 1], 2 * x, rtol=1e-6, atol=1e-8)
