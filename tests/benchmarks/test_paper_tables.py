"""The engine behind the papers' tables: results are kept, resumed, judged and compared as the pages say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.papers import engine
from benchmarks.papers.__main__ import missing_listings
from benchmarks.papers.engine import Answer, Band, Experiment, Listing, Outcome, Paper, Row, Table, UnavailableError
from benchmarks.papers.ledger import Session, wall_time
from benchmarks.papers.page import outside_rows, render, summary, verdict
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


def outcomes_of(*values: float) -> list[Outcome]:
    return [Outcome({"x": value}, [], 0.0) for value in values]


@pytest.mark.parametrize(
    ("values", "cell"),
    [
        ((1.0203, 0.9621, 0.9512), "0.978 ± 0.037 [0.951, 1.020]"),  # a cross-entropy around one keeps its digits
        ((0.0401, 0.0351), "0.038 ± 0.004 [0.035, 0.040]"),
        ((4.0, 9.0, 6.0), "6.3 ± 2.5 [4, 9]"),  # counts stay counts
        ((10.25, 8.5), "9.38 ± 1.24 [8.50, 10.25]"),
        ((700.0, 700.0), "700"),
        ((0.966,), "0.966"),
        ((), ""),
    ],
)
def test_figures_keep_their_digits(values: tuple[float, ...], cell: str) -> None:
    assert summary(outcomes_of(*values), "x") == cell


def test_every_band_says_where_it_comes_from() -> None:
    assert str(Band(high=0.5, source="paper")) == "<= 0.5 (paper)"
    assert str(Band(1, 4)) == "1 to 4 (ours)"


def test_rows_name_the_commit_they_were_measured_at(paper: Paper, tmp_path: Path) -> None:
    run(paper)
    lines = [line for line in render(paper, tmp_path, False).splitlines() if "**majority**" in line]
    assert lines[0].split("|")[-2].strip() == engine.commit()


def test_a_page_says_how_long_its_runs_took(paper: Paper, tmp_path: Path) -> None:
    run(paper)
    assert "Wall time" not in render(paper, tmp_path, False)
    for started in (0.0, 1.0):
        Session("toy", 2, started).note()
    assert "in 2 runs, each going on where the one before stopped" in render(paper, tmp_path, False)
    assert wall_time("toy", {"another commit"}) == ""


def made() -> tuple[list[str], list[list[object]]]:
    calls.append(-1)
    return ["quantity", "verdict"], [["points", "inside"], ["kernels", "OUTSIDE"]]


def test_a_measured_listing_is_kept_like_a_row(paper: Paper, tmp_path: Path) -> None:
    listing = Listing("toy-listing", "A listing", made, measured=True)
    paper = replace(paper, tables=[listing])
    assert "Not run." in render(paper, tmp_path, False)
    assert missing_listings(paper, []) == [listing]
    engine.measure_listing(listing)
    assert missing_listings(paper, []) == []
    assert "| kernels | OUTSIDE |" in render(paper, tmp_path, False)
    assert outside_rows(paper, [], False) == ["toy-listing: kernels"]
    assert calls == [-1]
