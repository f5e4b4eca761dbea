"""The judge must be able to say no: true fits are damaged, and each damage must be found."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import smaller
from fuzz import claims, judge
from fuzz.exact import LD, Claim, Softmax, SquaredLoss
from fuzz.hostile import Case, make_case


def case_of(model: Any, seed: int = 0, offset: float = 0.0) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 5)) + offset
    y: Any = (X[:, 0] - offset + 0.5 * rng.standard_normal(60) > 0).astype(int)
    if isinstance(model, smaller.SparseRegressor | smaller.RVR):
        y = X[:, 0] - offset + 0.5 * rng.standard_normal(60)
    return Case(seed, model, X, y, None, X, ())


def checked(case: Case, fitted: Any) -> str:
    return claims.check(case, fitted, [], unconverged=False)[0]


MODELS = [
    smaller.SMLR(),
    smaller.SMLR(alpha=0.0),
    smaller.SMLR(l1_ratio=0.5, penalize_intercept=True),
    smaller.SMLR(kernel="rbf", gamma=0.2),
    smaller.RMLR(),
    smaller.SBMLR(),
    smaller.SMLRCV(alphas=5, cv=2),
    smaller.KLR(gamma=0.2),
    smaller.IVM(gamma=0.2),
    smaller.SparseProbit(),
    smaller.SparseProbit(prior="laplace"),
    smaller.RVC(kernel=None, moderate=False),
]
REGRESSORS = [
    smaller.SparseRegressor(),
    smaller.SparseRegressor(prior="laplace"),
    smaller.SparseRegressor(prior="laplace", noise=0.25),
    smaller.RVR(kernel=None),
]


@pytest.mark.parametrize("model", [*MODELS, *REGRESSORS], ids=str)
def test_a_true_claim_passes_and_damaged_weights_do_not(model: Any) -> None:
    case = case_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = clone(model).fit(case.X, case.y)
    assert checked(case, fitted) == "right"
    name = "dual_coef_" if hasattr(fitted, "dual_coef_") else "coef_"
    setattr(fitted, name, getattr(fitted, name) * 1.2)
    with pytest.raises(claims.Refuted):
        checked(case, fitted)


@pytest.mark.parametrize("damage", ["objective", "status", "intercept_"])
def test_other_damage_is_found(damage: str) -> None:
    case = case_of(smaller.SMLR())
    fitted = case.model.fit(case.X, case.y)
    if damage == "objective":
        fitted.solution_ = replace(fitted.solution_, objective=fitted.solution_.objective * 0.99)
    elif damage == "status":
        fitted.solution_ = replace(fitted.solution_, status=type(fitted.solution_.status)["MAX_ITER"])
    else:
        fitted.intercept_ = fitted.intercept_ + 0.3
    with pytest.raises(claims.Refuted):
        checked(case, fitted)


def test_exceptions_and_stray_warnings_are_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(case: Case) -> Any:
        raise np.linalg.LinAlgError("3-th leading minor of the array is not positive definite")

    case = case_of(smaller.SMLR())
    monkeypatch.setattr(judge, "_fit", bare)
    assert judge.judge(case).kind == "crash"

    def stray(case: Case) -> Any:
        np.log(np.zeros(1))
        return case.model.fit(case.X, case.y)

    monkeypatch.setattr(judge, "_fit", stray)
    assert judge.judge(case).kind == "crash"

    def greedy(case: Case) -> Any:
        case.X[0, 0] += 1.0
        return case.model.fit(case.X, case.y)

    monkeypatch.setattr(judge, "_fit", greedy)
    assert judge.judge(case).kind == "changed"


def test_a_known_refusal_is_none_of_these_and_an_unknown_one_is() -> None:
    case = case_of(smaller.SMLR())
    assert judge.judge(replace(case, y=np.zeros(60))).kind == "refused"
    assert judge.judge(replace(case, model=smaller.SMLR(solver="newton"))).kind == "crash"


def test_the_gap_is_zero_at_the_optimum_and_bounds_the_distance_elsewhere() -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((40, 3)), np.arange(40) % 3
    loss = Softmax(codes, 3, np.ones(40, dtype=LD), (0, 1, 2))
    nothing = Claim(X.astype(LD), loss, np.zeros((3, 3), LD), np.zeros(3, LD), np.full(3, LD(0.5)), np.zeros(3, LD))
    gained = nothing.improvement()
    assert 0.0 < gained <= nothing.gap() + 1e-12
    w, none = np.eye(3, 1, dtype=LD), np.zeros(3, LD)
    exact = Claim(X.astype(LD), SquaredLoss(X[:, :1].astype(LD), np.ones(40, LD), LD(1)), w, none[:1], none, none)
    assert abs(exact.gap()) < 1e-25
    assert exact.improvement() < 1e-25


def test_a_case_is_the_same_every_time() -> None:
    assert str(make_case(7)) == str(make_case(7))
    assert make_case(7).dense.tobytes() == make_case(7).dense.tobytes()


@pytest.mark.parametrize(
    "settings",
    [
        {"penalty": "grouped"},
        {"penalty": "sparse-grouped", "feature_groups": [0, 0, 1, 1, 1]},
        {"upper_limits": 0.3},
        {"exclude": [1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", ["labels", "offset", "shares"])
def test_structure_offsets_and_shares_are_judged(settings: dict[str, Any], data: str) -> None:
    case = case_of(smaller.SMLR(alpha=0.5, **settings))
    if data == "offset":
        case = replace(case, offset=np.linspace(-1.0, 1.0, 60))
    if data == "shares":
        case = replace(case, y=0.9 * np.eye(2)[case.y] + 0.05)
    assert judge.judge(case).kind == "right"
    offset = {} if case.offset is None else {"offset": case.offset}
    fitted = clone(case.model).fit(case.X, case.y, **offset)
    fitted.solution_ = replace(fitted.solution_, objective=fitted.solution_.objective * 0.99)
    with pytest.raises(claims.Refuted):
        checked(case, fitted)
    fitted = clone(case.model).fit(case.X, case.y, **offset)
    fitted.coef_ = fitted.coef_ * 0.9
    with pytest.raises(claims.Refuted):
        checked(case, fitted)


def test_grades_are_judged() -> None:
    case = case_of(smaller.OrdinalSMLR(alpha=0.5))
    case = replace(case, y=np.digitize(case.X[:, 0], [-0.5, 0.5]))
    assert judge.judge(case).kind == "right"
    for name, value in (("coef_", 0.9), ("thresholds_", 1.1)):
        fitted = clone(case.model).fit(case.X, case.y)
        setattr(fitted, name, getattr(fitted, name) * value)
        with pytest.raises(claims.Refuted):
            checked(case, fitted)
