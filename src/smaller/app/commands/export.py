"""`smaller export MODEL --format ...`, and what `smaller.export` has to know of table models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from smaller.app.commands.steps import check_choice, check_folder, emit, load_model
from smaller.app.labels import class_labels
from smaller.app.study import TableModel
from smaller.app.tables import TableError, read_table
from smaller.export import ExportError, Formula, to_card, to_json, to_onnx, to_sql
from smaller.export.formula import Feature
from smaller.export.reading import columns_of, predictor
from smaller.export.sql import DIALECTS
from smaller.persistence import atomic_write

__all__ = ["export"]

_FORMATS = ["json", "sql", "onnx", "card"]


def export(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    format: Annotated[str, typer.Option(help=f"What to write: {', '.join(_FORMATS)}.")] = "json",
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if left out.")] = None,
    table: Annotated[str, typer.Option(help="sql: name of the table in the database.")] = "data",
    keep: Annotated[list[str] | None, typer.Option(help="sql: column to repeat in the result, as a key.")] = None,
    dialect: Annotated[str, typer.Option(help=f"sql: {', '.join(DIALECTS)}.")] = "duckdb",
    rows: Annotated[
        Path | None, typer.Option(help="card: table with the target, to choose and judge points on.")
    ] = None,
) -> None:
    """Write a model as JSON, SQL, ONNX or a card of points."""
    check_choice("--format", format, _FORMATS)
    fitted = load_model(model)
    try:
        if format == "json":
            emit(out, to_json(fitted))
        elif format == "sql":
            emit(out, to_sql(fitted, table=table, keep=keep or (), dialect=dialect) + "\n")
        elif format == "card":
            emit(out, _card(fitted, rows))
        else:
            _write_onnx(fitted, out)
    except ExportError as error:
        raise TableError(str(error)) from error


def _write_onnx(model: TableModel, out: Path | None) -> None:
    if out is None:
        raise TableError("--format onnx writes no text: say --out FILE.onnx.")
    content = to_onnx(model).SerializeToString()
    check_folder(out.parent, [out.name])
    with atomic_write(out) as file:
        file.write(content)


def _card(model: TableModel, path: Path | None) -> str:
    if path is None:
        raise TableError(
            "--format card needs rows to choose the points on: say --rows TABLE, such as the training table."
        )
    table = read_table(path)
    y, kept = class_labels(table, model.encoder.target, model.rare)
    return f"{to_card(model, table.rows(kept).columns, y)}"


# ---- a table model is the encoder of its columns before its pipeline ------------------------------------------------


@columns_of.register
def _(model: TableModel) -> tuple[tuple[str, ...], bool]:
    return (*(column.name for column in model.encoder.columns), *model.encoder.block_names), True


@predictor.register
def _(model: TableModel, features: Sequence[Feature], columns: tuple[str, ...], named: bool) -> Formula:
    made: list[Feature] = []
    for column in model.encoder.columns:
        shown = column.levels[-len(column.features) :] if column.levels else ()
        made += [Feature("", column.name, (("one_of", [level]),)) for level in shown]
        if not column.levels:
            made.append(Feature("", column.name))
            made += [Feature("", column.name, (("one_of", [None]),))] * column.gaps
    made += [Feature("", name) for name in model.encoder.block_names]
    named_features = [part.then(name=name) for part, name in zip(made, model.encoder.features, strict=True)]
    return predictor(model.pipeline, named_features, columns, named)
