"""Text for a paper, calibration in words, what kernel models do, and rows unlike anything seen."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smaller.app.report import render, report_json
from smaller.app.report.curves import benefit_chart
from smaller.app.report.evaluation import render_evaluation
from smaller.app.report.paper import citations, methods, results, tripod
from smaller.app.report.quality import calibration_sentences
from smaller.app.study import Procedure, Question, Study, prepare, run_study
from smaller.app.study.dependence import partial_dependence
from smaller.app.study.evaluation import evaluate
from smaller.app.study.novelty import unlike, unlike_sentence
from smaller.app.tables import Table

QUICK = Procedure(repeats=1, shuffle=False)


def rings(n: int = 120) -> Table:
    """Two rings: only `across` and `up` together say which; eight rows have no label and stand in front."""
    rng = np.random.default_rng(1)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(np.arange(n) % 2, 1.0, 2.2) + 0.2 * rng.normal(size=n)
    columns: dict[str, Any] = {"across": radius * np.cos(angle), "up": radius * np.sin(angle), "n": rng.normal(size=n)}
    labels = np.where(np.arange(n) % 2, "inner", "outer").astype(object)
    labels[:8] = None
    return Table(columns | {"ring": labels})


@cache
def kernel() -> Study:
    return run_study(prepare(rings(), Question("ring")), replace(QUICK, model="ivm"))


def table(n: int = 120) -> Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    X[::30, 4] = np.nan
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.5, "ill", "well").astype(object)
    return Table({f"x{j}": X[:, j] for j in range(5)} | {"y": y})


@cache
def linear() -> Study:
    return run_study(prepare(table(), Question("y", group="none")), replace(QUICK, seed=7))


# ---- for your paper -------------------------------------------------------------------------------------------------


def test_methods_name_data_model_versions_and_seed() -> None:
    facts = linear().facts
    text = methods(facts)
    made = facts["settings"]["versions"]
    for piece in (
        "120 rows", f"ill: {facts['class_counts'][0]}", "Krishnapuram et al. 2005", f"smaller {made['smaller']}",
        f"NumPy {made['numpy']}", "random seed 7", "Gaps were filled", "Nested cross-validation", "one standard error",
    ):  # fmt: skip
        assert piece in text, piece
    assert "Rule:" not in text
    assert "Zhu and Hastie 2005" in methods(kernel().facts)
    assert "There were no gaps" in methods(kernel().facts)


def test_results_say_what_was_measured_and_withhold_what_is_withheld() -> None:
    facts = json.loads(report_json(linear().facts))
    judged = facts["performance"]
    assert f"{judged['error']:.1%} were classified wrongly (95% confidence interval" in results(facts)
    assert f"{judged['log_loss']:.3f}" in results(facts)
    assert f"area under the ROC curve was {facts['by_class']['area']:.3f}" in results(facts)
    facts["verdict"]["state"] = "withheld"
    assert "95% confidence interval" not in results(facts)


def test_the_checklist_holds_what_is_known_and_names_what_is_not() -> None:
    items = {number: text for number, _, text in tripod(linear().facts)}
    assert items["12a"] == linear().facts["plan"]
    assert "5 candidate features" in items["9"]
    assert "features.csv" in items["22"]
    assert "reference rows" in {number: text for number, _, text in tripod(kernel().facts)}["22"]
    page = html.unescape(re.sub("<[^>]*>", " ", render(linear().facts)))
    assert "Left to the authors: items 1-6" in page
    for citation in citations(linear().facts):
        assert page.count(citation) == 2  # under the method, and to be copied


def test_text_to_copy_is_escaped() -> None:
    facts = json.loads(report_json(linear().facts))
    facts["settings"]["target"] = "<b>y</b>"
    facts["notes"] = ["<script>"]
    assert "<script>" not in render(facts).split("For your paper")[1].split("</section>")[0].split("<script type")[0]


# ---- probabilities --------------------------------------------------------------------------------------------------


def test_slope_and_intercept_are_those_of_a_logistic_regression_on_the_log_odds() -> None:
    from smaller.app.study.honest import make_plan, predict_held_out

    study, data = linear(), prepare(table(), Question("y", group="none"))
    how = replace(QUICK, seed=7, gaps=True)
    held_out = predict_held_out(data.X, data.y, make_plan(data.X, data.y, data.units, how), how)
    odds = np.log(held_out.proba[0, :, 1] / held_out.proba[0, :, 0])
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[:, None], held_out.codes)
    fit = study.facts["recalibration"]
    assert fit is not None
    assert fit["slope"] == pytest.approx(fitted.coef_[0, 0], rel=1e-4)
    assert fit["slope_interval"][0] < fit["slope"] < fit["slope_interval"][1]
    assert f"Calibration slope {fit['slope']:.2f} (95%:" in render(study.facts)


def test_what_a_slope_means_is_said_as_far_as_it_is_certain() -> None:
    fit = {"slope": 0.5, "slope_interval": [0.3, 0.7], "intercepts": [0.1], "intercept_intervals": [[-0.1, 0.3]]}
    assert "too bold" in calibration_sentences(fit, ["a", "b"])
    assert "log-odds of b are +0.10 (-0.10 to +0.30)" in calibration_sentences(fit, ["a", "b"])
    assert "too cautious." in calibration_sentences(fit | {"slope_interval": [1.2, 2.0]}, ["a", "b"])
    assert "not to be told" in calibration_sentences(fit | {"slope_interval": [0.9, 2.0]}, ["a", "b"])
    assert "95%" not in calibration_sentences(fit, ["a", "b"], certain=False)
    assert "cannot be estimated" in calibration_sentences(None, ["a", "b"])


def test_the_decision_curve_stays_inside_its_picture() -> None:
    curve = linear().facts["benefit"]
    assert curve is not None
    prevalence = linear().facts["class_counts"][1] / 120
    for t, value in zip(curve["thresholds"], curve["everybody"], strict=True):
        assert value == pytest.approx(prevalence - (1.0 - prevalence) * t / (1.0 - t))
    assert max(curve["model"]) <= prevalence
    for points in re.findall(r'points="([^"]+)"', benefit_chart(curve)):
        heights = [float(point.split(",")[1]) for point in points.split()]
        assert 0 <= min(heights) <= max(heights) <= 260


# ---- kernel models --------------------------------------------------------------------------------------------------


def test_partial_dependence_is_the_mean_probability_with_a_feature_set() -> None:
    study, data = kernel(), prepare(rings(), Question("ring"))
    curves = study.facts["dependence"]
    assert curves is not None
    assert {curve["name"] for curve in curves[:2]} == {"across", "up"}  # the strongest first
    for curve in curves:
        j = data.encoder.features.index(curve["name"])
        for i in (0, -1):
            X = data.X.copy()
            X[:, j] = curve["values"][i]
            expected = study.model.pipeline.predict_proba(X).mean(axis=0)
            assert np.allclose([line[i] for line in curve["proba"]], expected)
    page = render(study.facts)
    assert "What do the strongest features do?" in page
    assert "What do the strongest features do?" not in render(linear().facts)


def test_of_many_features_only_the_promising_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from smaller.app.study import dependence

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 30)), np.tile([0, 1], 40)
    X[:, 17] += 3.0 * y
    model = LogisticRegression().fit(X, y)
    monkeypatch.setattr(dependence, "MOST_LOOKED_AT", 3)
    found = partial_dependence(model, X, y, [str(j) for j in range(30)], 0)
    assert found is not None
    assert len(found) == 3
    assert found[0]["name"] == "17"


def test_reference_rows_are_numbered_as_in_the_table() -> None:
    study, whole = kernel(), rings()
    rows = study.facts["reference"]
    assert rows is not None
    assert len(rows) == study.facts["points"]
    assert all(whole.columns["ring"][one["row"] - 1] == one["class"] for one in rows)
    assert min(one["row"] for one in rows) > 8  # rows without a label are counted, and not used
    support = study.model.pipeline[-1].support_vectors_
    scaled = study.model.pipeline[:-1].transform(prepare(whole, Question("ring")).X)
    places = [int(np.flatnonzero((scaled == point).all(axis=1))[0]) + 9 for point in support]
    assert sorted(places) == [one["row"] for one in rows]
    assert "The rows used as reference points" in render(study.facts)
    assert linear().facts["reference"] is None


# ---- rows unlike anything seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [linear, kernel])
def test_training_rows_have_been_seen_and_far_ones_have_not(made: Callable[[], Study]) -> None:
    model, known = made().model, {linear: table, kernel: rings}[made]()
    found = unlike(model, known)
    assert found is not None
    assert not found.any()
    assert unlike_sentence(model, known) is None
    name = "x0" if made is linear else "across"
    far = {key: values.copy() for key, values in known.columns.items()}
    far[name][[30, 50]] = 40.0
    assert unlike(model, Table(far)).nonzero()[0].tolist() == [30, 50]  # type: ignore[union-attr]
    assert "2 of 120 rows are unlike anything seen in training (row 31, 51)" in str(unlike_sentence(model, Table(far)))
    facts = evaluate(model, Table(far))
    assert facts["unlike"] == 2
    assert f"Unlike anything seen: 2 of {facts['rows']} rows." in render_evaluation(facts)


def test_a_rare_level_has_been_seen() -> None:
    given = table()
    given.columns["kind"] = np.where(np.arange(120) < 2, "odd", "even").astype(object)
    model = run_study(prepare(given, Question("y", group="none", always=("kind",))), QUICK).model
    assert model.settings["farthest"] < 5.0  # an indicator of 2 rows in 120 lies 7.7 standard deviations away


def test_predict_says_how_many_rows_are_new_to_the_model(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    from smaller.app.commands.steps import write

    write(linear(), tmp_path / "r")
    (tmp_path / "new.csv").write_text("x0,x1,x2,x3,x4\n0,0,0,0,0\n1000,0,0,0,0\n")
    code, out, err = run("predict", tmp_path / "r" / "model.smaller", tmp_path / "new.csv")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert "1 of 2 rows is unlike anything seen in training (row 2)" in err
