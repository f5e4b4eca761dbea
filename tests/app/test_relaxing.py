"""Relaxed studies: both log-losses are told, and nothing calls the blend certified."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
from smaller.app.report import render
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.tables import Table
from smaller.export import to_json, to_sql

PROOF = re.compile(r"optimal|certif|gap|no other weights", re.IGNORECASE)


def rows() -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 6))
    kind = np.where(X[:, 0] - X[:, 1] + 0.6 * rng.standard_normal(90) > 0, "yes", "no").astype(object)
    return Table({f"x{j}": X[:, j] for j in range(6)} | {"kind": kind})


@pytest.mark.parametrize("model", ["smlr", "sbmlr"])
def test_both_log_losses_are_those_of_studies_with_and_without(model: str) -> None:
    how = Procedure(model, repeats=1, shuffle=False, relax=True)
    study = run_study(prepare(rows(), Question("kind")), how)
    plain = run_study(prepare(rows(), Question("kind")), replace(how, relax=False))
    said = study.facts["relaxed"]
    assert plain.facts["relaxed"] is None
    assert said["log_loss"] == pytest.approx(study.facts["performance"]["log_loss"], rel=1e-12)
    assert said["penalised_log_loss"] == pytest.approx(plain.facts["performance"]["log_loss"], rel=1e-6)
    assert f"{said['log_loss']:.3f}, that of the penalised fit {said['penalised_log_loss']:.3f}." in render(study.facts)
    last = study.model.pipeline[-1]
    assert np.abs(last.coef_).sum() != pytest.approx(np.abs(last.penalized_coef_).sum(), rel=1e-3)
    np.testing.assert_allclose(last.penalized_coef_, plain.model.pipeline[-1].coef_, rtol=1e-6, atol=1e-9)


def test_the_command_line_relaxes_and_calls_nothing_certified(tmp_path: Path, run: Callable[..., Any]) -> None:
    table, columns = tmp_path / "t.csv", rows().columns
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    table.write_text("\n".join(lines))
    fit = ("fit", table, "-t", "kind", "--repeats", 1, "--no-shuffle", "--out", tmp_path / "out")
    code, screen, _ = run(*fit)
    assert code == 0
    lines = [line for line in screen.splitlines() if PROOF.search(line)]
    assert len(lines) == 1
    assert lines[0].startswith("Penalised fit, before relaxing: ")
    page = re.sub(
        r"<style>.*?</style>|<script.*?</script>|<pre>.*?</pre>",
        "",
        (tmp_path / "out/report.html").read_text(),
        flags=re.S,
    )
    for paragraph in re.findall(r"<p>.*?</p>", page, flags=re.S):
        if PROOF.search(paragraph):
            assert "This is about the penalised fit; the blend that the model uses has no certificate." in paragraph
    facts = json.loads((tmp_path / "out/report.json").read_text())
    assert facts["relaxed"]["sentence"]
    assert not PROOF.search((tmp_path / "out/features.csv").read_text())
    from smaller import load

    model = load(tmp_path / "out/model.smaller")
    for text in (to_json(model.pipeline), to_sql(model.pipeline, table="t")):
        assert not PROOF.search(text if isinstance(text, str) else json.dumps(text))
    assert run(*fit, "--no-relax")[0] == 0
    assert json.loads((tmp_path / "out/report.json").read_text())["relaxed"] is None
