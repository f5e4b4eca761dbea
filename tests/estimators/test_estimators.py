"""The estimators' promises: scikit-learn's own checks first, then what the likelihood implies for any fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

import general
from registry import ALL_ESTIMATORS, WRAPPERS, expected_failed_checks
from smaller import RMLR, SMLR
from smaller.problem import Status

Array = Any


@parametrize_with_checks([*ALL_ESTIMATORS, *WRAPPERS], expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        # The checks fit few rows with max_iter small; that a fit stopped early is not what they are about.
        warnings.simplefilter("ignore")
        check(estimator)


def iris() -> tuple[Array, Array]:
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def two_classes(n: int = 80, d: int = 6, seed: int = 0) -> tuple[Array, Array]:
    return make_classification(n, d, n_informative=3, n_redundant=1, flip_y=0.1, random_state=seed)


def drawn(seed: int, K: int, n: int = 60, d: int = 4) -> tuple[Array, Array]:
    """Rows with a signal, all K classes present."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X[:, :1] * np.arange(K) + rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    return X, y


def objective(model: Any, X: Array, y: Array, alpha: float, l1_ratio: float = 1.0) -> float:
    """Evaluate the documented formula from the public attributes alone."""
    loss = -model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)].sum()
    w = model.coef_
    return float(loss + alpha * (l1_ratio * np.abs(w).sum() + (1 - l1_ratio) / 2 * (w**2).sum()))


TIGHT = {"tol": 1e-10}
few = settings(max_examples=6)


def close(model: Any) -> float:
    """How far apart the probabilities of two fits can be.

    At a distance of ``gap`` from the optimal objective the Kullback-Leibler divergences from the optimal probabilities
    sum to at most ``gap``, so each probability is within sqrt(gap / 2) (Pinsker), and two fits within twice that.
    """
    return float(np.sqrt(2 * model.tol * model.solution_.scale))


variants = pytest.mark.parametrize(
    "model",
    [
        SMLR(alpha=1.0, **TIGHT),
        SMLR(alpha=1.0, l1_ratio=0.5, **TIGHT),
        SMLR(alpha=1.0, coding="reference", **TIGHT),
        SMLR(alpha=0.1, kernel="rbf", **TIGHT),
        RMLR(alpha=1.0, **TIGHT),
        RMLR(alpha=1.0, kernel="poly", degree=2, coding="reference", **TIGHT),
    ],
    ids=lambda model: repr(model).replace("\n", " ").replace(" ", ""),
)


# --- what an exact optimum must satisfy ---


@variants
@few
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4), weighted=st.booleans())
def test_score_equation(model: Any, seed: int, K: int, weighted: bool) -> None:
    """With a free intercept the predicted class totals equal the observed ones."""
    X, y = drawn(seed, K)
    weight = np.random.default_rng(seed).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    P = clone(model).fit(X, y, sample_weight=weight).predict_proba(X)
    assert_allclose(weight @ P, np.bincount(y, weight, minlength=K), rtol=1e-6)


@variants
@few
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4))
def test_a_weight_equals_a_repetition(model: Any, seed: int, K: int) -> None:
    X, y = drawn(seed, K)
    weight = np.random.default_rng(seed).integers(0, 4, len(y))
    weight[:K] = 1
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.solution_.objective == pytest.approx(repeated.solution_.objective, rel=1e-8)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=close(weighted))


@few
@given(seed=st.integers(0, 10**6), K=st.integers(3, 5), l1_ratio=st.sampled_from([0.0, 0.5, 1.0]))
def test_names_of_classes_do_not_matter(seed: int, K: int, l1_ratio: float) -> None:
    X, y = drawn(seed, K)
    order = np.random.default_rng(seed).permutation(K)
    model, relabelled = (SMLR(l1_ratio=l1_ratio, **TIGHT).fit(X, labels) for labels in (y, order[y]))
    assert model.solution_.objective == pytest.approx(relabelled.solution_.objective, rel=1e-8)
    assert_allclose(model.predict_proba(X), relabelled.predict_proba(X)[:, order], atol=close(model))


