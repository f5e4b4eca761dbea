"""`smaller export`: the model file of a table with categories and gaps, in every format, against `smaller predict`."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

EVALUATOR = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8"), re.S
)[0]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    rng = np.random.default_rng(0)
    with (tmp_path / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", 'si"ze', "colour", "it's", "kind"])
        for i in range(150):
            x, colour = rng.normal(), "rgb"[i % 3]
            kind = "abc"[int(x > 0) + int(colour == "r")]
            row = [f"row {i}", "" if i % 7 == 0 else f"{x:.4f}", "" if i % 11 == 0 else colour, f"{rng.normal():.3f}"]
            writer.writerow([*row, kind])
    code, _, err = run("fit", tmp_path / "table.csv", "-t", "kind", "--out", tmp_path, "--rule", "min", "-q")
    assert code == 0, err
    code, _, err = run("predict", tmp_path / "model.smaller", tmp_path / "table.csv", "--out", tmp_path / "p.csv")
    assert code == 0, err
    return tmp_path


def expected(folder: Path) -> np.ndarray:
    return np.loadtxt(folder / "p.csv", delimiter=",", skiprows=1, usecols=(3, 4, 5))


def rows(folder: Path) -> list[dict[str, object]]:
    with (folder / "table.csv").open(encoding="utf-8") as file:
        read = [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]
    return [row | {name: None if row[name] is None else float(row[name]) for name in ('si"ze', "it's")} for row in read]


def test_json(folder: Path, run: Run) -> None:
    code, out, _ = run("export", folder / "model.smaller")
    assert code == 0
    space: dict[str, object] = {}
    exec(EVALUATOR, space)
    found = [list(space["probabilities"](json.loads(out), row).values()) for row in rows(folder)]  # type: ignore[operator]
    assert np.abs(np.array(found) - expected(folder)).max() < 1e-6


def test_sql(folder: Path, run: Run) -> None:
    code, _, _ = run("export", folder / "model.smaller", "--format", "sql", "--dialect", "sqlite", "--table", "t",
                     "--keep", "n", "--out", folder / "model.sql")  # fmt: skip
    assert code == 0
    with sqlite3.connect(":memory:") as base:
        base.execute('CREATE TABLE t (n, "si""ze", colour, "it\'s")')
        parts = [(i, row['si"ze'], row["colour"], row["it's"]) for i, row in enumerate(rows(folder))]
        base.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", parts)
        found = sorted(base.execute((folder / "model.sql").read_text("utf-8")))
    assert np.abs(np.array(found)[:, 1:] - expected(folder)).max() < 1e-6


def test_onnx(folder: Path, run: Run) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    code, _, _ = run("export", folder / "model.smaller", "--format", "onnx", "--out", folder / "model.onnx")
    assert code == 0
    session = runtime.InferenceSession(folder / "model.onnx")
    table = rows(folder)
    fed = {}
    for value in session.get_inputs():
        column = [row[value.name] for row in table]
        text = value.type == "tensor(string)"
        made = [item or "" for item in column] if text else [np.nan if item is None else item for item in column]
        fed[value.name] = np.array(made, dtype=object if text else np.float64)[:, None]
    assert np.abs(session.run(["probabilities"], fed)[0] - expected(folder)).max() < 1e-6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--format", "pmml"], "--format must be one of"),
        (["--format", "onnx"], "--out FILE.onnx"),
        (["--format", "sql", "--dialect", "oracle"], "dialect must be one of"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(folder: Path, run: Run, arguments: list[str], sentence: str) -> None:
    code, out, err = run("export", folder / "model.smaller", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_card(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    with (tmp_path / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "smoker", "ill"])
        for i in range(200):
            age, smoker = rng.uniform(20, 80), "yes" if i % 3 == 0 else "no"
            ill = "yes" if (age - 50) / 10 + 2 * (smoker == "yes") + rng.logistic() > 0.5 else "no"
            writer.writerow(["" if i % 20 == 0 else f"{age:.0f}", smoker, ill])
    assert run("fit", tmp_path / "table.csv", "-t", "ill", "--out", tmp_path, "-q")[0] == 0
    code, out, _ = run("export", tmp_path / "model.smaller", "--format", "card", "--rows", tmp_path / "table.csv")
    assert code == 0
    assert "Points for yes (else no)" in out
    assert "age\n  below" in out
    assert "Log-loss on the 200 rows" in out
    code, _, err = run("export", tmp_path / "model.smaller", "--format", "card")
    assert (code, "--rows TABLE" in err) == (2, True)
