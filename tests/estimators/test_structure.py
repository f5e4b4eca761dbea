"""Groups, limits and exclusions of SMLR, SMLRCV and smlr_path, judged by tests/structured.py; what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import scale

from smaller import SMLR, SMLRCV, alpha_max, load, save, smlr_path
from smaller.problem import Status
from structured import Structured, descend, judge

Array = Any
SHORT_GRID = pytest.mark.filterwarnings("ignore:The chosen alpha:UserWarning")
PATHWAYS = np.array(2 * ["acid"] + 3 * ["ash"] + 4 * ["phenol"] + 2 * ["hue"] + ["od", "p"])
NUMBERS = np.unique(PATHWAYS, return_inverse=True)[1]


def wine(K: int = 3) -> tuple[Array, Array]:
    X, y = load_wine(return_X_y=True)
    return scale(X)[y < K], y[y < K]


def case_of(X: Array, y: Array, **parts: Any) -> Structured:
    n, d = X.shape
    K = len(np.unique(y))
    nothing, endless = np.zeros(d), np.full(d, np.inf)
    plain = Structured(
        X, np.eye(K)[y], np.ones(n), np.zeros((n, K)), np.arange(d), nothing, nothing, nothing, -endless, endless
    )
    return replace(plain, **parts)


def asked(alpha: float, d: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments of SMLR, and the same as parts of a problem in plain NumPy."""
    ones, size = np.ones(d), np.sqrt(np.bincount(NUMBERS))
    limits = np.where(np.arange(d) % 2, 0.2, np.inf)
    return [
        ({"penalty": "grouped"}, {"norm": alpha * ones}),
        ({"penalty": "grouped", "feature_groups": PATHWAYS}, {"norm": alpha * size, "group": NUMBERS}),
        (
            {"penalty": "sparse-grouped", "feature_groups": PATHWAYS, "group_l1_ratio": 0.3},
            {"norm": 0.7 * alpha * size, "group": NUMBERS, "slope": 0.3 * alpha * ones},
        ),
        ({"penalty": "grouped", "l1_ratio": 0.6}, {"norm": 0.6 * alpha * ones, "ridge": 0.4 * alpha * ones}),
        ({"positive": True}, {"slope": alpha * ones, "lower": 0.0 * ones}),
        (
            {"lower_limits": -0.1, "upper_limits": limits},
            {"slope": alpha * ones, "lower": -0.1 * ones, "upper": limits},
        ),
        (
            {"upper_limits": 0.05, "penalty_factors": 1.0 + np.arange(d) % 3, "l1_ratio": 0.5},
            {
                "slope": 0.5 * alpha * (1.0 + np.arange(d) % 3),
                "ridge": 0.5 * alpha * (1.0 + np.arange(d) % 3),
                "upper": 0.05 * ones,
            },
        ),
        ({"exclude": [0, 6, -1]}, {"slope": alpha * ones, "lower": _at([0, 6, 12]), "upper": -_at([0, 6, 12])}),
    ]


def _at(columns: list[int]) -> Array:
    return np.where(np.isin(np.arange(13), columns), 0.0, -np.inf)


@pytest.mark.parametrize("which", range(8))
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"coding": "reference"}], ids=str)
def test_certified_in_plain_numpy_and_equal_to_another_method(which: int, K: int, settings: dict[str, Any]) -> None:
    X, y = wine(K)
    arguments, parts = asked(2.0, X.shape[1])[which]
    case = case_of(X, y, **parts, **settings)
    weight = 1.0 + np.arange(len(y)) % 2
    case = replace(case, weight=weight)
    model = SMLR(alpha=2.0, tol=1e-11, **arguments, **settings).fit(X, y, sample_weight=weight)
    w, b = model.coef_.T[:, : case.Y[:, case.outputs].shape[1]], model.intercept_[: case.Y[:, case.outputs].shape[1]]
    judged = judge(case, w, b)
    assert model.solution_.status is Status.CONVERGED
    assert model.solution_.objective == pytest.approx(judged.objective, rel=1e-10)
    assert judged.gap <= 1e-8 * judged.objective
    other = judge(case, *descend(case, tol=1e-9))
    assert abs(other.objective - judged.objective) <= 1e-8 * judged.objective
    if which == 7:
        assert not model.coef_[:, [0, 6, 12]].any()


