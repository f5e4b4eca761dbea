"""SMLRCV: honest scores, the right choice, and the direction of the one-standard-error rule."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from smaller import SMLR, SMLRCV
from smaller.estimators.fold_scores import choose

# Short grids for speed: their lower edge is often best, and the warning about it has its own test.
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")


def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return scale(X), y


@SHORT_GRID
@pytest.mark.parametrize(
    ("scoring", "metric"),
    [
        ("neg_log_loss", lambda m, X, y: -log_loss(y, m.predict_proba(X), labels=m.classes_)),
        ("accuracy", lambda m, X, y: accuracy_score(y, m.predict(X))),
    ],
)
def test_scores_are_those_of_separate_fits(scoring: str, metric) -> None:
    X, y = wine()
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    model = SMLRCV(alphas=[30.0, 5.0, 0.5], cv=cv, scoring=scoring, tol=1e-9).fit(X, y)
    for fold, (train, test) in enumerate(cv.split(X, y)):
        for i, alpha in enumerate(model.alphas_):
            single = SMLR(alpha=alpha, tol=1e-9).fit(X[train], y[train])
            assert_allclose(model.scores_[fold, i], metric(single, X[test], y[test]), atol=1e-5)


def test_the_chosen_model_is_the_fit_at_the_chosen_alpha() -> None:
    X, y = wine()
    model = SMLRCV(alphas=20, tol=1e-10).fit(X, y)
    direct = SMLR(alpha=model.alpha_, tol=1e-10).fit(X, y)
    assert_allclose(model.solution_.objective, direct.solution_.objective, rtol=1e-9)
    assert_array_equal(model.active_features_, direct.active_features_)
    assert model.solution_.gap <= 1e-10 * model.solution_.scale
    P = direct.predict_proba(X)
    G = np.abs(X.T @ (P - np.eye(3)[y])).T
    violation = np.where(model.coef_ == 0, np.maximum(G - model.alpha_, 0.0), np.abs(G - model.alpha_)).max()
    assert_allclose(model.solution_.violation, violation, atol=1e-3)
    assert model.solution_.violation < 1e-2 * model.alpha_
    assert model.solution_.solver == direct.solution_.solver
    assert model.alpha_ == model.alphas_[np.argmax(model.scores_.mean(axis=0))]


def test_one_standard_error_takes_the_larger_alpha() -> None:
    X, y = wine()
    best, sparse = (SMLRCV(alphas=30, rule=rule).fit(X, y) for rule in ("min", "1se"))
    assert sparse.alpha_ > best.alpha_
    assert len(sparse.active_features_) <= len(best.active_features_)
    mean = best.scores_.mean(axis=0)
    error = best.scores_[:, mean.argmax()].std(ddof=1) / np.sqrt(5)
    inside = best.alphas_[mean >= mean.max() - error]
    assert sparse.alpha_ == inside.max()


def test_choice_on_a_made_up_table() -> None:
    # alphas decrease along the last axis; the mean is best at index 3, index 1 is within one standard error
    scores = np.array([[-5.0, -2.1, -2.2, -2.0, -3.0], [-5.0, -2.4, -2.6, -2.4, -3.0]])[:, None, :]
    assert choose(scores, "min") == (0, 3)
    assert choose(scores, "1se") == (0, 1)


def test_ties_go_to_the_larger_alpha() -> None:
    assert choose(np.zeros((3, 1, 4)), "min") == (0, 0)


def test_edge_of_the_grid_is_warned_about() -> None:
    X, y = wine()
    with pytest.warns(UserWarning, match="smallest of the grid"):
        SMLRCV(alphas=[50.0, 40.0]).fit(X, y)


@SHORT_GRID
def test_several_l1_ratios() -> None:
    X, y = wine()
    model = SMLRCV(alphas=8, l1_ratio=[0.3, 1.0]).fit(X, y)
    assert model.scores_.shape == (5, 2, 8)
    assert model.alphas_.shape == (2, 8)
    assert model.l1_ratio_ in (0.3, 1.0)
    best = np.unravel_index(model.scores_.mean(axis=0).argmax(), (2, 8))
    assert model.alpha_ == model.alphas_[best]


def test_a_class_absent_from_a_fold_gets_no_probability() -> None:
    X, y = load_iris(return_X_y=True)
    model = SMLRCV(alphas=[10.0, 1.0], cv=KFold(3)).fit(X, y)  # sorted by class: each fold misses its own
    assert_allclose(model.scores_, np.log(np.finfo(float).eps))


def test_groups_reach_the_splitter() -> None:
    X, y = wine()
    groups = np.arange(len(y)) % 7
    model = SMLRCV(alphas=5, cv=GroupKFold(7)).fit(X, y, groups=groups)
    assert model.scores_.shape == (7, 5)


@SHORT_GRID
def test_weight_zero_equals_removal() -> None:
    X, y = wine()
    keep = np.arange(len(y)) % 5 != 0
    folds = np.arange(len(y)) % 3
    splits = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(3)]
    kept = np.flatnonzero(keep)
    inner = [(np.flatnonzero(folds[kept] != f), np.flatnonzero(folds[kept] == f)) for f in range(3)]
    weighted = SMLRCV(alphas=[20.0, 2.0], cv=splits, tol=1e-9).fit(X, y, sample_weight=keep.astype(float))
    removed = SMLRCV(alphas=[20.0, 2.0], cv=inner, tol=1e-9).fit(X[keep], y[keep])
    assert_allclose(weighted.scores_, removed.scores_, atol=1e-5)
    assert_allclose(weighted.coef_, removed.coef_, atol=1e-4)


@SHORT_GRID
def test_parallel_folds_change_nothing() -> None:
    X, y = wine()
    one, two = (SMLRCV(alphas=6, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    assert_array_equal(one.scores_, two.scores_)
    assert_array_equal(one.coef_, two.coef_)


@SHORT_GRID
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_kernels(kernel: str) -> None:
    X, y = wine()
    if kernel == "precomputed":
        X = X @ X.T / X.shape[1]
    model = SMLRCV(alphas=6, kernel=kernel, cv=3).fit(X, y)
    assert model.score(X, y) > 0.9
    assert len(model.support_) < len(y)


def test_in_a_pipeline() -> None:
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), SMLRCV(alphas=10)).fit(X, y)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"rule": "max"}, "rule"),
        ({"l1_ratio": [0.5, 2.0]}, "l1_ratio"),
        ({"alphas": []}, "alphas"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_bad_arguments(settings: dict[str, object], name: str) -> None:
    X, y = wine()
    with pytest.raises(ValueError, match=name):
        SMLRCV(**settings).fit(X, y)
