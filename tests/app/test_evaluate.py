"""`smaller evaluate`: a model on a second table, against independent computations of every number."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

pytest.importorskip("typer")
pytest.importorskip("rich")
from smaller.app.study.discrimination import area, area_interval
from smaller.app.study.recalibration import recalibrate

Run = Callable[..., tuple[int, str, str]]
SITES = ["north", "south", "tiny"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    here = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    for name, n, moved in (("train", 300, 0.0), ("new", 400, 0.8)):
        X = rng.standard_normal((n, 4))
        X[:, 1] += moved
        sites = rng.choice(SITES, n, p=[0.6, 0.37, 0.03])
        ill = rng.random(n) < 1.0 / (1.0 + np.exp(-(1.5 * X[:, 0] - X[:, 1] + (sites == "south"))))
        with (here / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c", "d", "site", "patient", "outcome"])
            for i in range(n):
                label = "" if name == "new" and i % 50 == 0 else ("ill" if ill[i] else "well")
                writer.writerow([*np.round(X[i], 4), sites[i], i // 2, label])
    return here


@pytest.fixture
def model(folder: Path, run: Run) -> Path:
    file = folder / "model" / "model.smaller"
    if not file.exists():
        train = (
            folder / "train.csv",
            "-t",
            "outcome",
            "--drop",
            "site",
            "--drop",
            "patient",
            "--out",
            folder / "model",
        )
        assert run("fit", *train, "--repeats", 1, "--no-shuffle", "-q")[0] == 0
    return file


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "new.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["outcome"]]


def test_every_number_is_that_of_the_predictions(model: Path, folder: Path, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("evaluate", model, folder / "new.csv", "--by", "site", "--json")
    assert code == 0
    facts = json.loads(out)
    _, predicted, _ = run("predict", model, folder / "new.csv", "--json", "-q")
    known = [i for i in range(400) if i % 50]
    proba = np.array([json.loads(predicted)[i]["p(well)"] for i in known])
    truth = np.array([row["outcome"] == "well" for row in rows(folder)])
    assert facts["rows"], facts["unlabelled"] == (len(known), 8)
    judged = facts["performance"]
    assert judged["error"] == pytest.approx(np.mean((proba > 0.5) != truth))
    assert judged["log_loss"] == pytest.approx(log_loss(truth, proba))
    assert judged["brier"] == pytest.approx(2.0 * brier_score_loss(truth, proba))
    assert facts["areas"][0]["value"] == pytest.approx(roc_auc_score(truth, proba))
    low, high = facts["areas"][0]["interval"]
    assert low < facts["areas"][0]["value"] < high
    assert [part["name"] for part in facts["parts"]] == ["north", "south"]
    assert facts["left_out"][0].startswith("tiny (")
    north = np.array([row["site"] == "north" for row in rows(folder)])
    assert facts["parts"][0]["performance"]["error"] == pytest.approx(np.mean((proba > 0.5)[north] != truth[north]))
    moved = {shift["name"]: shift["mean"] for shift in facts["shifts"]}
    assert moved["b"] == pytest.approx(0.8, abs=0.3)
    assert abs(moved["a"]) < 0.3


def test_the_page_and_the_screen_say_it_too(model: Path, folder: Path, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("evaluate", model, folder / "new.csv", "--by", "site", "--group", "patient", "--out", tmp_path)
    assert code == 0
    assert "area under the ROC curve" in out
    assert "too few rows to judge: tiny" in out
    page = (tmp_path / "evaluation.html").read_text("utf-8")
    for text in (
        "How the model does on other rows",
        "By site",
        "Calibration slope",
        "values of patient as independent",
    ):
        assert text in page
    assert json.loads((tmp_path / "evaluation.json").read_text("utf-8"))["by"] == "site"


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        ("a,b,c,d,outcome\n1,1,1,1,dead\n", (), "values that the model does not know (dead); it knows ill, well"),
        ("a,b,c,d,outcome\n1,1,1,1,\n2,2,2,2,\n", (), "an evaluation needs the truth"),
        ("a,b,c,d\n1,1,1,1\n", (), "There is no column 'outcome'"),
        ("a,b,c,d,outcome\n1,1,1,1,ill\n", ("--by", "hospital"), "There is no column 'hospital'"),
        ("a,b,c,d,outcome\n1,1,1,1,ill\n2,1,1,1,well\n", ("--group", "a"), "--group a has fewer than 5 values"),
    ],
)
def test_what_cannot_be_judged_is_said(
    text: str, arguments: tuple[str, ...], sentence: str, model: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "odd.csv").write_text(text)
    code, out, err = run("evaluate", model, tmp_path / "odd.csv", *arguments)
    assert code == 2
    assert sentence in err
    assert out == ""


def test_the_area_and_its_interval_are_those_of_pairs_and_of_leaving_one_out() -> None:
    rng = np.random.default_rng(1)
    positive = rng.random(150) < 0.4
    score = np.round(rng.standard_normal(150) + positive, 1)  # with ties
    up, down = score[positive], score[~positive]
    wins = (up[:, None] > down).astype(float) + 0.5 * (up[:, None] == down)
    assert area(positive, score) == pytest.approx(wins.mean())
    variance = wins.mean(axis=1).var(ddof=1) / len(up) + wins.mean(axis=0).var(ddof=1) / len(down)
    low, high = area_interval(positive, score)  # type: ignore[misc]
    half = 1.959964 * np.sqrt(variance) / (wins.mean() * (1.0 - wins.mean()))
    middle = np.log(wins.mean() / (1.0 - wins.mean()))
    assert np.log(np.array([low, high]) / (1.0 - np.array([low, high]))) == pytest.approx(
        [middle - half, middle + half]
    )
    assert area(np.ones(3, bool), np.arange(3.0)) is None
    assert area_interval(np.array([True, False, False]), np.arange(3.0)) is None
    assert area_interval(np.arange(6) > 2, np.arange(6.0)) is None  # nothing overlaps


@pytest.mark.parametrize("K", [2, 3])
def test_slope_and_intercepts_are_the_likeliest(K: int) -> None:
    rng = np.random.default_rng(2)
    eta = rng.standard_normal((400, K))
    true = np.exp(1.7 * eta + np.arange(K) * 0.4)
    codes = np.array([rng.choice(K, p=row / row.sum()) for row in true])
    proba = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)

    def loss(slope: float, shifts: Any) -> float:
        scores = slope * np.log(proba) + np.append(0.0, shifts)
        return -float(np.sum(scores[np.arange(400), codes] - np.log(np.exp(scores).sum(axis=1))))

    found = recalibrate(codes, proba)
    assert found is not None
    best = optimize.minimize(lambda theta: loss(theta[0], theta[1:]), np.ones(K), tol=1e-12)
    large = optimize.minimize(lambda shifts: loss(1.0, shifts), np.zeros(K - 1), tol=1e-12)
    assert found.slope == pytest.approx(best.x[0], abs=1e-4)
    assert found.intercepts == pytest.approx(large.x, abs=1e-4)
    low, high = found.slope_interval
    assert low < 1.7 < high
    gradient = lambda theta: optimize.approx_fprime(theta, lambda t: loss(t[0], t[1:]), 1e-5)  # noqa: E731
    H = np.array([(gradient(best.x + e) - gradient(best.x - e)) / 2e-3 for e in 1e-3 * np.eye(K)])
    assert (high - low) / 2.0 == pytest.approx(1.959964 * np.sqrt(np.linalg.inv(H)[0, 0]), rel=1e-2)
    assert recalibrate(np.zeros(400, dtype=int), proba) is None
    assert recalibrate(proba.argmax(axis=1), proba) is None  # separated
