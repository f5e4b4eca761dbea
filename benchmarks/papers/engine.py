"""Declarations of a paper's tables, and the machine that runs them.

A result is one JSON file per row and seed under ``.cache/papers``, with the commit that it was measured at; a run that
was broken off goes on where it stopped, and a change in the code behind a row makes its old results invisible.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

import smaller
from benchmarks.papers.datasets import load

from .protocols import Pair, Task

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "papers"


class UnavailableError(RuntimeError):
    """A method or data set that is not on this machine: its row says so and the others go on."""


# --------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True)
class Answer:
    """What a method says about the test part of one task.

    Attributes
    ----------
    labels
        Predicted classes, or values of a regression.
    measures
        Numbers that are averaged over the splits, such as ``kept`` (weights retained).
    proba, classes
        Class probabilities and the order of their columns; they give the cross-entropy.
    """

    labels: NDArray[Any]
    measures: Mapping[str, float] = field(default_factory=dict)
    proba: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None


@dataclass(frozen=True)
class Band:
    """Interval in which a mean over the seeds is accepted.

    ``source`` says where it comes from: "paper" is a printed value with its printed deviation, or with 1.5 points;
    "ours" was set around values of an earlier program of ours, so that it can tell a change and not a disagreement.
    """

    low: float = -np.inf
    high: float = np.inf
    source: Literal["paper", "ours"] = "ours"

    def __contains__(self, value: float) -> bool:
        return bool(self.low <= value <= self.high)

    def __str__(self) -> str:
        interval = f"<= {self.high:g}" if self.low == -np.inf else f"{self.low:g} to {self.high:g}"
        return f"{interval} ({self.source})"


@dataclass(frozen=True)
class Row:
    """One method on one data set.

    ``paper`` and ``bands`` are keyed by measure; ``ours`` marks methods of this package (their results
    depend on its code); ``seeds`` overrides the experiment's number, and ``slow`` keeps the row out of a
    run unless asked for.
    """

    method: str
    answer: Callable[[Task], Answer]
    paper: Mapping[str, float] = field(default_factory=dict)
    bands: Mapping[str, Band] = field(default_factory=dict)
    ours: bool = False
    seeds: int | None = None
    slow: bool = False


@dataclass(frozen=True)
class Experiment:
    """One data set under one protocol, and the methods that meet on it."""

    name: str
    data: str
    protocol: Callable[[Bunch, int], list[Pair]]
    rows: Sequence[Row]
    kernel: Literal["rbf", "linear"] | None = None
    prepare: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    seeds: int = 5

    @property
    def n_rows(self) -> int:
        return int(load(self.data).data.shape[0])

    def tasks(self, seed: int) -> Iterator[tuple[Task, NDArray[Any]]]:
        """Tasks of one seed, each with the labels of its test part."""
        data = load(self.data)
        X = data.data if self.prepare is None else self.prepare(data.data)
        for train, test in self.protocol(data, seed):
            yield Task(X[train], data.target[train], X[test], self.kernel, seed), data.target[test]

    def n_seeds(self, row: Row, quick: bool) -> int:
        return 1 if quick else row.seeds or self.seeds


@dataclass(frozen=True)
class Table:
    """Experiments that the paper prints together; ``measures`` maps the keys shown to their headings."""

    name: str
    title: str
    experiments: Sequence[Experiment]
    measures: Mapping[str, str] = field(default_factory=lambda: {"errors": "errors", "kept": "kept"})
    text: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Listing:
    """A table that is made as a whole, such as a summary of the data.

    With ``measured`` it takes time, and is kept like the result of a row; the others are made with the page.
    """

    name: str
    title: str
    make: Callable[[], tuple[Sequence[str], Sequence[Sequence[object]]]]
    text: str = ""
    notes: Sequence[str] = ()
    measured: bool = False


@dataclass(frozen=True)
class Paper:
    """Everything on one page: ``docs/papers/<name>.md``."""

    name: str
    title: str
    tables: Sequence[Table | Listing]
    text: str = ""


# -------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Outcome:
    """One row at one seed: measures, a flag per test decision (in the protocol's order), processor seconds."""

    measures: dict[str, float]
    wrong: list[int]
    seconds: float
    unavailable: str = ""
    commit: str = ""


def fingerprint(row: Row) -> str:
    """Digest of the code a result depends on: protocols, the row's own module, package and core if it is ours."""
    return _fingerprint(row.answer, row.ours)


def _fingerprint(function: Any, ours: bool) -> str:
    own = sys.modules[getattr(function, "func", function).__module__].__file__
    files = {Path(__file__).with_name("protocols.py"), Path(str(own))}
    if ours:
        files |= set(Path(smaller.__file__).parent.rglob("*.py")) | set((ROOT / "core").glob("*.?pp"))
    return _digest(frozenset(files))


@cache  # the commit of the code that runs, whatever is committed meanwhile
def commit() -> str:
    """Return the commit of the working tree, with a "+" if the code was changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "core", "benchmarks/papers")
    return git("rev-parse", "--short=7", "HEAD") + ("+" if changed else "")


@cache  # the code that runs is the code read at the start, whatever is edited meanwhile
def _digest(files: frozenset[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def result_path(table: Table, experiment: Experiment, row: Row, seed: int) -> Path:
    words = (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in (experiment.name, row.method))
    return CACHE / table.name / "--".join(words) / f"{seed}.json"


def recall(table: Table, experiment: Experiment, row: Row, seed: int) -> Outcome | None:
    """Stored result, or None if there is none of the present code."""
    path = result_path(table, experiment, row, seed)
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(**stored["outcome"]) if stored["fingerprint"] == fingerprint(row) else None


def store(unit: Unit, row: Row, stamp: str, outcome: Outcome) -> None:
    path = result_path(unit.table, unit.experiment, row, unit.seed)
    keep(path, {"fingerprint": stamp, "outcome": outcome.__dict__ | {"commit": unit.commit}})


def keep(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.replace(path)


def recall_listing(table: Listing) -> dict[str, Any] | None:
    """Header, body, seconds and commit of a measured listing, or None if there is none of the present code."""
    path = CACHE / table.name / "listing.json"
    if not path.is_file():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    return stored if stored["fingerprint"] == _fingerprint(table.make, True) else None


def measure_listing(table: Listing) -> None:
    """Make a measured listing and keep it."""
    start = time.process_time()
    with threadpool_limits(1):
        header, body = table.make()
    cells = [[str(cell) for cell in line] for line in body]
    content = {"header": list(header), "body": cells, "seconds": time.process_time() - start, "commit": commit()}
    keep(CACHE / table.name / "listing.json", {"fingerprint": _fingerprint(table.make, True), **content})


def recall_all(table: Table, experiment: Experiment, row: Row, quick: bool = False) -> list[Outcome]:
    """Stored results of a row over its seeds."""
    found = (recall(table, experiment, row, seed) for seed in range(experiment.n_seeds(row, quick)))
    return [outcome for outcome in found if outcome is not None]


def paired_p_value(pairs: Sequence[tuple[Outcome, Outcome]]) -> float:
    """McNemar's exact test of equal error rates, as a median over pairs of outcomes of the same seed.

    Of the test decisions on which exactly one method is right, each is right half of the time if they are equally
    good. Where a protocol tests a row more than once, decisions are not independent and the value is too small.
    """
    values = []
    for a, b in pairs:
        difference = np.array(a.wrong) - np.array(b.wrong)
        discordant = int(np.count_nonzero(difference))
        first = int(np.count_nonzero(difference > 0))
        values.append(binomtest(first, discordant).pvalue if discordant else 1.0)
    return float(np.median(values)) if values else np.nan


def recall_pairs(
    table: Table, experiment: Experiment, first: Row, second: Row, quick: bool
) -> list[tuple[Outcome, Outcome]]:
    """Stored results of two rows at the seeds that both have, where both made decisions."""
    seeds = range(min(experiment.n_seeds(first, quick), experiment.n_seeds(second, quick)))
    pairs = ((recall(table, experiment, first, k), recall(table, experiment, second, k)) for k in seeds)
    return [(a, b) for a, b in pairs if a is not None and b is not None and a.wrong and b.wrong]


# -------------------------------------------------------------------------------------------------- running


@dataclass(frozen=True)
class Unit:
    """Rows of one experiment at one seed; they share tasks, and so Gram blocks and the SVM's width."""

    table: Table
    experiment: Experiment
    rows: Sequence[Row]
    stamps: Sequence[str]
    seed: int
    commit: str


def pending(paper: Paper, names: Sequence[str], quick: bool, slow: bool) -> list[Unit]:
    """What is still to be run for the named tables of a paper."""
    units = []
    for table in paper.tables:
        if not isinstance(table, Table) or not selected(paper, table, names):
            continue
        for experiment in table.experiments:
            rows = [row for row in experiment.rows if slow or not row.slow]
            for seed in range(max((experiment.n_seeds(row, quick) for row in rows), default=0)):
                missing = [
                    row
                    for row in rows
                    if seed < experiment.n_seeds(row, quick) and not _done(recall(table, experiment, row, seed))
                ]
                if missing:
                    stamps = [fingerprint(row) for row in missing]
                    units.append(Unit(table, experiment, missing, stamps, seed, commit()))
    return units


def _done(outcome: Outcome | None) -> bool:
    """What was not available before may be by now."""
    return outcome is not None and not outcome.unavailable


def selected(paper: Paper, table: Table | Listing, names: Sequence[str]) -> bool:
    """Whether a table is asked for, by its own name or its paper's; no names mean all."""
    return not names or paper.name in names or table.name in names


def run(units: Sequence[Unit], jobs: int) -> Iterator[Unit]:
    """Run units, storing each result as soon as it is there; yields every unit when it is done."""
    # long ones first, so that two workers end together
    order = sorted(units, key=lambda unit: -len(unit.rows) * unit.experiment.n_rows)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(run_unit)(unit) for unit in order)


