"""Tables from files: CSV, TSV, Parquet, Feather/Arrow, NPZ and svmlight, read into named columns.

A reader either returns a `Table` or raises `TableError` with one sentence that says what to do. What a column *means*
(number or category, how it becomes features) is the business of `smaller.app.columns`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["FORMATS", "Table", "TableError", "read_table", "unique_names"]

MAX_CELLS = 1_000_000_000  # a table beyond this would take 8 GB as numbers
MAX_FILE_BYTES = 16 << 30
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "?", "."]


class TableError(ValueError):
    """A table cannot be read or used; the message is one sentence with advice."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and perhaps a sparse block of further numeric columns.

    Attributes
    ----------
    columns : dict of str to ndarray
        Numbers (missing: NaN) or text (object arrays; missing: None).
    block : sparse array of shape (n_rows, n_block), or None
        Sparse features of an svmlight file.
    block_names : list of str
        Their names.
    notes : list of str
        What was changed on the way in, for the user.
    refused : dict of str to str
        Columns of a type that cannot be used, each with the advice to give if it is needed.
    """

    columns: dict[str, Any]
    block: Any = None
    block_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.block is not None:
            return int(self.block.shape[0])
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def rows(self, index: Any) -> Table:
        """Return some rows."""
        columns = {name: values[index] for name, values in self.columns.items()}
        return replace(self, columns=columns, block=None if self.block is None else self.block[index])


def read_table(path: str | Path) -> Table:
    r"""Read a table; the ending of its name says the format.

    Parameters
    ----------
    path : str or path
        A file ending in one of ``FORMATS``.

    Returns
    -------
    Table
        Its columns under unique names.

    Raises
    ------
    TableError
        If the file is missing, damaged, too large or of an unknown format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from smaller.app.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.csv"
    ...     _ = path.write_text("a,b,a\n1,x,?\n2,,3.5\n")
    ...     table = read_table(path)
    >>> list(table.columns), table.columns["b"].tolist(), table.columns["a (2)"].tolist()
    (['a', 'b', 'a (2)'], ['x', None], [nan, 3.5])
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise TableError(f"{path.name}: the ending {ending!r} is unknown; use one of {', '.join(FORMATS)}.")
    if not path.is_file():
        raise TableError(f"{path}: there is no such file.")
    size = path.stat().st_size
    if size == 0:
        raise TableError(f"{path.name} is empty.")
    if size > MAX_FILE_BYTES:
        raise TableError(f"{path.name} has {size / 2**30:.0f} GiB, too much to read: take a sample of its rows.")
    table = FORMATS[ending](path)
    if table.n_rows == 0 and not table.refused:
        raise TableError(f"{path.name} has no rows.")
    return table


def unique_names(names: list[str]) -> list[str]:
    """Make names unique and non-empty: a repeated name gets a number, an empty one its position.

    Examples
    --------
    >>> unique_names(["a", "", "a", "a (2)"])
    ['a', 'column 2', 'a (3)', 'a (2)']
    """
    taken, seen, result = set(names), Counter[str](), []
    for position, name in enumerate(names, 1):
        name = name if name.strip() else f"column {position}"
        seen[name] += 1
        unique, number = name, seen[name]
        while number > 1 and unique in taken:
            unique, number = f"{name} ({number})", number + 1
        taken.add(unique)
        result.append(unique)
    return result


# ---- readers --------------------------------------------------------------------------------------------------------


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise TableError("Reading tables needs pyarrow: install smaller with the extra 'cli'.") from error
    return pyarrow


def _read_text(path: Path) -> Table:
    pa = _arrow()
    from pyarrow import csv

    with path.open("rb") as file:
        start = file.read(1 << 16)
    if b"\x00" in start:
        raise TableError(f"{path.name} is not a text table: it holds binary data.")
    delimiter, decimal = _dialect(path, start)
    header_columns = start.split(b"\n", 1)[0].count(delimiter.encode()) + 1
    if header_columns * max(1, path.stat().st_size // (2 * header_columns)) > MAX_CELLS:
        raise _too_large(path)
    try:
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                null_values=MISSING, strings_can_be_null=True, quoted_strings_can_be_null=False, decimal_point=decimal
            ),
            read_options=csv.ReadOptions(block_size=max(1 << 20, 2 * len(start.split(b"\n", 1)[0]))),
        )
    except pa.ArrowInvalid as error:
        raise TableError(f"{path.name} cannot be read as a table: {_reason(error)}") from error
    return _from_arrow(table, path)


