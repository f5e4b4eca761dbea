"""Tables from memory: Arrow tables, and through narwhals every data frame that can become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smaller.app.tables import Table, TableError, unique_names

__all__ = ["from_arrow", "from_frame", "numbers_or_text"]


def from_arrow(table: Any, name: str, notes: list[str] | None = None) -> Table:
    """Return an Arrow table as named columns of numbers and text."""
    if table.num_columns == 0 or table.num_rows == 0:
        raise TableError(f"{name} has no rows or no columns.")
    raw = [str(column) for column in table.column_names]
    names = unique_names(raw)
    renamed = [f"Column {i + 1} was named {new!r}." for i, new in enumerate(names) if new != raw[i]][:20]
    columns: dict[str, Any] = {}
    refused: dict[str, str] = {}
    times: dict[str, Any] = {}
    for i, column in enumerate(names):
        try:
            columns[column] = _column(table.column(i), column)
        except TableError as error:
            refused[column] = str(error)
            times |= _instants(table.column(i), column)
    return Table(columns, notes=[*(notes or []), *renamed], refused=refused, times=times)


def _instants(values: Any, name: str) -> dict[str, Any]:
    """Return dates and times as seconds, so that rows can be ordered by them; nothing for other columns."""
    from pyarrow import types

    if not (types.is_date(values.type) or types.is_timestamp(values.type)):
        return {}
    return {name: values.cast("timestamp[us]").cast("int64").cast("float64", safe=False).to_numpy() / 1e6}


def from_frame(data: Any, name: str = "The table") -> Table:
    """Return a data frame (pandas, polars, Arrow, DuckDB, ...), a dict of columns or a matrix as a table.

    Data frames go through narwhals; without it, through what they say about themselves as Arrow.
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, dict):
        return _from_columns(data, name)
    if hasattr(data, "ndim") and not hasattr(data, "columns") and data.ndim == 2:
        return _from_columns({f"column {j + 1}": np.asarray(data)[:, j] for j in range(data.shape[1])}, name)
    if hasattr(data, "dtypes") and hasattr(data, "iloc"):
        return _from_pandas(data, name)
    return from_arrow(_as_arrow(data, name), name)


def _from_columns(data: dict[Any, Any], name: str) -> Table:
    columns = {str(key): numbers_or_text(np.asarray(values), str(key)) for key, values in data.items()}
    if len({len(values) for values in columns.values()}) > 1:
        raise TableError(f"{name}: its columns differ in length.")
    return Table(columns)


def _as_arrow(data: Any, name: str) -> Any:
    """Return a data frame as an Arrow table."""
    try:
        import narwhals as nw

        frame = nw.from_native(data)
        return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
    except (ImportError, TypeError) as error:
        if hasattr(data, "__arrow_c_stream__"):
            import pyarrow

            return pyarrow.table(data)
        raise TableError(
            f"{name} is a {type(data).__name__}: give a data frame (pandas, polars, Arrow, DuckDB), a dict of columns "
            "or a matrix."
        ) from error


def _from_pandas(frame: Any, name: str) -> Table:
    """Return a pandas frame as a table, column by column: needs no Arrow."""
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise TableError(f"{name} has no rows or no columns.")
    raw = [str(column) for column in frame.columns]
    names, columns, refused, times = unique_names(raw), {}, {}, {}
    for j, column in enumerate(names):
        values = frame.iloc[:, j]
        kind = getattr(values.dtype, "kind", "O")
        try:
            if kind in "mM":
                stamps = values.astype("int64").to_numpy().astype(np.float64)
                times[column] = np.where(values.isna(), np.nan, stamps)
                raise TableError(_dates(column))
            if kind in "iuf" and values.isna().any():
                columns[column] = values.to_numpy(dtype=np.float64, na_value=np.nan)
            elif kind in "iuf":
                columns[column] = values.to_numpy()
            else:
                texts = values.astype(object).where(values.notna(), None).to_numpy(dtype=object)
                columns[column] = numbers_or_text(texts, column)
        except TableError as error:
            refused[column] = str(error)
    return Table(columns, refused=refused, times=times)


def numbers_or_text(values: Any, name: str) -> Any:
    """Return a one-dimensional array as numbers or text; what is neither is refused."""
    if values.ndim != 1:
        raise TableError(f"Column {name!r} has {values.ndim} dimensions: give one value for each row.")
    if values.dtype.kind == "O":
        return _from_objects(values, name)
    if values.dtype.kind in "mM":
        raise TableError(_dates(name))
    if values.dtype.kind not in _BY_KIND:
        raise TableError(f"Column {name!r} has the type {values.dtype}, which is neither number nor text: --drop it.")
    return _BY_KIND[values.dtype.kind](values)


_BY_KIND: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys("iuf", lambda values: values),
    **dict.fromkeys("SU", lambda values: values.astype(str).astype(object)),
    "b": lambda values: np.where(values, "true", "false").astype(object),
}


def _from_objects(values: Any, name: str) -> Any:
    """Return Python objects as numbers, or as text."""
    cells = [None if _is_missing(value) else value for value in values]
    present = [value for value in cells if value is not None]
    if all(map(_is_number, present)):
        return np.asarray([np.nan if value is None else float(value) for value in cells])
    for value in present:
        _refuse_odd(value, name)
    return np.asarray([None if value is None else _shown(value) for value in cells], dtype=object)


def _refuse_odd(value: Any, name: str) -> None:
    """Refuse objects that are neither number nor text."""
    if hasattr(value, "year"):
        raise TableError(_dates(name))
    if isinstance(value, list | dict | tuple | np.ndarray):
        raise TableError(f"Column {name!r} holds nested values, which are neither number nor text: --drop it.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def _is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float | np.floating) and value != value) or type(value).__name__ == "NAType"
    )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _dates(name: str) -> str:
    return f"Column {name!r} holds dates or times: turn it into a number (such as days), or --drop it."


def _column(values: Any, name: str) -> Any:
    """Turn one Arrow column into numbers or text."""
    from pyarrow import types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    for name_of_kind, convert in _BY_ARROW_TYPE.items():
        if getattr(types, f"is_{name_of_kind}")(kind):
            return convert(values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise TableError(f"Column {name!r} is not text in UTF-8: save the table with that encoding.")
    if types.is_temporal(kind):
        raise TableError(_dates(name))
    raise TableError(f"Column {name!r} has the type {kind}, which is neither number nor text: --drop it.")


def _integers(values: Any) -> Any:
    return values.cast("float64", safe=False).to_numpy() if values.null_count else values.to_numpy()


def _text(values: Any) -> Any:
    """Return text of which every value is one object, however often it stands there: hashed and compared once."""
    coded = values.combine_chunks().dictionary_encode()
    if not len(coded):
        return np.empty(0, dtype=object)
    known = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]


_BY_ARROW_TYPE: dict[str, Callable[[Any], Any]] = {  # the first that fits counts
    "null": lambda values: np.full(len(values), np.nan),
    "boolean": lambda values: _text(values.cast("string")),
    **dict.fromkeys(("decimal", "float16"), lambda values: values.cast("float64").to_numpy()),
    "floating": lambda values: values.to_numpy(),
    "integer": _integers,
    **dict.fromkeys(("string", "large_string", "string_view"), _text),
}
