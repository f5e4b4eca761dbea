"""What a study says about single effects and probabilities, and `smaller predict --interval`."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smaller.app.report import render, report_json
from smaller.app.report.certainty import _ticks
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.tables import Table
from smaller.inference import EFFECTS_NOTE

pytest.importorskip("typer")
pytest.importorskip("rich")
from smaller import load, save
from smaller.app.tables import read_table

Run = Callable[..., tuple[int, str, str]]
SOUND = "The range shows how far the number of samples leaves the weights of the chosen features open."
AS_GIVEN = "in simulations it held the truth in 60 to 85 of 100 of them, not in 90."
NOTHING = "There are too few samples for so many features to say how sure a single probability is."
QUICK = Procedure(repeats=1, shuffle=False)


def rows(n: int, d: int, n_classes: int = 2, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.r_[10.0, np.ones(d - 1)]
    score = X[:, 0] / 10.0 - X[:, 1] + 0.8 * rng.standard_normal(n)
    codes = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
    names = np.array(["no", "yes", "perhaps"], dtype=object)
    return Table({f"x{j}": X[:, j] for j in range(d)} | {"kind": names[codes]})


def written(table: Table, file: Path) -> Path:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.columns)
        writer.writerows(zip(*(column.tolist() for column in table.columns.values()), strict=True))
    return file


def test_effects_of_many_rows_are_those_of_maximum_likelihood() -> None:
    table = rows(600, 4)
    study = run_study(prepare(table, Question("kind")), QUICK)
    found = {row["name"]: row for row in study.facts["effects"]["features"]}
    X = np.column_stack([table.columns[f"x{j}"] for j in range(4)])
    exact = LogisticRegression(C=1e10, tol=1e-10).fit(X, table.columns["kind"]).coef_[0]
    for j in (0, 1):
        row = found[f"x{j}"]
        error = (row["high"] - row["low"]) / (2 * 1.6448536)
        assert abs(row["effect"] - exact[j]) < 0.2 * error
        assert row["deviation"] == pytest.approx(X[:, j].std())
        assert row["p_corrected"] < 1e-6
    assert json.loads(json.dumps(study.facts["effects"], allow_nan=False))["columns"] == 4


def test_the_report_has_a_forest_with_nominal_level_and_simulated_coverage() -> None:
    study = run_study(prepare(rows(120, 5), Question("kind")), QUICK)
    page = render(study.facts)
    assert "nominal 90% range" in page
    assert page.count(EFFECTS_NOTE) == 2  # below the picture and below the table
    assert page.index("How large is each effect?") < page.index("nominal 90% range") < page.rindex(EFFECTS_NOTE)
    row = study.facts["effects"]["features"][0]
    assert f"{math.exp(row['effect'] * row['deviation']):.3g} (" in page
    assert "confidence" not in page[page.index("How large is each effect?") : page.index("Odds ratios per unit")]


def test_three_classes_have_ranges_of_probabilities_but_none_of_effects() -> None:
    facts = run_study(prepare(rows(120, 5, 3), Question("kind")), QUICK).facts
    assert facts["effects"] is None
    assert AS_GIVEN in facts["ranges"]["sentences"][-1]
    assert "How large is each effect?" not in render(facts)


def test_rows_that_belong_together_have_neither() -> None:
    table = rows(120, 5)
    table = replace(table, columns=table.columns | {"patient": np.repeat(np.arange(60), 2)})
    study = run_study(prepare(table, Question("kind", group="patient")), QUICK)
    assert study.facts["effects"]["features"] == []
    assert "no draws of their own" in render(study.facts)
    assert study.facts["ranges"] is None
    assert not study.model.pipeline[-1].posterior


def test_weighted_classes_keep_no_ranges() -> None:
    how = replace(QUICK, class_weight="balanced")
    assert run_study(prepare(rows(120, 5), Question("kind")), how).facts["ranges"] is None


def test_a_model_without_a_strength_has_none_in_its_facts() -> None:
    facts = run_study(prepare(rows(60, 3), Question("kind")), replace(QUICK, model="rvm")).facts
    assert json.loads(report_json(facts))["certificate"]["alpha"] is None


@pytest.mark.parametrize(("low", "high"), [(-0.2, 0.4), (-3.0, 2.0), (-60.0, 9.0), (0.0, 0.0)])
def test_ticks_of_odds_are_few_and_inside(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert all(low <= tick <= high for tick in ticks)
    assert 0.0 in ticks
    assert len(ticks) <= 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    return Path(tmp_path_factory.mktemp("ranges"))


@pytest.mark.parametrize(("n", "d", "said", "not_said"), [(450, 4, SOUND, AS_GIVEN), (60, 12, AS_GIVEN, NOTHING)])
def test_predict_interval_adds_the_ranges_of_the_model(
    n: int, d: int, said: str, not_said: str, folder: Path, run: Run
) -> None:
    table = written(rows(n, d), folder / f"{n}.csv")
    assert run("fit", table, "-t", "kind", "--out", folder / str(n), "--repeats", 1, "--no-shuffle", "-q")[0] == 0
    file = folder / str(n) / "model.smaller"
    code, out, err = run("predict", file, table, "--interval", 90)
    assert code == 0
    assert said in err
    assert not_said not in err
    low, high = load(file).probability_interval(read_table(table), 0.9)
    for i, row in enumerate(csv.DictReader(io.StringIO(out))):
        for k, label in enumerate(["no", "yes"]):
            ends = float(row[f"low({label})"]), float(row[f"high({label})"])
            assert ends == (low[i, k], high[i, k])
            assert 0.0 <= ends[0] <= float(row[f"p({label})"]) <= ends[1] <= 1.0
    narrow = json.loads(run("predict", file, table, "--interval", 50, "--json")[1])
    assert all(row["low(yes)"] >= low[i, 1] for i, row in enumerate(narrow))


def test_beyond_reach_every_range_is_from_0_to_1(folder: Path, run: Run) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((40, 900))
    kind = np.where(X[:, :4].sum(axis=1) + 0.3 * rng.standard_normal(40) > 0, "a", "b").astype(object)
    table = written(Table({f"g{j}": X[:, j] for j in range(900)} | {"kind": kind}), folder / "wide.csv")
    fit = ("fit", table, "-t", "kind", "--out", folder / "wide", "--rule", "min", "--alphas", 15)
    assert run(*fit, "--repeats", 1, "--no-shuffle", "-q")[0] == 0
    assert load(folder / "wide" / "model.smaller").pipeline[-1].reach_ > 4
    code, out, err = run("predict", folder / "wide" / "model.smaller", table, "--interval", 90, "--json")
    assert code == 0
    assert NOTHING in err
    assert "The error rate in the report was measured" in err
    assert "Warning" not in err
    assert {(row["low(a)"], row["high(a)"]) for row in json.loads(out)} == {(0.0, 1.0)}
    assert f"{NOTHING} The error rate above" in (folder / "wide" / "report.html").read_text()


def test_models_without_ranges_and_impossible_levels_are_refused(folder: Path, run: Run) -> None:
    table = written(rows(60, 3), folder / "small.csv")
    fit = ("fit", table, "-t", "kind", "--repeats", 1, "--no-shuffle", "-q")
    assert run(*fit, "--out", folder / "jcfo", "--model", "jcfo")[0] == 0
    assert run(*fit, "--out", folder / "ivm", "--model", "ivm")[0] == 0
    for name in ("jcfo", "old"):
        file = folder / name / "model.smaller"
        if name == "old":  # what a version without ranges has written
            model = load(folder / "ivm" / "model.smaller")
            model.pipeline[-1].posterior = False
            del model.pipeline[-1]._posterior
            file.parent.mkdir()
            save(model, file)
        code, out, err = run("predict", file, table, "--interval", 90)
        assert (code, out) == (2, "")
        assert "keeps no ranges" in err
    ivm = folder / "ivm" / "model.smaller"
    assert "its kernel and alpha as given" in run("predict", ivm, table, "--interval", 95)[2]
    for level in (0.9, 100, -3):
        assert "level in percent" in run("predict", ivm, table, "--interval", level)[2]
    assert "leave --priors out" in run("predict", ivm, table, "--interval", 90, "--priors", "estimate")[2]
