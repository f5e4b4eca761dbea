"""relax=True: one support, one linear model, a blend of two fits; what is certified stays apart."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from smaller import SBMLR, SMLRCV
from smaller.persistence import load, save

Array = Any

X, Y = load_wine(return_X_y=True)
X = scale(X)
TWO = Y < 2


def models() -> list[Any]:
    return [SBMLR(relax=True), SMLRCV(relax=True, alphas=15)]


@pytest.fixture(params=[SBMLR(), SMLRCV(alphas=15)], ids=["SBMLR", "SMLRCV"])
def plain(request: pytest.FixtureRequest) -> Any:
    return request.param


def again(plain: Any, **settings: Any) -> Any:
    return type(plain)(**(plain.get_params() | {"relax": True} | settings))


@pytest.mark.parametrize(
    ("K", "settings"),
    [
        (2, {}),
        (3, {}),
        (3, {"coding": "reference"}),
        (2, {"class_weight": "balanced"}),
        (3, {"penalty_factors": np.r_[0.0, 2.0, np.ones(11)]}),
        (2, {"penalize_intercept": True}),
    ],
)
def test_the_support_is_that_of_the_penalised_fit(plain: Any, K: int, settings: dict[str, Any]) -> None:
    rows = TWO if K == 2 else slice(None)
    first = again(plain, relax=False, **settings).fit(X[rows], Y[rows])
    model = again(plain, **settings).fit(X[rows], Y[rows])
    assert_array_equal(model.penalized_coef_, first.coef_)
    assert_array_equal(model.penalized_intercept_, first.intercept_)
    assert_array_equal(model.coef_ != 0, first.coef_ != 0)
    assert_array_equal(model.active_features_, first.active_features_)
    assert model.solution_.gap == first.solution_.gap
    assert model.refit_strength_ > 0
    assert min(model.relax_) >= 0
    assert not hasattr(first, "relax_")


def test_it_is_a_blend_of_two_linear_models_and_repairs_the_probabilities_of_wine() -> None:
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=0).split(X, Y))
    first, model = SBMLR().fit(X[train], Y[train]), SBMLR(relax=True).fit(X[train], Y[train])
    a, c = model.relax_
    assert a + c > 1.0
    other = (model.coef_ - a * first.coef_) / c  # the refit
    assert np.abs(other).sum() > np.abs(first.coef_).sum()
    assert log_loss(Y[test], model.predict_proba(X[test])) < log_loss(Y[test], first.predict_proba(X[test]))


def test_sparse_rows_and_kernels(plain: Any) -> None:
    dense = again(plain, tol=1e-10).fit(X, Y)
    assert_allclose(again(plain, tol=1e-10).fit(sparse.csr_array(X), Y).coef_, dense.coef_, rtol=1e-4, atol=1e-6)
    kernel = again(plain, kernel="rbf", gamma=0.02).fit(X, Y)
    assert kernel.penalized_dual_coef_.shape == kernel.dual_coef_.shape
    assert not hasattr(kernel, "penalized_coef_")
    K = np.exp(-0.02 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    pairs = again(plain, kernel="precomputed").fit(K, Y)
    assert_allclose(pairs.predict_proba(K), kernel.predict_proba(X), atol=1e-4)


def test_a_row_of_weight_zero_takes_no_part_beyond_the_folds() -> None:
    """The folds count rows; with given ones, rows without weight change nothing."""
    folds = list(StratifiedKFold(3).split(X, Y))
    extra = [(np.append(train, len(X)), test) for train, test in folds]
    weight = np.append(np.linspace(0.5, 2.0, len(X)), 0.0)
    model = SBMLR(relax=True, cv=folds, tol=1e-10).fit(X, Y, weight[:-1])
    more = SBMLR(relax=True, cv=extra, tol=1e-10).fit(np.vstack([X, X[:1] + 9]), np.append(Y, 2), weight)
    assert_allclose(more.coef_, model.coef_, rtol=1e-4, atol=1e-6)
    assert_allclose(more.relax_, model.relax_, rtol=1e-4)


def test_a_second_fit_without_relax_leaves_nothing_behind(plain: Any) -> None:
    model = again(plain).fit(X, Y).set_params(relax=False).fit(X, Y)
    gone = ["relax_", "penalized_coef_", "penalized_intercept_", "refit_strength_"]
    assert not any(hasattr(model, name) for name in gone)


def test_a_model_without_features_is_kept_as_it_is() -> None:
    model = SMLRCV(alphas=[1e4, 9e3], relax=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the smaller alpha wins, at the edge
        model.fit(X, Y)
    assert model.relax_ == (1.0, 0.0)
    assert np.isnan(model.refit_strength_)
    assert_array_equal(model.intercept_, model.penalized_intercept_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_folds_with_one_class_are_a_reason_to_keep_the_penalised_fit() -> None:
    few = np.r_[0:3, 60:63]
    model = SMLRCV(relax=True, alphas=[1.0], cv=StratifiedKFold(3)).fit(X[few], Y[few])
    assert model.relax_[0] > 0.0
    model = SBMLR(relax=True)
    with pytest.warns(UserWarning, match="relax=True needs folds"):
        model.fit(X[few], Y[few])
    assert model.relax_ == (1.0, 0.0)
    halves = [(np.arange(60), np.arange(60, 130)), (np.arange(60, 130), np.arange(60))]
    with pytest.warns(UserWarning, match="relax=True needs folds"):
        SBMLR(relax=True, cv=halves).fit(X[TWO], Y[TWO])


def test_a_class_that_a_fold_lacks_is_scored_as_nearly_impossible() -> None:
    train = np.r_[0:140], np.arange(140, 178)
    model = SBMLR(relax=True, cv=[train, (np.arange(40, 178), np.arange(40))]).fit(X, Y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("settings", [{"relax": 1}, {"relax": "yes"}])
def test_relax_is_true_or_false(plain: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="relax must be True or False"):
        again(plain, **settings).fit(X, Y)


@pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)
def test_a_model_file_keeps_the_blend_and_its_parts(model: Any, tmp_path: Path) -> None:
    model.fit(X, Y)
    save(model, tmp_path / "m.smaller")
    same = load(tmp_path / "m.smaller")
    assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert same.relax_ == model.relax_
    assert_array_equal(same.penalized_coef_, model.penalized_coef_)


def test_relaxing_probabilities_that_need_it_not_changes_little() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    first, model = SBMLR().fit(X[::2], y[::2]), SBMLR(relax=True).fit(X[::2], y[::2])
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < log_loss(y[1::2], first.predict_proba(X[1::2])) + 0.03