@few
@given(seed=st.integers(0, 10**6))
def test_two_classes_swap_signs(seed: int) -> None:
    X, y = drawn(seed, 2)
    model, swapped = (SMLR(**TIGHT).fit(X, labels) for labels in (y, 1 - y))
    assert_allclose(model.predict_proba(X), swapped.predict_proba(X)[:, ::-1], atol=close(model))
    assert_allclose(model.coef_, -swapped.coef_, atol=1e-3)


@pytest.mark.parametrize("exponent", [-10, 10])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.0])
def test_units_of_features_do_not_matter(exponent: int, l1_ratio: float) -> None:
    """Features times s with alpha times s (s^2 for the ridge) is the same model."""
    X, y = iris()
    s = 10.0**exponent
    plain = SMLR(1.0, l1_ratio=l1_ratio, tol=1e-10).fit(X, y)
    other = SMLR(s if l1_ratio else s**2, l1_ratio=l1_ratio, tol=1e-10).fit(s * X, y)
    assert other.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-9)
    assert_allclose(other.predict_proba(s * X), plain.predict_proba(X), atol=1e-5)
    assert_allclose(other.coef_ * s, plain.coef_, atol=1e-4)


@pytest.mark.parametrize(("alpha", "l1_ratio"), [(1.0, 1.0), (0.1, 1.0), (1.0, 0.5), (1.0, 0.0)])
def test_objective_equals_that_of_scikit_learn(alpha: float, l1_ratio: float) -> None:
    X, y = iris()
    ours = SMLR(alpha, l1_ratio=l1_ratio, tol=1e-11).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # penalty= is deprecated in new versions and needed by old ones
        theirs = LogisticRegression(
            C=1 / alpha, penalty="elasticnet", l1_ratio=l1_ratio, solver="saga", tol=1e-9, max_iter=20000
        ).fit(X, y)
    reference = objective(theirs, X, y, alpha, l1_ratio)
    assert ours.solution_.objective == pytest.approx(objective(ours, X, y, alpha, l1_ratio), rel=1e-12)
    assert ours.solution_.objective == pytest.approx(reference, rel=1e-8)
    assert ours.solution_.objective <= reference * (1 + 1e-9)


def test_two_class_ridge_equals_scikit_learn() -> None:
    X, y = two_classes()
    theirs = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-10).fit(X, y)
    assert_allclose(RMLR(2.0, tol=1e-12).fit(X, y).coef_, theirs.coef_, atol=1e-6)


# --- storage of the data ---


STORAGES = {
    "csc_array": sparse.csc_array,
    "csr_array": sparse.csr_array,
    "coo_array": sparse.coo_array,
    "csc_matrix": sparse.csc_matrix,
    "csr_matrix": sparse.csr_matrix,
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "list": lambda X: X.tolist(),
}


def sparse_rows() -> tuple[Array, Array]:
    X, y = iris()
    return np.where(np.abs(X) > 0.5, X, 0.0), y


@pytest.mark.parametrize("model", [SMLR(**TIGHT), RMLR(**TIGHT), SMLR(0.1, kernel="rbf", **TIGHT)], ids=repr)
@pytest.mark.parametrize("storage", STORAGES)
def test_storage_does_not_matter(model: Any, storage: str) -> None:
    X, y = sparse_rows()
    dense, other = clone(model).fit(X, y), clone(model).fit(STORAGES[storage](X), y)
    assert other.solution_.objective == pytest.approx(dense.solution_.objective, rel=1e-8)
    assert_allclose(other.predict_proba(STORAGES[storage](X)), other.predict_proba(X), rtol=1e-12)
    assert_allclose(other.predict_proba(X), dense.predict_proba(X), atol=close(dense))