@pytest.mark.parametrize("which", range(7))
def test_sparse_data_and_repeated_rows_change_nothing(which: int) -> None:
    X, y = wine()
    X = X * (np.abs(X) > 0.5)
    arguments, _ = asked(2.0, X.shape[1])[which]
    model = SMLR(alpha=2.0, tol=1e-11, **arguments)
    once = model.fit(X, y, sample_weight=1 + np.arange(len(y)) % 2).solution_.objective
    assert model.fit(sparse.csr_array(X), y, sample_weight=1 + np.arange(len(y)) % 2).solution_.objective == (
        pytest.approx(once, rel=1e-10)
    )
    rows = np.repeat(np.arange(len(y)), 1 + np.arange(len(y)) % 2)
    assert model.fit(X[rows], y[rows]).solution_.objective == pytest.approx(once, rel=1e-10)


@pytest.mark.parametrize("which", range(5))
def test_relabelled_classes_are_the_same_model(which: int) -> None:
    X, y = wine()
    arguments, _ = asked(2.0, X.shape[1])[which]
    one = SMLR(alpha=2.0, tol=1e-12, **arguments).fit(X, y)
    other = SMLR(alpha=2.0, tol=1e-12, **arguments).fit(X, (y + 1) % 3)
    assert_allclose(other.coef_[[1, 2, 0]], one.coef_, atol=1e-5)
    assert other.solution_.objective == pytest.approx(one.solution_.objective, rel=1e-11)


def test_groups_of_one_feature_and_two_classes_are_plain_smlr() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    plain, grouped = SMLR(alpha=5.0, tol=1e-14), SMLR(alpha=5.0, tol=1e-14, penalty="grouped")
    assert_allclose(grouped.fit(X, y).coef_, plain.fit(X, y).coef_, atol=1e-8)
    assert grouped.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-12)
    assert_array_equal(grouped.active_features_, plain.active_features_)


@pytest.mark.parametrize("which", range(7))
def test_the_largest_strength_is_exact(which: int) -> None:
    X, y = wine()
    arguments, _ = asked(1.0, X.shape[1])[which]
    if "penalty_factors" in arguments:
        arguments = arguments | {"l1_ratio": 1.0}
    largest = alpha_max(X, y, **arguments)
    assert SMLR(alpha=largest * (1 + 1e-10), tol=1e-10, **arguments).fit(X, y).active_features_.size == 0
    assert SMLR(alpha=0.99 * largest, tol=1e-10, **arguments).fit(X, y).active_features_.size > 0


def test_a_feature_is_in_or_out_for_all_classes_and_rows_sum_to_zero() -> None:
    X, y = wine()
    path = smlr_path(X, y, alphas=30, penalty="grouped")
    assert path.converged
    for w in path.coefs:
        used = (w != 0).any(axis=0)
        assert (w[:, used] != 0).all()
        assert_allclose(w.sum(axis=0), 0.0, atol=1e-12)
    groups = smlr_path(X, y, alphas=30, penalty="grouped", feature_groups=PATHWAYS)
    for w in groups.coefs:
        used = (w != 0).any(axis=0)
        for name in np.unique(PATHWAYS):
            assert len(np.unique(used[name == PATHWAYS])) == 1


def test_groups_may_be_labels_or_lists_of_columns() -> None:
    X, y = wine()
    lists = [list(np.flatnonzero(name == PATHWAYS)) for name in np.unique(PATHWAYS)]
    one, other = (SMLR(alpha=5.0, penalty="grouped", feature_groups=groups).fit(X, y) for groups in (PATHWAYS, lists))
    assert_allclose(one.coef_, other.coef_, atol=1e-4)


