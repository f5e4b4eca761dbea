"""KLR and IVM: optimality by the paper's equations, equivalences, theorems 1 and 2, and the estimator's promises."""

from __future__ import annotations

import os
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from smaller import datasets
from smaller.estimators.kernel_logistic import IVM, KLR
from smaller.factors import pivoted_cholesky
from smaller.kernels import RBF

EXACT = 1e-12  # gap at which Newton's method has nothing left to do


def mixture(n: int = 80, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    angle = 2.0 * np.pi * y / classes
    return np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(scale=0.8, size=(n, 2)), y


def one_hot(y: Any) -> Any:
    return (y[:, None] == np.unique(y)).astype(float)


# ------------------------------------------------------------------------------------------------ optimality


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 30.0])
def test_dual_weights_are_residuals_over_alpha(alpha: float, fit_intercept: bool) -> None:
    X, y = mixture(60)
    model = KLR(alpha, gamma=20.0, fit_intercept=fit_intercept, tol=EXACT).fit(X, y)
    a = np.zeros(60)
    a[model.support_] = model.dual_coef_[0]
    assert len(model.support_) == 60
    np.testing.assert_allclose(alpha * a, y - model.predict_proba(X)[:, 1], atol=1e-6)


@pytest.mark.parametrize("classes", [3, 6])
def test_dual_weights_of_several_classes(classes: int) -> None:
    X, y = mixture(60, classes)
    model = KLR(0.5, gamma=20.0, tol=EXACT).fit(X, y)
    A = np.zeros((60, classes))
    A[model.support_] = model.dual_coef_.T
    np.testing.assert_allclose(0.5 * A, one_hot(y) - model.predict_proba(X), atol=1e-6)


@given(
    classes=st.sampled_from([2, 3]), alpha=st.sampled_from([1e-3, 0.1, 10.0]), gamma=st.sampled_from([0.05, 0.5, 5.0])
)
@settings(max_examples=10)
def test_gap_is_that_of_the_dual(classes: int, alpha: float, gamma: float) -> None:
    X, y = mixture(45, classes)
    model = KLR(alpha, gamma=gamma, tol=1e-8).fit(X, y)
    K, P = RBF(gamma)(X, X), model.predict_proba(X)
    V = one_hot(y) - P
    entropy = -np.sum(P * np.log(P))
    quadratic = np.sum(V * (K @ V)) if classes > 2 else V[:, 1] @ K @ V[:, 1]
    dual = entropy - quadratic / (2.0 * alpha)
    assert model.solution_.converged
    assert model.solution_.gap <= 1e-8 * model.solution_.scale
    assert model.solution_.objective - dual == pytest.approx(0.0, abs=1e-6 * model.solution_.scale)


@pytest.mark.parametrize("estimator", [KLR, IVM])
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_objective_is_the_formula(estimator: Any, classes: int) -> None:
    X, y = mixture(60, classes)
    model = estimator(0.3, tol=EXACT).fit(X, y)
    K = model._basis_.kernel(model.support_vectors_, model.support_vectors_)
    loss = -np.sum(model.predict_log_proba(X)[np.arange(60), y])
    penalty = 0.15 * np.sum(model.dual_coef_ * (model.dual_coef_ @ K))
    assert model.solution_.objective == pytest.approx(loss + penalty, rel=1e-7)


def test_two_class_optimum_solves_the_symmetric_problem_with_twice_the_strength() -> None:
    X, y = mixture(60)
    alpha = 0.3
    model = KLR(alpha, gamma=0.5, tol=EXACT).fit(X, y)
    f = model.decision_function(X)
    F = np.column_stack([-f / 2.0, f / 2.0])
    P = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
    # Gradient of the symmetric problem in function space: K (P - Y) + 2 alpha (F - b) = 0, 1'(P - Y) = 0.
    K, b = RBF(0.5)(X, X), model.intercept_[0] / 2.0
    np.testing.assert_allclose(K @ (P - one_hot(y)) + 2.0 * alpha * (F - [-b, b]), 0.0, atol=1e-8)
    np.testing.assert_allclose((P - one_hot(y)).sum(axis=0), 0.0, atol=1e-8)


@pytest.mark.parametrize("estimator", [KLR(0.1, tol=EXACT), IVM(0.1, tol=EXACT)])
@pytest.mark.parametrize("classes", [3, 6])
def test_class_functions_sum_to_zero(estimator: Any, classes: int) -> None:
    X, y = mixture(90, classes)
    model = clone(estimator).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X).sum(axis=1), 0.0, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=0), one_hot(y).sum(axis=0), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("selection", ["lazy", "onestep"])
