"""The engine behind the papers' tables: results are kept, resumed, judged and compared as the pages say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.papers import engine
from benchmarks.papers.engine import Answer, Band, Experiment, Outcome, Paper, Row, Table, UnavailableError
from benchmarks.papers.page import outside_rows, render, verdict
from benchmarks.papers.protocols import Task
from scipy.stats import binomtest

calls: list[int] = []


def halves(data: Any, seed: int) -> list[tuple[Any, Any]]:
    order = np.random.default_rng(seed).permutation(len(data.target))
    return [(order[::2], order[1::2]), (order[1::2], order[::2])]


def majority(task: Task) -> Answer:
    calls.append(task.seed)
    labels, counts = np.unique(task.y, return_counts=True)
    return Answer(np.full(len(task.X_test), labels[counts.argmax()]), {"kept": 3.0})


def absent(task: Task) -> Answer:
    raise UnavailableError("no such package")


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    monkeypatch.setattr(engine, "CACHE", tmp_path)
    calls.clear()
    rows = [
        Row("majority", majority, {"errors": 100}, {"errors": Band(high=120)}, ours=True),
        Row("strict", majority, bands={"errors": Band(high=1), "kept": Band(1, 4)}),
        Row("absent", absent),
        Row("slow", majority, slow=True, seeds=1),
    ]
    table = Table("toy-table1", "A toy", [Experiment("iris", "iris", halves, rows, seeds=2)])
    return Paper("toy", "A paper", [table])


def run(paper: Paper, slow: bool = False) -> int:
    units = engine.pending(paper, [], False, slow)
    for unit in units:
        engine.run_unit(unit)
    return len(units)


def test_results_are_kept_and_resumed(paper: Paper) -> None:
    assert run(paper) == 2
    assert calls == [0, 0, 0, 0, 1, 1, 1, 1]  # two rows, two folds, two seeds
    assert len(engine.pending(paper, [], False, False)) == 2  # only the row that was not available
    run(paper)
    assert len(calls) == 8
    run(paper, slow=True)
    assert len(calls) == 10


def test_results_of_other_code_are_not_taken(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    run(paper)
    monkeypatch.setattr(engine, "fingerprint", lambda row: "changed")
    table = paper.tables[0]
    assert isinstance(table, Table)
    assert engine.recall_all(table, table.experiments[0], table.experiments[0].rows[0]) == []


def test_the_page_says_what_is_inside(paper: Paper, tmp_path: Path) -> None:
    run(paper)
    text = render(paper, tmp_path, False)
    lines = {line.split("|")[2].strip(" *"): line for line in text.splitlines() if line.startswith("| iris")}
    assert "| 100 |" in lines["majority"]
    assert "<= 120" in lines["majority"]
    assert "inside" in lines["majority"]
    assert "OUTSIDE (errors)" in lines["strict"]
    assert "not run: no such package" in lines["absent"]
    assert outside_rows(paper, [], False) == ["toy-table1: iris, strict"]


def test_bands_are_read_from_the_mean_over_seeds() -> None:
    row = Row("ours", majority, bands={"errors": Band(2, 4)})
    outcomes = [Outcome({"errors": value}, [], 0.0) for value in (1.0, 5.0)]
    assert verdict(row, outcomes) == "inside"
    assert verdict(row, outcomes[:1]) == "OUTSIDE (errors)"
    assert verdict(replace(row, bands={}), outcomes) == ""
    assert verdict(row, []) == "not run"


def test_the_paired_test_counts_the_decisions_on_which_one_alone_is_right() -> None:
    a, b = (Outcome({}, wrong, 0.0) for wrong in ([1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 0, 1, 0, 1, 0]))
    assert engine.paired_p_value([(a, b)]) == pytest.approx(binomtest(4, 5).pvalue)
    assert engine.paired_p_value([(a, a)]) == 1.0
    assert np.isnan(engine.paired_p_value([]))