@SHORT_GRID
def test_excluded_features_may_be_named() -> None:
    X, y = wine()
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(13)])
    by_name = SMLR(alpha=2.0, exclude=["f0", "f6"]).fit(frame, y)
    by_mask = SMLR(alpha=2.0, exclude=np.isin(np.arange(13), [0, 6])).fit(X, y)
    without = SMLR(alpha=2.0).fit(np.delete(X, [0, 6], axis=1), y)
    assert_array_equal(by_name.coef_, by_mask.coef_)
    assert_allclose(np.delete(by_name.coef_, [0, 6], axis=1), without.coef_, atol=1e-8)
    model = SMLRCV(alphas=5, eps=0.05, exclude="f0").fit(frame, y)
    assert not model.coef_[:, 0].any()
    assert not model.path_.coefs[:, :, 0].any()


def test_limits_are_in_the_users_units() -> None:
    """Columns of extreme size are scaled by powers of two inside."""
    X, y = wine(2)
    units = np.where(np.arange(13) % 2, 1e70, 1.0)
    plain = SMLR(alpha=2.0, tol=1e-10, upper_limits=0.1).fit(X, y)
    moved = SMLR(alpha=2.0, tol=1e-10, upper_limits=0.1 / units, penalty_factors=units).fit(X * units, y)
    assert_allclose(moved.coef_ * units, plain.coef_, atol=1e-5)
    assert np.all(moved.coef_ <= 0.1 / units)
    assert plain.coef_.max() == 0.1


def test_a_penalised_intercept_has_no_limits_and_is_a_group_by_itself() -> None:
    X, y = wine()
    for arguments in ({"positive": True}, {"penalty": "grouped"}):
        model = SMLR(alpha=1.0, penalize_intercept=True, tol=1e-10, **arguments).fit(X + 1.0, y)
        assert model.solution_.converged
        assert model.intercept_.any()
    assert model.solution_.solver == "blockwise"


@SHORT_GRID
@pytest.mark.parametrize("which", [1, 2, 4])
def test_cross_validation_chooses_the_fit_at_its_strength(which: int) -> None:
    X, y = wine()
    arguments, _ = asked(1.0, X.shape[1])[which]
    model = SMLRCV(alphas=12, cv=3, tol=1e-9, **arguments).fit(X, y)
    direct = SMLR(alpha=model.alpha_, tol=1e-9, **arguments).fit(X, y)
    assert model.solution_.objective == pytest.approx(direct.solution_.objective, rel=1e-8)
    assert_array_equal(model.active_features_, direct.active_features_)
    assert model.solution_.solver == direct.solution_.solver == "blockwise"
    capped = SMLRCV(alphas=12, cv=3, max_features=4, **arguments).fit(X, y)
    assert capped.active_features_.size <= 4


def test_kernel_weights_can_be_positive_or_grouped_over_classes() -> None:
    X, y = wine()
    positive = SMLR(alpha=0.5, kernel="rbf", positive=True).fit(X, y)
    assert positive.solution_.converged
    assert positive.dual_coef_.min() >= 0.0
    grouped = SMLR(alpha=0.5, kernel="rbf", penalty="grouped").fit(X, y)
    assert grouped.solution_.converged
    assert (grouped.dual_coef_ != 0).all()


def test_saved_models_keep_their_arguments(tmp_path: Any) -> None:
    X, y = wine()
    model = SMLR(alpha=3.0, penalty="grouped", feature_groups=PATHWAYS).fit(X, y)
    save(model, tmp_path / "m.smaller")
    again = load(tmp_path / "m.smaller")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.feature_groups, PATHWAYS)