def test_import_vectors_with_all_points_are_klr(classes: int, selection: str) -> None:
    X, y = mixture(36, classes)
    full = KLR(0.2, gamma=5.0, tol=EXACT).fit(X, y)
    ivm = IVM(0.2, gamma=5.0, eps=0.0, max_points=36, selection=selection, tol=EXACT).fit(X, y)
    assert ivm.solution_.objective == pytest.approx(full.solution_.objective, rel=1e-8)
    np.testing.assert_allclose(ivm.decision_function(X), full.decision_function(X), atol=1e-5)


def test_import_vectors_come_close_to_klr_with_few_points() -> None:
    X, y, centers = datasets.make_mixture(400, random_state=3)
    X_test, y_test, _ = datasets.make_mixture(4000, centers=centers, random_state=4)
    full, few = (model.fit(X, y) for model in (KLR(1.0, gamma=1 / 1.4), IVM(1.0, gamma=1 / 1.4)))
    assert len(few.support_) <= 25
    assert abs(full.score(X_test, y_test) - few.score(X_test, y_test)) <= 0.005


def test_converged_means_scaled_gap() -> None:
    X, y = mixture()
    model = IVM(0.1, tol=1e-9).fit(X, y)
    assert model.solution_.gap <= 1e-9 * model.solution_.scale
    assert model.n_iter_ >= len(model.support_)


# -------------------------------------------------------------------------------------------------- theorems


def separable(classes: int) -> tuple[Any, Any]:
    X, y = mixture(30, classes)
    directions = np.column_stack([np.cos(2 * np.pi * y / classes), np.sin(2 * np.pi * y / classes)])
    return X + 4.0 * directions, y


def test_theorem_1_margin_of_the_hard_svm() -> None:
    X, y = separable(2)
    svm = SVC(kernel="linear", C=1e8).fit(X, y)
    widest = 1.0 / np.linalg.norm(svm.coef_)
    margins = []
    for alpha in (1e-2, 1e-6, 1e-12):
        model = KLR(alpha, kernel="linear").fit(X, y)
        w = model.dual_coef_ @ model.support_vectors_
        margins.append(np.min((2 * y - 1) * model.decision_function(X)) / np.linalg.norm(w))
    assert np.all(np.diff(margins) > 0)
    assert margins[-1] <= widest * (1.0 + 1e-6)
    assert margins[-1] >= 0.98 * widest


