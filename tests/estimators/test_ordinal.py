"""OrdinalSMLR and its likelihood: derivatives, conjugates, another solver's optimum, order, folds, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from smaller import SMLR, OrdinalSMLR, load, save
from smaller.likelihoods import Ordinal

Array = Any
SMALL_FACTOR = OrdinalSMLR(alpha=1.0, tol=1e-12, penalty_factors=[1e-8, 1.0, 1.0, 1.0])  # nearly free
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")


def graded(seed: int, n: int = 60, d: int = 4, K: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X @ (rng.normal(size=d) * (rng.random(d) < 0.6)) + rng.logistic(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, K) / K), score)
    y[rng.permutation(n)[:K]] = np.arange(K)
    return X, y


# --- the likelihood ---


def rows(K: int, seed: int, n: int = 20, size: float = 2.0) -> tuple[Ordinal, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    likelihood = Ordinal(K)
    eta = size * rng.normal(size=(n, 1)) + np.sort(rng.normal(size=K - 1))[::-1]
    return likelihood, eta, likelihood.encode(rng.permutation(np.arange(n) % K)), rng.random(n) + 0.1


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_derivatives(K: int, seed: int) -> None:
    likelihood, eta, y, weight = rows(K, seed)
    loss, residual = likelihood.evaluate(eta, y, weight)
    above = np.column_stack([np.ones(len(y)), expit(eta), np.zeros(len(y))])
    P = above[:, :-1] - above[:, 1:]
    codes = y.sum(axis=1).astype(int)
    assert loss == pytest.approx(-np.sum(weight * np.log(P[np.arange(len(y)), codes])), rel=1e-10)
    assert_allclose(likelihood.predict(eta), P, atol=1e-14)
    assert_allclose(np.exp(likelihood.log_predict(eta)), P, atol=1e-14)
    V, h = np.random.default_rng(seed + 9).normal(size=eta.shape), 1e-6
    (up, after), (down, before) = (likelihood.evaluate(eta + t * V, y, weight) for t in (h, -h))
    assert np.sum(residual * V) == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-7)
    assert_allclose(likelihood.curvature(eta, y, weight).apply(V), (after - before) / (2 * h), atol=2e-6)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_dual_is_the_conjugate(K: int) -> None:
    likelihood, eta, y, weight = rows(K, 1, n=8)
    loss, residual = likelihood.evaluate(eta, y, weight)
    assert likelihood.dual(residual, y, weight) == pytest.approx(loss - np.sum(residual * eta), abs=1e-12)  # Fenchel
    assert likelihood.dual(0.0 * residual, y, None) == pytest.approx(0.0, abs=1e-12)
    for i in range(len(y)):
        r = 0.6 * residual[i] / weight[i]

        def pulled(e: Array, i: int = i, r: Array = r) -> float:
            return likelihood.evaluate(e[None], y[i : i + 1], None)[0] - float(r @ e)

        options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000, "maxfev": 5000}
        best = minimize(pulled, eta[i], method="Nelder-Mead", options=options).fun
        assert likelihood.dual(r[None], y[i : i + 1], None) == pytest.approx(best, abs=1e-9)


def test_extremes_broken_order_and_rows_without_weight() -> None:
    likelihood, eta, y, weight = rows(4, 2)
    for size in (1e4, 1e8):
        far = size * eta
        loss, residual = likelihood.evaluate(far, y, weight)
        assert np.isfinite(loss)
        assert np.isfinite(residual).all()
        assert np.isfinite(likelihood.curvature(far, y, weight).apply(eta)).all()
        assert_allclose(likelihood.predict(far).sum(axis=1), 1.0)
    # The factored loss of an inner class does not underflow where the difference of two probabilities does.
    inner = likelihood.encode(np.array([1]))
    assert likelihood.evaluate(np.array([[-40.0, -41.0, -42.0]]), inner, None)[0] == pytest.approx(40.4586751, rel=1e-8)
    assert likelihood.evaluate(eta[:, ::-1], y, weight)[0] == np.inf
    alone = np.where(np.arange(len(y)) == 0, 1.0, 0.0)
    broken = eta[:, ::-1].copy()
    broken[0] = eta[0]
    assert np.isfinite(likelihood.evaluate(broken, y, alone)[0])
    loss, residual = likelihood.evaluate(eta, y, np.where(np.arange(len(y)) == 3, 0.0, weight))
    assert not residual[3].any()
    assert np.isfinite(likelihood.dual(residual, y, np.where(np.arange(len(y)) == 3, 0.0, weight)))
    b = likelihood.null(y, weight)
    assert_allclose(likelihood.evaluate(0.0 * eta + b, y, weight)[1].sum(axis=0), 0.0, atol=1e-12)
    with pytest.raises(ValueError, match="no bound"):
        likelihood.curvature(eta, y, weight, bound=True)


# --- the estimator ---


def brute_force(X: Array, y: Array, c: Array, slope: Array, ridge: Array) -> tuple[float, Array, Array]:
    """Minimise by L-BFGS-B: weights as differences of two parts >= 0, thresholds as one and the steps after it."""
    d = X.shape[1]
    K = int(y.max()) + 1

    def unpacked(v: Array) -> tuple[Array, Array]:
        return v[:d] - v[d : 2 * d], np.cumsum(v[2 * d :])

    def value(v: Array) -> tuple[float, Array]:
        w, t = unpacked(v)
        edges = np.concatenate([[-np.inf], t, [np.inf]])
        upper, lower = expit(edges[y + 1] - X @ w), expit(edges[y] - X @ w)
        P = np.maximum(upper - lower, 1e-300)
        f = -np.sum(c * np.log(P)) + slope @ (v[:d] + v[d : 2 * d]) + 0.5 * np.sum(ridge * w**2)
        a, b = upper * (1 - upper) / P, lower * (1 - lower) / P
        gw = X.T @ (c * (a - b)) + ridge * w
        gt = np.array([-np.sum((c * a)[y == k]) + np.sum((c * b)[y == k + 1]) for k in range(K - 1)])
        steps = np.cumsum(gt[::-1])[::-1]
        return f, np.concatenate([gw + slope, slope - gw, steps])

    bounds = 2 * d * [(0.0, None)] + [(None, None)] + (K - 2) * [(1e-9, None)]
    start = np.concatenate([np.zeros(2 * d), [-1.0], np.full(K - 2, 2.0 / max(K - 2, 1))])
    for _ in range(3):
        options = {"maxiter": 20000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
        found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        start = found.x
    return float(found.fun), *unpacked(found.x)


@pytest.mark.parametrize("seed", range(60))
def test_another_solver_agrees_to_eight_digits(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    K, d = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    X, y = graded(seed, n=int(rng.integers(15, 50)), d=d, K=K)
    alpha, l1_ratio = 10.0 ** rng.uniform(-1, 1), float(rng.choice([1.0, 0.5]))
    weight = rng.random(len(y)) + 0.2 if seed % 2 else np.ones(len(y))
    factors = rng.random(d) + 0.5 if seed % 3 == 0 else np.ones(d)
    model = OrdinalSMLR(alpha=alpha, l1_ratio=l1_ratio, penalty_factors=factors, tol=1e-11)
    model.fit(X, y, sample_weight=weight)
    slope, ridge = alpha * l1_ratio * factors, alpha * (1 - l1_ratio) * factors
    best, w, t = brute_force(X, y, weight, slope, ridge)
    assert model.solution_.objective == pytest.approx(best, rel=1e-8)
    assert model.solution_.objective <= best + 1e-10 * best
    assert_allclose(model.coef_[0], w, atol=2e-4)
    assert_allclose(model.thresholds_, t, atol=2e-4)
    assert (np.diff(model.thresholds_) > 0).all()


def test_the_gap_holds_far_from_the_optimum() -> None:
    X, y = graded(0)
    best = OrdinalSMLR(alpha=2.0, tol=1e-12).fit(X, y).solution_.objective
    for steps in (1, 2, 3):
        with pytest.warns(match="did not converge"):
            short = OrdinalSMLR(alpha=2.0, tol=1e-14, max_iter=steps).fit(X, y).solution_
        assert short.objective - best <= short.gap * (1 + 1e-9) + 1e-11


def test_two_grades_are_the_binary_model() -> None:
    X, y = graded(1, K=2)
    ordinal, binary = OrdinalSMLR(alpha=2.0, tol=1e-12).fit(X, y), SMLR(alpha=2.0, tol=1e-12).fit(X, y)
    assert_allclose(ordinal.coef_, binary.coef_, atol=1e-8)
    assert_allclose(ordinal.thresholds_, -binary.intercept_, atol=1e-8)
    assert_allclose(ordinal.decision_function(X), binary.decision_function(X), atol=1e-7)
    assert ordinal.solution_.scale == pytest.approx(binary.solution_.scale)


def test_order_by_argument_category_or_sorting() -> None:
    X, y = graded(2, K=3)
    names = np.array(["low", "middle", "high"])
    plain = OrdinalSMLR(alpha=2.0).fit(X, y)
    named = OrdinalSMLR(alpha=2.0, order=["low", "middle", "never", "high"]).fit(X, names[y])
    series = pd.Series(pd.Categorical(names[y], categories=names, ordered=True))
    for model in (named, OrdinalSMLR(alpha=2.0).fit(X, series)):
        assert_array_equal(model.classes_, names)
        assert_allclose(model.coef_, plain.coef_)
        assert_array_equal(model.predict(X), names[plain.predict(X)])
    turned = OrdinalSMLR(alpha=2.0, tol=1e-12, order=[2, 1, 0]).fit(X, y)
    plain = OrdinalSMLR(alpha=2.0, tol=1e-12).fit(X, y)
    assert_allclose(turned.coef_, -plain.coef_, atol=1e-8)
    assert_allclose(turned.thresholds_, -plain.thresholds_[::-1], atol=1e-8)


def test_sparse_weights_repetition_and_units() -> None:
    X, y = graded(3)
    X = np.round(X)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weight[:10] = 1
    model = OrdinalSMLR(alpha=1.0, tol=1e-12)
    coef = model.fit(X, y, sample_weight=weight).coef_
    again = np.repeat(np.arange(len(y)), weight)
    assert_allclose(model.fit(X[again], y[again]).coef_, coef, atol=1e-8)
    assert_allclose(model.fit(sparse.csr_array(X), y, sample_weight=weight).coef_, coef, atol=1e-8)
    thresholds = model.thresholds_
    assert_allclose(model.fit(X + 1e6, y, sample_weight=weight).coef_, coef, atol=1e-6)
    assert_allclose(model.thresholds_ - 1e6 * model.coef_.sum(), thresholds, atol=1e-4)
    extreme = model.fit(np.column_stack([X[:, 1:], 1e200 * X[:, :1]]), y, sample_weight=weight).coef_
    assert_allclose(extreme[0, :-1], SMALL_FACTOR.fit(X, y, sample_weight=weight).coef_[0, 1:], atol=1e-8)
    constant = np.column_stack([X, np.full(len(y), 3.0)])
    assert model.fit(constant, y, sample_weight=weight).coef_[0, -1] == 0.0


def test_the_largest_strength_is_exact() -> None:
    X, y = graded(4)
    at = OrdinalSMLR(alpha=1.0, alpha_scale="max").fit(X, y)
    assert at.active_features_.size == 0
    assert_allclose(expit(-at.thresholds_), [(y > k).mean() for k in range(3)], rtol=1e-7)
    assert OrdinalSMLR(alpha=0.99, alpha_scale="max").fit(X, y).active_features_.size == 1


def test_a_free_column_and_no_penalty_at_all() -> None:
    X, y = graded(5, n=200)
    model = OrdinalSMLR(alpha=0.0, tol=1e-10).fit(X, y)
    best, w, _ = brute_force(X, y, np.ones(len(y)), np.zeros(4), np.zeros(4))
    assert model.solution_.objective == pytest.approx(best, rel=1e-8)
    assert_allclose(model.coef_[0], w, atol=1e-4)
    free = OrdinalSMLR(alpha=1e4, penalty_factors=[0.0, 1.0, 1.0, 1.0]).fit(X, y)
    assert_array_equal(free.active_features_, [0])


def test_kernels() -> None:
    X, y = graded(6, n=80)
    model = OrdinalSMLR(alpha=0.5, kernel="rbf").fit(X, y)
    assert model.solution_.converged
    K = np.exp(-0.25 / X.var() * ((X[:, None] - X[model.support_]) ** 2).sum(axis=2))
    assert_allclose(model.position(X), K @ model.dual_coef_[0])
    matrix = X @ X.T
    given, named = OrdinalSMLR(kernel="precomputed").fit(matrix, y), OrdinalSMLR(kernel="linear").fit(X, y)
    assert_allclose(given.predict_proba(matrix[:, :]), named.predict_proba(X), atol=1e-3)


@SHORT_GRID
@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
def test_the_strength_by_cross_validation(scoring: str) -> None:
    X, y = graded(7)
    weight = np.random.default_rng(1).random(len(y)) + 0.5
    parts = np.arange(len(y)) % 3
    folds = [(np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in range(3)]
    model = OrdinalSMLR("cv", alphas=[8.0, 2.0, 0.5], cv=folds, scoring=scoring, tol=1e-11)
    model.fit(X, y, sample_weight=weight)
    assert model.scores_.shape == (3, 3)
    for k, (train, test) in enumerate(folds):
        for i, alpha in enumerate(model.alphas_):
            fold = OrdinalSMLR(alpha, tol=1e-11).fit(X[train], y[train], sample_weight=weight[train])
            if scoring == "accuracy":
                expected = fold.score(X[test], y[test], sample_weight=weight[test])
            else:
                log_proba = fold.predict_log_proba(X[test])[np.arange(len(test)), y[test]]
                expected = np.average(log_proba, weights=weight[test])
            assert model.scores_[k, i] == pytest.approx(expected, abs=1e-6)
    whole = OrdinalSMLR(model.alpha_, tol=1e-11).fit(X, y, sample_weight=weight)
    assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert model.path_.gaps.max() <= 1e-11 * model.solution_.scale
    assert_allclose(model.path_.intercepts[list(model.alphas_).index(model.alpha_)], -model.thresholds_, atol=1e-9)
    assert not hasattr(model.set_params(alpha=1.0).fit(X, y), "path_")


@SHORT_GRID
def test_a_fold_may_lack_a_grade() -> None:
    X, y = graded(8, K=4)
    order = np.argsort(y, kind="stable")
    folds = [(order[:-16], order[-16:]), (order[::2], order[1::2])]
    model = OrdinalSMLR("cv", alphas=[8.0, 2.0], cv=folds).fit(X, y)
    assert np.isfinite(model.scores_).all()


def test_answers_and_files(tmp_path: Any) -> None:
    X, y = graded(9)
    model = OrdinalSMLR(alpha=1.0).fit(X, y)
    P = model.predict_proba(X)
    assert_allclose(P[:, 1:][:, ::-1].cumsum(axis=1)[:, ::-1], expit(model.position(X)[:, None] - model.thresholds_))
    assert_allclose(np.log(P), model.predict_log_proba(X))
    assert_array_equal(model.predict(X), P.argmax(axis=1))
    assert_array_equal(model.decision_function(X), model.predict_log_proba(X))
    save(model, tmp_path / "grades.smaller")
    assert_array_equal(load(tmp_path / "grades.smaller").predict_proba(X), P)


def test_what_is_refused() -> None:
    X, y = graded(10, K=3)
    names = np.array(["a", "b", "c"])[y]
    refused = [
        (lambda: OrdinalSMLR(order=["a", "b"]).fit(X, names), "order must name every grade.*'c' of y is missing"),
        (lambda: OrdinalSMLR(order=["a", "b", "b", "c"]).fit(X, names), "order must name every grade once"),
        (lambda: OrdinalSMLR("best").fit(X, y), "alpha must be one of"),
        (lambda: OrdinalSMLR(-1.0).fit(X, y), "alpha must be a finite number >= 0"),
        (lambda: OrdinalSMLR("cv", rule="max").fit(X, y), "rule must be one of"),
        (lambda: OrdinalSMLR(kernel="rbf", penalty_factors=np.ones(4)).fit(X, y), "penalty_factors belong to features"),
        (lambda: OrdinalSMLR().fit(X, np.zeros(len(y))), "at least 2 classes"),
    ]
    for ask, words in refused:
        with pytest.raises(ValueError, match=words):
            ask()