def test_a_warm_start_outside_of_new_limits_is_not_used() -> None:
    X, y = wine(2)
    model = SMLR(alpha=0.5, tol=1e-9, warm_start=True).fit(X, y)
    model.set_params(upper_limits=0.1, lower_limits=-0.1).fit(X, y)
    assert np.abs(model.coef_).max() <= 0.1
    assert model.solution_.converged


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "word": ({"penalty": "group"}, "penalty must be one of"),
    "groups alone": ({"feature_groups": PATHWAYS}, "feature_groups needs penalty='grouped' or 'sparse-grouped'"),
    "few groups": ({"penalty": "grouped", "feature_groups": [0, 1]}, "label for every feature, 13 in all, got 2"),
    "overlap": ({"penalty": "grouped", "feature_groups": [list(range(13)), [4]]}, "overlap: column 4 is in two groups"),
    "missing": ({"penalty": "grouped", "feature_groups": [list(range(12))]}, "column 12 is in no group"),
    "unknown": ({"penalty": "grouped", "feature_groups": [list(range(14))]}, "column 13, which is none of the 13"),
    "share": (
        {"penalty": "sparse-grouped", "group_l1_ratio": 1.5},
        "group_l1_ratio must be a finite number >= 0 and <= 1",
    ),
    "factors": (
        {"penalty": "grouped", "feature_groups": PATHWAYS, "penalty_factors": np.arange(13.0)},
        "penalty_factors must be equal for all features of a group",
    ),
    "lower above zero": ({"lower_limits": 0.1}, "lower_limits must be <= 0 and upper_limits >= 0"),
    "upper below zero": ({"upper_limits": -0.1}, "lower_limits must be <= 0 and upper_limits >= 0"),
    "crossed": ({"lower_limits": 0.3, "upper_limits": 0.2}, "lower_limits must be <= 0"),
    "limit NaN": ({"upper_limits": np.nan}, "upper_limits contains NaN"),
    "limit length": ({"upper_limits": [1.0, 2.0]}, r"one number per feature, 13 in all; its shape is \(2,\)"),
    "both": ({"positive": True, "lower_limits": -1.0}, "positive=True is lower_limits=0"),
    "limits and groups": ({"positive": True, "penalty": "grouped"}, "Limits go with penalty='elementwise' only"),
    "no penalty": ({"positive": True, "alpha": 0.0}, "need a penalty on the features that have a limit"),
    "free and limited": (
        {"positive": True, "penalty_factors": np.arange(13.0)},
        "need a penalty on the features that have a limit",
    ),
    "no such feature": ({"exclude": [13]}, "indices of features below 13, got 13"),
    "no such name": ({"exclude": ["ash"]}, "exclude names 'ash', which is no feature"),
    "mask length": ({"exclude": [True, False]}, "exclude as a mask must have 13 entries"),
    "kernel limits": ({"kernel": "rbf", "upper_limits": np.ones(13)}, "must be one number when a kernel is used"),
    "kernel groups": ({"kernel": "rbf", "penalty": "grouped", "feature_groups": PATHWAYS}, "belongs to features"),
    "kernel exclusion": ({"kernel": "rbf", "exclude": [0]}, "exclude belongs to features"),
    "posterior": (
        {"posterior": True, "positive": True},
        "posterior=True takes the penalty as a sum",
    ),
    "solver": ({"solver": "coordinate", "penalty": "grouped"}, "knows penalties of single weights without limits"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_a_sentence(name: str) -> None:
    X, y = wine()
    arguments, text = REFUSED[name]
    model = SMLR(**arguments)
    with pytest.raises(ValueError, match=text):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    arguments = {key: value for key, value in arguments.items() if key != "alpha"}
    if name != "no penalty":
        with pytest.raises(ValueError, match=text):
            SMLRCV(alphas=3, **arguments).fit(X, y)


def test_text_for_a_limit_is_a_type_error() -> None:
    X, y = wine()
    with pytest.raises(TypeError, match="upper_limits must be a number"):
        SMLR(upper_limits="high").fit(X, y)
    with pytest.raises(TypeError, match="positive must be True or False"):
        SMLR(positive="yes").fit(X, y)
    with pytest.raises(ValueError, match="relax=True refits single weights"):
        SMLRCV(relax=True, penalty="grouped", alphas=3).fit(X, y)
