"""`smaller predict`: columns kept, reasons given, shares estimated; each against the model itself."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
from smaller import load
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.tables import Table, TableError, read_table
from smaller.decisions import estimate_priors

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def table(tmp_path_factory: Any) -> Path:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((240, 5))
    kind = np.array(["x", "y", "z"])[(X[:, :3] + 0.5 * rng.standard_normal((240, 3))).argmax(axis=1)]
    file = tmp_path_factory.mktemp("predict") / "rows.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "a", "b", "c", "d", "e", "kind", "side"])
        for i in range(240):
            writer.writerow([f"r{i}", *np.round(X[i], 4), kind[i], "left" if kind[i] == "x" else "right"])
    return file


@pytest.fixture(params=["kind", "side"])
def model(request: Any, table: Path, run: Run) -> Path:
    folder = table.parent / request.param
    if not folder.exists():
        other = {"kind": "side", "side": "kind"}[request.param]
        fit = ("fit", table, "-t", request.param, "--id", "id", "--drop", other, "--out", folder)
        assert run(*fit, "--repeats", 1, "--no-shuffle", "-q")[0] == 0
    return folder / "model.smaller"


def test_columns_are_kept_beside_the_answers(model: Path, table: Path, run: Run) -> None:
    code, out, _ = run("predict", model, table, "--keep", "id", "--keep", "a")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(240)]
    assert float(rows[7]["a"]) == read_table(table).columns["a"][7]
    for name, sentence in (("nowhere", "no such column"),):
        code, _, err = run("predict", model, table, "--keep", name)
        assert (code, sentence in err) == (2, True)


def test_reasons_are_the_loudest_terms_of_the_log_odds(model: Path, table: Path, run: Run) -> None:
    code, out, _ = run("predict", model, table, "--explain", "--json", "-q")
    assert code == 0
    fitted = load(model)
    rows, scale, last = read_table(table).columns, fitted.pipeline.named_steps["scale"], fitted.pipeline[-1]
    coef = np.vstack([-last.coef_, last.coef_]) if len(last.coef_) == 1 else last.coef_ - last.coef_.mean(axis=0)
    labels = [str(label) for label in fitted.classes.tolist()]
    for i, row in enumerate(json.loads(out)):
        weights = coef[labels.index(row["label"])]
        terms = {
            name: weights[j] * (rows[name][i] - scale.mean_[j]) / scale.scale_[j]
            for j, name in enumerate(fitted.encoder.features)
        }
        loudest = sorted((name for name in terms if terms[name] != 0.0), key=lambda name: -abs(terms[name]))[:3]
        said = [piece.rsplit(" ", 1) for piece in row["why"].split("; ")]
        assert [name for name, _ in said] == loudest
        assert [float(value) for _, value in said] == pytest.approx([terms[name] for name in loudest], rel=0.06)


def test_shares_are_estimated_from_the_rows(model: Path, table: Path, run: Run, tmp_path: Path) -> None:
    lines = table.read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([lines[0], *(line for line in lines[1:] if ",x," not in line or line.startswith("r1"))]))
    code, out, err = run("predict", model, few, "--priors", "estimate", "--json")
    assert code == 0
    assert "class shares estimated from these rows, as if only they had changed since training" in err
    fitted = load(model)
    proba = fitted.predict_proba(read_table(few))
    shares = estimate_priors(proba, fitted.train_priors).priors
    moved = proba * shares / fitted.train_priors
    moved /= moved.sum(axis=1, keepdims=True)
    names = [f"p({label})" for label in fitted.classes.tolist()]
    assert np.allclose([[row[name] for name in names] for row in json.loads(out)], moved, atol=1e-9)


def test_a_kept_column_may_not_hide_an_answer(model: Path, table: Path, run: Run, tmp_path: Path) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text("a,b,c,d,e,label\n1,1,1,1,1,q\n")
    code, out, err = run("predict", model, odd, "--keep", "label")
    assert (code, out) == (2, "")
    assert "the result has a column of that name itself" in err


def test_columns_without_a_weight_need_not_be_there() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30))
    columns = {f"x{j}": X[:, j] for j in range(30)} | {"kind": rng.choice(["a", "b", "c"], 80).astype(object)}
    labels = np.where(X[:, 0] - X[:, 1] > 0, "yes", "no").astype(object)
    data = prepare(Table(columns | {"y": labels}), Question("y"))
    study = run_study(data, Procedure(repeats=1, shuffle=False))
    unused = study.model.unused
    used = {row["name"] for row in study.facts["chosen"]["features"]}
    assert "x0" in used
    assert unused == {name for name in columns if not any(one.split(" = ")[0] == name for one in used)}
    assert len(unused) > 5
    few = Table({name: values for name, values in columns.items() if name not in unused})
    assert np.array_equal(study.model.predict_proba(few), study.model.predict_proba(Table(columns)))
    with pytest.raises(TableError, match="lacks the column 'x0' of"):
        study.model.predict_proba(Table({name: values for name, values in columns.items() if name != "x0"}))
