"""An offset: judged in plain NumPy (tests/structured.py), known at every answer, refused where it makes no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.datasets import load_wine
from sklearn.model_selection import KFold, cross_validate
from sklearn.preprocessing import scale

from smaller import RMLR, SBMLR, SMLR, SMLRCV, alpha_max, load, save, smlr_path
from structured import Structured, judge

Array = Any
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")


def wine(K: int = 3, seed: int = 0) -> tuple[Array, Array, Array]:
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[y < K], y[y < K]
    offset = np.random.default_rng(seed).normal(size=(len(y), K))
    return X, y, offset[:, 1] - offset[:, 0] if K == 2 else offset


def case_of(X: Array, y: Array, offset: Array, alpha: float, **parts: Any) -> Structured:
    n, d = X.shape
    K = len(np.unique(y))
    nothing, endless = np.zeros(d), np.full(d, np.inf)
    scores = np.column_stack([0.0 * offset, offset]) if offset.ndim == 1 else offset
    slope = np.full(d, alpha)
    return Structured(
        X, np.eye(K)[y], np.ones(n), scores, np.arange(d), nothing, slope, nothing, -endless, endless, **parts
    )


def weights_of(model: Any, case: Structured) -> tuple[Array, Array]:
    q = range(1) if len(model.coef_) == 1 else range(len(model.coef_))[case.outputs]
    return model.coef_[q].T, model.intercept_[q]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"coding": "reference"}], ids=str)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_certified_in_plain_numpy(K: int, settings: dict[str, Any], storage: Any) -> None:
    X, y, offset = wine(K)
    model = SMLR(alpha=3.0, tol=1e-8, **settings).fit(storage(X), y, offset=offset)
    case = case_of(X, y, offset, 3.0, **settings)
    judged = judge(case, *weights_of(model, case))
    assert_allclose(model.solution_.objective, judged.objective, rtol=1e-12)
    assert judged.gap <= 1e-8 * model.solution_.scale + 1e-9
    assert_allclose(judged.imbalance, 0.0, atol=1e-6)


def test_the_scale_is_the_best_model_of_intercepts_and_offset() -> None:
    X, y, offset = wine()
    n = np.arange(len(y))

    def loss(b: Array) -> float:
        eta = offset + b
        return float(np.sum(np.log(np.exp(eta).sum(axis=1)) - eta[n, y]))

    best = minimize(loss, np.zeros(3), tol=1e-12).fun
    assert_allclose(SMLR(1.0).fit(X, y, offset=offset).solution_.scale, best, rtol=1e-9)
    assert_allclose(smlr_path(X, y, offset=offset, alphas=3).null_loss, best, rtol=1e-9)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"penalty": "grouped"}, {"penalty_factors": np.arange(13.0) + (np.arange(13) > 1)}]
)
def test_alpha_max_is_exact(K: int, settings: dict[str, Any]) -> None:
    X, y, offset = wine(K)
    largest = alpha_max(X, y, offset=offset, **settings)
    free = {0} if "penalty_factors" in settings else set()
    at, below = (
        SMLR(alpha=factor * largest, tol=1e-10, **settings).fit(X, y, offset=offset) for factor in (1.0 + 1e-9, 0.99)
    )
    assert set(at.active_features_) == free
    assert len(below.active_features_) == 1 + len(free)


def test_an_offset_that_is_a_feature_takes_its_place() -> None:
    """Fitted on what one model leaves over, a second one finds nothing more to do."""
    X, y, _ = wine()
    first = RMLR(alpha=1e-2, tol=1e-12).fit(X, y)
    offset = X @ first.coef_.T + first.intercept_
    second = SMLR(alpha=2.0).fit(X, y, offset=offset)
    assert second.active_features_.size == 0
    assert_allclose(second.intercept_, 0.0, atol=1e-6)
    assert_allclose(second.predict_proba(X, offset=offset), first.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_answers_add_the_offset(K: int) -> None:
    X, y, offset = wine(K)
    model = SMLR(alpha=3.0).fit(X, y, offset=offset)
    plain = (X @ model.coef_.T + model.intercept_).reshape(offset.shape)
    assert_allclose(model.decision_function(X, offset=offset), plain + offset)
    P = model.predict_proba(X, offset=offset)
    assert_allclose(P.sum(axis=1), 1.0)
    assert_allclose(np.log(P), model.predict_log_proba(X, offset=offset))
    assert_array_equal(model.predict(X, offset=offset), P.argmax(axis=1))
    assert model.score(X, y, offset=offset) == np.mean(P.argmax(axis=1) == y)
    shared = SMLR(alpha=3.0).fit(X, y, offset=offset + 5.0)
    if K == 3:  # the same for all classes of a row says nothing
        assert_allclose(shared.predict_proba(X, offset=offset - 2.0), P, atol=1e-6)
    else:
        assert_allclose(shared.intercept_, model.intercept_ - 5.0, atol=1e-5)


def test_an_offset_far_from_zero_moves_the_intercept() -> None:
    X, y, offset = wine(2)
    near, far = SMLR(alpha=3.0).fit(X, y, offset=offset), SMLR(alpha=3.0).fit(X, y, offset=offset + 1e6)
    assert far.solution_.converged
    assert far.solution_.scale == pytest.approx(near.solution_.scale, rel=1e-8)
    assert_allclose(far.coef_, near.coef_, atol=1e-4)


def test_weight_is_repetition_and_relabelling_permutes() -> None:
    X, y, offset = wine()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    a = SMLR(alpha=3.0, tol=1e-12).fit(X, y, sample_weight=weight, offset=offset)
    b = SMLR(alpha=3.0, tol=1e-12).fit(X[rows], y[rows], offset=offset[rows])
    assert_allclose(a.coef_, b.coef_, atol=1e-7)
    order = np.array([2, 0, 1])
    c = SMLR(alpha=3.0, tol=1e-12).fit(X[rows], order[y[rows]], offset=offset[rows][:, np.argsort(order)])
    assert_allclose(c.coef_[order], b.coef_, atol=1e-7)


@SHORT_GRID
@pytest.mark.parametrize("K", [2, 3])
def test_folds_keep_their_part_of_the_offset(K: int) -> None:
    X, y, offset = wine(K)
    folds = [(np.flatnonzero(np.arange(len(y)) % 4 != k), np.flatnonzero(np.arange(len(y)) % 4 == k)) for k in range(4)]
    model = SMLRCV(alphas=[20.0, 5.0], cv=folds, tol=1e-10).fit(X, y, offset=offset)
    for k, (train, test) in enumerate(folds):
        for i, alpha in enumerate(model.alphas_):
            fold = SMLR(alpha=alpha, tol=1e-10).fit(X[train], y[train], offset=offset[train])
            log_proba = fold.predict_log_proba(X[test], offset=offset[test])
            assert_allclose(model.scores_[k, i], log_proba[np.arange(len(test)), y[test]].mean(), atol=1e-6)
    whole = SMLR(alpha=model.alpha_, tol=1e-10).fit(X, y, offset=offset)
    assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert_allclose(model.solution_.scale, whole.solution_.scale)


@SHORT_GRID
def test_a_fold_without_a_class_drops_its_column() -> None:
    X, y, offset = wine()
    folds = [(np.flatnonzero(y != 2)[::2], np.flatnonzero(y != 2)[1::2]), (np.arange(0, 178, 2), np.arange(1, 178, 2))]
    model = SMLRCV(alphas=[9.0, 5.0], cv=folds).fit(X, y, offset=offset)
    assert np.isfinite(model.scores_).all()


def test_the_self_consistent_strength_with_an_offset() -> None:
    X, y, offset = wine()
    offset *= 0.1
    for settings in ({}, {"mode": "greedy"}):
        model = SBMLR(**settings).fit(X, y, offset=offset)
        assert_allclose(model.alpha_ * np.abs(model.coef_).sum(), model.n_active_, rtol=1e-3)
        case = case_of(X, y, offset, model.alpha_)
        assert judge(case, model.coef_.T, model.intercept_).gap < 1e-3 * model.solution_.scale


def test_kept_by_files_and_forgotten_by_the_next_fit(tmp_path: Any) -> None:
    X, y, offset = wine()
    model = SMLR(alpha=3.0).fit(X, y, offset=offset)
    save(model, tmp_path / "m.smaller")
    same = load(tmp_path / "m.smaller")
    assert_array_equal(same.predict_proba(X, offset=offset), model.predict_proba(X, offset=offset))
    with pytest.raises(ValueError, match="fitted with an offset"):
        same.predict(X)
    assert model.fit(X, y).predict(X).shape == y.shape


def test_routed_as_metadata() -> None:
    X, y, offset = wine()
    folds = KFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=True):
        inner = SMLR(alpha=3.0).set_fit_request(offset=True).set_score_request(offset=True)
        scores = cross_validate(inner, X, y, cv=folds, params={"offset": offset})["test_score"]
        for score, (train, test) in zip(scores, folds.split(X), strict=True):
            fold = SMLR(alpha=3.0).fit(X[train], y[train], offset=offset[train])
            assert score == fold.score(X[test], y[test], offset=offset[test])


def test_what_is_refused() -> None:
    X, y, offset = wine()
    two, y2 = X[y < 2], y[y < 2]
    refused = [
        (lambda: SMLR().fit(X, y, offset=offset[:-1]), r"offset must hold one number for every row and class"),
        (lambda: SMLR().fit(two, y2, offset=offset[y < 2]), r"offset must hold one number a row for two classes"),
        (lambda: SMLR().fit(X, y, offset=np.where(offset > 2, np.nan, offset)), "offset contains NaN"),
        (lambda: SMLR().fit(X, y, offset=np.where(offset > 2, np.inf, offset)), "offset contains"),
        (lambda: SMLR().fit(X, y, offset=np.full(offset.shape, "a")), "offset"),
        (lambda: SMLR().fit(X, y, offset=offset).predict_proba(X), "fitted with an offset: pass"),
        (lambda: SMLR().fit(X, y, offset=offset).score(X, y), "fitted with an offset: pass"),
        (lambda: SMLR().fit(X, y, offset=offset).predict(X, offset=offset[1:]), "offset must hold"),
        (lambda: SMLR().fit(X, y).predict(X, offset=offset), "fitted without an offset: leave"),
        (lambda: SMLR(posterior=True).fit(X, y, offset=offset), "posterior=True goes with neither"),
        (lambda: SMLRCV(relax=True).fit(X, y, offset=offset), "relax=True goes with neither"),
        (lambda: SBMLR(relax=True).fit(X, y, offset=offset), "relax=True goes with neither"),
    ]
    for ask, words in refused:
        with pytest.raises(ValueError, match=words):
            ask()
    assert_allclose(
        SMLR(3.0).fit(X, y, offset=pd.DataFrame(offset)).coef_, SMLR(3.0).fit(X, y, offset=offset.tolist()).coef_
    )
