"""SBMLR as an estimator: what it promises about order, weights, codings and kernels; selection by evidence."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from smaller import SMLR
from smaller.estimators.sbmlr import SBMLR, select_by_evidence
from smaller.problem import Status

Array = Any


def wine() -> tuple[Array, Array]:
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def drawn(seed: int, K: int, n: int = 120, d: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = 2.0 * np.column_stack([np.cos(k) * X[:, 0] + np.sin(k) * X[:, 1] for k in 2 * np.pi * np.arange(K) / K])
    y = np.argmax(scores + rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    return X, y


def test_it_is_smlr_at_the_strength_found() -> None:
    X, y = wine()
    model = SBMLR(tol=1e-10).fit(X, y)
    same = SMLR(model.alpha_, tol=1e-10).fit(X, y)
    assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-5)
    assert model.n_active_ == np.count_nonzero(model.coef_)
    assert model.alpha_ * np.abs(model.coef_).sum() / model.n_active_ == pytest.approx(1.0, abs=1e-2)


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4))
def test_order_does_not_matter(seed: int, K: int) -> None:
    """Rows, columns and classes in another order give the same model where status is CONVERGED."""
    X, y = drawn(seed, K)
    model = SBMLR(tol=1e-10).fit(X, y)
    if model.solution_.status is not Status.CONVERGED:
        return
    rng = np.random.default_rng(seed)
    rows, columns, names = rng.permutation(len(y)), rng.permutation(X.shape[1]), rng.permutation(K)
    other = SBMLR(tol=1e-10).fit(X[rows][:, columns], names[y[rows]])
    assert other.solution_.status is Status.CONVERGED
    assert other.alpha_ == pytest.approx(model.alpha_, rel=1e-9)
    assert other.n_active_ == model.n_active_
    assert other.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-3)
    assert_allclose(other.predict_proba(X[:, columns])[:, names], model.predict_proba(X), atol=1e-4)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 3))
def test_a_weight_equals_a_repetition(seed: int, K: int) -> None:
    X, y = drawn(seed, K)
    weight = np.random.default_rng(seed).integers(0, 3, len(y))
    weight[:K] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some draws have no fixed point, which both must say
        weighted = SBMLR(tol=1e-10).fit(X, y, sample_weight=weight)
        repeated = SBMLR(tol=1e-10).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.solution_.status is repeated.solution_.status
    assert weighted.alpha_ == pytest.approx(repeated.alpha_, rel=1e-9)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("mode", ["path", "greedy"])
def test_sparse_input_gives_the_same(mode: str) -> None:
    X, y = drawn(3, 3)
    X[np.abs(X) < 0.4] = 0.0
    dense, thin = (SBMLR(mode=mode, tol=1e-9).fit(matrix, y) for matrix in (X, sparse.csr_array(X)))
    assert thin.alpha_ == pytest.approx(dense.alpha_, rel=1e-5)
    assert_allclose(thin.coef_, dense.coef_, atol=1e-4)


@pytest.mark.parametrize("mode", ["path", "greedy"])
def test_a_penalised_intercept_is_counted(mode: str) -> None:
    X, y = drawn(4, 3)
    model = SBMLR(mode=mode, penalize_intercept=True).fit(X + 0.5, y)
    weights = np.column_stack([model.coef_, model.intercept_])
    assert model.n_active_ == np.count_nonzero(weights)
    assert model.alpha_ * np.abs(weights).sum() / model.n_active_ == pytest.approx(1.0, abs=0.1)


def test_the_papers_sparsity_on_iris() -> None:
    """Table 1 gives .4067 of 15 weights on average over folds; all rows together keep 9."""
    X, y = load_iris(return_X_y=True)
    assert SBMLR(penalize_intercept=True).fit(scale(X), y).n_active_ == 9


@pytest.mark.parametrize("mode", ["path", "greedy"])
def test_reference_coding(mode: str) -> None:
    X, y = drawn(5, 3)
    model = SBMLR(mode=mode, coding="reference").fit(X, y)
    assert not model.coef_[-1].any()
    assert model.alpha_ * np.abs(model.coef_).sum() / model.n_active_ == pytest.approx(1.0, abs=0.3)


def test_kernels_and_precomputed_kernels() -> None:
    X, y = make_moons(100, noise=0.2, random_state=1)
    model = SBMLR(kernel="rbf", gamma=1.0).fit(X, y)
    assert len(model.support_) == model.n_active_ < 30
    assert model.score(X, y) > 0.9
    given_matrix = SBMLR(kernel="precomputed").fit(rbf_kernel(X, gamma=1.0), y)
    assert_allclose(given_matrix.predict_proba(rbf_kernel(X, gamma=1.0)), model.predict_proba(X), atol=1e-6)
    assert not hasattr(model, "coef_")


def test_class_weights_enter() -> None:
    X, y = drawn(6, 2)
    plain, weighted = SBMLR().fit(X, y), SBMLR(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    assert weighted.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_noise_is_warned_about_with_advice() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 20)), rng.integers(0, 3, 500)
    with pytest.warns(ConvergenceWarning, match=r"SMLRCV"):
        model = SBMLR().fit(X, y)
    assert model.solution_.status is Status.NO_FIXED_POINT
    assert np.isnan(model.log_evidence_)
    with pytest.warns(ConvergenceWarning, match=r"cross-validation"):
        null = SBMLR(fallback="null").fit(X, y)
    assert null.n_active_ == null.active_features_.size == 0
    assert_allclose(null.predict_proba(X[:1])[0], np.bincount(y) / len(y), atol=1e-8)


def test_a_fitted_model_is_pickled_and_cloned() -> None:
    X, y = wine()
    model = SBMLR().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.alpha_ == model.alpha_
    assert not hasattr(clone(model), "alpha_")


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"mode": "fast"}, ValueError, "mode"),
        ({"fallback": "none"}, ValueError, "fallback"),
        ({"tol": 0.0}, ValueError, "tol"),
        ({"max_iter": 1.5}, TypeError, "max_iter"),
        ({"coding": "onehot"}, ValueError, "coding"),
        ({"penalize_intercept": 1}, TypeError, "penalize_intercept"),
        ({"penalty_factors": [1.0] * 13, "kernel": "rbf"}, ValueError, "penalty_factors"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], error: type[Exception], match: str) -> None:
    X, y = wine()
    model = SBMLR().fit(X, y)
    before = model.alpha_
    with pytest.raises(error, match=match):
        model.set_params(**settings).fit(X, y)
    assert model.alpha_ == before


# --- selection by evidence ---


def test_the_best_width_is_chosen_and_pipelines_work() -> None:
    X, y = make_moons(150, noise=0.25, random_state=0)
    candidates = [make_pipeline(StandardScaler(), SBMLR(kernel="rbf", gamma=gamma)) for gamma in (0.01, 1.0, 100.0)]
    best = select_by_evidence(candidates, X, y)
    assert best[-1].gamma == 1.0
    assert not hasattr(candidates[1][-1], "alpha_")
    wide, fitting = (clone(candidate).fit(X, y)[-1].log_evidence_ for candidate in candidates[:2])
    assert best[-1].log_evidence_ == fitting > wide  # the narrow one has no fixed point, hence no evidence


def test_weights_reach_every_candidate() -> None:
    X, y = drawn(8, 2)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    best = select_by_evidence([SBMLR(), SBMLR(penalty_factors=[1, 1, 9, 9, 9])], X, y, sample_weight=weight)
    assert best.alpha_ == clone(best).fit(X, y, sample_weight=weight).alpha_


def test_a_selection_needs_candidates_with_an_evidence() -> None:
    with pytest.raises(ValueError, match="empty"):
        select_by_evidence([], *wine())
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="evidence"):
        select_by_evidence([SBMLR()], rng.normal(size=(500, 20)), rng.integers(0, 3, 500))


@pytest.mark.data
def test_ripleys_widths(load_data: Callable[[str], Any]) -> None:
    """The 2 pi term decides: with it the evidence prefers a width near 0.5, without it one near 4."""
    data = load_data("ripley_synth")
    train, test = data.split["train"], data.split["test"]
    X, y = data.data[train], data.target[train]
    scaler = StandardScaler().fit(X)
    widths = (0.25, 0.5, 1.0, 2.0, 4.0)
    models = [SBMLR(kernel="rbf", gamma=0.5 / width**2).fit(scaler.transform(X), y) for width in widths]
    best = int(np.argmax([model.log_evidence_ for model in models]))
    without = [model.log_evidence_ - 0.5 * (model.n_active_ + 1) * np.log(2 * np.pi) for model in models]
    assert widths[best] <= 1.0
    assert widths[int(np.argmax(without))] > widths[best]
    errors = [np.mean(model.predict(scaler.transform(data.data[test])) != data.target[test]) for model in models]
    assert errors[best] <= 0.11


@pytest.mark.parametrize("mode", ["path", "greedy"])
def test_two_classes_have_one_weight_vector(mode: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = SBMLR(mode=mode).fit(scale(X), y)
    assert model.coef_.shape == (1, 30)
    assert 5 <= model.n_active_ <= 25
    assert model.score(scale(X), y) > 0.97
