"""Every kind of bad input has a decided behaviour: an error that names the argument, a warning, or the right fit.

Whatever goes wrong, an estimator that was fitted before stays as it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale

from smaller import RMLR, SMLR, TableFeatures
from smaller.problem import Status

Array = Any

both = pytest.mark.parametrize("Estimator", [SMLR, RMLR])


def iris() -> tuple[Array, Array]:
    X, y = load_iris(return_X_y=True)
    return scale(X), y


X, Y = iris()


def with_entry(value: Any, make: Callable[[Array], Any] = np.asarray) -> Any:
    changed = X.copy()
    changed[3, 1] = value
    return make(changed)


def negative_distance(A: Array, B: Array) -> Array:
    """Return a kernel that is not positive semidefinite."""
    return -np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


# Arguments of the estimator, arguments of fit (X, y, sample_weight), the error and a part of its text.
Case = tuple[dict[str, Any], tuple[Any, ...], type[Exception], str]
ERRORS: dict[str, Case] = {
    # data
    "NaN": ({}, (with_entry(np.nan), Y), ValueError, "Input X contains NaN"),
    "infinity": ({}, (with_entry(-np.inf), Y), ValueError, "Input X contains infinity"),
    "sparse NaN": ({}, (with_entry(np.nan, sparse.csc_array), Y), ValueError, "Input X contains NaN"),
    "sparse infinity": ({}, (with_entry(np.inf, sparse.csr_matrix), Y), ValueError, "Input X contains infinity"),
    "strings": ({}, (np.full((150, 2), "a", dtype=object), Y), ValueError, "could not convert string to float"),
    "complex": ({}, (X + 1j, Y), ValueError, "Complex data not supported"),
    "no rows": ({}, (X[:0], Y[:0]), ValueError, r"0 sample\(s\)"),
    "no columns": ({}, (X[:, :0], Y), ValueError, r"0 feature\(s\)"),
    "one dimension": ({}, (X[:, 0], Y), ValueError, "Expected 2D array"),
    "three dimensions": ({}, (X[:, :, None], Y), ValueError, "dim 3"),
    "other length": ({}, (X, Y[:-1]), ValueError, "inconsistent numbers of samples"),
    "no labels": ({}, (X, None), ValueError, "requires y to be passed"),
    # labels
    "one class": ({}, (X, np.zeros(150, dtype=int)), ValueError, "only one class: 0"),
    "one row": ({}, (X[:1], Y[:1]), ValueError, "at least 2 classes"),
    "label NaN": ({}, (X, np.where(Y == 0, np.nan, Y)), ValueError, "Input y contains NaN"),
    "responses": ({}, (X, X[:, 0]), ValueError, "Unknown label type: continuous"),
    "label matrix": ({}, (X, np.eye(3)[Y] + np.eye(3)[0]), ValueError, "must sum to one: row 0 sums to 2"),
    # weights
    "zero weights": ({}, (X, Y, np.zeros(150)), ValueError, "sample_weight is all zeros"),
    "negative weights": ({}, (X, Y, -np.ones(150)), ValueError, "`sample_weight`: weights must be >= 0"),
    "weight NaN": ({}, (X, Y, np.full(150, np.nan)), ValueError, "sample_weight contains NaN"),
    "weight infinite": ({}, (X, Y, np.full(150, np.inf)), ValueError, "sample_weight contains infinity"),
    "weights too large": ({}, (X, Y, np.full(150, 1e308)), ValueError, "sample_weight .* out of range"),
    "weights too small": ({}, (X, Y, np.full(150, 1e-300)), ValueError, "sample_weight .* out of range"),
    "weights too few": ({}, (X, Y, np.ones(3)), ValueError, r"sample_weight.shape == \(3,\)"),
    "weight matrix": ({}, (X, Y, np.ones((150, 1))), ValueError, "sample_weight.shape"),
    "weight strings": ({}, (X, Y, ["a"] * 150), ValueError, "sample_weight must hold numbers"),
    "weight of one class": ({}, (X, Y, (Y == 2).astype(float)), ValueError, "only one class: 2"),
    "class_weight word": ({"class_weight": "even"}, (X, Y), ValueError, "class_weight"),
    "class_weight list": ({"class_weight": [1, 1, 1]}, (X, Y), ValueError, "class_weight"),
    "class_weight unknown": ({"class_weight": {7: 2.0}}, (X, Y), ValueError, "not in class_weight"),
    "class_weight negative": ({"class_weight": {0: -1.0}}, (X, Y), ValueError, "class_weight must hold finite"),
    "class_weight NaN": ({"class_weight": {0: np.nan}}, (X, Y), ValueError, "class_weight must hold finite"),
    "class_weight zero": ({"class_weight": {0: 0.0}}, (X, Y), ValueError, "class_weight leaves a class without"),
    # numbers
    "alpha negative": ({"alpha": -1.0}, (X, Y), ValueError, "alpha must be a finite number >= 0, got -1.0"),
    "alpha NaN": ({"alpha": np.nan}, (X, Y), ValueError, "alpha must be a finite number"),
    "alpha infinite": ({"alpha": np.inf}, (X, Y), ValueError, "alpha must be a finite number"),
    "alpha string": ({"alpha": "1"}, (X, Y), TypeError, "alpha must be a number"),
    "alpha True": ({"alpha": True}, (X, Y), TypeError, "alpha must be a number"),
    "alpha None": ({"alpha": None}, (X, Y), TypeError, "alpha must be a number"),
    "tol zero": ({"tol": 0}, (X, Y), ValueError, "tol must be a finite number > 0"),
    "tol string": ({"tol": "fine"}, (X, Y), TypeError, "tol must be a number"),
    "max_iter zero": ({"max_iter": 0}, (X, Y), ValueError, "max_iter must be an integer >= 1"),
    "max_iter float": ({"max_iter": 10.0}, (X, Y), TypeError, "max_iter must be an integer"),
    # choices and flags
    "solver": ({"solver": "lbfgs"}, (X, Y), ValueError, "solver must be one of"),
    "coding": ({"coding": "ovr"}, (X, Y), ValueError, "coding must be one of"),
    "fit_intercept": ({"fit_intercept": "no"}, (X, Y), TypeError, "fit_intercept must be True or False"),
    "penalize_intercept": ({"penalize_intercept": 1}, (X, Y), TypeError, "penalize_intercept must be True or False"),
    "warm_start": ({"warm_start": "yes"}, (X, Y), TypeError, "warm_start must be True or False"),
    # penalty factors
    "factors too few": ({"penalty_factors": [1, 1]}, (X, Y), ValueError, "penalty_factors must hold one number per"),
    "factors column": ({"penalty_factors": np.ones((4, 1))}, (X, Y), ValueError, "penalty_factors must hold one"),
    "factor negative": ({"penalty_factors": [1, 1, -1, 1]}, (X, Y), ValueError, "penalty_factors must be >= 0"),
    "factor NaN": ({"penalty_factors": [1, 1, np.nan, 1]}, (X, Y), ValueError, "penalty_factors contains NaN"),
    "factor strings": ({"penalty_factors": list("abcd")}, (X, Y), ValueError, "penalty_factors must hold numbers"),
    "factors of a kernel": ({"kernel": "rbf", "penalty_factors": np.ones(4)}, (X, Y), ValueError, "penalty_factors"),
    # kernels
    "kernel unknown": ({"kernel": "gauss"}, (X, Y), ValueError, "kernel must be 'rbf', .* got 'gauss'"),
    "kernel number": ({"kernel": 3}, (X, Y), ValueError, "kernel must be"),
    "kernel shape": ({"kernel": lambda A, B: (A @ B.T)[:, :1]}, (X, Y), ValueError, "kernel must return an array of"),
    "kernel NaN": ({"kernel": lambda A, B: np.nan * (A @ B.T)}, (X, Y), ValueError, "kernel returned NaN"),
    "gamma zero": ({"kernel": "rbf", "gamma": 0.0}, (X, Y), ValueError, "gamma must be a finite number > 0"),
    "gamma word": ({"kernel": "rbf", "gamma": "best"}, (X, Y), ValueError, "gamma must be"),
    "degree": ({"kernel": "poly", "degree": 1.5}, (X, Y), ValueError, "degree must be an integer"),
    "coef0": ({"kernel": "poly", "coef0": np.nan}, (X, Y), ValueError, "coef0 must be a finite number"),
    "kernel_params": ({"kernel": np.dot, "kernel_params": "a"}, (X, Y), TypeError, "kernel_params must be a dict"),
    "n_centers zero": ({"kernel": "rbf", "n_centers": 0}, (X, Y), ValueError, "n_centers must be an integer >= 1"),
    "n_centers float": ({"kernel": "rbf", "n_centers": 0.5}, (X, Y), TypeError, "n_centers must be an integer"),
    "random_state": ({"kernel": "rbf", "n_centers": 3, "random_state": "a"}, (X, Y), ValueError, "RandomState"),
    "kernel matrix": ({"kernel": "precomputed"}, (X, Y), ValueError, "X must be a square kernel matrix"),
    "kernel sparse": ({"kernel": "precomputed"}, (sparse.csr_array(X @ X.T), Y), TypeError, "dense data is required"),
}


@both
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_names_the_argument_and_changes_nothing(Estimator: Any, name: str) -> None:
    settings, arguments, error, text = ERRORS[name]
    with pytest.raises(error, match=text):
        Estimator(**settings).fit(*arguments)
    fitted = Estimator().fit(X, Y).set_params(**settings)
    before = dict(vars(fitted))
    with pytest.raises(error, match=text):
        fitted.fit(*arguments)
    assert unchanged(fitted, before)


def unchanged(estimator: Any, before: dict[str, Any]) -> bool:
    return vars(estimator).keys() == before.keys() and all(vars(estimator)[name] is before[name] for name in before)


@pytest.mark.parametrize("l1_ratio", [-0.1, 1.1, np.nan])
def test_l1_ratio(l1_ratio: float) -> None:
    with pytest.raises(ValueError, match="l1_ratio must be a finite number >= 0 and <= 1"):
        SMLR(l1_ratio=l1_ratio).fit(X, Y)


@both
def test_a_warning_turned_into_an_error_changes_nothing(Estimator: Any) -> None:
    fitted = Estimator().fit(X, Y).set_params(max_iter=1, tol=1e-12)
    before = dict(vars(fitted))
    with pytest.raises(ConvergenceWarning, match="raise max_iter or tol"):
        fitted.fit(X, Y)
    assert unchanged(fitted, before)


@both
def test_too_few_iterations_warn_once(Estimator: Any) -> None:
    with pytest.warns(ConvergenceWarning, match=r"did not converge: .* raise max_iter or tol. \(gap") as record:
        model = Estimator(max_iter=1, tol=1e-12).fit(X, Y)
    assert len(record) == 1
    assert model.solution_.status is Status.MAX_ITER
    assert not model.solution_.converged
    assert model.score(X, Y) > 0.7


# --- prediction ---


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
@both
def test_prediction_checks_its_rows(Estimator: Any, method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(Estimator(), method)(X)
    predict = getattr(Estimator().fit(X, Y), method)
    for rows, text in (
        (X[:, :2], "X has 2 features, but .* is expecting 4"),
        (X[0], "Expected 2D array"),
        (with_entry(np.nan), "Input X contains NaN"),
        (with_entry(np.inf, sparse.csr_array), "Input X contains infinity"),
        (X[:0], r"0 sample\(s\)"),
    ):
        with pytest.raises(ValueError, match=text):
            predict(rows)


@both
def test_prediction_from_a_kernel_matrix(Estimator: Any) -> None:
    model = Estimator(kernel="precomputed").fit(X @ X.T, Y)
    assert model.predict(X[:3] @ X.T).shape == (3,)
    with pytest.raises(ValueError, match=r"X has 10 features, but .* is expecting 150"):
        model.predict(X @ X[:10].T)
    with pytest.raises(TypeError, match="dense data is required"):
        model.predict(sparse.csr_array(X @ X.T))


def test_to_frame_before_fit() -> None:
    with pytest.raises(NotFittedError):
        SMLR().to_frame()


# --- odd data that have an answer ---


@both
@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.parametrize("make", [np.asarray, sparse.csc_array, sparse.csr_array])
def test_constant_columns_have_weight_zero(Estimator: Any, alpha: float, make: Any) -> None:
    rows = np.c_[np.zeros(150), X, np.full(150, 0.1), np.full(150, -1e250)]
    model, plain = Estimator(alpha, tol=1e-10).fit(make(rows), Y), Estimator(alpha, tol=1e-10).fit(X, Y)
    assert_array_equal(model.coef_[:, [0, 5, 6]], 0.0)
    assert_allclose(model.coef_[:, 1:5], plain.coef_, atol=1e-10)
    assert model.coef_.shape == (3, 7)
    assert_allclose(model.predict_proba(make(rows)), plain.predict_proba(X), atol=1e-10)


@both
def test_constant_columns_without_penalty(Estimator: Any) -> None:
    rows = np.c_[X[:, :2], np.full(150, 3.0)]
    for settings in ({"alpha": 0.0}, {"alpha": 1.0, "penalty_factors": [1, 1, 0]}):
        model = Estimator(**settings).fit(rows, Y)
        assert_array_equal(model.coef_[:, 2], 0.0)
        assert model.solution_.status is Status.CONVERGED
    # Constant among the rows that count, too: a row without weight is as if absent.
    rows[0, 2] = 7.0
    weight = np.r_[0.0, np.ones(149)]
    assert_array_equal(Estimator().fit(rows, Y, weight).coef_[:, 2], 0.0)


@both
def test_nothing_but_constant_columns(Estimator: Any) -> None:
    """Without any usable feature the model is the class frequencies."""
    labels = np.where(Y == 2, 0, Y)
    model = Estimator().fit(np.ones((150, 2)), labels)
    assert_array_equal(model.coef_, np.zeros((1, 2)))
    assert_allclose(model.predict_proba(np.ones((1, 2))), [[2 / 3, 1 / 3]], rtol=1e-12)
    assert len(model.active_features_) == 0
    assert model.solution_.status is Status.CONVERGED


def test_duplicate_columns() -> None:
    """The optimum is not unique then; its objective and probabilities are."""
    twice, once = SMLR(tol=1e-10).fit(np.hstack([X, X]), Y), SMLR(tol=1e-10).fit(X, Y)
    assert twice.solution_.objective == pytest.approx(once.solution_.objective, rel=1e-9)
    assert_allclose(twice.predict_proba(np.hstack([X, X])), once.predict_proba(X), atol=1e-4)
    # A ridge shares a weight between equal columns, which halves what it costs.
    twice, once = RMLR(2.0, tol=1e-10).fit(np.hstack([X, X]), Y), RMLR(1.0, tol=1e-10).fit(X, Y)
    assert_allclose(twice.coef_[:, :4], twice.coef_[:, 4:], atol=1e-6)
    assert_allclose(twice.predict_proba(np.hstack([X, X])), once.predict_proba(X), atol=1e-4)


@both
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_separable_classes_without_penalty(Estimator: Any, kernel: str | None) -> None:
    with pytest.warns(ConvergenceWarning, match="classes are separable and nothing is penalised") as record:
        model = Estimator(0.0, kernel=kernel).fit(X[:100], Y[:100])
    assert len(record) == 1
    assert model.solution_.status is Status.SEPARABLE
    assert model.score(X[:100], Y[:100]) == 1.0
    assert np.isfinite(model.decision_function(X)).all()


@both
def test_no_penalty_and_dependent_columns(Estimator: Any) -> None:
    once = Estimator(0.0, tol=1e-9).fit(X, Y)
    twice = Estimator(0.0, tol=1e-9).fit(np.hstack([X, X]), Y)
    assert once.solution_.status is twice.solution_.status is Status.CONVERGED
    assert twice.solution_.objective == pytest.approx(once.solution_.objective, rel=1e-6)


@both
@pytest.mark.parametrize("alpha", [1e300, 1e10])
def test_a_huge_penalty_gives_the_class_frequencies(Estimator: Any, alpha: float) -> None:
    model = Estimator(alpha).fit(X, Y)
    assert_allclose(model.predict_proba(X), np.full((150, 3), 1 / 3), atol=1e-6)
    assert model.solution_.status is Status.CONVERGED
    if Estimator is SMLR:
        assert_array_equal(model.coef_, np.zeros((3, 4)))


@pytest.mark.parametrize("s", [1e300, 1e100, 1e30, 1e-10, 1e-30, 1e-100, 1e-300])
@pytest.mark.parametrize("make", [np.asarray, sparse.csc_array])
def test_extreme_units_with_their_alpha(s: float, make: Any) -> None:
    """Features times s and alpha times s (s^2 for the ridge) is the same model, where alpha is representable."""
    plain, other = SMLR(1.0).fit(X, Y), SMLR(s).fit(make(s * X), Y)
    assert other.solution_.status is Status.CONVERGED
    assert other.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-5)
    assert_allclose(other.coef_ * s, plain.coef_, atol=0.1)
    if 1e-150 < s < 1e150:
        plain, other = RMLR(1.0).fit(X, Y), RMLR(s * s).fit(make(s * X), Y)
        assert other.solution_.status is Status.CONVERGED
        assert_allclose(other.predict_proba(make(s * X)), plain.predict_proba(X), atol=1e-2)


@both
@pytest.mark.parametrize("s", [1e-10, 1e-30, 1e-100, 1e-300, 1e-310])
def test_vanishing_features_give_the_class_frequencies(Estimator: Any, s: float) -> None:
    model = Estimator().fit(s * X, Y)
    assert model.solution_.status is Status.CONVERGED
    assert_allclose(model.predict_proba(s * X), np.full((150, 3), 1 / 3), atol=1e-12)
    assert np.isfinite(model.coef_).all()


@both
@pytest.mark.parametrize("s", [1e300, 1e100, 1e30])
def test_immense_features_are_fitted_as_if_unpenalised(Estimator: Any, s: float) -> None:
    """The penalty is below rounding: the fit is right, and where its gap cannot be proved a warning says so."""
    free = RMLR(0.0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* did not converge", category=ConvergenceWarning)
        model = Estimator(max_iter=100).fit(s * X, Y)
    assert_allclose(model.predict_proba(s * X), free.predict_proba(X), atol=0.02)


def test_columns_of_mixed_scales() -> None:
    s = np.array([1e290, 1.0, 1e-290, 1e30])
    plain = SMLR(1.0).fit(X, Y)
    mixed = SMLR(1e-9, penalty_factors=1e9 * s).fit(X * s, Y)
    assert mixed.solution_.status is Status.CONVERGED
    assert mixed.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-5)
    assert_allclose(mixed.predict_proba(X * s), plain.predict_proba(X), atol=0.01)


@both
def test_a_class_without_weight_is_absent(Estimator: Any) -> None:
    weight = np.where(Y == 1, 0.0, 1.0)
    model = Estimator(kernel="rbf").fit(X, Y, weight)
    assert_array_equal(model.classes_, [0, 2])
    assert (Y[model.support_] != 1).all()
    assert model.predict_proba(X).shape == (150, 2)
    weighted = Estimator(class_weight={0: 1, 1: 1, 2: 5}).fit(X, Y, weight)
    assert_array_equal(weighted.classes_, [0, 2])


@both
def test_weights_that_are_one_number(Estimator: Any) -> None:
    assert_allclose(
        Estimator(tol=1e-10).fit(X, Y, 2.0).coef_,
        Estimator(tol=1e-10).fit(X, Y, np.full(150, 2.0)).coef_,
    )


@both
def test_numbers_of_other_types(Estimator: Any) -> None:
    model = Estimator().fit(X, Y)
    assert_allclose(Estimator().fit(X.astype(object), Y).coef_, model.coef_)
    whole = np.rint(10 * X)
    assert_allclose(Estimator().fit(whole.astype(int), Y).coef_, Estimator().fit(whole, Y).coef_)
    assert_allclose(Estimator().fit(X > 0, Y).coef_, Estimator().fit((X > 0).astype(float), Y).coef_)


@both
def test_two_rows(Estimator: Any) -> None:
    model = Estimator(0.1).fit(X[[0, 100]], Y[[0, 100]])
    assert_array_equal(model.predict(X[[0, 100]]), Y[[0, 100]])


@both
def test_an_indefinite_kernel_is_allowed(Estimator: Any) -> None:
    """The kernels are basis functions here; nothing asks them to be positive semidefinite."""
    assert np.linalg.eigvalsh(negative_distance(X, X)).min() < -1.0
    model = Estimator(0.1, kernel=negative_distance).fit(X, Y)
    assert model.solution_.status is Status.CONVERGED
    assert model.score(X, Y) > 0.9
    matrix = clone(model).set_params(kernel="precomputed").fit(negative_distance(X, X), Y)
    assert matrix.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-5)


@both
def test_an_overflowing_kernel_is_an_error(Estimator: Any) -> None:
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite: scale the features"):
        Estimator(kernel="poly", gamma=1.0, degree=9).fit(1e60 * X, Y)


def test_more_centres_than_rows_are_all_rows() -> None:
    assert_array_equal(RMLR(kernel="rbf", n_centers=10**6).fit(X, Y).support_, RMLR(kernel="rbf").fit(X, Y).support_)


@pytest.mark.parametrize("cells", [[["a"], ["b"]] * 5, [[1.0], [np.nan]] * 5])
def test_texts_and_gaps_lead_to_the_encoder_of_tables(cells: Any) -> None:
    X = np.array(cells, dtype=object)
    with pytest.raises(ValueError, match=r"TableFeatures\(\) in front of it"):
        SMLR().fit(X, [0, 1] * 5)
    model = make_pipeline(TableFeatures(), SMLR(alpha=0.1)).fit(X, [0, 1] * 5)
    assert model.score(X, [0, 1] * 5) == 1.0
