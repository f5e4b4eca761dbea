"""What a user asks for beyond a model: costs, rare classes, a class looked for, features forced in, at most so many."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from smaller.app.report import render
from smaller.app.study import Procedure, Question, Study, prepare, run_study
from smaller.app.study.by_class import by_class
from smaller.app.study.costs import Costs, balanced_costs, checked_costs, cost_matrix, judge_costs
from smaller.app.study.discrimination import average_precision, operate, sensitivity_interval
from smaller.app.study.models import fit_model
from smaller.app.tables import Table, TableError
from smaller.decisions import adjust_priors, net_benefit

QUICK = Procedure(repeats=1, shuffle=False)


def rare(n: int = 200) -> Table:
    """A table in which one row in six is ill, age and sex say little, and x0 and x1 much."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(8)}
    columns |= {"age": rng.integers(20, 80, n).astype(float), "sex": rng.choice(["f", "m"], n).astype(object)}
    eta = 2.0 * X[:, 0] - 1.5 * X[:, 1] + 0.5 * X[:, 2] - 2.5
    ill = rng.random(n) < 1.0 / (1.0 + np.exp(-eta))
    return Table(columns | {"y": np.where(ill, "ill", "well").astype(object)})


@cache
def plain() -> Study:
    return study(QUICK)


def study(how: Procedure, **question: Any) -> Study:
    return run_study(prepare(rare(), Question("y", **question)), how)


samples = st.integers(0, 10_000).map(np.random.default_rng)


# ---- costs ----------------------------------------------------------------------------------------------------------


@given(samples, st.integers(2, 4))
def test_every_row_gets_its_cheapest_decision(rng: np.random.Generator, K: int) -> None:
    P, C = rng.dirichlet(np.ones(K), size=(2, 25)), rng.random((K, K)) * (1.0 - np.eye(K))
    codes, costs = rng.integers(0, K, 25), Costs("expected cost", C)
    decided = costs.decide(P)
    for r in range(2):
        for i in range(25):
            expected = [sum(P[r, i, k] * C[k, a] for k in range(K)) for a in range(K)]
            assert expected[decided[r, i]] == pytest.approx(min(expected))
    judged = judge_costs(codes, decided, costs)
    assert judged["value"] == pytest.approx(
        np.mean([[C[codes[i], decided[r, i]] for i in range(25)] for r in range(2)])
    )
    assert judged["interval"][0] <= judged["value"] <= judged["interval"][1]
    assert judged["baseline"] == pytest.approx(min(np.mean([C[k, a] for k in codes]) for a in range(K)))


@given(samples, st.integers(2, 4))
def test_the_balanced_error_is_one_minus_the_balanced_accuracy(rng: np.random.Generator, K: int) -> None:
    codes = np.r_[np.arange(K), rng.integers(0, K, 40)]
    decided = rng.integers(0, K, (1, 40 + K))
    costs = balanced_costs(np.bincount(codes) / len(codes))
    accuracy = metrics.balanced_accuracy_score(codes, decided[0])
    assert judge_costs(codes, decided, costs)["value"] == pytest.approx(1.0 - accuracy)
    assert judge_costs(codes, decided, costs)["baseline"] == pytest.approx(1.0 - 1.0 / K)


def table_of_costs() -> Table:
    return Table({"true": np.array(["b", "a"], object), "b": np.array([0.0, 1.0]), "a": np.array([9.0, 0.0])})


def test_costs_are_read_by_name_whatever_their_order() -> None:
    assert cost_matrix(table_of_costs(), np.array(["a", "b"])) == ((0.0, 1.0), (9.0, 0.0))
    with pytest.raises(TableError, match=r"one row for every true class.*: a, c;"):
        cost_matrix(table_of_costs(), np.array(["a", "c"]))
    for wrong, sentence in (
        ([[0, 1]], "2 rows"), ([[0, np.nan], [1, 0]], "finite"), ([[0, 1], [1, 1]], "diagonal is the smallest"),
    ):  # fmt: skip
        with pytest.raises(TableError, match=sentence):
            checked_costs(wrong, 2)


