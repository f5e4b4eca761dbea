"""`smaller predict`: rows of a table in, labels and probabilities out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from smaller.app.commands import options
from smaller.app.commands.options import AsJson, Encoding, Header, Quiet, TablePath
from smaller.app.commands.regress import predicted_columns, refuse_options_of_classes
from smaller.app.commands.steps import emit, load_any, say
from smaller.app.delimited import csv_text
from smaller.app.regression import ResponseModel
from smaller.app.study import TableModel
from smaller.app.study.costs import EXPECTED, Costs, cost_matrix
from smaller.app.study.explanation import reasons
from smaller.app.study.novelty import unlike_sentence
from smaller.app.study.ranges import range_columns
from smaller.app.tables import Table, TableError, read_table
from smaller.arrays import Array
from smaller.decisions import adjust_priors

__all__ = ["predict"]

OWN = ("p(", "low(", "high(")  # beginnings of columns that the result has itself


def predict(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    table: TablePath,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if left out.")] = None,
    reject: Annotated[
        float | None,
        typer.Option(min=0.0, help="Leave the label empty where the risk (with --costs: the cost) is above."),
    ] = None,
    priors: Annotated[
        str | None, typer.Option(help='Class shares where the model is used: "a=0.9,b=0.1", or estimate.')
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to repeat in the result; may be repeated.")] = None,
    costs: options.CostsPath = None,
    interval: Annotated[float | None, typer.Option(help="Level in percent of ranges low and high, such as 90.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say which features speak for each label.")] = False,
    encoding: Encoding = None,
    header: Header = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    Every row gets a label, the risk of being wrong, and the probability of every class; after a regression the
    prediction and its interval (90 percent, or --interval).
    """
    _check(model, table, out, priors, interval)
    fitted = load_any(model)
    rows = read_table(table, encoding=encoding, header=header)
    kept = _kept(rows, keep or [])
    if isinstance(fitted, ResponseModel):
        refuse_options_of_classes({"--reject": reject, "--priors": priors, "--costs": costs, "--explain": explain})
        answers = predicted_columns(fitted, rows, 90.0 if interval is None else interval)
        notes = list(fitted.encoder.unknown_levels(rows))
    else:
        given = None if costs is None else Costs(EXPECTED, np.array(cost_matrix(read_table(costs), fitted.classes)))
        answers, notes = _answers(fitted, rows, priors, given or fitted.costs, reject, interval, explain)
    say([] if quiet else notes)
    emit(out, (_json_text if as_json else _csv_text)(kept | answers))


def _check(model: Path, table: Path, out: Path | None, priors: str | None, interval: float | None) -> None:
    if out is not None and out.exists() and out.resolve() in (model.resolve(), table.resolve()):
        raise TableError(f"--out {out} would overwrite what is read: give another name.")
    if interval is not None and priors is not None:
        raise TableError("--interval: ranges belong to the class shares of training, leave --priors out.")


def _answers(
    model: TableModel,
    rows: Table,
    priors: str | None,
    costs: Costs | None,
    reject: float | None,
    interval: float | None,
    explain: bool,
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the columns that answer for every row, and what is to be said beside."""
    proba, of_priors = _with_priors(model.predict_proba(rows), priors, model)
    strange = unlike_sentence(model, rows)
    notes = [*model.encoder.unknown_levels(rows), *of_priors, *([strange] if strange else [])]
    answered, refused, doubt = _decided(proba, costs, reject)
    labels = np.array([str(label) for label in model.classes.tolist()], dtype=object)[answered]
    labels[refused] = None
    result: dict[str, list[Any]] = {"label": labels.tolist()}
    result |= {name: column.tolist() for name, column in doubt.items()}
    result |= {f"p({label})": column for label, column in zip(model.classes.tolist(), proba.T.tolist(), strict=True)}
    if interval is not None:
        columns, beside = range_columns(model, rows, interval)
        result |= columns
        notes += beside
    if explain:
        result["why"] = reasons(model, rows, answered)
    return result, notes


def _decided(proba: Array, costs: Costs | None, reject: float | None) -> tuple[Array, Array, dict[str, Array]]:
    """Return the classes decided for, what is not answered, and the risk of being wrong (with prices: and the cost).

    Where mistakes have a price, ``reject`` is the price of not answering.
    """
    answered = np.argmax(proba, axis=1) if costs is None else costs.decide(proba)
    at = np.arange(len(proba))
    doubt = {"risk": 1.0 - proba[at, answered]}
    if costs is not None and costs.priced:
        doubt["cost"] = (proba @ costs.matrix)[at, answered]
    elif reject is not None and reject > 1.0:
        raise TableError(f"--reject is a risk between 0 and 1, not {reject:g}; with --costs it is a cost.")
    refused = doubt["cost" if "cost" in doubt else "risk"] > (np.inf if reject is None else reject)
    return answered, refused, doubt


def _kept(rows: Table, names: list[str]) -> dict[str, list[Any]]:
    """Return the columns that are to be repeated."""
    for name in names:
        if name not in rows.columns:
            raise TableError(f"--keep {name}: there is no such column; there are {', '.join(list(rows.columns)[:8])}.")
        if name in ("row", "label", "risk", "cost", "why") or name.startswith(OWN):
            raise TableError(f"--keep {name}: the result has a column of that name itself; rename yours.")
    return {name: [_cell(value) for value in rows.columns[name].tolist()] for name in names}


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return None if np.isnan(value) else int(value) if value.is_integer() else value
    return None if value is None else str(value)


def _with_priors(proba: Array, priors: str | None, model: TableModel) -> tuple[Array, list[str]]:
    """Return probabilities under other class shares, given or estimated, and what is to be said of them."""
    if priors is None:
        return proba, []
    if priors != "estimate":
        return adjust_priors(proba, model.train_priors, _parse_priors(priors, model.classes))[0], []
    adjusted, found = adjust_priors(proba, model.train_priors)
    shares = ", ".join(f"{label}={share:.3g}" for label, share in zip(model.classes.tolist(), found, strict=True))
    return adjusted, [f"class shares estimated from these rows, as if only they had changed since training: {shares}."]


def _json_text(result: dict[str, list[Any]]) -> str:
    return json.dumps([dict(zip(result, row, strict=True)) for row in zip(*result.values(), strict=True)]) + "\n"


def _csv_text(result: dict[str, list[Any]]) -> str:
    shown = result | {name: [f"{v:.6g}" for v in result[name]] for name in ("risk", "cost") if name in result}
    shown |= {name: list(map(repr, column)) for name, column in result.items() if name.startswith("p(")}
    lines = [[i, *("" if value is None else value for value in row)] for i, row in enumerate(zip(*shown.values()), 1)]  # noqa: B905
    return csv_text([["row", *shown], *lines])


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
