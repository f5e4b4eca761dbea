"""Ranges of the probabilities of rows, as columns of a table, and the sentences that must stand beside them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from smaller.app.study.answer import TableModel
from smaller.app.tables import Table, TableError
from smaller.estimators.intervals import notes_on_ranges

__all__ = ["range_columns"]

_NONE = (
    "--interval: this model keeps no ranges. `smaller fit` keeps them (not for jcfo and grades) unless rows belong "
    "together, classes are weighted, or the table is too large; models of older versions must be fitted again."
)


def range_columns(model: TableModel, table: Table, percent: float) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the columns ``low(class)`` and ``high(class)`` for every class, and what must be said of them.

    Parameters
    ----------
    model : TableModel
        One that keeps ranges.
    table : Table
        The rows.
    percent : float
        Nominal level, such as 90.
    """
    if not 1.0 < percent < 100.0:
        raise TableError(f"--interval must be a level in percent between 1 and 100, such as 90, not {percent:g}.")
    last, level = model.pipeline[-1], percent / 100.0
    if not getattr(last, "posterior", False):
        raise TableError(_NONE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the sentences say it
        ends = model.probability_interval(table, level)
    columns = {
        f"{end}({label})": [None if np.isnan(value) else value for value in values[:, k].tolist()]
        for k, label in enumerate(model.classes.tolist())
        for end, values in zip(("low", "high"), ends, strict=True)
    }
    return columns, list(notes_on_ranges(last, level, where="in the report"))