def test_theorem_2_margin_of_the_multiclass_svm() -> None:
    X, y = separable(3)
    pairs = [(i, c) for i in range(len(y)) for c in range(3) if c != y[i]]

    def slack(v: Any) -> Any:
        W, b = v[:6].reshape(3, 2), v[6:]
        F = X @ W.T + b
        return np.array([F[i, y[i]] - F[i, c] - 1.0 for i, c in pairs])

    start = np.append(np.array([[1.0, 0.0], [-0.5, 1.0], [-0.5, -1.0]]).ravel(), np.zeros(3))
    best = optimize.minimize(
        lambda v: 0.5 * v[:6] @ v[:6],
        start,
        jac=lambda v: np.append(v[:6], np.zeros(3)),
        constraints={"type": "ineq", "fun": slack},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    widest = 1.0 / np.linalg.norm(best.x[:6])
    margins = []
    for alpha in (1e-2, 1e-6, 1e-12):
        model = KLR(alpha, kernel="linear").fit(X, y)
        F = model.decision_function(X)
        W = model.dual_coef_ @ model.support_vectors_
        margins.append(min(F[i, y[i]] - F[i, c] for i, c in pairs) / np.linalg.norm(W))
    assert np.all(np.diff(margins) > 0)
    assert margins[-1] <= widest * (1.0 + 1e-6)
    assert margins[-1] >= 0.97 * widest


# ------------------------------------------------------------------------------------------ data and kernels


@pytest.mark.parametrize("estimator", [KLR(0.1, gamma=0.5, tol=EXACT), IVM(0.1, gamma=0.5, tol=EXACT)])
def test_precomputed_callable_and_sparse_are_the_same_model(estimator: Any) -> None:
    X, y = mixture(70, 3)
    X_new, _ = mixture(20, 3, seed=1)
    expected = clone(estimator).fit(X, y).predict_proba(X_new)
    K = RBF(0.5)
    callable_kernel = clone(estimator).set_params(kernel=lambda A, B, g: RBF(g)(A, B), kernel_params={"g": 0.5})
    np.testing.assert_allclose(callable_kernel.fit(X, y).predict_proba(X_new), expected, atol=1e-8)
    precomputed = clone(estimator).set_params(kernel="precomputed").fit(K(X, X), y)
    np.testing.assert_allclose(precomputed.predict_proba(K(X_new, X)), expected, atol=1e-8)
    assert precomputed.__sklearn_tags__().input_tags.pairwise
    from_sparse = clone(estimator).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(from_sparse.predict_proba(sparse.csr_array(X_new)), expected, atol=1e-8)


def test_precomputed_kernel_in_a_grid_search() -> None:
    X, y = mixture(60)
    search = GridSearchCV(IVM(kernel="precomputed"), {"alpha": [0.1, 1.0]}, cv=3).fit(RBF(0.5)(X, X), y)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize("estimator", [KLR(0.1, tol=EXACT), IVM(0.1, tol=EXACT)])
@given(seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_weight_is_repetition_and_zero_is_absence(estimator: Any, seed: int) -> None:
    X, y = mixture(40, 3)
    count = np.random.default_rng(seed).integers(0, 4, 40)
    count[:3] = 1
    weighted = clone(estimator).fit(X, y, sample_weight=count)
    repeated = clone(estimator).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert (count[weighted.support_] > 0).all()


def test_class_weight_is_a_row_weight() -> None:
    X, y = mixture(60)
    by_class = IVM(0.1, class_weight={0: 1.0, 1: 3.0}, tol=EXACT).fit(X, y)
    by_row = IVM(0.1, tol=EXACT).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.support_, by_row.support_)
    np.testing.assert_allclose(by_class.dual_coef_, by_row.dual_coef_, rtol=1e-8)


@pytest.mark.parametrize("estimator", [KLR(0.1), IVM(0.1, eps=0.0)])
def test_duplicated_rows_are_used_once(estimator: Any) -> None:
    X, y = mixture(20)
    model = clone(estimator).fit(np.tile(X, (3, 1)), np.append(np.tile(y, 2), 1 - y))
    assert len(np.unique(model.support_vectors_, axis=0)) == len(model.support_) <= 20


@pytest.mark.parametrize("estimator", [KLR(0.1), IVM(0.1)])
def test_single_precision_data(estimator: Any) -> None:
    X, y = mixture(60)
    narrow = clone(estimator).fit(X.astype(np.float32), y)
    assert narrow.solution_.converged
    np.testing.assert_allclose(narrow.predict_proba(X), clone(estimator).fit(X, y).predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("alpha", [1e-8, 1e-12])
@pytest.mark.parametrize("classes", [2, 3])
def test_separable_data_and_tiny_strength_terminate(alpha: float, classes: int) -> None:
    X, y = separable(classes)
    for model in (KLR(alpha), IVM(alpha)):
        model.fit(X, y)
        assert model.score(X, y) == 1.0
        assert np.isfinite(model.dual_coef_).all()


def test_strong_penalty_leaves_the_intercept() -> None:
    X, y = mixture(60, 3)
    model = IVM(1e9).fit(X, y)
    assert len(model.support_) == 0
    np.testing.assert_allclose(model.predict_proba(X), 1.0 / 3.0)


# --------------------------------------------------------------------------------------------------- centres


@pytest.mark.parametrize("centers", ["random", "kmeans", "pivoted"])
def test_subset_of_centres(centers: str) -> None:
    X, y = mixture(150)
    model = KLR(0.1, n_centers=12, centers=centers, random_state=0).fit(X, y)
    full = KLR(0.1).fit(X, y)
    assert 8 <= len(model.support_) <= 12
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert full.solution_.objective <= model.solution_.objective < 1.5 * full.solution_.objective


def test_import_points_beat_centres_chosen_without_labels() -> None:
    X, y = mixture(200, seed=2)
    ivm = IVM(0.01, gamma=1.0).fit(X, y)
    for centers in ("random", "kmeans", "pivoted"):
        other = KLR(0.01, gamma=1.0, n_centers=len(ivm.support_), centers=centers, random_state=0).fit(X, y)
        assert ivm.solution_.objective < other.solution_.objective


@given(n=st.integers(1, 30), rank=st.integers(1, 30), seed=st.integers(0, 100))
def test_pivoted_cholesky(n: int, rank: int, seed: int) -> None:
    B = np.random.default_rng(seed).normal(size=(n, rank))
    K = B @ B.T
    order, L = pivoted_cholesky(K)
    assert L.shape == (n, min(n, rank))
    np.testing.assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-9 * np.abs(K).max())
    assert (np.diff(np.diag(L)) <= 1e-12).all()


# ------------------------------------------------------------------------------------------------ algorithm 3


def test_alphas_may_be_chosen_by_errors_then_loss_then_strength() -> None:
    X, y = mixture(200)
    model = IVM(alphas=12, scoring="error", random_state=0).fit(X, y)
    errors, losses = model.validation_errors_, model.validation_losses_
    chosen = int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    assert errors[chosen] == errors.min()
    ties = np.flatnonzero(errors == errors.min())
    assert losses[chosen] == losses[ties].min()
    assert np.isfinite(model.import_path_.validation_error).all()
    refitted = IVM(model.alpha_).fit(X, y)
    np.testing.assert_array_equal(refitted.support_, model.support_)
    assert np.all(np.diff(model.alphas_) < 0)


def test_alphas_by_cross_validation() -> None:
    X, y = mixture(90, 3)
    model = IVM(alphas=[10.0, 0.1, 1e-3], cv=3).fit(X, y)
    assert model.alpha_ in (10.0, 0.1, 1e-3)
    assert model.validation_errors_.shape == (3,)
    assert np.isnan(model.import_path_.validation_error).all()
    assert not hasattr(IVM(0.1).fit(X, y), "alphas_")


# ----------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("estimator", [KLR, IVM])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernel": None}, ValueError, "kernel"),
        ({"kernel": lambda A, B: -(A @ B.T)}, ValueError, "positive semi-definite"),
        ({"kernel": lambda A, B: np.tanh(A @ B.T - 1.0)}, ValueError, "positive semi-definite"),
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"alpha": "1"}, TypeError, "alpha"),
        ({"tol": -1.0}, ValueError, "tol"),
        ({"fit_intercept": "yes"}, (TypeError, ValueError), "fit_intercept"),
        ({"memory_limit": 0}, ValueError, "memory_limit"),
    ],
)
def test_bad_arguments(estimator: Any, options: Any, error: Any, message: str) -> None:
    X, y = mixture(40)
    with pytest.raises(error, match=message):
        estimator(**options).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "best"}, "selection"),
        ({"eps": -1.0}, "eps"),
        ({"window": 0}, "window"),
        ({"max_points": 0}, "max_points"),
        ({"alphas": [1.0, -1.0]}, "alphas"),
        ({"alphas": []}, "alphas"),
        ({"alphas": [1.0], "validation_fraction": 0.0}, "validation_fraction"),
        ({"n_candidates": 0}, "n_candidates"),
    ],
)
def test_bad_arguments_of_the_search(options: Any, message: str) -> None:
    X, y = mixture(40)
    with pytest.raises(ValueError, match=message):
        IVM(**options).fit(X, y)


