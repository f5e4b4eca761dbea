"""JCFO as an estimator: what it finds, what it promises about its zeros, and what it says when nothing is left."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from smaller.datasets import make_rings, make_xor
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.kernels import RBF

Array = Any


def ring(n: int = 150, p: int = 20, seed: int = 0) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).normal(size=(n, p))
    squared = (X[:, :2] ** 2).sum(axis=1)
    return X, np.where(squared > 1.4, "out", "in")


@pytest.fixture(scope="module")
def fitted() -> tuple[JCFO, Array, Array]:
    X, y = ring()
    return JCFO(alpha=1.0, alpha_scales=5.0).fit(X, y), X, y


def test_finds_the_ring_among_irrelevant_features(fitted: Any) -> None:
    model, _, _ = fitted
    X, y = ring(2000, seed=1)
    assert model.score(X, y) > 0.93
    assert set(np.argsort(-model.scales_)[:2].tolist()) == {0, 1}


def test_zeros_are_exact_and_reported(fitted: Any) -> None:
    model, X, _ = fitted
    assert_array_equal(model.active_features_, np.flatnonzero(model.scales_))
    assert 2 <= len(model.active_features_) < 20
    assert 0 < len(model.support_) < 20
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert np.all(model.dual_coef_ != 0)
    changed = X.copy()
    changed[:, model.scales_ == 0] = 1e3
    assert_allclose(model.predict_proba(changed), model.predict_proba(X), rtol=1e-9)


def test_probability_is_the_documented_formula(fitted: Any) -> None:
    model, X, y = fitted
    f = RBF(model.scales_)(X, X[model.support_]) @ model.dual_coef_[0] + model.intercept_[0]
    assert_allclose(model.decision_function(X), f, rtol=1e-9, atol=1e-12)
    assert_allclose(model.predict_proba(X)[:, 1], ndtr(f), rtol=1e-9)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-9)
    loss = -model.predict_log_proba(X)[np.arange(len(y)), (y == "out").astype(int)].sum()
    objective = loss + np.abs(model.dual_coef_).sum() + 5.0 * model.scales_.sum()
    assert model.solution_.objective == pytest.approx(objective, rel=1e-10)


def test_solution_certifies_weights_and_scales(fitted: Any) -> None:
    solution = fitted[0].solution_
    assert solution.status.name == "STATIONARY"
    assert solution.weights_violation <= 1e-6
    assert solution.scales_violation <= 1e-6
    assert solution.violation == max(solution.weights_violation, solution.scales_violation)
    assert list(solution.phases) == ["warm-up", "polish", "alternation"]


@pytest.mark.parametrize("likelihood", ["auto", "multinomial", "probit"])
def test_more_than_two_classes(likelihood: str) -> None:
    X, y = load_iris(return_X_y=True)
    X = np.hstack([scale(X), np.random.default_rng(0).normal(size=(150, 3))])[::2]
    model = JCFO(alpha=0.5, alpha_scales=2.0, likelihood=likelihood).fit(X, y[::2])
    P = model.predict_proba(X)
    assert P.shape == (75, 3)
    assert_allclose(P.sum(axis=1), 1.0)
    assert model.score(X, y[::2]) > 0.93
    assert model.solution_.converged
    assert {2, 3} & set(model.active_features_.tolist())
    assert model.intercept_.shape == (3,)


def test_two_classes_with_the_logistic_link() -> None:
    X, y = ring()
    model = JCFO(alpha_scales=5.0, likelihood="multinomial").fit(X, y)
    assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-model.decision_function(X))), rtol=1e-10)


@pytest.mark.parametrize("kernel", ["poly", "linear"])
def test_other_kernels(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 10))
    y = X[:, 2] + X[:, 5] > 0
    model = JCFO(alpha=2.0, alpha_scales=2.0, kernel=kernel, degree=1).fit(X, y)
    assert set(np.argsort(-model.scales_)[:2].tolist()) == {2, 5}
    assert model.score(X, y) > 0.9


def test_penalised_intercept_is_part_of_the_penalty() -> None:
    X, y = ring()
    model = JCFO(alpha_scales=5.0, penalize_intercept=True).fit(X, y)
    loss = -model.predict_log_proba(X)[np.arange(len(y)), (y == "out").astype(int)].sum()
    total = np.abs(model.dual_coef_).sum() + np.abs(model.intercept_).sum()
    assert model.solution_.objective == pytest.approx(loss + total + 5.0 * model.scales_.sum(), rel=1e-10)
    assert JCFO(alpha_scales=5.0, fit_intercept=False).fit(X, y).intercept_ == [0.0]


@pytest.mark.parametrize("centers", ["random", "kmeans"])
def test_centres_are_balanced_over_the_classes(centers: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.repeat([0, 1], [180, 20])
    X[y == 1] += 1.5
    model = JCFO(alpha=0.1, n_centers=30, centers=centers, random_state=0)
    basis, rows = model._basis(_data(X, y))
    counts = np.bincount(y[rows])
    assert counts[1] >= 13
    assert counts.sum() <= 30
    assert basis.centers.shape == (counts.sum(), 3)
    assert set(clone(model).fit(X, y).support_) <= set(rows)


def test_two_stages_end_where_all_rows_as_centres_from_the_start_do() -> None:
    X, y = make_rings(260, n_features=12, random_state=1)
    staged, whole = (JCFO(alpha_scales=10.0, n_centers=count).fit(X, y) for count in ("auto", None))
    assert staged.solution_.status.name == "STATIONARY"
    assert staged.solution_.w.shape == whole.solution_.w.shape == (260, 1)
    assert staged.solution_.objective == pytest.approx(whole.solution_.objective, rel=1e-3)
    np.testing.assert_array_equal(staged.active_features_, whole.active_features_)
    again = JCFO(alpha_scales=10.0).fit(X, y)  # the first stage's centres are not drawn anew
    np.testing.assert_array_equal(again.scales_, staged.scales_)


def test_folds_score_what_the_fold_s_own_model_says() -> None:
    X, y = make_rings(60, n_features=4, random_state=0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    train, test = np.arange(40), np.arange(40, 60)
    model = JCFOCV(alphas=[1.0], alphas_scales=[3.0], cv=[(train, test), (test, train)]).fit(X, y, weight)
    for score, learnt, left in zip(model.scores_.ravel(), (train, test), (test, train), strict=True):
        part = JCFO(1.0, 3.0).fit(X[learnt], y[learnt], weight[learnt])
        own = part.predict_log_proba(X[left])[np.arange(len(left)), y[left]]
        assert score == pytest.approx(np.average(own, weights=weight[left]), abs=2e-3)


def _data(X: Array, y: Array) -> Any:
    from smaller.validation import TrainingData

    return TrainingData(X, y, None, np.unique(y))


def test_linear_preselection_happens_inside_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    y = X[:, 7] + X[:, 11] > 0
    model = JCFO(alpha=0.5, alpha_scales=0.5, preselect="linear", kernel="poly", degree=1).fit(X, y)
    assert len(model.preselected_) < 60
    assert {7, 11} <= set(model.preselected_.tolist())
    assert set(model.active_features_) <= set(model.preselected_)
    assert model.scales_.shape == (300,)
    # Another part of the rows selects for itself.
    half = clone(model).fit(X[::2], y[::2])
    assert not np.array_equal(half.preselected_, model.preselected_)


def test_univariate_preselection_sees_a_spread_that_differs() -> None:
    X, y = ring(200, 200)
    model = JCFO(alpha_scales=5.0, preselect="univariate", n_preselect=10).fit(X, y)
    assert len(model.preselected_) == 10
    assert {0, 1} <= set(model.preselected_.tolist())
    csr = clone(model).fit(sparse.csr_array(X), y)
    assert len(csr.preselected_) == 10


def test_preselection_of_pairs_sees_exclusive_or() -> None:
    X, y = make_xor(200, 60, random_state=5)
    model = JCFO(alpha_scales=3.0, preselect="pairs", n_preselect=8).fit(X, y)
    assert len(model.preselected_) == 8
    assert_array_equal(model.active_features_, [0, 1])
    assert_array_equal(clone(model).fit(sparse.csr_array(X), y).preselected_, model.preselected_)


@pytest.mark.parametrize(("make", "alpha_scales"), [(make_rings, 10.0), (make_xor, 3.0)])
def test_the_screened_start_is_as_good_as_the_best_of_many(make: Any, alpha_scales: float) -> None:
    """At 100 features and 100 rows; F of equal and of random starts beside it."""
    X, y = make(100, 100, random_state=11)
    model = JCFO(alpha_scales=alpha_scales).fit(X, y)
    assert {0, 1} <= set(model.active_features_.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "JCFO keeps")
        best = JCFO(alpha_scales=alpha_scales, starts="equal", n_init=4, random_state=0).fit(X, y)
    assert model.solution_.objective <= 1.02 * best.solution_.objective
    phases = model.solution_.phases
    assert sum(map(len, phases.values())) == model.solution_.n_iter


def test_the_start_that_is_lower_after_a_few_rounds_goes_on() -> None:
    X, y = make_xor(100, 30, random_state=3)
    screened, equal = (JCFO(alpha_scales=3.0, starts=how).fit(X, y).solution_ for how in ("screened", "equal"))
    assert screened.phases["warm-up"][5] <= equal.phases["warm-up"][min(5, len(equal.phases["warm-up"]) - 1)]
    few = [JCFO(starts=how).fit(X[:, :10], y).solution_.objective for how in ("screened", "equal")]
    assert few[0] == few[1]  # ten features or fewer have one start


def test_many_scales_are_warned_about_where_features_are_many() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 60)), np.arange(80) % 2
    with pytest.warns(UserWarning, match=r"JCFO keeps \d\d of 60 scales.*preselect='pairs'") as caught:
        model = JCFO(alpha=0.1, alpha_scales=0.1).fit(X, y)
    assert len(model.active_features_) > 15
    assert not any("standardise" in str(warning.message) for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JCFO(alpha=0.1, alpha_scales=0.1).fit(X[:, :20], y)  # twenty features are not many


def test_advice_to_standardise_goes_to_those_who_have_not() -> None:
    X, y = ring()
    for factor, advised in ((1.0, False), (100.0, True)):
        with pytest.warns(UserWarning, match="kept no kernel") as caught:
            JCFO(alpha=1e3).fit(factor * X, y)
        assert any("standardise" in str(warning.message) for warning in caught) is advised


def test_preselection_never_leaves_nothing() -> None:
    X = np.random.default_rng(0).normal(size=(40, 5))
    y = np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "JCFO kept no kernel")
        model = JCFO(preselect="linear", preselect_alpha=1e6).fit(X, y)
    assert len(model.preselected_) >= 1


def test_collapse_is_warned_with_advice() -> None:
    X, y = ring()
    with pytest.warns(UserWarning, match=r"kept no kernel at alpha=1000.*Lower alpha"):
        model = JCFO(alpha=1e3).fit(X, y)
    assert len(model.support_) == 0
    assert_allclose(model.predict_proba(X)[:, 1], np.mean(y == "out"), rtol=1e-6)


def test_more_starts_are_never_worse(fitted: Any) -> None:
    model, X, y = fitted
    more = JCFO(alpha=1.0, alpha_scales=5.0, n_init=3, random_state=0).fit(X, y)
    assert more.solution_.objective <= model.solution_.objective * (1 + 1e-12)


def test_sparse_and_single_precision_agree_with_dense(fitted: Any) -> None:
    model, X, y = fitted
    csr = clone(model).fit(sparse.csr_array(X), y)
    assert csr.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-7)
    assert_allclose(csr.predict_proba(sparse.csr_array(X)), model.predict_proba(X), atol=1e-4)
    narrow = clone(model).fit(X.astype(np.float32), y)
    assert narrow.solution_.objective == pytest.approx(model.solution_.objective, rel=1e-5)


def test_constant_feature_gets_no_scale() -> None:
    X, y = ring(p=5)
    X[:, 3] = 2.0
    assert JCFO(alpha_scales=2.0).fit(X, y).scales_[3] == 0.0


def test_warm_start_ends_at_a_stationary_point_of_the_new_strengths(fitted: Any) -> None:
    cold, X, y = fitted
    model = JCFO(alpha=1.0, alpha_scales=20.0, warm_start=True).fit(X, y)
    model.set_params(alpha_scales=5.0).fit(X, y)
    assert list(model.solution_.phases) == ["alternation"]
    assert model.solution_.violation <= 1e-6
    assert model.solution_.objective <= 1.01 * cold.solution_.objective
    # Other data than last time: a cold start.
    again = model.fit(X[:100], y[:100]).solution_
    assert again.objective == JCFO(alpha=1.0, alpha_scales=5.0).fit(X[:100], y[:100]).solution_.objective


def test_warm_start_leaves_an_empty_model_behind() -> None:
    X, y = ring()
    model = JCFO(alpha=1e3, alpha_scales=5.0, warm_start=True)
    with pytest.warns(UserWarning, match="kept no kernel"):
        model.fit(X, y)
    assert len(model.set_params(alpha=1.0).fit(X, y).support_) > 0


def test_cross_validated_strengths() -> None:
    X, y = ring(90, 5)
    model = JCFOCV(alphas=[1.0, 30.0], alphas_scales=[1.0, 10.0], cv=3).fit(X, y)
    assert_array_equal(model.alphas_, [30.0, 1.0])
    assert_array_equal(model.alphas_scales_, [10.0, 1.0])
    assert model.scores_.shape == (3, 2, 2)
    assert model.alpha_ == 1.0  # at 30 nothing is left
    assert_allclose(model.scores_[:, 0], np.log(0.5), atol=0.05)
    mean = model.scores_.mean(axis=0)
    assert mean.max() == mean[1, list(model.alphas_scales_).index(model.alpha_scales_)] > -0.6
    alone = JCFO(model.alpha_, model.alpha_scales_).fit(X, y)
    assert_array_equal(model.scales_, alone.scales_)
    assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_cross_validation_prefers_larger_strengths_among_equals() -> None:
    X, y = ring(60, 3)
    with pytest.warns(UserWarning, match="kept no kernel at alpha=2000, alpha_scales=200"):
        model = JCFOCV(alphas=[1e3, 2e3], alphas_scales=[100.0, 200.0], cv=2).fit(X, y)
    assert (model.alpha_, model.alpha_scales_) == (2e3, 200.0)


def test_one_standard_error_rule_prefers_sparser_models() -> None:
    X, y = ring(90, 5)
    options = {"alphas": [1.0], "alphas_scales": [30.0, 10.0, 3.0, 1.0], "cv": 3}
    best, sparse_one = (JCFOCV(rule=rule, **options).fit(X, y) for rule in ("min", "1se"))
    assert_array_equal(best.scores_, sparse_one.scores_)
    scores = best.scores_[:, 0]
    mean, chosen = scores.mean(axis=0), int(scores.mean(axis=0).argmax())
    near = mean >= mean[chosen] - scores[:, chosen].std(ddof=1) / np.sqrt(3)
    assert best.alpha_scales_ == best.alphas_scales_[chosen]
    assert sparse_one.alpha_scales_ == best.alphas_scales_[near].max()
    with pytest.raises(ValueError, match="rule must be"):
        JCFOCV(rule="max").fit(X, y)


def test_cross_validation_weighs_rows_and_names_bad_folds() -> None:
    X, y = ring(80, 3)
    weight = np.repeat([1.0, 0.0], [60, 20])
    model = JCFOCV([1.0], [3.0], cv=[(np.arange(40), np.arange(40, 80))]).fit(X, y, sample_weight=weight)
    half = JCFO(1.0, 3.0).fit(X[:40], y[:40])
    held = half.predict_log_proba(X[40:60])[np.arange(20), (y[40:60] == "out").astype(int)]
    assert model.scores_[0, 0, 0] == pytest.approx(held.mean(), rel=1e-6)
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match="fewer than two classes"):
        JCFOCV([1.0], [3.0], cv=[(order[:10], order[10:])]).fit(X, y)
    with pytest.raises(ValueError, match="alphas must be"):
        JCFOCV([0.0], [3.0]).fit(X, y)
    with pytest.raises(ValueError, match="alphas_scales must hold"):
        JCFOCV([1.0], []).fit(X, y)


def test_verbose_logs_every_step(caplog: Any) -> None:
    X, y = ring(60, 3)
    with caplog.at_level(logging.INFO, logger="smaller"):
        model = JCFO(verbose=1).fit(X, y)
    assert len(caplog.records) == model.solution_.n_iter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha_scales": -1.0}, "alpha_scales must be"),
        ({"kernel": "precomputed"}, "kernel must be one of"),
        ({"kernel": None}, "kernel must be one of"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"n_centers": 0}, "n_centers must be"),
        ({"n_centers": "all"}, "n_centers must be"),
        ({"centers": "grid", "n_centers": 5}, "centers must be"),
        ({"preselect": "anova"}, "preselect must be"),
        ({"preselect": "linear", "preselect_alpha": 0.0}, "preselect_alpha must be"),
        ({"preselect": "univariate", "n_preselect": 0}, "n_preselect must be"),
        ({"likelihood": "poisson"}, "likelihood must be"),
        ({"preselect": "pairs", "n_preselect": 0}, "n_preselect must be"),
        ({"starts": "random"}, "starts must be"),
        ({"n_init": 0}, "n_init must be"),
        ({"em_iter": -1}, "em_iter must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    X, y = ring(30, 3)
    with pytest.raises(ValueError, match=message):
        JCFO(**options).fit(X, y)
