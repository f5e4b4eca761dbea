"""Extreme columns, thin folds, heavy rows: a sentence or the fit, never a bare error or a stray warning.

What `make fuzz` has found, as small as it goes; warnings are errors here.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import smaller


def labelled(n: int = 40, d: int = 4, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


@pytest.mark.parametrize("model", [smaller.KLR(kernel="linear"), smaller.IVM(kernel="linear"), smaller.RVC()], ids=str)
def test_kernels_of_immense_columns_are_a_sentence(model: Any) -> None:
    X, y = labelled()
    with pytest.raises(ValueError, match=r"not finite: scale the features|Scale the features"):
        model.fit(1e200 * X, y)


def test_a_kernel_that_is_zero_everywhere_leaves_nothing_to_choose() -> None:
    X, y = labelled()
    model = smaller.IVM(kernel="linear").fit(1e-300 * X, y)
    assert len(model.support_) == 0
    assert_allclose(model.predict_proba(X)[:, 1], y.mean(), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-300, 1e200])
def test_relevance_in_units_that_no_number_holds(size: float) -> None:
    X, y = labelled()
    X[:, 0] *= size
    with pytest.raises(ValueError, match="float64 cannot hold the"):
        smaller.RVC(kernel=None).fit(X, y)


@pytest.mark.parametrize("size", [1e-160, 1e200])
def test_mixed_penalties_of_extreme_columns_claim_no_more_than_they_know(size: float) -> None:
    X, y = labelled()
    X[:, 0] *= size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = smaller.SMLR(l1_ratio=0.5, penalize_intercept=True).fit(X, y)
    assert model.solution_.gap >= 0.0
    assert model.solution_.converged == (model.solution_.gap <= model.tol * model.solution_.scale)
    assert model.solution_.converged or model.solution_.status.name == "STALLED"


# --- folds and held-back rows ---


def test_an_auc_of_a_fold_without_a_class_is_a_sentence() -> None:
    X, y = labelled(12)
    weight = np.ones(12)
    weight[np.flatnonzero(y == 1)[:-1]] = 0.0  # one row of this class counts
    with pytest.raises(ValueError, match="holds out no row of class"):
        smaller.SMLRCV(alphas=3, cv=[(np.arange(12), np.flatnonzero(y == 0))], scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match=r"fewer than two classes|holds out no row of class"):
        smaller.SMLRCV(alphas=3, cv=2, scoring="roc_auc").fit(X, y, sample_weight=weight)


def test_more_folds_than_rows_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="cv asks for 5 folds of 3 rows: use fewer folds"):
        smaller.SMLRCV(cv=5).fit([[0.0], [1.0], [2.0]], [0, 1, 1])


def test_too_few_rows_held_back_for_every_class_are_a_sentence() -> None:
    X = np.arange(12.0)[:, None]
    with pytest.raises(ValueError, match=r"validation_fraction=0.25 holds back 3 of 12 rows"):
        smaller.IVM(alphas=[1.0, 0.1]).fit(X, np.arange(12) % 5)


@pytest.mark.parametrize("model", [smaller.KLR(n_centers=5, centers="kmeans", random_state=0)], ids=str)
def test_centres_of_rows_with_long_indices(model: Any) -> None:
    X, y = labelled()
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    expected = clone(model).fit(sparse.csr_array(X), y)
    assert_array_equal(clone(model).fit(long, y).support_, expected.support_)


# --- what adaptive fits call stationary ---


@pytest.mark.parametrize(("weight", "offset"), [(1.0, 0.0), (1e6, 0.0), (1.0, 1e4)])
def test_stationary_means_that_no_weight_can_move(weight: float, offset: float) -> None:
    X, y = labelled(60, 8, seed=3)
    X, c = X + offset, np.full(60, weight)
    model = smaller.SparseProbit().fit(X, y, sample_weight=c)
    assert model.solution_.status.name == "STATIONARY"
    signs = 2 * y - 1
    eta = signs * (X @ model.coef_[0] + model.intercept_[0])
    pull = -c * signs * np.exp(-0.5 * eta**2 - special.log_ndtr(eta)) / np.sqrt(2 * np.pi)
    used = model.active_features_
    products = model.coef_[0, used] * (X[:, used].T @ pull)
    assert_allclose(products, -1.0, atol=0.03)


# --- fits that keep nothing ---


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (smaller.RVR(kernel=None), "RVR kept no feature: it predicts the mean"),
        (smaller.RVC(kernel=None), "RVC kept no feature: the shares of the classes"),
    ],
    ids=str,
)
def test_features_without_relation_are_all_dropped(model: Any, sentence: str) -> None:
    X, _ = labelled(16, 1)
    X -= X.mean(axis=0)
    y = np.tile([0, 1], 8)
    X = np.repeat(X[::2], 2, axis=0)  # the same features with either answer
    with pytest.warns(UserWarning, match=sentence):
        model = clone(model).fit(X, y)
    assert model.n_active_ == 0
    answers = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)
    assert_allclose(answers, 0.5)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_stability_does_not_depend_on_extreme_units(stored: Any) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 6))
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(60) > 0).astype(int)
    model = smaller.StabilitySelection(n_pairs=5, random_state=0)
    plain = model.fit(stored(X), y).frequencies_
    units = np.array([2.0**900, 1.0, 2.0**-900, 1.0, 1.0, 2.0**600])
    assert np.array_equal(model.fit(stored(X * units), y).frequencies_, plain)


def test_a_scorer_that_wants_numbers_for_labels_is_a_sentence() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] > 0, "ill", "well")
    with pytest.raises(ValueError, match=r"cannot judge these labels: .* Labels 0 and 1 may do"):
        smaller.SMLRCV(alphas=3, scoring="neg_brier_score").fit(X, y)
    model = smaller.SMLRCV(alphas=[1.0, 0.3], scoring="neg_brier_score")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the grid's end
        assert np.isfinite(model.fit(X, y == "well").scores_).all()