@pytest.mark.parametrize("make", [sparse.csc_array, sparse.csr_array, sparse.csc_matrix])
def test_wide_indices(make: Any) -> None:
    X, y = sparse_rows()
    S = make(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    wide, narrow = SMLR(tol=1e-10).fit(S, y), SMLR(tol=1e-10).fit(make(X), y)
    assert_allclose(wide.coef_, narrow.coef_, atol=1e-12)
    assert_array_equal(wide.predict(S), narrow.predict(X))


def test_sparse_duplicates_and_stored_zeros() -> None:
    X, y = sparse_rows()
    rows, columns = np.nonzero(X)
    half = X[rows, columns] / 2
    messy = sparse.coo_array(
        (np.r_[half, half, 0.0], (np.r_[rows, rows, 0], np.r_[columns, columns, 0])), shape=X.shape
    )
    for model in (SMLR(tol=1e-10), SMLR(0.1, kernel="rbf", tol=1e-10)):
        assert_allclose(clone(model).fit(messy, y).predict_proba(X), clone(model).fit(X, y).predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("make", [np.asarray, sparse.csc_array])
def test_float32(make: Any) -> None:
    X, y = iris()
    narrow = SMLR(tol=1e-5).fit(make(X.astype(np.float32)), y)
    exact = SMLR(tol=1e-10).fit(X.astype(np.float32).astype(float), y)
    assert narrow.solution_.status is Status.CONVERGED
    assert narrow.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-4)
    assert narrow.coef_.dtype == np.float64
    assert_allclose(narrow.predict_proba(X), exact.predict_proba(X), atol=5e-3)


def test_read_only_memory_map(tmp_path: Any) -> None:
    X, y = iris()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for model in (SMLR(), RMLR(), SMLR(kernel="rbf")):
        assert_array_equal(clone(model).fit(mapped, y).predict(mapped), clone(model).fit(X, y).predict(X))


def test_feature_names_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    data = load_wine(as_frame=True)
    X = pandas.DataFrame(scale(data.data), columns=data.data.columns)
    model = SMLR(5.0).fit(X, data.target)
    assert_array_equal(model.feature_names_in_, X.columns)
    assert_array_equal(model.predict(X), SMLR(5.0).fit(X.to_numpy(), data.target).predict(X.to_numpy()))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])


def test_feature_names_polars() -> None:
    polars = pytest.importorskip("polars")
    X, y = iris()
    frame = polars.DataFrame(X, schema=["a", "b", "c", "d"])
    model = SMLR().fit(frame, y)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c", "d"])
    assert_allclose(model.predict_proba(frame), SMLR().fit(X, y).predict_proba(X))


# --- the parameters ---


def test_unpenalised_feature_stays() -> None:
    X, y = iris()
    model = SMLR(1e4, penalty_factors=[1, 0, 1, 1]).fit(X, y)
    assert_array_equal(model.active_features_, [1])
    assert model.solution_.status is Status.CONVERGED
    alone = SMLR(0.0, tol=1e-10).fit(X[:, [1]], y)
    assert model.solution_.objective == pytest.approx(alone.solution_.objective, rel=1e-5)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_a_penalty_factor_equals_a_scale(l1_ratio: float) -> None:
    """|r w| on x is |w| on x / r; for the ridge the factor is r^2."""
    X, y = iris()
    r = np.array([1.0, 2.0, 0.5, 4.0])
    if l1_ratio == 0.5:
        r[:] = 2.0  # then both parts of the penalty double, which equals a doubled alpha
        scaled = SMLR(2.0, l1_ratio=0.5, tol=1e-10).fit(X, y)
    else:
        scaled = SMLR(1.0, l1_ratio=l1_ratio, tol=1e-10).fit(X / (r if l1_ratio else np.sqrt(r)), y)
    factored = SMLR(1.0, l1_ratio=l1_ratio, penalty_factors=r, tol=1e-10).fit(X, y)
    assert factored.solution_.objective == pytest.approx(scaled.solution_.objective, rel=1e-8)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.0])