def test_a_fold_without_a_class_is_refused() -> None:
    X, y = mixture(30)
    with pytest.raises(ValueError, match="every class"):
        IVM(alphas=[1.0], cv=[(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]).fit(X, y)


def test_too_many_rows_get_advice() -> None:
    X, y = mixture(40)
    with pytest.raises(ValueError, match=r"n_centers.*IVM"):
        KLR(memory_limit=1000).fit(X, y)
    with pytest.raises(ValueError, match="kmeans"):
        KLR(kernel="precomputed", n_centers=5, centers="kmeans").fit(RBF(1.0)(X, X), y)
    with pytest.raises(ValueError, match="centers"):
        KLR(centers="best").fit(X, y)


def test_path_can_be_drawn() -> None:
    mpl.use("agg")
    X, y = mixture(60)
    model = IVM(0.1).fit(X, y)
    line = model.plot_path().lines[0]
    np.testing.assert_array_equal(line.get_ydata(), model.import_path_.objective)
    np.testing.assert_array_equal(model.import_path_.points, model.support_)
    with_errors = IVM(alphas=[10.0, 0.1], random_state=0).fit(X, y).plot_path()
    assert len(with_errors.figure.axes) == 2
    mpl.pyplot.close("all")


# --------------------------------------------------------------------------------------------- papers' data


@pytest.mark.data
@pytest.mark.skipif("SMALLER_DATA" not in os.environ, reason="SMALLER_DATA does not name the folder of the data sets")
@pytest.mark.parametrize(
    ("name", "variance", "alpha"),
    [
        ("thyroid", 3.0, 0.1),
        ("titanic", 2.0, 1e-5),
        ("heart", 120.0, 0.316),
        ("breast_cancer", 50.0, 0.0658),
        pytest.param("banana", 1.0, 0.00316, marks=pytest.mark.slow),
    ],
)
def test_one_step_selection_is_as_good_as_exact(name: str, variance: float, alpha: float, load_data: Any) -> None:
    data = load_data(f"ida_{name}")
    rows = data.realisations[0][0]
    X, y = data.data[rows], data.target[rows]
    if name == "heart":  # the one set that is not standardised
        X = StandardScaler().fit_transform(X)
    models = [IVM(alpha, gamma=0.5 / variance, selection=name, window=1).fit(X, y) for name in ("exact", "onestep")]
    objectives = [model.solution_.objective for model in models]
    assert objectives[1] == pytest.approx(objectives[0], rel=5e-3)
    assert abs(len(models[0].support_) - len(models[1].support_)) <= 2
