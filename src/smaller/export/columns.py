"""The columns of whatever a user calls a table, and the features of a formula computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.export.formula import ExportError, Feature, Formula, plain

__all__ = ["columns_in", "evaluate", "is_missing"]


def columns_in(X: Any, formula: Formula) -> dict[str, Array]:
    """Return the used columns of a data frame, an array or a mapping of names to values, each (n,)."""
    named = _named(X, formula.columns)
    lacking = [name for name in formula.used_columns if name not in named]
    if lacking:
        raise ExportError(f"X lacks the column {lacking[0]!r:.60} of training.")
    return {name: _values(named[name], name in formula.text_columns) for name in formula.used_columns}


def _named(X: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return all columns by name; those of an array without names are the columns of training."""
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        return {str(name): X[name] for name in X.columns}
    if isinstance(X, Mapping):
        return {str(name): values for name, values in X.items()}
    matrix = X.toarray() if sparse.issparse(X) else np.asarray(X)
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        raise ExportError(f"X must have the {len(columns)} columns of training, got shape {matrix.shape}.")
    return dict(zip(columns, matrix.T, strict=True))


def evaluate(feature: Feature, values: Array) -> Array:
    """Return a feature (n,) from the values of its column, as `Feature` says."""
    x = values
    for verb, argument in feature.steps:
        missing = is_missing(x)
        if verb == "fill":
            x = np.where(missing, argument, x) if x.dtype.kind != "O" else _filled(x, missing, argument)
        elif verb == "one_of":
            x = sum((x == level for level in argument if level is not None), missing & (None in argument)).astype(float)
        elif verb == "code":
            x = _coded(x, missing, *argument)
        elif verb == "clip":
            x = np.clip(x, *argument)
        else:
            operation = {"subtract": np.subtract, "divide": np.divide, "multiply": np.multiply, "add": np.add}[verb]
            x = operation(x, argument)
    return x


def is_missing(x: Array) -> Array:
    """Return which values are missing: NaN among numbers, None among texts."""
    return np.fromiter((value is None for value in x), bool, len(x)) if x.dtype.kind == "O" else np.isnan(x)


def _values(column: Any, is_text: bool) -> Array:
    if not is_text:
        return np.asarray(column, dtype=np.float64)
    values = [plain(value) for value in np.asarray(column, dtype=object)]
    made = np.empty(len(values), dtype=object)
    made[:] = [value if value is None else str(value) for value in values]
    return made


def _filled(x: Array, missing: Array, value: Any) -> Array:
    filled = x.copy()
    filled[missing] = value
    return filled


def _coded(x: Array, missing: Array, pairs: list[Any], other: float | None) -> Array:
    made = np.full(len(x), np.nan if other is None else other)
    for level, number in pairs:
        made[missing if level is None else x == level] = np.nan if number is None else number
    return made
