"""max_features: where the path stops, what cross-validation may choose from, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import scale

from smaller import SMLR, SMLRCV, smlr_path

Array = Any
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")


def wine() -> tuple[Array, Array]:
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def cancer() -> tuple[Array, Array]:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("data", [wine, cancer])
@pytest.mark.parametrize("most", [0, 1, 3, 7])
def test_the_path_ends_before_the_first_strength_with_more(data: Any, most: int) -> None:
    X, y = data()
    whole, capped = smlr_path(X, y, alphas=40), smlr_path(X, y, alphas=40, max_features=most)
    first = int(np.flatnonzero(whole.n_active > most)[0])
    assert_array_equal(capped.alphas, whole.alphas[:first])
    assert_array_equal(capped.n_active, whole.n_active[:first])
    assert_allclose(capped.objectives, whole.objectives[:first], rtol=1e-12)


def test_a_cap_that_never_binds_changes_nothing() -> None:
    X, y = wine()
    assert_array_equal(smlr_path(X, y, alphas=10, max_features=13).coefs, smlr_path(X, y, alphas=10).coefs)


@pytest.mark.parametrize("rule", ["min", "1se"])
def test_the_best_strength_among_those_that_are_allowed(rule: str) -> None:
    X, y = cancer()
    free = SMLRCV(alphas=60, rule=rule).fit(X, y)
    assert free.active_features_.size > 5
    capped = SMLRCV(alphas=60, rule=rule, max_features=5).fit(X, y)
    allowed = capped.path_.n_active <= 5
    assert_array_equal(capped.scores_, free.scores_)
    mean = capped.scores_.mean(axis=0)
    best = np.flatnonzero(allowed)[np.argmax(mean[allowed])]
    if rule == "1se":
        error = capped.scores_[:, best].std(ddof=1) / np.sqrt(5)
        best = np.flatnonzero(allowed & (mean >= mean[best] - error))[0]
    assert capped.alpha_ == capped.alphas_[best]
    assert capped.active_features_.size == capped.path_.n_active[best] <= 5
    again = SMLR(alpha=capped.alpha_, tol=1e-9).fit(X, y)
    assert_array_equal(capped.active_features_, again.active_features_)


@SHORT_GRID
def test_mixes_are_capped_one_by_one() -> None:
    X, y = wine()
    model = SMLRCV(alphas=15, l1_ratio=[0.2, 1.0], max_features=4).fit(X, y)
    assert model.active_features_.size <= 4
    paths = [smlr_path(X, y, alphas=15, l1_ratio=ratio) for ratio in (0.2, 1.0)]
    mean = np.where([path.n_active <= 4 for path in paths], model.scores_.mean(axis=0), -np.inf)
    ratio, strength = np.unravel_index(mean.argmax(), mean.shape)
    assert (model.l1_ratio_, model.alpha_) == ((0.2, 1.0)[ratio], model.alphas_[ratio, strength])


def test_none_allowed_is_the_model_without_features() -> None:
    X, y = wine()
    model = SMLRCV(alphas=8, max_features=0).fit(X, y)
    assert not model.coef_.any()
    assert_allclose(model.predict_proba(X[:1])[0], np.bincount(y) / len(y), rtol=1e-6)


def test_a_penalised_intercept_is_no_feature() -> None:
    X, y = wine()
    path = smlr_path(X, y, alphas=30, penalize_intercept=True, max_features=2)
    assert path.n_active.max() <= 2
    assert SMLRCV(alphas=30, penalize_intercept=True, max_features=2).fit(X, y).active_features_.size <= 2


@SHORT_GRID
def test_centres_are_counted_with_a_kernel() -> None:
    X, y = wine()
    assert len(SMLRCV(kernel="rbf", alphas=15, max_features=6).fit(X, y).support_) <= 6


@pytest.mark.parametrize(
    ("most", "error", "text"),
    [
        (-1, ValueError, "max_features must be an integer >= 0, got -1"),
        (2.5, TypeError, "max_features must be an integer, got 2.5"),
        (True, TypeError, "max_features must be an integer, got True"),
        ("ten", TypeError, "max_features must be an integer, got 'ten'"),
    ],
)
def test_what_is_no_number_of_features_is_refused(most: Any, error: type[Exception], text: str) -> None:
    X, y = wine()
    with pytest.raises(error, match=text):
        SMLRCV(max_features=most).fit(X, y)
    with pytest.raises(error, match=text):
        smlr_path(X, y, max_features=most)


def test_strengths_that_all_keep_more_are_refused() -> None:
    X, y = wine()
    with pytest.raises(ValueError, match="max_features=1, but every strength of the grid keeps more"):
        SMLRCV(alphas=[1.0, 0.5], max_features=1).fit(X, y)
    with pytest.raises(ValueError, match="max_features=1, but the largest alpha, 1, keeps more"):
        smlr_path(X, y, alphas=[1.0, 0.5], max_features=1)
