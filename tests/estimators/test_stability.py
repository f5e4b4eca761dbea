"""Complementary halves, selection frequencies and the error bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from smaller import SMLR
from smaller.estimators.stability import StabilitySelection, _complementary_halves, expected_false_selections

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 20))
Y = (X[:, 2] - X[:, 5] + 0.3 * RNG.normal(size=120) > 0).astype(int)


def selector(**options: Any) -> StabilitySelection:
    return StabilitySelection(**({"n_pairs": 8, "random_state": 0} | options))


@pytest.mark.filterwarnings("ignore:No features were selected")  # the checks' features are copies of each other
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=str(i))
        for i, (estimator, check) in enumerate(estimator_checks_generator(StabilitySelection(n_pairs=1)))
    ],
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@given(st.lists(st.integers(0, 3), min_size=8, max_size=60), st.integers(0, 99))
def test_halves_are_disjoint_equal_and_keep_the_proportions(codes: list[int], seed: int) -> None:
    y = np.array(codes)
    counts = np.bincount(y, minlength=4)
    if (counts >= 2).sum() < 2:
        return
    a, b = _complementary_halves(y, np.random.RandomState(seed))
    assert len(a) == len(b) == len(y) // 2
    assert not set(a) & set(b)
    assert (np.abs(np.bincount(y[a], minlength=4) - np.bincount(y[b], minlength=4)) <= 1).all()


def test_the_true_features_are_stable_and_noise_is_not() -> None:
    model = selector(n_pairs=10).fit(X, Y)
    assert model.get_support(indices=True).tolist() == [2, 5]
    assert model.frequencies_[[2, 5]].min() == 1.0
    assert model.transform(X).shape == (120, 2)


def test_frequencies_add_up_to_what_each_half_chose() -> None:
    model = selector(n_features=3).fit(X, Y)
    assert model.n_chosen_ == pytest.approx(3.0)
    assert np.allclose(model.frequencies_ * 16, np.round(model.frequencies_ * 16))


def test_the_threshold_is_the_smallest_that_meets_the_bound() -> None:
    model = selector(n_features=3, max_false=0.7).fit(X, Y)
    assert expected_false_selections(model.threshold_, 3, 20, 8) <= 0.7
    assert expected_false_selections(model.threshold_ - 1 / 16, 3, 20, 8) > 0.7
    assert model.expected_false_ == expected_false_selections(model.threshold_, model.n_chosen_, 20, 8)


def test_nothing_is_kept_where_no_threshold_meets_the_bound() -> None:
    model = selector(n_features=15, max_false=0.1).fit(X, Y)
    assert model.threshold_ > 1.0
    with pytest.warns(UserWarning, match="No features were selected"):
        assert model.transform(X).shape == (120, 0)


def test_noise_alone_stays_within_the_bound() -> None:
    """The bound holds on average over data sets: count what is selected when nothing is related to y."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(60, 40))
        model = selector(n_features=5, max_false=1.0, random_state=seed, n_pairs=10)
        found.append(model.fit(noise, rng.integers(0, 2, 60)).get_support().sum())
    assert np.mean(found) <= 1.0


def test_scale_does_not_matter_with_standardize_and_does_without() -> None:
    scaled = X * np.r_[np.ones(10), np.full(10, 1e-4)]
    assert np.array_equal(selector().fit(X, Y).frequencies_, selector().fit(scaled, Y).frequencies_)
    shrunk = X.copy()
    shrunk[:, 2] *= 1e-4
    assert selector(standardize=False).fit(shrunk, Y).frequencies_[2] < 1.0


def test_sparse_rows_give_what_dense_rows_give() -> None:
    thin = np.where(np.abs(X) > 1.0, X, 0.0)
    dense = selector(standardize=False).fit(thin, Y).frequencies_
    assert np.allclose(selector(standardize=False).fit(sparse.csr_array(thin), Y).frequencies_, dense)


@pytest.mark.parametrize("estimator", [SMLR(5.0), make_pipeline(StandardScaler(), SMLR(5.0))])
def test_any_sparse_linear_estimator_can_choose(estimator: Any) -> None:
    model = selector(estimator=estimator).fit(X, Y)
    assert model.frequencies_[[2, 5]].min() == 1.0


def test_an_estimator_without_weights_is_refused() -> None:
    with pytest.raises(TypeError, match="coef_"):
        selector(estimator=SMLR(kernel="rbf")).fit(X, Y)


@pytest.mark.parametrize(
    "options",
    [
        {"n_pairs": 0}, {"threshold": 0.5}, {"threshold": 1.2}, {"max_false": 0.0}, {"bound": "best"},
        {"n_features": 0}, {"standardize": 1},
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        selector(**options).fit(X, Y)


def test_a_failed_fit_changes_nothing() -> None:
    model = selector().fit(X, Y)
    before = model.frequencies_
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.zeros(120))
    assert model.frequencies_ is before


def test_the_unimodal_bound_is_sharper_and_continuous_where_its_pieces_meet() -> None:
    worst = [expected_false_selections(t, 10, 1000, 50) for t in (0.6, 0.7, 0.8, 0.9)]
    sharp = [expected_false_selections(t, 10, 1000, 50, bound="unimodal") for t in (0.6, 0.7, 0.8, 0.9)]
    assert all(b < a for a, b in zip(worst, sharp, strict=True))
    left, right = (expected_false_selections(0.75 + d, 10, 1000, 50, bound="unimodal") for d in (0.0, 1e-9))
    assert left == pytest.approx(right, rel=1e-3)
    assert math.isinf(expected_false_selections(0.5, 10, 1000, 50, bound="unimodal"))
    assert math.isinf(expected_false_selections(0.9, 700, 1000, 50, bound="unimodal"))
