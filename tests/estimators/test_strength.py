"""alpha_scale="max": a share of the strength that zeroes every weight means the same on any rows with any weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from smaller import SMLR, SMLRCV, alpha_max, smlr_path

Array = Any


def wine() -> tuple[Array, Array]:
    X, y = load_wine(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("settings", [{}, {"l1_ratio": 0.5}, {"kernel": "rbf"}, {"penalize_intercept": True}])
def test_a_share_is_that_multiple_of_alpha_max(settings: dict[str, Any]) -> None:
    X, y = wine()
    shared = SMLR(alpha=0.1, alpha_scale="max", tol=1e-9, **settings).fit(X, y)
    plain = SMLR(alpha=0.1 * alpha_max(X, y, **settings), tol=1e-9, **settings).fit(X, y)
    assert_allclose(shared.alpha_, plain.alpha, rtol=1e-12)
    assert_allclose(shared.solution_.objective, plain.solution_.objective, rtol=1e-9)
    assert plain.alpha_ == plain.alpha


def test_one_is_the_model_without_features_and_a_little_less_is_not() -> None:
    X, y = wine()
    assert SMLR(alpha=1.0, alpha_scale="max").fit(X, y).active_features_.size == 0
    assert SMLR(alpha=0.98, alpha_scale="max").fit(X, y).active_features_.size > 0


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e4])
def test_the_sum_of_the_weights_does_not_matter(factor: float) -> None:
    X, y = wine()
    weight = np.random.default_rng(0).random(len(y))
    one, other = (
        SMLR(alpha=0.05, alpha_scale="max", tol=1e-10).fit(X, y, sample_weight=c * weight) for c in (1.0, factor)
    )
    assert_allclose(other.alpha_, factor * one.alpha_, rtol=1e-10)
    assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-4)
    assert_array_equal(other.active_features_, one.active_features_)


def test_boosting_does_not_silently_give_models_without_features() -> None:
    """Its weights sum to one, against which an alpha of one is immense."""
    X, y = wine()
    boosted = AdaBoostClassifier(SMLR(alpha=0.05, alpha_scale="max"), n_estimators=5, random_state=0)
    assert cross_val_score(boosted, X, y, cv=5).mean() > 0.9
    members = boosted.fit(X, y).estimators_
    assert all(member.active_features_.size > 0 for member in members)
    plain = AdaBoostClassifier(SMLR(), n_estimators=1, random_state=0).fit(X, y)
    assert plain.estimators_[0].active_features_.size == 0


def test_bagging_of_small_subsamples() -> None:
    X, y = wine()
    alpha = 0.9 * alpha_max(X, y)
    samples = {"n_estimators": 5, "max_samples": 0.2, "random_state": 0}
    shared = BaggingClassifier(SMLR(alpha=0.1, alpha_scale="max"), **samples).fit(X, y)
    plain = BaggingClassifier(SMLR(alpha=alpha), **samples).fit(X, y)
    assert all(member.active_features_.size > 0 for member in shared.estimators_)
    assert not any(member.active_features_.size for member in plain.estimators_)
    assert shared.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")  # the grid is short
def test_lists_of_strengths_are_shares_too() -> None:
    X, y = wine()
    largest = alpha_max(X, y)
    assert_allclose(smlr_path(X, y, alphas=[0.1, 0.5], alpha_scale="max").alphas, [0.5 * largest, 0.1 * largest])
    model = SMLRCV(alphas=[0.5, 0.1, 0.02, 0.002], alpha_scale="max").fit(X, y)
    assert_allclose(model.alphas_, largest * np.array([0.5, 0.1, 0.02, 0.002]))
    assert model.alpha_ in model.alphas_
    numbers = (smlr_path(X, y, alphas=7, alpha_scale=scale).alphas for scale in ("sum", "max"))
    assert_array_equal(*numbers)


def test_nothing_to_explain_is_the_model_without_features() -> None:
    y = np.array([0, 1, 1, 0])
    model = SMLR(alpha=0.1, alpha_scale="max").fit(np.array([[1.0], [1.0], [-1.0], [-1.0]]), y)
    assert not model.coef_.any()
    assert model.solution_.converged
    assert not SMLR(alpha=0.1, alpha_scale="max").fit(np.ones((4, 1)), y).coef_.any()


def test_what_is_no_scale_is_refused() -> None:
    X, y = wine()
    for estimator in (SMLR(alpha_scale="mean"), SMLRCV(alpha_scale="mean")):
        with pytest.raises(ValueError, match=r"alpha_scale must be one of \['sum', 'max'\], got 'mean'"):
            estimator.fit(X, y)
    with pytest.raises(ValueError, match="no largest alpha without an l1 part"):
        SMLR(l1_ratio=0.0, alpha_scale="max").fit(X, y)