def test_dear_misses_are_made_rarer_and_the_headline_is_the_cost() -> None:
    costly = study(replace(QUICK, costs=((0.0, 20.0), (1.0, 0.0))))
    before, after = np.array(plain().facts["confusion"]), np.array(costly.facts["confusion"])
    assert after[0, 1] < before[0, 1]  # fewer ill taken for well
    cost = costly.facts["performance"]["cost"]
    assert cost["value"] == pytest.approx((20.0 * after[0, 1] + after[1, 0]) / 200)
    assert costly.facts["verdict"]["state"] == "better"
    page = render(costly.facts)
    assert page.index("expected cost per row") < page.index("of new cases wrong")
    assert "always deciding for ill" in page


# ---- rare classes ---------------------------------------------------------------------------------------------------


def test_balanced_classes_leave_probabilities_at_the_shares_of_the_table() -> None:
    data = prepare(rare(), Question("y"))
    how = replace(QUICK, class_weight="balanced", model="sbmlr")
    fitted, _ = fit_model(data.X, data.y, how)
    shares = np.unique(data.y, return_counts=True)[1] / len(data.y)
    moved = fitted.predict_proba(data.X)
    fitted[-1].fit(fitted[:-1].transform(data.X), data.y)  # once more, without the shift
    expected, _ = adjust_priors(fitted.predict_proba(data.X), [0.5, 0.5], shares)
    assert np.allclose(moved, expected, atol=1e-10)


def test_balanced_decisions_find_the_rare_class_more_often() -> None:
    balanced = study(replace(QUICK, class_weight="balanced"))
    found = [facts["by_class"]["classes"][0]["found"] for facts in (plain().facts, balanced.facts)]
    assert found[1] > found[0] + 0.1
    assert balanced.facts["by_class"]["balanced_accuracy"] == pytest.approx(
        1.0 - balanced.facts["performance"]["cost"]["value"]
    )
    page = render(plain().facts)
    assert "of class ill found, the least of all classes" in page[: page.index("<h2>")]
    assert "balanced error" in render(balanced.facts)


