"""Adaptive sparseness: closed forms first, then convex references, then what users rely on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from smaller.datasets import make_irrelevant, make_rings, make_sinc
from smaller.designs import as_design
from smaller.estimators.adaptive import SparseProbit, SparseRegressor
from smaller.likelihoods import Gaussian, Probit
from smaller.priors import Jeffreys, Laplace
from smaller.problem import Problem, Status
from smaller.searches.adaptive import NoisePrior, Rules, adapt, expectation_maximisation, ridge_start
from smaller.solvers import solve
from smaller.solvers.reweighted import majorised_minimiser

Array = Any
few = settings(max_examples=10)


def regression(n: int = 60, d: int = 8, seed: int = 0, noise: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 3.0 * X[:, 0] - 2.0 * X[:, 1] + 1.0 + noise * rng.normal(size=n)


def classes(n: int = 80, d: int = 6, K: int = 2, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(1.5 * X[:, :K] + rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    return X, y


def probit_problem(X: Array, y: Array, prior: Any, weight: Array | None = None, intercept: bool = True) -> Problem:
    likelihood = Probit(1 if y.max() == 1 else y.max() + 1)
    return Problem(as_design(X), likelihood.encode(y), weight, likelihood, prior, intercept)


# ------------------------------------------------------------------------------------------------- the EM step


@few
@given(st.floats(0.3, 3.0))
def test_orthogonal_design_gives_the_threshold_rule(sigma: float) -> None:
    h = sigma * np.concatenate([np.linspace(-5.0, -2.06, 8), np.linspace(-1.94, 1.94, 9), np.linspace(2.06, 5.0, 8)])
    model = SparseRegressor(noise=sigma**2, fit_intercept=False, tol=1e-14, max_iter=20_000)
    root = np.sqrt(np.maximum(h**2 - 4.0 * sigma**2, 0.0))
    rule = np.where(np.abs(h) >= 2.0 * sigma, (h + np.sign(h) * root) / 2.0, 0.0)
    assert_allclose(model.fit(np.eye(len(h)), h).coef_, rule, atol=1e-8 * sigma)


@few
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_dual_and_primal_steps_agree(seed: int, intercept: bool, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 40))
    y = rng.integers(0, 3, size=15)
    y[:3] = np.arange(3)
    weight = rng.integers(0, 3, size=15).astype(float) + (np.arange(15) < 3) if weighted else None
    problem = probit_problem(X, y, Jeffreys(), weight, intercept)
    point = problem.at(rng.normal(size=(40, 3)) * (rng.random((40, 3)) < 0.9), rng.normal(size=3) * intercept)
    G = problem.gradient(point)
    dual = majorised_minimiser(problem, point, G, bound=True)
    columns = np.arange(41 if intercept else 40)
    gram = problem.design.gram(problem.curvature(point, bound=True), (columns, np.zeros_like(columns)))
    primal = majorised_minimiser(problem, point, G, bound=True, gram=gram)
    for a, b in zip(dual, primal, strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 40), (40, 90)])
def test_ridge_start_is_the_svd_ridge(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-10, 10, size=(max(shape), 1))
    H = rbf_kernel(rows[: shape[0]], rows[: shape[1]], gamma=0.125)
    t = rng.normal(size=shape[0])
    U, s, Vt = np.linalg.svd(H, full_matrices=False)
    expected = Vt.T @ (s / (s**2 + 1e-6 * np.sum(s**2) / shape[1]) * (U.T @ t))
    problem = Problem(as_design(H), t[:, None], None, Gaussian(1.0), Jeffreys(), False)
    w, _ = ridge_start(problem, 1e-6)
    assert_allclose(w[:, 0], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@few
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_laplace_em_lowers_the_objective_to_the_optimum(seed: int, K: int) -> None:
    X, y = classes(seed=seed, K=K)
    problem = probit_problem(X, y, Laplace(1.0))
    run = expectation_maximisation(
        problem, *ridge_start(problem, 1e-6), rules=Rules(tol=1e-9, max_iter=5000, prune=1e-9)
    )
    history = np.array(run.history)
    assert (np.diff(history) <= 1e-9 * history[:-1]).all()
    assert_allclose(run.point.objective, solve(problem, tol=1e-10).objective, rtol=1e-7)


@few
@given(st.integers(0, 10_000))
def test_jeffreys_ends_where_the_gradient_vanishes(seed: int) -> None:
    X, y = regression(seed=seed)
    model = SparseRegressor(tol=1e-10).fit(X, y)
    assert model.solution_.status is Status.STATIONARY
    error = y - model.predict(X)
    active = model.active_features_
    slopes = -X[:, active].T @ error / model.noise_variance_ + 1.0 / model.coef_[active]
    assert_allclose(slopes, 0.0, atol=1e-5 * len(y))
    assert_allclose(model.noise_variance_, np.mean(error**2), rtol=1e-12)
    assert_allclose(error.sum(), 0.0, atol=1e-8 * len(y))


# ------------------------------------------------------------------------------------------- convex references


@pytest.mark.parametrize("noise", [1.0, 0.25])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_laplace_with_given_noise_is_the_lasso(seed: int, noise: float) -> None:
    X, y = regression(seed=seed)
    model = SparseRegressor(prior="laplace", alpha=20.0, noise=noise).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    reference = Lasso(alpha=20.0 * noise / len(y), tol=1e-14, max_iter=100_000).fit(X, y)

    def objective(w: Array, b: float) -> float:
        return float(np.sum((y - X @ w - b) ** 2) / (2 * noise) + 20.0 * np.abs(w).sum())

    best = objective(reference.coef_, reference.intercept_)
    assert_allclose(objective(model.coef_, model.intercept_), best, rtol=1e-8)
    assert_allclose(model.solution_.objective, best, rtol=1e-8)
    assert_array_equal(model.coef_ != 0, reference.coef_ != 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_laplace_probit_equals_a_general_convex_solver(seed: int) -> None:
    X, y = classes(seed=seed)
    d, sign, alpha = X.shape[1], 2.0 * y - 1.0, 2.0

    def objective(v: Array) -> tuple[float, Array]:  # w = v+ - v-, free intercept last
        w, b = v[:d] - v[d : 2 * d], v[-1]
        margin = sign * (X @ w + b)
        residual = -sign * np.exp(stats.norm.logpdf(margin) - stats.norm.logcdf(margin))
        g = X.T @ residual
        value = -stats.norm.logcdf(margin).sum() + alpha * v[:-1].sum()
        return value, np.concatenate([g + alpha, -g + alpha, [residual.sum()]])

    bounds = [(0, None)] * (2 * d) + [(None, None)]
    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    reference = optimize.minimize(
        objective, np.zeros(2 * d + 1), jac=True, bounds=bounds, method="L-BFGS-B", options=options
    )
    model = SparseProbit(prior="laplace", alpha=alpha).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    assert_allclose(model.solution_.objective, reference.fun, rtol=1e-8)
    assert_allclose(model.coef_[0], reference.x[:d] - reference.x[d : 2 * d], atol=1e-4)


def test_laplace_with_estimated_noise_is_stationary_in_both() -> None:
    X, y = regression()
    model = SparseRegressor(prior="laplace", alpha=2.0).fit(X, y)
    assert model.solution_.status is Status.STATIONARY
    assert_allclose(model.noise_variance_, np.mean((y - model.predict(X)) ** 2), rtol=1e-6)
    at_this_noise = clone(model).set_params(noise=model.noise_variance_).fit(X, y)
    assert_allclose(model.coef_, at_this_noise.coef_, atol=1e-6)


# ---------------------------------------------------------------------------------------------- starts, collapse


def test_features_beyond_rows_start_from_a_laplace_fit() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 300))
    y = X[:, :3] @ np.array([3.0, -2.0, 2.0]) + rng.normal(size=100)
    model = SparseRegressor().fit(X, y)
    assert {0, 1, 2} <= set(model.active_features_)
    assert model.n_active_ <= 8
    assert 0.5 < model.noise_variance_ < 1.5


def test_probit_with_many_features_keeps_the_relevant_ones() -> None:
    X, y = make_irrelevant(200, n_features=400, random_state=0)
    model = SparseProbit().fit(X, y)
    assert {0, 1} <= set(model.active_features_)
    assert model.n_active_ <= 20
    assert 1.0 - model.score(*make_irrelevant(5000, n_features=400, random_state=1)) < 0.159 + 0.08  # Bayes error .159


def test_collapse_is_warned_with_advice_and_predicts_the_mean() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    with pytest.warns(UserWarning, match="kept no feature.*prior='laplace'"):
        model = SparseRegressor(noise=100.0).fit(X, y)
    assert model.n_active_ == 0
    assert_allclose(model.predict(X), y.mean())


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_collapsed_class_keeps_its_share(fit_intercept: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    y = np.where(np.arange(90) < 60, (X[:, 0] > 0).astype(int), 2)  # class 2 is independent of the features
    with pytest.warns(UserWarning, match=r"class\(es\) \[2\]"):
        model = SparseProbit(fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(stats.norm.cdf(model.decision_function(X)[:, 2]), 1 / 3, rtol=1e-12)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_constant_response_is_no_collapse() -> None:
    model = SparseRegressor().fit(np.arange(6.0).reshape(3, 2), np.full(3, 2.5))
    assert_allclose(model.predict([[0.0, 0.0]]), 2.5)


def test_interpolation_is_warned() -> None:
    X = np.arange(8.0)[:, None]
    with pytest.warns(UserWarning, match="interpolates.*wider kernel"):
        SparseRegressor(kernel="rbf", gamma=50.0).fit(X, np.random.default_rng(0).normal(size=8))


def test_too_few_iterations_are_warned() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SparseRegressor(max_iter=2).fit(*regression())


# ------------------------------------------------------------------------------------------------- what users rely on


def test_sinc_is_fitted_by_a_few_kernels() -> None:
    X, y = make_sinc(100, noise=0.1, random_state=0)
    model = SparseRegressor(kernel="rbf", gamma=0.125).fit(X, y)
    assert 4 <= model.n_active_ == len(model.support_) <= 9
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert 0.005 < model.noise_variance_ < 0.02
    grid = np.linspace(-9, 9, 50)[:, None]
    assert np.sqrt(np.mean((model.predict(grid) - np.sinc(grid[:, 0] / np.pi)) ** 2)) < 0.06


@pytest.mark.parametrize("prior", ["jeffreys", "laplace"])
def test_standard_deviations_follow_the_formula(prior: str) -> None:
    X, y = regression()
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    model = SparseRegressor(prior=prior, alpha=3.0).fit(X, y, sample_weight=weight)
    mean, deviation = model.predict(X, return_std=True)
    assert_array_equal(mean, model.predict(X))
    H = np.column_stack([X[:, model.active_features_], np.ones(len(y))])
    w = model.coef_[model.active_features_]
    precision = np.append(w**-2.0 if prior == "jeffreys" else 3.0 / np.abs(w), 0.0)
    M = (H.T * weight) @ H / model.noise_variance_ + np.diag(precision)
    expected = model.noise_variance_ + np.einsum("ij,ij->i", H @ np.linalg.inv(M), H)
    assert_allclose(deviation**2, expected, rtol=1e-8)


def test_inverse_gamma_prior_enters_the_noise() -> None:
    X, y = regression()
    model = SparseRegressor(noise_shape=5.0, noise_scale=40.0, tol=1e-10).fit(X, y)
    squares = np.sum((y - model.predict(X)) ** 2)
    assert_allclose(model.noise_variance_, (0.5 * squares + 40.0) / (0.5 * len(y) + 5.0), rtol=1e-12)


MODELS = [
    SparseRegressor(tol=1e-10),
    SparseRegressor(kernel="rbf", gamma=0.2, tol=1e-10, noise_scale=1.0),
    SparseProbit(tol=1e-10),
    SparseProbit(kernel="rbf", gamma=0.2, tol=1e-10),
    SparseProbit(prior="laplace", tol=1e-10),
]


def output(model: Any, X: Array) -> Array:
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_weight_is_a_repetition(model: Any) -> None:
    X, y = classes(K=3) if isinstance(model, SparseProbit) else regression()
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    weight[:3] = 1
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(output(weighted, X), output(repeated, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sparse_input_and_single_precision_give_the_same_fit(model: Any) -> None:
    X, y = classes(K=3) if isinstance(model, SparseProbit) else regression()
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    dense = clone(model).fit(X, y)
    assert_allclose(output(clone(model).fit(sparse.csr_array(X), y), X), output(dense, X), atol=1e-7)
    single = clone(model).fit(X.astype(np.float32), y)
    assert_allclose(output(single, X.astype(np.float32)), output(dense, X), atol=2e-3)


def test_jeffreys_does_not_care_about_units() -> None:
    X, y = regression()
    units = 10.0 ** np.array([-10, 8, 3, -4, 0, 1, 2, -6])
    plain, scaled = SparseRegressor(tol=1e-10).fit(X, y), SparseRegressor(tol=1e-10).fit(X * units, y)
    assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-6, atol=1e-9)


def test_order_of_rows_and_columns_does_not_matter() -> None:
    X, y = classes()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    plain = SparseProbit(tol=1e-10).fit(X, y)
    moved = SparseProbit(tol=1e-10).fit(X[rows][:, columns], y[rows])
    assert_allclose(moved.coef_[0], plain.coef_[0, columns], rtol=1e-6, atol=1e-8)


def test_one_model_of_three_classes_is_three_models_against_the_rest() -> None:
    X, y = classes(K=3, n=120)
    joint = SparseProbit(tol=1e-10).fit(X, y)
    for k in range(3):
        alone = SparseProbit(tol=1e-10).fit(X, (y == k).astype(int))
        assert_allclose(joint.coef_[k], alone.coef_[0], rtol=1e-5, atol=1e-7)
    Phi = stats.norm.cdf(joint.decision_function(X))
    assert_allclose(joint.predict_proba(X), Phi / Phi.sum(axis=1, keepdims=True), rtol=1e-10)
    assert_array_equal(joint.predict(X), joint.predict_proba(X).argmax(axis=1))
    assert_allclose(np.exp(joint.predict_log_proba(X)), joint.predict_proba(X), rtol=1e-10)


def test_two_classes_have_probit_probabilities_finite_far_out() -> None:
    X, y = classes()
    model = SparseProbit().fit(X, y)
    assert_allclose(model.predict_proba(X)[:, 1], stats.norm.cdf(model.decision_function(X)), rtol=1e-12)
    far = model.predict_log_proba(1e3 * X)
    assert np.isfinite(far).all()
    assert_allclose(np.exp(far).sum(axis=1), 1.0)


def test_class_weight_is_a_sample_weight() -> None:
    X, y = classes()
    by_class = SparseProbit(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    assert_allclose(by_class.coef_, SparseProbit().fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0)).coef_)


def test_precomputed_kernel_is_the_kernel() -> None:
    X, y = make_rings(120, random_state=0)
    direct = SparseProbit(kernel="rbf", gamma=0.5).fit(X, y)
    K = SparseProbit(kernel="precomputed").fit(rbf_kernel(X, gamma=0.5), y)
    assert_array_equal(K.support_, direct.support_)
    assert_allclose(K.predict_proba(rbf_kernel(X, gamma=0.5)), direct.predict_proba(X), atol=1e-6)
    assert direct.score(X, y) > 0.95
    assert direct.n_active_ <= 10


def test_quadratic_classifier_by_a_pipeline() -> None:
    X, y = make_rings(200, n_features=4, random_state=0)
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), SparseProbit()).fit(X, y)
    names = model[0].get_feature_names_out()[model[-1].active_features_]
    assert {"x0^2", "x1^2"} <= set(names)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": "normal"}, "prior"),
        ({"prior": "laplace", "alpha": 0.0}, "alpha"),
        ({"noise": "guess"}, "noise"),
        ({"noise": -1.0}, "noise"),
        ({"noise_scale": -1.0}, "noise_scale"),
        ({"prune": 2.0}, "prune"),
        ({"init_eps": 0.0}, "init_eps"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseRegressor(**change).fit(*regression())


def test_progress_stops_em() -> None:
    X, y = regression()
    problem = Problem(as_design(X), y[:, None], None, Gaussian(1.0), Jeffreys(), True)
    adapted = adapt(problem, noise=NoisePrior(), progress=lambda iteration, certificate: iteration >= 3)
    assert adapted.solution.n_iter == 3
    assert adapted.solution.status is Status.MAX_ITER


@pytest.mark.data
def test_ripley_keeps_few_kernels(load_data: Any) -> None:
    data = load_data("ripley_synth")
    train, test = data.split["train"], data.split["test"]
    errors, kernels = [], []
    for seed in range(5):
        part = np.random.default_rng(seed).permutation(train)[:100]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = SparseProbit(kernel="rbf", gamma=2.0).fit(data.data[part], data.target[part])
        errors.append(np.sum(model.predict(data.data[test]) != data.target[test]))
        kernels.append(model.n_active_)
    assert np.mean(errors) <= 110
    assert 2.5 <= np.mean(kernels) <= 6