def run_unit(unit: Unit) -> Unit:
    with threadpool_limits(1):
        tasks = list(unit.experiment.tasks(unit.seed))
        for row, stamp in zip(unit.rows, unit.stamps, strict=True):
            store(unit, row, stamp, measure(row, tasks))
    return unit


def measure(row: Row, tasks: Sequence[tuple[Task, NDArray[Any]]]) -> Outcome:
    """Answers of one row to all tasks of a seed, summed up."""
    start = time.process_time()
    try:
        answers = [(row.answer(task), truth) for task, truth in tasks]
    except UnavailableError as error:
        return Outcome({}, [], 0.0, str(error))
    measures = {key: float(np.mean([answer.measures[key] for answer, _ in answers])) for key in answers[0][0].measures}
    wrong: list[int] = []
    if answers[0][1].dtype.kind == "f":
        measures["mse"] = float(np.mean([np.mean((answer.labels - truth) ** 2) for answer, truth in answers]))
    else:
        wrong = [int(flag) for answer, truth in answers for flag in answer.labels != truth]
        measures |= {
            "errors": sum(wrong),
            "errors_per_split": sum(wrong) / len(answers),
            "error_rate": sum(wrong) / len(wrong),
            "decisions": len(wrong),
        }
        if all(answer.proba is not None for answer, _ in answers):
            measures["cross_entropy"] = float(np.concatenate([_entropies(*pair) for pair in answers]).mean())
    return Outcome(measures, wrong, time.process_time() - start)


def _entropies(answer: Answer, truth: NDArray[Any]) -> NDArray[np.float64]:
    column = {label: k for k, label in enumerate(answer.classes)}
    chosen = [row[column[label]] if label in column else 0.0 for row, label in zip(answer.proba, truth, strict=True)]
    return -np.log(np.maximum(chosen, 1e-12))