def _dialect(path: Path, start: bytes) -> tuple[str, str]:
    """Return the delimiter (by the ending; semicolons are recognised) and the decimal mark."""
    if path.suffix.lower() in (".tsv", ".tab"):
        return "\t", "."
    first = start.split(b"\n", 1)[0]
    counts = {mark: first.count(mark.encode()) for mark in (",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    if not counts[best]:
        return ",", "."
    return best, "," if best == ";" and re.search(rb"(^|;)-?[0-9]+,[0-9]+(;|\r?$)", start, re.MULTILINE) else "."


def _read_parquet(path: Path) -> Table:
    pa = _arrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            if file.metadata.num_rows * max(1, file.metadata.num_columns) > MAX_CELLS:
                raise _too_large(path)
            return _from_arrow(file.read(), path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path.name} is not an intact Parquet file: {_reason(error)}") from error


def _read_feather(path: Path) -> Table:
    pa = _arrow()
    try:
        with pa.OSFile(str(path), "rb") as source:
            reader = pa.ipc.open_file(source)
            batches, cells = [], 0
            for index in range(reader.num_record_batches):
                batches.append(reader.get_batch(index))
                cells += batches[-1].num_rows * max(1, batches[-1].num_columns)
                if cells > MAX_CELLS:
                    raise _too_large(path)
            return _from_arrow(pa.Table.from_batches(batches, reader.schema), path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path.name} is not an intact Feather (Arrow) file: {_reason(error)}") from error


def _read_npz(path: Path) -> Table:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > 8 * MAX_CELLS:
                raise _too_large(path)
        with np.load(path, allow_pickle=False) as arrays:
            parts = {name: arrays[name] for name in arrays.files}
    except TableError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, MemoryError, SyntaxError) as error:
        raise TableError(f"{path.name} is not an intact NPZ file of plain arrays: {_reason(error)}") from error
    columns: dict[str, Any] = {}
    for name, array in parts.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns |= {f"{name}{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise TableError(f"{path.name}: array {name!r} has {array.ndim} dimensions; use columns or matrices.")
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name}: {array.shape}" for name, array in parts.items())
        raise TableError(f"{path.name}: its arrays have different numbers of rows ({sizes[:200]}).")
    return Table({name: _plain(values, name) for name, values in columns.items()})


def _read_svmlight(path: Path) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path))
    except (ValueError, OverflowError, MemoryError, UnicodeDecodeError) as error:
        raise TableError(f"{path.name} is not an intact svmlight file: {_reason(error)}") from error
    names = [f"f{j}" for j in range(X.shape[1])]
    return Table({"target": y}, sparse.csr_array(X), names, ["The labels of the svmlight file are called 'target'."])


FORMATS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".tab": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
    ".npz": _read_npz,
    ".svm": _read_svmlight,
    ".svmlight": _read_svmlight,
    ".libsvm": _read_svmlight,
}


# ---- from Arrow to NumPy --------------------------------------------------------------------------------------------


def _from_arrow(table: Any, path: Path) -> Table:
    if table.num_columns == 0 or table.num_rows == 0:
        raise TableError(f"{path.name} has no rows or no columns.")
    raw = [str(name) for name in table.column_names]
    names = unique_names(raw)
    notes = [f"Column {i + 1} was named {name!r}." for i, name in enumerate(names) if name != raw[i]][:20]
    columns: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for i, name in enumerate(names):
        try:
            columns[name] = _column(table.column(i), name)
        except TableError as error:
            refused[name] = str(error)
    return Table(columns, notes=notes, refused=refused)


def _column(values: Any, name: str) -> Any:
    """Turn one Arrow column into numbers or text."""
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if types.is_null(kind):
        return np.full(len(values), np.nan)
    if types.is_boolean(kind):
        return _text(values.cast("string"))
    if types.is_decimal(kind) or types.is_float16(kind):
        values, kind = values.cast("float64"), None
    if kind is None or types.is_floating(kind):
        return values.to_numpy()
    if types.is_integer(kind):
        return values.cast("float64", safe=False).to_numpy() if values.null_count else values.to_numpy()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _text(values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise TableError(f"Column {name!r} is not text in UTF-8: save the table with that encoding.")
    if types.is_temporal(kind):
        raise TableError(f"Column {name!r} holds dates or times: turn it into a number (such as days), or --drop it.")
    raise TableError(f"Column {name!r} has the type {kind}, which is neither number nor text: --drop it.")


def _text(values: Any) -> Any:
    return np.asarray(values.to_pylist(), dtype=object)


def _plain(values: Any, name: str) -> Any:
    """Return an array of an NPZ file as numbers or text."""
    if values.dtype.kind in "iuf":
        return values
    if values.dtype.kind in "bU":
        return values.astype(str).astype(object)
    raise TableError(f"Array {name!r} has the type {values.dtype}, which is neither number nor text.")


def _too_large(path: Path) -> TableError:
    return TableError(f"{path.name} has more than {MAX_CELLS:.0e} cells, too many to hold: take a sample of its rows.")


def _reason(error: BaseException) -> str:
    """Return the first line of a foreign message, without its row contents, as the end of a sentence."""
    text = (str(error) or type(error).__name__).splitlines()[0].strip()
    text = text if len(text) <= 160 else text[:159] + "…"
    return text if text.endswith((".", "…")) else text + "."
