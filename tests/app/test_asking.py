"""`smaller.study`: the command line's engine from Python, in two lines."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smaller
from smaller.app.asking import Answer
from smaller.app.report import render
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.tables import Table, TableError

QUICK: dict[str, Any] = {"repeats": 1, "shuffle": False}


def columns(n: int = 120) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n // 2, 4))[np.repeat(np.arange(n // 2), 2)] + 0.1 * rng.normal(size=(n, 4))
    ill = np.repeat(X[::2, 0] - X[::2, 1] + 0.5 * rng.normal(size=n // 2) > 0.4, 2)
    who = np.array([f"P{i // 2}" for i in range(n)], dtype=object)
    return {f"x{j}": X[:, j] for j in range(4)} | {"patient": who, "y": np.where(ill, "ill", "well").astype(object)}


@cache
def answer() -> Answer:
    return smaller.study(columns(), target="y", groups="patient", **QUICK)


def test_it_says_what_the_engine_says(tmp_path: Path) -> None:
    facts = answer().to_dict()
    expected = run_study(
        prepare(Table(columns()), Question("y", group="patient")), Procedure(repeats=1, shuffle=False, relax=True)
    ).facts
    assert facts | {"seconds": 0} == expected | {"seconds": 0}
    page = answer().report(tmp_path / "out.html").read_text("utf-8")
    assert page == render(answer().to_dict())
    assert "All rows of one 'patient'" in html.unescape(page)
    assert html.unescape(answer()._repr_html_().split('srcdoc="')[1].split('" style')[0]) == page
    assert "not learnt from" in repr(answer())
    facts["rows"] = 0
    assert answer().to_dict()["rows"] == 120  # a copy


def test_frames_of_every_kind_give_the_same_answer(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(columns())
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data in (frame, tmp_path / "t.csv"):
        made = smaller.study(data, "y", groups="patient", **QUICK)
        assert np.allclose(made.predict_proba(frame), answer().predict_proba(columns()), atol=1e-12)
        assert (made.predict(frame) == answer().predict(columns())).all()


def test_costs_come_as_names_as_a_matrix_or_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("true,well,ill\nwell,0,1\nill,8,0\n")
    given = ({"ill": {"ill": 0, "well": 8}, "well": {"ill": 1, "well": 0}}, [[0, 8], [1, 0]], tmp_path / "c.csv")
    made = [smaller.study(columns(), "y", groups="patient", costs=costs, positive="ill", **QUICK) for costs in given]
    assert len({json.dumps(one.to_dict()["performance"]) for one in made}) == 1
    P = made[0].predict_proba(columns())
    assert (made[0].predict(columns()) == np.where(8 * P[:, 0] > P[:, 1], "ill", "well")).all()
    assert made[0].to_dict()["operation"]["positive"] == "ill"  # type: ignore[index]
    with pytest.raises(TableError, match="one row for every true class"):
        smaller.study(columns(), "y", costs={"ill": {"ill": 0, "well": 8}}, **QUICK)
    with pytest.raises(TableError, match="finite"):
        smaller.study(columns(), "y", costs={"ill": {"ill": 0}, "well": {"ill": 1, "well": 0}}, **QUICK)


def test_grades_and_demands_reach_the_model() -> None:
    table = columns()
    table["y"] = np.digitize(table["x0"], [-0.5, 0.5])
    made = smaller.study(table, "y", groups="patient", ordinal=[0, 1, 2], **QUICK)
    assert made.to_dict()["graded"]
    assert made.to_dict()["settings"]["model"] == "ordinal"
    with pytest.raises(TableError, match="name every class"):
        smaller.study(table, "y", groups="patient", ordinal=[0, 1], **QUICK)
    capped = smaller.study(columns(), "y", groups="patient", features=1, always=["x3"], **QUICK).to_dict()
    assert [row["name"] for row in capped["chosen"]["features"]] == ["x3"]  # type: ignore[index]


def test_its_model_is_a_file_that_predict_reads(tmp_path: Path) -> None:
    smaller.save(answer().model, tmp_path / "m.smaller")
    loaded = smaller.load(tmp_path / "m.smaller")
    assert np.array_equal(loaded.predict_proba(Table(columns())), answer().predict_proba(columns()))