@given(samples)
def test_classes_are_judged_as_scikit_learn_judges_them(rng: np.random.Generator) -> None:
    codes = np.r_[0, 0, 1, 1, 2, 2, rng.integers(0, 3, 30)]
    P = rng.dirichlet(np.ones(3), size=36).round(1) + 1e-3
    P /= P.sum(axis=1, keepdims=True)
    decided = P.argmax(axis=1)
    judged = by_class(codes, P[None], decided[None])
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        codes, decided, labels=[0, 1, 2], zero_division=0
    )
    for k, one in enumerate(judged["classes"]):
        assert one["found"] == pytest.approx(recall[k])
        assert (one["precision"] or 0.0) == pytest.approx(precision[k])
        assert (one["f1"] or 0.0) == pytest.approx(f1[k])
        assert one["area"] == pytest.approx(metrics.roc_auc_score(codes == k, P[:, k]))
        assert one["average_precision"] == pytest.approx(metrics.average_precision_score(codes == k, P[:, k]))
        assert one["brier"] == pytest.approx(metrics.brier_score_loss(codes == k, P[:, k]))
    assert judged["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(codes, decided))


# ---- a class looked for ---------------------------------------------------------------------------------------------


@given(samples, st.floats(0.05, 0.95))
def test_sensitivity_is_the_best_of_the_roc_curve_at_that_specificity(
    rng: np.random.Generator, specificity: float
) -> None:
    positive, score = np.r_[True, False, rng.random(40) < 0.4], rng.random(42).round(1)
    found = operate(positive, score, specificity)
    rates, hits, _ = metrics.roc_curve(positive, score, drop_intermediate=False)
    assert found.sensitivity == pytest.approx(hits[rates <= 1.0 - specificity + 1e-9].max())
    assert found.specificity >= specificity - 1e-9
    assert average_precision(positive, score) == pytest.approx(metrics.average_precision_score(positive, score))


def test_the_interval_of_the_sensitivity_holds_the_truth_as_often_as_it_says() -> None:
    from scipy.stats import norm

    rng, held = np.random.default_rng(0), 0
    truth = norm.sf(norm.isf(0.1) - 1.5)  # two normal classes, 1.5 apart
    positive = np.repeat([True, False], [60, 140])
    for seed in range(40):
        low, high = sensitivity_interval(positive, (rng.normal(size=200) + 1.5 * positive)[None], 0.9, None, seed)
        held += low <= truth <= high
    assert held >= 35  # 38 expected; fewer than 35 has a chance of 1%
    wide = sensitivity_interval(np.tile(positive, 5), np.tile(rng.normal(size=200) + positive, 5)[None], 0.9,
                                np.tile(np.arange(200), 5), 0)  # fmt: skip
    narrow = sensitivity_interval(np.tile(positive, 5), np.tile(rng.normal(size=200) + positive, 5)[None], 0.9, None, 0)
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


def test_the_class_looked_for_is_told_with_its_threshold() -> None:
    facts = study(replace(QUICK, positive="ill", specificity=0.8)).facts
    found = facts["operation"]
    assert found["positive"] == facts["benefit"]["positive"] == "ill"
    assert found["specificity"] >= 0.8
    assert found["interval"][0] <= found["sensitivity"] <= found["interval"][1]
    assert "Looked for: ill." in render(facts)
    assert plain().facts["operation"] is None


@given(samples)
def test_net_benefit_is_what_its_definition_says(rng: np.random.Generator) -> None:
    positive, p = rng.random(30) < 0.4, rng.random(30).round(1)
    for t, value in zip((0.0, 0.2, 0.75), net_benefit(positive, p, [0.0, 0.2, 0.75]), strict=True):
        gained = sum((1.0 if true else -t / (1.0 - t)) for true, q in zip(positive, p, strict=True) if q >= t)
        assert value == pytest.approx(gained / 30)
    with pytest.raises(ValueError, match="below 1"):
        net_benefit(positive, p, [1.0])
    with pytest.raises(ValueError, match="one length"):
        net_benefit(positive, p[1:], [0.5])


# ---- features forced in, and at most so many ------------------------------------------------------------------------


def test_what_is_always_in_the_model_has_no_penalty() -> None:
    found = study(QUICK, always=("age", "sex"))
    assert found.facts["always"] == ["age", "sex = m"]
    used = {row["name"]: row for row in found.facts["chosen"]["features"]}
    assert used["age"]["frequency"] is None
    assert "age" not in {row["name"] for row in found.facts["stability"]["top"]}
    table = rare()
    residual = found.model.predict_proba(table)[:, 0] - (table.columns["y"] == "ill")
    X = found.model.pipeline[:-1].transform(found.model.features(table))
    gradient = np.abs(X.T @ residual)
    names = found.model.encoder.features
    free = [names.index(name) for name in ("age", "sex = m")]
    assert gradient[free].max() < 1e-2  # no penalty: the optimum has no slope there
    assert gradient[names.index("x0")] > 1.0  # while the penalty holds a feature in use back by alpha
    with pytest.raises(TableError, match="cannot be a feature"):
        prepare(replace(table, columns=table.columns | {"c": np.ones(200)}), Question("y", always=("c",)))
    with pytest.raises(TableError, match="cannot be both"):
        prepare(table, Question("y", always=("age",), drop=("age",)))


def test_of_a_forced_category_one_level_stays_penalised() -> None:
    table = rare()
    table.columns["site"] = np.random.default_rng(1).choice(["a", "b", "c"], 200).astype(object)
    data = prepare(table, Question("y", always=("site",), group="none"))
    assert [data.encoder.features[j] for j in data.free] == ["site = b", "site = c"]
    assert fit_model(data.X, data.y, replace(QUICK, free=data.free))[0][-1].solution_.converged


def test_a_cap_is_kept_and_its_price_is_said() -> None:
    facts = study(replace(QUICK, features=2, rule="min")).facts
    cap, path = facts["cap"], facts["path"]
    assert len(facts["chosen"]["features"]) <= 2 < cap["uncapped"]
    assert all(size <= 2 for size in facts["sizes_per_fold"])
    assert cap["uncapped_log_loss"] == pytest.approx(-max(path["score"]))
    assert cap["log_loss"] == pytest.approx(
        -max(score for score, used in zip(path["score"], path["n_active"], strict=True) if used <= 2)
    )
    assert cap["sentence"] in render(facts)
    roomy = study(replace(QUICK, features=10)).facts["cap"]
    assert "changes nothing" in roomy["sentence"]


def test_a_cap_holds_where_the_strength_comes_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from smaller.app.study import models

    monkeypatch.setattr(models, "SEARCH_ROWS", 100)
    data = prepare(rare(), Question("y"))
    for features in (1, 2, 3):
        fitted, _ = fit_model(data.X, data.y, replace(QUICK, rule="min", features=features))
        assert len(fitted[-1].active_features_) <= features


# ---- what cannot be asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"class_weight": "heavy"}, "--class-weight must be balanced"),
        ({"class_weight": "balanced", "costs": ((0, 1), (1, 0))}, "leave --class-weight out"),
        ({"costs": ((0, 1, 1), (1, 0, 1), (1, 1, 0))}, "2 rows"),
        ({"positive": "sick"}, "one of ill, well"),
        ({"specificity": 1.0}, "between 0 and 1"),
        ({"class_weight": "balanced", "model": "sparse-probit"}, "use smlr or sbmlr"),
        ({"features": 3, "model": "sbmlr"}, "use smlr"),
    ],
)
def test_demands_that_cannot_be_met_are_named(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TableError, match=sentence):
        study(replace(QUICK, **how))


