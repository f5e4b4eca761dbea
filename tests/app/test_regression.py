"""Regression of a table: figures against their definitions, words against what was planted, files that come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from smaller import load
from smaller.app.regression import prepare_responses, run_regression
from smaller.app.regression.page import render, verdict
from smaller.app.study.question import Question
from smaller.app.tables import Table, TableError


def table(n: int = 120, slope: float = 2.0, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return Table({f"x{j}": X[:, j] for j in range(4)} | {"price": slope * X[:, 1] + rng.normal(size=n)})


def test_figures_are_those_of_their_definitions() -> None:
    data = prepare_responses(table(), Question("price"))
    study = run_regression(data, target="price")
    found = study.facts["performance"]
    predicted, centre = np.empty(120), np.empty(120)
    for train, test in GroupKFold(5, shuffle=True, random_state=0).split(data.X, groups=np.arange(120)):
        x = data.X[train][:, 1]
        design = np.column_stack([np.ones(len(train)), x])  # the planted feature, by least squares
        predicted[test] = (
            np.column_stack([np.ones(len(test)), data.X[test][:, 1]])
            @ np.linalg.lstsq(design, data.y[train], rcond=None)[0]
        )
        centre[test] = data.y[train].mean()
    r2 = 1 - np.sum((data.y - predicted) ** 2) / np.sum((data.y - centre) ** 2)
    assert found["r2"] == pytest.approx(r2, abs=0.02)
    assert found["baseline_rmse"] == pytest.approx(np.sqrt(np.mean((data.y - centre) ** 2)))
    assert found["r2_interval"][0] < found["r2"] < found["r2_interval"][1]
    assert found["coverage_interval"][0] < 0.9 < found["coverage_interval"][1]
    assert study.facts["shuffled"] < 0.2
    assert [one["name"] for one in study.facts["model"]["features"]][:1] == ["x1"]
    assert study.facts["model"]["noise"] == pytest.approx(1.0, abs=0.2)
    assert "of the variance of price is explained" in verdict(study.facts)


def test_nothing_is_shown_where_nothing_is() -> None:
    study = run_regression(prepare_responses(table(60, slope=0.0), Question("price")), target="<price>", shuffle=False)
    assert "It is not shown" in verdict(study.facts)
    assert "<price>" not in render(study.facts)


def test_groups_stay_whole() -> None:
    one = table(40)
    twice = Table({name: np.repeat(column, 2) for name, column in one.columns.items()})
    data = prepare_responses(twice, Question("price"))
    assert len(np.unique(data.units)) == 40
    assert len(np.unique(prepare_responses(twice, Question("price", group="none")).units)) == 80


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"price": np.array(["a", "b"] * 20, dtype=object)}, "holds text"),
        ({"price": np.ones(40)}, "there is nothing to predict"),
        ({"price": np.r_[np.arange(10.0), np.full(30, np.nan)]}, "needs 20"),
    ],
)
def test_a_target_that_cannot_be_is_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        prepare_responses(Table({"x": np.random.default_rng(0).normal(size=40)} | columns), Question("price"))


def test_the_command_writes_what_predict_reads(tmp_path: Path, run: Any) -> None:
    rows = table(60)
    text = "\n".join(
        [
            ",".join(rows.columns),
            *(",".join(map(repr, map(float, row))) for row in zip(*rows.columns.values(), strict=True)),
        ]
    )
    (tmp_path / "t.csv").write_text(text)
    fit = ("fit", tmp_path / "t.csv", "-t", "price", "--task", "regression", "--out", tmp_path / "out")
    assert run(*fit, "--no-shuffle", "-q")[0] == 0
    assert json.loads((tmp_path / "out" / "report.json").read_text())["rows"] == 60
    model = load(tmp_path / "out" / "model.smaller")
    mean, low, high = model.predict(rows, 0.5)
    code, out, _ = run("predict", tmp_path / "out" / "model.smaller", tmp_path / "t.csv", "--interval", 50, "--json")
    assert code == 0
    found = [[row["prediction"], row["low"], row["high"]] for row in json.loads(out)]
    np.testing.assert_allclose(found, np.column_stack([mean, low, high]))
    assert np.mean((rows.columns["price"] > low) & (rows.columns["price"] < high)) == pytest.approx(0.5, abs=0.2)
    code, _, err = run(*fit, "--costs", "x.csv")
    assert code == 2
    assert "--costs is for classes" in err
