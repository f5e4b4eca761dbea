"""`smaller predict`: rows of a table in, labels and probabilities out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from smaller.app.commands.options import AsJson, Encoding, Header, Quiet, TablePath
from smaller.app.commands.steps import emit, load_model, say
from smaller.app.delimited import csv_text
from smaller.app.tables import TableError, read_table
from smaller.arrays import Array
from smaller.decisions import adjust_priors

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    table: TablePath,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if left out.")] = None,
    reject: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Leave the label empty where the risk is above this.")
    ] = None,
    priors: Annotated[str | None, typer.Option(help='Class shares where the model is used: "a=0.9,b=0.1".')] = None,
    encoding: Encoding = None,
    header: Header = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    Every row gets a label, the risk of being wrong, and the probability of every class.
    """
    if out is not None and out.exists() and out.resolve() in (model.resolve(), table.resolve()):
        raise TableError(f"--out {out} would overwrite what is read: give another name.")
    fitted = load_model(model)
    rows = read_table(table, encoding=encoding, header=header)
    proba = fitted.predict_proba(rows)
    if priors is not None:
        proba, _ = adjust_priors(proba, fitted.train_priors, _parse_priors(priors, fitted.classes))
    say([] if quiet else fitted.encoder.unknown_levels(rows))
    names = [f"p({label})" for label in fitted.classes.tolist()]
    predicted = _predicted(proba, fitted.classes, 1.0 if reject is None else reject)
    emit(out, (_json_text if as_json else _csv_text)(names, predicted))


def _predicted(proba: Array, classes: Array, reject: float) -> list[tuple[str, float, list[float]]]:
    """Return label (empty where the risk is above ``reject``), risk and probabilities of every row."""
    risk = (1.0 - proba.max(axis=1)).tolist()
    labels = classes[proba.argmax(axis=1)].tolist()
    return [
        ("" if doubt > reject else str(label), doubt, row)
        for label, doubt, row in zip(labels, risk, proba.tolist(), strict=True)
    ]


def _json_text(names: list[str], predicted: list[tuple[str, float, list[float]]]) -> str:
    rows = [
        {"label": label or None, "risk": doubt} | dict(zip(names, row, strict=True)) for label, doubt, row in predicted
    ]
    return json.dumps(rows) + "\n"


def _csv_text(names: list[str], predicted: list[tuple[str, float, list[float]]]) -> str:
    lines = [[i, label, f"{doubt:.6g}", *map(repr, row)] for i, (label, doubt, row) in enumerate(predicted, 1)]
    return csv_text([["row", "label", "risk", *names], *lines])


def _parse_priors(text: str, classes: Any) -> Any:
    names = [str(label) for label in classes.tolist()]
    try:
        given = {name.strip(): float(value) for name, value in (part.rsplit("=", 1) for part in text.split(","))}
    except ValueError:
        raise TableError(f'--priors must look like "{names[0]}=0.9,{names[1]}=0.1", not {text!r:.80}.') from None
    if sorted(given) != sorted(names):
        raise TableError(f"--priors must name every class once: {', '.join(names)}.")
    values = np.array([given[name] for name in names])
    if not (values >= 0).all() or not np.isfinite(values).all() or values.sum() == 0:
        raise TableError("--priors must be numbers of at least 0, not all of them 0.")
    if abs(values.sum() - 1.0) > 0.01:
        raise TableError(f"--priors add up to {values.sum():.4g}, not to 1.")
    return values / values.sum()