def test_too_few_features_for_what_is_always_in() -> None:
    with pytest.raises(TableError, match="--features 1 is too few"):
        study(replace(QUICK, features=1), always=("age", "sex"))


# ---- on the command line --------------------------------------------------------------------------------------------


def test_costs_of_fit_decide_at_predict(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    table, names = rare(120), list(rare(120).columns)
    lines = [",".join(names), *(",".join(str(v) for v in row) for row in zip(*table.columns.values(), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "c.csv").write_text("true,well,ill\nwell,0,1\nill,20,0\n")
    code, out, err = run(
        "fit", tmp_path / "t.csv", "-t", "y", "--costs", tmp_path / "c.csv", "--positive", "ill", "--specificity", ".8",
        "--always", "age,sex", "--features", 4, "--no-shuffle", "--repeats", 1, "--no-relax", "--out", tmp_path / "r",
    )  # fmt: skip
    assert code == 0, err
    assert "expected cost" in out
    assert "of ill found at 80% specificity" in out
    assert "At most 4 features" in out
    code, out, _ = run("predict", tmp_path / "r" / "model.smaller", tmp_path / "t.csv", "--json", "--reject", ".7")
    rows = json.loads(out)
    assert code == 0
    for row in rows:
        expected = {"well": 20.0 * row["p(ill)"], "ill": row["p(well)"]}
        best = min(expected, key=lambda label: expected[label])
        assert row["cost"] == pytest.approx(expected[best])
        assert row["label"] == (None if expected[best] > 0.7 else best)
    (tmp_path / "even.csv").write_text("true,well,ill\nwell,0,1\nill,1,0\n")
    _, out, _ = run("predict", tmp_path / "r" / "model.smaller", tmp_path / "t.csv", "--json",
                    "--costs", tmp_path / "even.csv")  # fmt: skip
    assert all(row["cost"] == pytest.approx(min(row["p(ill)"], row["p(well)"])) for row in json.loads(out))
