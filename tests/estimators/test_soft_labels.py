"""Rows of class probabilities as labels: the same as every row once for each class, with the shares as weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from smaller import RMLR, SBMLR, SMLR, SMLRCV, alpha_max, smlr_path
from structured import Structured, judge

Array = Any
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")


def soft_wine(K: int = 3, certainty: float = 3.0) -> tuple[Array, Array]:
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[y < K], y[y < K]
    rng = np.random.default_rng(0)
    return X, rng.dirichlet(np.ones(K), len(y)) / (1.0 + certainty) + certainty / (1.0 + certainty) * np.eye(K)[y]


def repeated(X: Array, P: Array) -> tuple[Array, Array, Array]:
    """Return every row once for each class, and the shares as weights."""
    K = P.shape[1]
    return np.repeat(X, K, axis=0), np.tile(np.arange(K), len(P)), P.ravel()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"coding": "reference"}, {"penalty": "grouped"}, {"upper_limits": 0.1}, {"kernel": "rbf"}], ids=str
)
def test_the_same_as_rows_for_every_class_with_shares_as_weights(K: int, settings: dict[str, Any]) -> None:
    X, P = soft_wine(K)
    soft = SMLR(alpha=3.0, tol=1e-11, **settings).fit(X, P)
    hard = SMLR(alpha=3.0, tol=1e-12, **settings)
    many, codes, weight = repeated(X, P)
    hard.fit(many, codes, sample_weight=weight)
    assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=1e-6)
    assert_allclose(soft.solution_.objective, hard.solution_.objective, rtol=1e-10)
    assert_array_equal(soft.classes_, np.arange(K))


def test_the_scale_is_what_there_is_to_explain() -> None:
    """Near-uniform labels: a gap of a millionth of the null loss would leave a thousandth of that."""
    X, P = soft_wine(certainty=0.0)
    P = 0.02 * P + 0.98 / 3.0
    model = SMLR(alpha=0.05, tol=1e-6).fit(X, P)
    shares = P.mean(axis=0)
    null, entropy = -float(np.sum(P @ np.log(shares))), -float(np.sum(P * np.log(P)))
    assert_allclose(model.solution_.scale, null - entropy, rtol=1e-9)
    assert model.solution_.scale < 1e-3 * null
    d = X.shape[1]
    nothing, endless = np.zeros(d), np.full(d, np.inf)
    case = Structured(
        X, P, np.ones(len(P)), 0.0 * P, np.arange(d), nothing, np.full(d, 0.05), nothing, -endless, endless
    )
    assert judge(case, model.coef_.T, model.intercept_).gap <= 1e-6 * (null - entropy) + 1e-12 * null
    path = smlr_path(X, P, alphas=10)
    assert path.converged
    assert path.gaps.max() <= 1e-6 * (null - entropy)


def test_certain_labels_are_ordinary_ones() -> None:
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    soft, hard = SMLR(alpha=3.0, tol=1e-10).fit(X, np.eye(3)[y]), SMLR(alpha=3.0, tol=1e-10).fit(X, y)
    assert_allclose(soft.coef_, hard.coef_, atol=1e-8)
    assert_allclose(soft.solution_.scale, hard.solution_.scale)
    assert soft.score(X, np.eye(3)[y]) == hard.score(X, y)


@pytest.mark.parametrize("K", [2, 3])
def test_alpha_max_is_exact(K: int) -> None:
    X, P = soft_wine(K)
    largest = alpha_max(X, P)
    many, codes, weight = repeated(X, P)
    assert_allclose(largest, alpha_max(many, codes, sample_weight=weight), rtol=1e-9)
    assert SMLR(alpha=largest * (1 + 1e-9)).fit(X, P).active_features_.size == 0
    assert SMLR(alpha=largest * 0.99).fit(X, P).active_features_.size == 1


def test_counts_are_shares_with_weights() -> None:
    X, _ = soft_wine()
    counts = np.random.default_rng(2).integers(0, 4, (len(X), 3))
    counts[counts.sum(axis=1) == 0, 0] = 1
    total = counts.sum(axis=1)
    soft = RMLR(alpha=1.0, tol=1e-10).fit(X, counts / total[:, None], sample_weight=total)
    rows, codes = np.nonzero(counts)
    single = RMLR(alpha=1.0, tol=1e-10).fit(X[rows], codes, sample_weight=counts[rows, codes])
    assert_allclose(soft.coef_, single.coef_, atol=1e-7)


@SHORT_GRID
@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
def test_held_out_scores_are_expected_ones(scoring: str) -> None:
    X, P = soft_wine()
    folds = [(np.flatnonzero(np.arange(len(P)) % 3 != k), np.flatnonzero(np.arange(len(P)) % 3 == k)) for k in range(3)]
    model = SMLRCV(alphas=[20.0, 5.0], cv=folds, scoring=scoring, tol=1e-10).fit(X, P)
    for k, (train, test) in enumerate(folds):
        for i, alpha in enumerate(model.alphas_):
            fold = SMLR(alpha=alpha, tol=1e-10).fit(X[train], P[train])
            expected = (
                fold.score(X[test], P[test])
                if scoring == "accuracy"
                else np.mean(np.sum(P[test] * fold.predict_log_proba(X[test]), axis=1))
            )
            assert_allclose(model.scores_[k, i], expected, atol=1e-6)


@SHORT_GRID
def test_classes_are_named_by_columns_and_absent_ones_left_out() -> None:
    X, P = soft_wine()
    table = pd.DataFrame(np.column_stack([P[:, :1], 0.0 * P[:, :1], P[:, 1:]]), columns=["a", "none", "b", "c"])
    for model in (SMLR(alpha=3.0), SMLRCV(alphas=[20.0, 5.0])):
        model.fit(X, table)
        assert model.classes_.tolist() == ["a", "b", "c"]
        answers = pd.get_dummies(pd.Series(model.predict(X)))
        assert_allclose(model.score(X, table), np.mean(np.sum(answers.to_numpy() * P, axis=1)))


def test_with_offset_and_weights_against_repetition() -> None:
    X, P = soft_wine()
    rng = np.random.default_rng(3)
    offset, weight = rng.normal(size=P.shape), rng.integers(0, 3, len(P)).astype(float)
    soft = SMLR(alpha=3.0, tol=1e-11).fit(X, P, sample_weight=weight, offset=offset)
    many, codes, shares = repeated(X, P)
    hard = SMLR(alpha=3.0, tol=1e-12)
    hard.fit(many, codes, sample_weight=np.repeat(weight, 3) * shares, offset=np.repeat(offset, 3, axis=0))
    assert_allclose(soft.coef_, hard.coef_, atol=1e-6)


def test_equal_shares_everywhere_leave_nothing_to_explain() -> None:
    X, _ = soft_wine()
    model = SMLR(alpha=1.0).fit(X, np.full((len(X), 3), 1.0 / 3.0))
    assert not model.coef_.any()
    assert model.solution_.converged


def test_what_is_refused() -> None:
    X, P = soft_wine()
    odd = P.copy()
    odd[7, 0] += 0.1
    negative = np.where(np.arange(3) == 0, -0.1, 0.55) + 0.0 * P
    refused = [
        (lambda: SMLR().fit(X, odd), r"must sum to one: row 7 sums to 1\.1\. With counts"),
        (lambda: SMLR().fit(X, negative), "row 0 has a negative entry"),
        (lambda: SMLR().fit(X, np.where(P > 0.9, np.nan, P)), "y contains NaN"),
        (lambda: SMLR(class_weight="balanced").fit(X, P), "class_weight belongs to class labels"),
        (lambda: SMLR().fit(X, np.eye(3)[np.zeros(len(X), dtype=int)]), "at least 2 classes"),
        (lambda: SMLR().fit(X[1:], P), "inconsistent numbers of samples"),
        (lambda: SBMLR().fit(X, P), "1d array"),
        (lambda: SMLRCV(relax=True).fit(X, P), "relax=True goes with neither"),
    ]
    for ask, words in refused:
        with pytest.raises(ValueError, match=words):
            ask()
