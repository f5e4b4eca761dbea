"""Ranges of probabilities, each part against formulas, samplers and libraries that share no code with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from smaller import SBMLR, SMLR
from smaller.bases import Linear
from smaller.designs import as_design
from smaller.inference import approximate
from smaller.inference.logits import gradients, logits, probabilities
from smaller.inference.posterior import quantile
from smaller.inference.reach import left_out_variance
from smaller.likelihoods import Multinomial, Probit
from smaller.priors import ElasticNet, Laplace
from smaller.problem import Problem, Status
from smaller.searches.refit import refit

Array = Any


def draw(n: int, p: int, seed: int = 0, K: int = 2, signal: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    W = np.zeros((p, K))
    W[:signal] = rng.choice([-1.0, 1.0], (signal, K))
    return X, np.argmax(X @ W + rng.gumbel(size=(n, K)), axis=1)


# --- log-odds and their gradients ---


@pytest.mark.parametrize("likelihood", [Multinomial(2), Multinomial(3), Multinomial(4, "reference"), Probit(3)])
def test_logits_and_their_gradients_by_differences(likelihood: Any) -> None:
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(5, likelihood.n_outputs))
    P = likelihood.predict(eta)
    m = logits(likelihood, eta)
    assert_allclose(m, special.logit(P), rtol=1e-10, atol=1e-12)
    assert_allclose(probabilities(likelihood, m), P, rtol=1e-12)
    g = gradients(likelihood, eta)
    for l in range(likelihood.n_outputs):  # noqa: E741
        step = 1e-6 * np.eye(likelihood.n_outputs)[l]
        slope = (logits(likelihood, eta + step) - logits(likelihood, eta - step)) / 2e-6
        assert_allclose(g[:, :, l], slope, atol=1e-8)


def test_logits_of_extreme_outputs_are_exact() -> None:
    eta = np.array([[1e4, 0.0, -1e4], [0.0, 0.0, 800.0]])
    m = logits(Multinomial(3), eta)
    assert_allclose(m[0], [1e4, -1e4, -2e4])
    assert_allclose(m[1, 2], 800.0 - np.log(2.0))
    assert np.isfinite(gradients(Multinomial(3), eta)).all()


def test_a_probit_of_one_output_stays_on_its_own_scale() -> None:
    eta = np.array([[0.3], [-2.0]])
    assert_allclose(probabilities(Probit(1), logits(Probit(1), eta)), Probit(1).predict(eta))


# --- s, by a Hessian of its own ---


def softmax_hessian(X: Array, P: Array, pairs: list[tuple[int, int]], c: Array) -> Array:
    H = np.zeros((len(pairs),) * 2)
    for i, (j, k) in enumerate(pairs):
        for m, (h, r) in enumerate(pairs):
            H[i, m] = np.sum(c * X[:, j] * X[:, h] * P[:, k] * ((k == r) - P[:, r]))
    return H


@pytest.mark.parametrize("coding", ["symmetric", "reference"])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_standard_errors_are_those_of_the_active_weights(K: int, coding: str) -> None:
    X, y = draw(120, 6, K, K)
    c = np.random.default_rng(1).integers(1, 4, 120).astype(float)
    model = SMLR(alpha=6.0, coding=coding, posterior=True, tol=1e-12).fit(X, y, c)
    P = model.predict_proba(X)
    ones = np.column_stack([X, np.ones(120)])
    coef = np.vstack([np.zeros(6), model.coef_]) if K == 2 else model.coef_
    last = K - 1 if K > 2 else 0
    pairs = [(j, k) for j in range(6) for k in range(K) if coef[k, j] != 0]
    pairs += [(6, k) for k in range(K) if k != last]
    C = np.linalg.inv(softmax_hessian(ones, P, pairs, c))
    s = model._posterior.standard_errors(X[:7])
    for i in range(7):
        for k in range(K):
            g = -P[i] / (1.0 - P[i, k])
            g[k] = 1.0
            J = np.array([g[r] * ones[i, j] for j, r in pairs])
            assert s[i, k] == pytest.approx(np.sqrt(J @ C @ J), rel=1e-6)


def waves(K: int) -> tuple[Array, Array]:
    """Rows made without random numbers, so that other programs can be given the same."""
    i = np.arange(90)
    X = np.column_stack([np.sin(i), np.sin(0.7 * i + 1.0)])
    scores = np.column_stack([np.sin(i + 2.0 * k) + 1.5 * np.cos(5.0 * i + 3.0 * k) for k in range(K)])
    return X, scores.argmax(axis=1)


def newton(X: Array, y: Array, K: int) -> tuple[Array, Array]:
    """Maximum likelihood of the last K - 1 classes against class 0, and its covariance; class by class, ones last."""
    A = np.column_stack([X, np.ones(len(X))])
    m = A.shape[1]
    theta = np.zeros((K - 1, m))
    for _ in range(60):
        P = special.softmax(np.column_stack([np.zeros(len(A)), A @ theta.T]), axis=1)[:, 1:]
        g = (A.T @ (P - (y[:, None] == np.arange(1, K)))).T.ravel()
        H = np.block(
            [[A.T @ ((P[:, k] * ((k == r) - P[:, r]))[:, None] * A) for r in range(K - 1)] for k in range(K - 1)]
        )
        theta = theta - np.linalg.solve(H, g).reshape(K - 1, m)
    return theta, np.linalg.inv(H)


@pytest.mark.parametrize("way", ["range", "refit"])
@pytest.mark.parametrize("K", [2, 3])
def test_without_a_penalty_they_are_those_of_maximum_likelihood(K: int, way: str) -> None:
    X, y = waves(K)
    theta, C = newton(X, y, K)
    A = np.column_stack([X, np.ones(len(X))])
    if way == "range":
        s = SMLR(alpha=0.0, posterior=True, tol=1e-14, coding="reference").fit(X, y)._posterior.standard_errors(X)
    else:  # the ridge of the refit as small as it may be, its Hessian without it
        likelihood = Multinomial(K)
        problem = Problem(as_design(X), likelihood.encode(y), None, likelihood, Laplace(1.0))
        q = likelihood.n_outputs
        w = np.full((2, q), 0.1) if K == 2 else np.array([[0.1, 0.0, -0.1], [0.1, 0.0, -0.1]])
        again = refit(problem, w, np.zeros(q), strength=1e-12)
        origin = np.arange(2), np.ones(2), np.zeros(2)
        s = approximate(problem, again.w, again.b, Status.CONVERGED, Linear(), origin).standard_errors(X)
    P = special.softmax(np.column_stack([np.zeros(len(A)), A @ theta.T]), axis=1)
    for k in range(K):
        g = -P[:, 1:] / (1.0 - P[:, [k]])
        if k:
            g[:, k - 1] = 1.0
        J = (g[:, :, None] * A[:, None, :]).reshape(len(A), -1)
        assert_allclose(s[:, k], np.sqrt(np.einsum("ij,jk,ik->i", J, C, J)), rtol=1e-10)


@pytest.mark.parametrize("K", [2, 3])
def test_and_maximum_likelihood_here_is_that_of_statsmodels(K: int) -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    X, y = waves(K)
    theta, C = newton(X, y, K)
    model = api.Logit if K == 2 else api.MNLogit
    fit = model(y, np.column_stack([X, np.ones(len(X))])).fit(disp=0, method="newton", tol=1e-14, maxiter=100)
    assert_allclose(np.asarray(fit.params).T.reshape(K - 1, 3), theta, rtol=1e-10, atol=1e-12)
    assert_allclose(np.asarray(fit.bse).T.ravel(), np.sqrt(np.diag(C)), rtol=1e-10)


# --- against a sampler ---


@pytest.fixture
def sampler() -> Any:
    return pytest.importorskip("benchmarks.coverage.sampler", reason="benchmarks/ is not part of this copy")


def test_the_sampler_draws_polya_gammas_right(sampler: Any) -> None:
    rng = np.random.default_rng(0)
    for c in (0.0, 1.0, 4.0):
        drawn = sampler.polya_gamma(np.full(20000, c), rng)
        mean = 0.25 if c == 0 else np.tanh(c / 2) / (2 * c)
        variance = 1 / 24 if c == 0 else (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)
        assert drawn.mean() == pytest.approx(mean, rel=0.02)
        assert drawn.var() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(("n", "p"), [(60, 5), (100, 20), (400, 10)])
def test_with_all_features_kept_the_width_is_that_of_the_posterior(n: int, p: int, sampler: Any) -> None:
    X, y = draw(n, p, n + p)
    X_new = np.random.default_rng(1).normal(size=(40, p))
    model = SBMLR(posterior=True).fit(X, y)
    sampled = sampler.gibbs(X, y, model.alpha_, X_new, 1500, 2).std(axis=0)
    assert 0.9 <= np.median(sampler.everything(model, X, X_new) / sampled) <= 1.15


# --- reach ---


def brute_reach(model: Any, X: Array, c: Array, alpha: float, intercept: bool = True) -> float:
    """Leave every row out of both precision matrices, one after the other."""
    P = model.predict_proba(X)[:, 1]
    om = P * (1 - P)
    A = np.column_stack([X, np.ones(len(X))]) if intercept else X
    used = np.append(model.coef_[0] != 0, np.full(int(intercept), True))
    ratios = []
    for i in np.flatnonzero(c):
        w = c * om
        w[i] -= min(c[i], 1.0) * om[i]
        H = A.T @ (w[:, None] * A)
        all_of_it = H + np.diag(np.where(used, 0.0, alpha**2 / 2))
        wide = A[i] @ np.linalg.solve(all_of_it, A[i])
        narrow = A[i, used] @ np.linalg.solve(H[np.ix_(used, used)], A[i, used])
        ratios += [np.sqrt(wide / narrow)] * int(c[i])
    return float(np.median(ratios))


@pytest.mark.parametrize(("n", "p", "intercept"), [(80, 20, True), (40, 60, True), (40, 60, False)])
def test_reach_leaves_every_row_out(n: int, p: int, intercept: bool) -> None:
    X, y = draw(n, p, 3)
    c = np.random.default_rng(0).integers(0, 3, n).astype(float)
    model = SMLR(alpha=3.0, posterior=True, fit_intercept=intercept, tol=1e-10).fit(X, y, c)
    assert model.reach_ == pytest.approx(brute_reach(model, X, c, 3.0, intercept), rel=1e-6)


def test_reach_grows_with_the_columns_and_falls_with_the_rows() -> None:
    found = [SBMLR(posterior=True).fit(*draw(n, p, 5)).reach_ for n, p in [(2000, 50), (200, 200), (400, 1000)]]
    assert found == sorted(found)
    assert found[0] < 1.5 < found[1]


@pytest.mark.parametrize(("slope", "ridge"), [(2.0, 0.0), (0.5, 0.5), (3.0, 0.01), (1e-3, 1.0), (100.0, 1e-6)])
def test_the_variance_of_the_prior_is_its_second_moment(slope: float, ridge: float) -> None:
    def density(w: float) -> float:
        return float(np.exp(-slope * w - 0.5 * ridge * w**2))

    top = 60.0 / max(slope, np.sqrt(ridge))
    moments = [integrate.quad(lambda w, k=k: w**k * density(w), 0, top)[0] for k in (0, 2)]
    variance = left_out_variance(ElasticNet(slope, ridge), 1)
    assert variance[0] == pytest.approx(moments[1] / moments[0], rel=1e-6)


def test_the_laplace_variance_follows_the_penalty_factors() -> None:
    assert_allclose(left_out_variance(Laplace(2.0, np.array([[1.0], [2.0]])), 2), [0.5, 0.125])


# --- the level ---


def test_the_quantile_is_two_sided() -> None:
    assert quantile(0.9) == pytest.approx(stats.norm.ppf(0.95))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90, float("nan")])
def test_a_level_is_between_zero_and_one(level: float) -> None:
    with pytest.raises(ValueError, match="level must be"):
        quantile(level)
