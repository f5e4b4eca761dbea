"""Columns far from zero, flat, tiny or immense; weights that fill no fold: a right answer, or a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import PredefinedSplit

from smaller import (
    KLR,
    RMLR,
    RVC,
    SBMLR,
    SMLR,
    SMLRCV,
    SparseProbit,
    SparseRegressor,
    load,
    save,
    smlr_path,
)
from smaller.problem import Status

CLASSIFIERS = [
    SMLR(alpha=3.0),
    SMLR(alpha=3.0, l1_ratio=0.5),
    RMLR(alpha=3.0),
    SBMLR(),
    SMLRCV(alphas=10, cv=3),
    SparseProbit(),
    SparseProbit(prior="laplace", alpha=3.0),
]


def table(n: int = 200, d: int = 5, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n) > 0).astype(int)


# --- columns far from zero ---


@pytest.mark.parametrize("offset", [1e6, 1e8])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_an_offset_of_the_columns_changes_the_intercept_only(model: Any, offset: float) -> None:
    X, y = table()
    moved = X + offset * np.array([1.0, -1.0, 1.0, 0.0, 2.0])
    near = moved - offset * np.array([1.0, -1.0, 1.0, 0.0, 2.0])  # what is left of the digits
    one, other = clone(model).fit(near, y), clone(model).fit(moved, y)
    assert other.solution_.status is one.solution_.status
    assert other.score(moved, y) > 0.85
    np.testing.assert_allclose(other.predict_proba(moved), one.predict_proba(near), atol=5e-3)
    np.testing.assert_array_equal(other.coef_ == 0, one.coef_ == 0)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_several_classes_of_an_offset_table_stay_canonical(offset: float) -> None:
    X, _ = table(300)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    moved = X + offset
    model = SMLR(alpha=2.0).fit(moved, y)
    assert model.score(moved, y) > 0.9
    assert abs(model.intercept_.sum()) <= 1e-12 * np.abs(model.intercept_).max()
    again = SMLR(alpha=2.0).fit(moved - offset, y)
    np.testing.assert_allclose(model.predict_proba(moved), again.predict_proba(moved - offset), atol=1e-4)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, sparse.csr_array], ids=["dense", "csc", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_paths_of_offset_columns_are_certified_where_they_say_so(storage: Callable[..., Any], dtype: Any) -> None:
    X, y = table()
    moved = (X + 1e8).astype(dtype) if dtype == np.float64 else (X + 1e5).astype(dtype)
    path = smlr_path(storage(moved), y, alphas=10)
    assert path.converged
    exact = moved.astype(np.longdouble)
    for alpha, w, b, gap, claimed in zip(
        path.alphas, path.coefs[:, 0], path.intercepts[:, 0], path.gaps, path.objectives, strict=True
    ):
        eta = exact @ w.astype(np.longdouble) + b
        objective = np.logaddexp(0, np.where(y == 1, -eta, eta)).sum() + alpha * np.abs(w).sum()
        assert abs(float(objective) - claimed) <= gap + 1e-5 * path.null_loss


@pytest.mark.parametrize("prior", ["jeffreys", "laplace"])
def test_regression_on_offset_columns(prior: str) -> None:
    X, _ = table()
    rng = np.random.default_rng(1)
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * rng.standard_normal(len(X))
    model = SparseRegressor(prior=prior).fit(X + 1e8, y)
    assert model.score(X + 1e8, y) > 0.98
    assert 0.005 < model.noise_variance_ < 0.02
    mean, std = model.predict(X + 1e8, return_std=True)
    near, near_std = SparseRegressor(prior=prior).fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, near, atol=1e-3)
    np.testing.assert_allclose(std, near_std, rtol=1e-3)


def test_ranges_of_probabilities_do_not_depend_on_an_offset() -> None:
    X, y = table(500)
    near = SMLR(alpha=5.0, posterior=True).fit(X, y)
    far = SMLR(alpha=5.0, posterior=True).fit(X + 1e7, y)
    for end, other in zip(near.probability_interval(X), far.probability_interval(X + 1e7), strict=True):
        np.testing.assert_allclose(end, other, atol=1e-4)


def test_model_files_keep_the_units(tmp_path: Any) -> None:
    X, _ = table()
    y = X[:, 0] + 0.1 * np.sin(9 * X[:, 1])
    model = SparseRegressor().fit(X + 1e7, y)
    save(model, tmp_path / "model.smaller")
    for one, other in zip(
        load(tmp_path / "model.smaller").predict(X + 1e7, return_std=True),
        model.predict(X + 1e7, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_a_warm_start_from_an_offset_fit_starts_there() -> None:
    X, y = table()
    model = SMLR(alpha=1.0, warm_start=True).fit(X + 1e7, y)
    first = model.predict_proba(X + 1e7)
    assert model.fit(X + 1e7, y).n_iter_ <= 2
    np.testing.assert_allclose(model.predict_proba(X + 1e7), first, atol=1e-3)


# --- nothing varies ---


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array], ids=["dense", "csc"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", [*CLASSIFIERS, KLR(), RVC(moderate=False)], ids=str)
def test_data_without_a_varying_column_give_the_frequencies(model: Any, dtype: Any, storage: Any) -> None:
    X, y = storage(np.full((30, 4), 3.0, dtype=dtype)), np.arange(30) % 3 > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)  # that no feature was kept is said
        model = clone(model).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), [[1 / 3, 2 / 3]] * 30, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array], ids=["dense", "csc"])
def test_paths_and_folds_without_a_varying_column(storage: Any, dtype: Any) -> None:
    flat = np.full((30, 4), 3.0, dtype=dtype)
    y = np.arange(30) % 2
    path = smlr_path(storage(flat), y, alphas=[1.0, 0.1])
    assert path.converged
    assert not path.n_active.any()
    one_row = flat.copy()
    one_row[0] = 7.0  # constant in the folds that leave the first row out
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* is the smallest of the grid")
        model = SMLRCV(alphas=[1.0, 0.1], cv=PredefinedSplit(np.arange(30) // 15)).fit(storage(one_row), y)
    assert np.isfinite(model.scores_).all()


# --- scorers and folds ---


@pytest.mark.parametrize(
    "scoring", ["neg_log_loss", "accuracy", "balanced_accuracy", "roc_auc", "neg_brier_score", "average_precision"]
)
def test_any_scorer_chooses_the_strength(scoring: str) -> None:
    assert scoring in get_scorer_names()
    X, y = table()
    model = SMLRCV(alphas=8, cv=3, scoring=scoring).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.scores_).all()


@pytest.mark.parametrize("scoring", ["roc_auc_ovr", "roc_auc_ovo_weighted", "f1_macro", "neg_log_loss"])
def test_any_scorer_of_several_classes(scoring: str) -> None:
    X, _ = table(300)
    y = np.digitize(X[:, 0] + 0.3 * X[:, 2] * X[:, 3], [-0.5, 0.5])
    model = SMLRCV(alphas=8, cv=3, scoring=scoring).fit(X, y)
    assert model.score(X, y) > 0.75


def test_a_scorer_that_asks_for_probabilities_gets_those_of_the_strength() -> None:
    X, y = table()
    chosen = SMLRCV(alphas=8, cv=3).fit(X, y)
    asked = SMLRCV(alphas=8, cv=3, scoring=lambda model, X, y: np.log(model.predict_proba(X)[range(len(y)), y]).mean())
    np.testing.assert_allclose(asked.fit(X, y).scores_, chosen.scores_, rtol=1e-10)


def test_a_fold_without_weight_is_left_out() -> None:
    X, y = table()
    folds = np.arange(200) % 4
    weight = (folds > 0).astype(float)
    model = SMLRCV(alphas=6, cv=PredefinedSplit(folds)).fit(X, y, sample_weight=weight)
    assert np.isnan(model.scores_[0]).all()
    rest = folds > 0
    alone = SMLRCV(alphas=model.alphas_, cv=PredefinedSplit(folds[rest])).fit(X[rest], y[rest])
    np.testing.assert_allclose(model.scores_[1:], alone.scores_, rtol=1e-5)
    assert model.alpha_ == alone.alpha_


def test_no_fold_with_any_weight_is_a_sentence() -> None:
    X, y = table(20)
    folds = PredefinedSplit(np.where(np.arange(20) < 10, 0, -1))
    with pytest.raises(ValueError, match="NaN for every alpha"):
        SMLRCV(alphas=3, cv=folds).fit(X, y, sample_weight=(np.arange(20) >= 10).astype(float))


# --- magnitudes ---


def test_weights_over_forty_decades_are_refused_with_advice() -> None:
    X, y = table(20)
    with pytest.raises(ValueError, match="give rows with next to no weight the weight 0"):
        SMLR().fit(X, y, sample_weight=np.logspace(-20, 20, 20))
    with pytest.raises(ValueError, match="divide it by its mean"):
        SMLR().fit(X, y, sample_weight=np.full(20, 1e-300))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_subnormal_columns_fit_or_are_refused(model: Any) -> None:
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if isinstance(model, SBMLR | SMLRCV) or getattr(model, "prior", "") == "jeffreys":  # they find the strength
            with pytest.raises(ValueError, match="multiply them by a constant"):
                clone(model).fit(X * 1e-310, y)
            return
        model = clone(model).fit(X * 1e-310, y)
    np.testing.assert_allclose(model.predict_proba(X * 1e-310), [np.bincount(y) / len(y)] * len(y), atol=1e-6)
    assert not model.coef_.any()


# --- noise that vanishes ---


def subgradient(model: Any, X: Any, y: Any) -> Any:
    """How far the Laplace regression is from stationary in its weights, by arithmetic of its own."""
    w, v = model.coef_, model.noise_variance_
    g = -X.T @ (y - X @ w - model.intercept_) / v
    return np.where(w != 0, np.abs(g + model.alpha * np.sign(w)), np.maximum(np.abs(g) - model.alpha, 0.0)).max()


@pytest.mark.parametrize("alpha", [0.5, 5.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_laplace_regression_that_interpolates_says_so(alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 150))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(50)
    with pytest.warns(UserWarning, match="raise alpha, give noise"):
        model = SparseRegressor(prior="laplace", alpha=alpha).fit(X, y)
    assert model.solution_.status is Status.INTERPOLATES
    assert not model.solution_.converged


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("alpha", [25.0, 30.0])
def test_a_stationary_laplace_regression_is_stationary(alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 300))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(200)
    model = SparseRegressor(prior="laplace", alpha=alpha).fit(X, y)
    assert model.solution_.status is Status.STATIONARY
    assert set(model.active_features_) >= {0, 1, 2}
    assert subgradient(model, X, y) < 1e-4 * alpha
    assert model.solution_.violation < 1e-4 * alpha
    assert 0.2 < model.noise_variance_ < 4.0
    assert model.noise_variance_ == pytest.approx(np.mean((y - model.predict(X)) ** 2), rel=1e-4)
