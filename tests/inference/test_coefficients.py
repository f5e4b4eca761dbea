"""coef_interval: against its formulas written out, maximum likelihood, and itself in other units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special, stats
from sklearn.datasets import load_wine
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import KLR, RMLR, SBMLR, SMLR, SMLRCV, SparseProbit, coef_interval
from smaller.designs import as_design
from smaller.inference import EFFECTS_NOTE, effect_in_words
from smaller.likelihoods import Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.refit import refit

Array = Any


def draw(n: int, p: int, seed: int, size: float = 1.0, rho: float = 0.5) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    w = np.zeros(p)
    w[1:12:4] = size * np.array([1.0, -1.0, 1.0])
    return X, (rng.random(n) < special.expit(X @ w)).astype(int), w


@pytest.fixture(scope="module")
def case() -> tuple[Array, Array, Any]:
    X, y, _ = draw(150, 40, 0)
    return X, y, SBMLR(tol=1e-10).fit(X, y)


def by_hand(X: Array, y: Array, c: Array, w: Array, b: float, j: int) -> tuple[float, float]:
    """Estimate and standard error from the formulas, with scikit-learn's lasso."""
    p = special.expit(X @ w + b)
    om = c * np.maximum(p * (1 - p), 1e-5)
    n = c.sum()
    centred = np.sqrt(om)[:, None] * (X - om @ X / om.sum())
    size = np.sqrt((centred**2).sum(axis=0) / n)
    Xs = centred / size
    others = np.delete(Xs, j, axis=1)
    strength = 0.5 * np.sqrt(2 * np.log(X.shape[1]) / n) * n / len(y)  # Lasso divides by the number of rows
    lasso = Lasso(alpha=strength, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(others, Xs[:, j])
    z = Xs[:, j] - others @ lasso.coef_
    r = c * (y - p) / np.sqrt(om)
    along = z @ Xs[:, j]
    return w[j] + z @ r / along / size[j], np.linalg.norm(z) / abs(along) / size[j]


def test_it_is_one_step_from_the_refit(case: tuple[Array, Array, Any]) -> None:
    X, y, model = case
    likelihood = Multinomial(2)
    problem = Problem(as_design(X), likelihood.encode(y), None, likelihood, Laplace(1.0))
    start = refit(problem, model.coef_.T, model.intercept_)
    found = coef_interval(model, X, y, columns=range(10))
    for i in range(10):
        estimate, error = by_hand(X, y, np.ones(len(y)), start.w[:, 0], start.b[0], i)
        assert found.estimate[i] == pytest.approx(estimate, abs=2e-3 * error)
        width = stats.norm.ppf(0.95) * error
        assert found.high[i] - found.low[i] == pytest.approx(2 * width, rel=2e-3)
    assert_allclose(found.p_corrected, np.minimum(1.0, 40 * found.p_value))
    ratio = (found.estimate / (found.high - found.estimate)) * stats.norm.ppf(0.95)
    assert_allclose(found.p_value, 2 * stats.norm.sf(np.abs(ratio)), rtol=1e-6)


def test_with_many_rows_it_is_maximum_likelihood() -> None:
    X, y, _ = draw(4000, 12, 1)
    found = coef_interval(SBMLR().fit(X, y), X, y, columns=np.arange(12))
    exact = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y).coef_[0]
    errors = (found.high - found.low) / (2 * stats.norm.ppf(0.95))
    assert np.abs((found.estimate - exact) / errors).max() < 0.5


def test_ranges_hold_most_of_the_truth() -> None:
    held, zeros = [], []
    for seed in range(6):
        X, y, w = draw(250, 60, 100 + seed)
        found = coef_interval(SBMLR().fit(X, y), X, y, columns=np.arange(60))
        inside = (found.low <= w) & (w <= found.high)
        held += inside[w != 0].tolist()
        zeros += inside[w == 0].tolist()
    assert np.mean(held) >= 0.73
    assert np.mean(zeros) >= 0.87


def test_columns_default_to_those_with_a_weight_and_the_correction_counts_all(case: tuple[Array, Array, Any]) -> None:
    X, y, model = case
    found = coef_interval(model, X, y)
    assert found.column.tolist() == model.active_features_.tolist()
    assert found.n_columns == 40
    assert found.names.tolist() == [f"x{j}" for j in model.active_features_]
    assert_allclose(found.odds_ratio, np.exp(np.column_stack([found.estimate, found.low, found.high])))
    assert coef_interval(model, X, y, columns=[]).column.shape == (0,)
    assert coef_interval(model, X, y, columns=-1).column.tolist() == [39]
    wide, narrow = (coef_interval(model, X, y, level=level) for level in (0.99, 0.5))
    assert (wide.low < narrow.low).all()