def test_penalised_intercept_is_a_column_of_ones(l1_ratio: float) -> None:
    X, y = iris()
    model = SMLR(l1_ratio=l1_ratio, penalize_intercept=True, tol=1e-10).fit(X, y)
    column = SMLR(l1_ratio=l1_ratio, fit_intercept=False, tol=1e-10).fit(np.c_[X, np.ones(len(y))], y)
    assert model.solution_.objective == pytest.approx(column.solution_.objective, rel=1e-8)
    assert model.coef_.shape == (3, 4)
    assert model.solution_.w.shape == (4, 3)
    assert_allclose(model.intercept_, column.coef_[:, -1], atol=1e-3)


def test_without_intercept() -> None:
    X, y = iris()
    model = SMLR(fit_intercept=False).fit(X, y)
    assert_array_equal(model.intercept_, np.zeros(3))
    assert_allclose(model.predict_proba(np.zeros((1, 4))), np.full((1, 3), 1 / 3))


def test_class_weight() -> None:
    X, y = two_classes()
    by_hand = SMLR(tol=1e-10).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    by_class = SMLR(class_weight={1: 3.0}, tol=1e-10).fit(X, y)
    assert_allclose(by_class.coef_, by_hand.coef_, atol=1e-8)
    counts = np.bincount(y)
    balanced = SMLR(class_weight="balanced", tol=1e-10).fit(X, y)
    same = SMLR(class_weight=dict(enumerate(len(y) / (2 * counts))), tol=1e-10).fit(X, y)
    assert_allclose(balanced.coef_, same.coef_, atol=1e-8)
    # The score equation then balances weighted totals: half of the weight for each class.
    assert_allclose((1 / counts[y]) @ balanced.predict_proba(X), [1.0, 1.0], rtol=1e-5)


def test_balanced_weights_count_repetitions() -> None:
    X, y = two_classes()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = SMLR(class_weight="balanced", tol=1e-10).fit(X, y, sample_weight=weight)
    repeated = SMLR(class_weight="balanced", tol=1e-10).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_reference_coding_pins_the_last_class() -> None:
    X, y = iris()
    model = SMLR(coding="reference", tol=1e-10).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert_array_equal(model.coef_[-1], np.zeros(4))
    assert model.intercept_[-1] == 0.0
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    # The symmetric optimum contains every reference optimum.
    assert SMLR(tol=1e-10).fit(X, y).solution_.objective <= model.solution_.objective * (1 + 1e-10)
    assert_allclose(
        SMLR(coding="reference").fit(X[:100], y[:100]).coef_, SMLR(coding="symmetric").fit(X[:100], y[:100]).coef_
    )


def test_even_number_of_classes_is_canonical() -> None:
    """No feature keeps a common shift: the median of its class weights (one of two for even K) is zero."""
    X, y = drawn(3, 4, n=120)
    model = SMLR(0.5, tol=1e-10).fit(X, y)
    assert (np.sort(np.abs(model.coef_), axis=0)[0] == 0).all()
    assert model.intercept_.sum() == pytest.approx(0.0, abs=1e-10)


def test_strings_and_probabilities() -> None:
    X, y = iris()
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model, numbered = SMLR().fit(X, names), SMLR().fit(X, y)
    assert_array_equal(model.predict(X), np.asarray(["setosa", "versicolor", "virginica"])[numbered.predict(X)])
    P = model.predict_proba(1e6 * X)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1.0, rtol=1e-15)
    assert np.isfinite(model.predict_log_proba(1e6 * X)).all()
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


# --- kernels ---


