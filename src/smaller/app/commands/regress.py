"""`smaller fit --task regression`: numbers are predicted instead of classes; `smaller predict` reads what it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from smaller.app.commands.steps import check_choice, shared_threads
from smaller.app.regression import MODELS, ResponseModel, prepare_responses, run_regression
from smaller.app.regression.page import render, verdict
from smaller.app.study.question import Question
from smaller.app.tables import Table, TableError
from smaller.persistence import model_bytes, write_together

__all__ = ["fit_regression", "predicted_columns", "refuse_options_of_classes"]


def refuse_options_of_classes(given: dict[str, Any]) -> None:
    """Refuse options that mean nothing, or nothing yet, for numbers."""
    for option, value in given.items():
        if value not in (None, False):
            raise TableError(f"{option} is for classes: leave it out with --task regression.")


def fit_regression(
    table: Table, question: Question, out: Path, *, model: str, seed: int, shuffle: bool, command: str,
    threads: int | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Fit, judge, and write report.html, report.json and model.smaller."""
    model = "sparse-regressor" if model == "smlr" else model  # the command's default is for classes
    check_choice("--model", model, list(MODELS))
    data = prepare_responses(table, question)
    with shared_threads(threads, data.X):
        study = run_regression(data, model, target=question.target, seed=seed, shuffle=shuffle)
    facts = study.facts | {"command": command}
    text = json.dumps(facts, indent=1, allow_nan=False)
    contents = {"report.html": render(facts).encode(), "report.json": text.encode()}
    out.mkdir(parents=True, exist_ok=True)
    write_together(out, contents | {"model.smaller": model_bytes(study.model)})
    if as_json:
        sys.stdout.write(text + "\n")
    elif not quiet:
        Console().print(f"{verdict(facts)}\nReport: {out / 'report.html'}", highlight=False, markup=False)


def predicted_columns(model: ResponseModel, rows: Table, level: float) -> dict[str, list[float]]:
    """Return predictions and their intervals as columns."""
    if not 0.0 < level < 100.0:
        raise TableError(f"--interval is a level in percent, such as 90, not {level:g}.")
    found = model.predict(rows, level / 100.0)
    return {name: column.tolist() for name, column in zip(("prediction", "low", "high"), found, strict=True)}