def test_the_table_as_a_frame(case: tuple[Array, Array, Any]) -> None:
    pytest.importorskip("pandas")
    X, y, model = case
    frame = coef_interval(model, X, y).to_frame()
    assert list(frame.columns) == ["column", "estimate", "low", "high", "p_value", "p_corrected", "odds_ratio"]


def test_units_sparse_columns_and_repeated_rows(case: tuple[Array, Array, Any]) -> None:
    X, y, model = case
    first = coef_interval(model, X, y, columns=[1, 2, 5])
    thin = coef_interval(model, sparse.csr_array(X), y, columns=[1, 2, 5])
    assert_allclose(thin.estimate, first.estimate, rtol=1e-4, atol=1e-4)
    units = np.r_[np.ones(5), 1000.0, np.ones(34)]
    scaled = SBMLR(tol=1e-10, penalty_factors=1.0 / units).fit(X / units, y)
    other = coef_interval(scaled, X / units, y, columns=[1, 2, 5])
    assert_allclose(other.low / units[[1, 2, 5]], first.low, rtol=1e-3, atol=1e-3)
    c = np.random.default_rng(0).integers(1, 3, len(y))
    weighted = SBMLR(tol=1e-10).fit(X, y, c)
    often = coef_interval(weighted, np.repeat(X, c, axis=0), np.repeat(y, c), columns=[1, 2])
    assert_allclose(coef_interval(weighted, X, y, columns=[1, 2], sample_weight=c).high, often.high, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        SMLR(alpha=8.0),
        SMLR(alpha=8.0, fit_intercept=False),
        SMLR(alpha=8.0, penalize_intercept=True, class_weight="balanced"),
        SMLRCV(alphas=15, relax=True),
        SBMLR(penalty_factors=np.r_[0.0, 2.0, np.ones(38)]),
        make_pipeline(StandardScaler(), SBMLR()),
        RMLR(alpha=5.0),
    ],
    ids=lambda model: str(model).replace("\n", "")[:60],
)
def test_every_linear_model_of_two_classes(model: Any, case: tuple[Array, Array, Any]) -> None:
    X, y, _ = case
    found = coef_interval(model.fit(X, y), X, y, columns=[0, 1, 5])
    assert np.isfinite(found.low).all()
    assert (found.low < found.estimate).all()
    assert found.estimate[1] > 0 > found.estimate[2]


def test_constant_and_repeated_columns_are_not_a_number(case: tuple[Array, Array, Any]) -> None:
    X, y, _ = case
    X = np.column_stack([X, np.ones(len(X)), X[:, 1]])
    found = coef_interval(SMLR(alpha=8.0).fit(X, y), X, y, columns=[40, 0])
    assert np.isnan(found.estimate[0])
    assert np.isnan(found.p_value[0])
    assert np.isfinite(found.estimate[1])


def test_a_separable_support_stays_finite() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30))
    y = (X[:, 0] > 0).astype(int)
    found = coef_interval(SMLR(alpha=2.0).fit(X, y), X, y)
    assert np.isfinite(found.high).all()


def test_an_empty_support_has_no_rows_and_still_answers(case: tuple[Array, Array, Any]) -> None:
    X, y, _ = case
    model = SMLR(alpha=1e4).fit(X, y)
    assert len(coef_interval(model, X, y).column) == 0
    assert coef_interval(model, X, y, columns=[1]).estimate[0] > 0


def test_what_it_cannot_do_is_refused_with_advice(case: tuple[Array, Array, Any]) -> None:
    X, y, model = case
    X3, y3 = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="one class against the rest"):
        coef_interval(SMLR(alpha=9.0).fit(X3, y3), X3, y3)
    for other in (KLR(), SMLR(kernel="rbf"), SparseProbit()):
        with pytest.raises(ValueError, match="needs a sparse linear model"):
            coef_interval(other.fit(X[:, :3], y), X[:, :3], y)
    with pytest.raises(ValueError, match="columns must be indices"):
        coef_interval(model, X, y, columns=[40])
    with pytest.raises(ValueError, match="columns must be indices"):
        coef_interval(model, X, y, columns=["x1"])
    with pytest.raises(ValueError, match="level must be"):
        coef_interval(model, X, y, level=90)
    with pytest.raises(ValueError, match="labels that the model was fitted to"):
        coef_interval(model, X, y + 1)
    with pytest.raises(ValueError, match="features"):
        coef_interval(model, X[:, :9], y)
    assert model.n_features_in_ == 40


def test_an_effect_in_words() -> None:
    X, y, _ = draw(2000, 20, 3)
    found = coef_interval(SBMLR().fit(X, y), X, y, columns=[1, 2])
    text = effect_in_words(found, 0)
    assert text.startswith(f"Effect {found.estimate[0]:.2g} ({found.low[0]:.2g} to {found.high[0]:.2g}).")
    assert text.endswith("if this feature had no effect given the others (corrected for all 20).")
    assert effect_in_words(found, 1).endswith(").")
    assert "may be larger than its range" in EFFECTS_NOTE