def test_kernel_has_other_attributes() -> None:
    X, y = iris()
    model = SMLR(0.1, kernel="rbf").fit(X, y)
    for name in ("coef_", "active_features_"):
        with pytest.raises(AttributeError, match=name):
            getattr(model, name)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert 0 < len(model.support_) < len(y)
    eta = rbf_kernel(X, X[model.support_], gamma=1 / (4 * X.var())) @ model.dual_coef_.T + model.intercept_
    assert_allclose(model.decision_function(X), eta, atol=1e-10)
    model.set_params(kernel=None).fit(X, y)
    for name in ("support_", "support_vectors_", "dual_coef_"):
        assert not hasattr(model, name)


def test_the_same_kernel_in_three_ways() -> None:
    X, y = iris()
    built_in = SMLR(0.1, kernel="rbf", gamma=0.3, tol=1e-10).fit(X, y)
    function = SMLR(0.1, kernel=rbf_kernel, kernel_params={"gamma": 0.3}, tol=1e-10).fit(X, y)
    matrix = SMLR(0.1, kernel="precomputed", tol=1e-10).fit(rbf_kernel(X, gamma=0.3), y)
    for model, rows in ((function, X[::7]), (matrix, rbf_kernel(X[::7], X, gamma=0.3))):
        assert model.solution_.objective == pytest.approx(built_in.solution_.objective, rel=1e-9)
        assert_allclose(model.predict_proba(rows), built_in.predict_proba(X[::7]), atol=1e-5)


def test_cross_validation_of_a_precomputed_kernel() -> None:
    X, y = iris()
    by_matrix = cross_val_score(SMLR(0.1, kernel="precomputed"), rbf_kernel(X, gamma=0.3), y, cv=3)
    by_name = cross_val_score(SMLR(0.1, kernel="rbf", gamma=0.3), X, y, cv=3)
    assert_allclose(by_matrix, by_name, atol=1e-12)
    assert by_name.mean() > 0.9


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_a_repeated_row_is_one_centre(kernel: str) -> None:
    X, y = drawn(0, 3, n=30)
    index = np.r_[np.arange(30), np.arange(10), np.arange(10)]
    rows = rbf_kernel(X)[np.ix_(index, index)] if kernel == "precomputed" else X[index]
    model = RMLR(kernel=kernel).fit(rows, y[index])
    assert_array_equal(model.support_, np.arange(30))


def test_some_centres() -> None:
    X, y = iris()
    first, again, other = (RMLR(kernel="rbf", n_centers=10, random_state=seed).fit(X, y).support_ for seed in (1, 1, 2))
    assert len(first) == 10
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    weight = (np.arange(150) % 3 > 0).astype(float)
    chosen = RMLR(kernel="rbf", n_centers=10, random_state=np.random.RandomState(0)).fit(X, y, weight).support_
    assert (weight[chosen] > 0).all()


# --- life of an estimator ---


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS, ids=repr)
def test_pickle_and_clone(estimator: Any) -> None:
    general.pickles_and_clones(estimator)


