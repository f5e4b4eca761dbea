"""A table made ready for a regression: features, a number a row, and which rows are one draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.app.columns import TableEncoder, check_names
from smaller.app.study.question import NONE, Question, groups_in
from smaller.app.study.units import copies_of
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["ResponseData", "prepare_responses"]

FEWEST_ROWS = 20


@dataclass(frozen=True)
class ResponseData:
    """Features, responses and units; ``notes`` say what was done."""

    X: Any
    y: Array
    encoder: TableEncoder
    units: Array  # (n,) rows of one unit are one draw
    notes: list[str]


def prepare_responses(table: Table, question: Question) -> ResponseData:
    """Turn a table into features and responses; rows without a response are left out."""
    check_names(table, question.target, [*question.drop, *question.ids])
    values = table.columns[question.target]
    if values.dtype.kind != "f":
        raise TableError(f"The target {question.target!r} holds text: --task regression needs numbers.")
    rows = np.flatnonzero(np.isfinite(values))
    notes = list(table.notes)
    if len(rows) < table.n_rows:
        notes.append(f"{table.n_rows - len(rows)} rows without a value of {question.target!r} were left out.")
    if len(rows) < FEWEST_ROWS:
        raise TableError(f"The target {question.target!r} has {len(rows)} values; a regression needs {FEWEST_ROWS}.")
    table = table.rows(rows)
    y = np.asarray(table.columns[question.target], dtype=np.float64)
    if np.ptp(y) == 0.0:
        raise TableError(f"The target {question.target!r} is {y[0]:g} in every row: there is nothing to predict.")
    group = None if question.group == NONE else question.group
    drop = (*question.drop, *question.ids, *([] if group is None else [group]))
    encoder, told = TableEncoder.learn(
        table, question.target, drop=drop, missing=question.missing, ids=question.ids, keep=question.features
    )
    X = encoder.transform(table)
    return ResponseData(X, y, encoder, _units(table, X, y, question.group), [*notes, *told])


def _units(table: Table, X: Any, y: Array, group: str | None) -> Array:
    """Return what belongs together: the values of a column, or exact copies of a row if nothing was said."""
    if group is None:
        return np.asarray(copies_of(X, y))
    if group == NONE:
        return np.arange(len(y))
    check_names(table, group)
    return groups_in(table, group)