def test_grid_search() -> None:
    X, y = iris()
    grid = {"smlr__alpha": [0.1, 1.0], "smlr__gamma": [0.03, 0.3]}
    pipeline = make_pipeline(StandardScaler(), SMLR(kernel="rbf"))
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert search.best_params_["smlr__alpha"] == 0.1
    assert search.best_estimator_.score(X, y) > 0.95
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("model", [SMLR(0.2), RMLR(0.2), SMLR(0.05, kernel="rbf"), RMLR(0.2, kernel="rbf")], ids=repr)
def test_warm_start(model: Any) -> None:
    """The same optimum, in fewer iterations, from the fit before."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:150], y[:150]
    cold = clone(model).set_params(tol=1e-9).fit(X, y)
    warm = clone(model).set_params(tol=1e-9, warm_start=True).fit(X, y)
    warm.set_params(alpha=0.95 * model.alpha).fit(X, y)
    cold_again = clone(cold).set_params(alpha=0.95 * model.alpha).fit(X, y)
    assert warm.solution_.objective == pytest.approx(cold_again.solution_.objective, rel=1e-7)
    assert len(warm.solution_.history) < len(cold_again.solution_.history)
    warm.fit(X, y)
    assert warm.solution_.n_iter <= 1


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_warm_start_keeps_the_weights_of_common_centres(kernel: str) -> None:
    """Footnote 7 of the paper: rows are added, the centres that stay keep their weights."""
    X, y = iris()
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    K = rbf_kernel(X, gamma=0.3)

    def rows(count: int) -> Array:
        return K[:count, :count] if kernel == "precomputed" else X[:count]

    model = SMLR(0.1, kernel=kernel, gamma=0.3, warm_start=True).fit(rows(140), y[:140])
    model.fit(rows(150), y)
    cold = SMLR(0.1, kernel=kernel, gamma=0.3).fit(rows(150), y)
    assert model.solution_.history[0] < 0.5 * cold.solution_.history[0]
    assert model.solution_.objective == pytest.approx(cold.solution_.objective, rel=1e-5)


def test_warm_start_survives_other_data() -> None:
    """Nothing of an earlier fit is used where it does not apply: other classes, features or kernel."""
    X, y = iris()
    model = SMLR(warm_start=True).fit(X, y)
    for rows, labels in ((X[:, :2], y), (X[:100], y[:100]), (X, y)):
        model.fit(rows, labels)
        assert_allclose(model.predict_proba(rows), SMLR().fit(rows, labels).predict_proba(rows), atol=1e-2)
    model.set_params(kernel="rbf").fit(X, y)
    model.set_params(kernel=None, penalize_intercept=True).fit(X, y)
    model.fit(np.c_[X, np.ones(150)], y)
    assert model.solution_.converged


def test_solution() -> None:
    X, y = iris()
    solution = SMLR(tol=1e-8).fit(X, y).solution_
    assert solution.status.name == "CONVERGED"
    assert solution.status.value.endswith(".")
    assert solution.converged
    assert solution.solver == "coordinate"
    assert RMLR().fit(X, y).solution_.solver == "newton"
    assert solution.scale == pytest.approx(150 * np.log(3))
    assert 0 <= solution.gap <= 1e-8 * solution.scale
    assert solution.violation < 1e-2
    assert solution.n_active == np.count_nonzero(solution.w) == np.count_nonzero(SMLR(tol=1e-8).fit(X, y).coef_)
    assert solution.w.shape == (4, 3)
    assert (np.diff(solution.history) <= 1e-12 * solution.scale).all()


@pytest.mark.parametrize("solver", ["coordinate", "proximal", "block"])
def test_solvers_can_be_chosen(solver: str) -> None:
    X, y = iris()
    model = SMLR(5.0, solver=solver, max_iter=20000).fit(X, y)
    assert model.solution_.solver == solver
    assert model.solution_.objective == pytest.approx(SMLR(5.0).fit(X, y).solution_.objective, rel=1e-5)


def test_to_frame() -> None:
    pytest.importorskip("pandas")
    data = load_wine(as_frame=True)
    X = (data.data - data.data.mean()) / data.data.std()
    model = SMLR(10.0).fit(X, data.target_names[data.target])
    frame = model.to_frame()
    assert list(frame.columns) == list(data.target_names)
    assert set(frame.index) == set(X.columns[model.active_features_])
    assert (np.diff(frame.abs().max(axis=1)) <= 0).all()
    assert_array_equal(frame.loc["proline"], model.coef_[:, X.columns.get_loc("proline")])
    assert SMLR(1e6).fit(X, data.target).to_frame().empty
    two = SMLR(1.0).fit(X[data.target < 2].to_numpy(), data.target[data.target < 2]).to_frame()
    assert list(two.columns) == [1]
    assert two.index[0].startswith("x")


def test_to_frame_needs_features() -> None:
    pytest.importorskip("pandas")
    X, y = iris()
    with pytest.raises(AttributeError, match="coef_"):
        SMLR(kernel="rbf").fit(X, y).to_frame()
