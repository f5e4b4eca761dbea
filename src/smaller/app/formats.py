"""Tables that are no text: Parquet, Feather/Arrow, NPZ, svmlight, and Excel's XLSX."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.frames import from_arrow, numbers_or_text
from smaller.app.tables import MAX_CELLS, Reading, Source, Table, TableError, arrow, reason, too_large, unique_names

__all__ = ["READERS"]

MAX_SPARSE_COLUMNS = 5_000_000  # each needs a name


def _read_parquet(source: Source, reading: Reading) -> Table:
    pa = arrow()
    from pyarrow import parquet

    try:
        with source.open() as stream, parquet.ParquetFile(stream) as file:
            if file.metadata.num_rows * max(1, file.metadata.num_columns) > MAX_CELLS:
                raise too_large(source.name)
            return from_arrow(file.read(), source.name)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{source.name} is not an intact Parquet file: {reason(error)}") from error


def _read_feather(source: Source, reading: Reading) -> Table:
    pa = arrow()
    try:
        with source.open() as stream:
            reader = pa.ipc.open_file(stream)
            batches, cells = [], 0
            for index in range(reader.num_record_batches):
                batches.append(reader.get_batch(index))
                cells += batches[-1].num_rows * max(1, batches[-1].num_columns)
                if cells > MAX_CELLS:
                    raise too_large(source.name)
            return from_arrow(pa.Table.from_batches(batches, reader.schema), source.name)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{source.name} is not an intact Feather (Arrow) file: {reason(error)}") from error


def _read_npz(source: Source, reading: Reading) -> Table:
    try:
        with source.open() as stream:
            _check_unpacked(stream, source.name)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                parts = {name: arrays[name] for name in arrays.files}
    except TableError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, MemoryError, SyntaxError) as error:
        raise TableError(f"{source.name} is not an intact NPZ file of plain arrays: {reason(error)}") from error
    columns: dict[str, Any] = {}
    for name, array in parts.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns |= {f"{name}{j}": array[:, j] for j in range(array.shape[1])}
        else:
            raise TableError(f"{source.name}: array {name!r} has {array.ndim} dimensions; use columns or matrices.")
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{name}: {array.shape}" for name, array in parts.items())
        raise TableError(f"{source.name}: its arrays have different numbers of rows ({sizes[:200]}).")
    return Table({name: numbers_or_text(values, name) for name, values in columns.items()})


def _read_svmlight(source: Source, reading: Reading) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        with source.open() as stream:
            X, y = load_svmlight_file(stream)
    except (ValueError, OverflowError, MemoryError, UnicodeDecodeError) as error:
        raise TableError(f"{source.name} is not an intact svmlight file: {reason(error)}") from error
    if X.shape[1] > MAX_SPARSE_COLUMNS:
        raise TableError(
            f"{source.name} names feature number {X.shape[1]:,}, more than {MAX_SPARSE_COLUMNS:,}: number the features "
            "without large gaps."
        )
    names = [f"f{j}" for j in range(X.shape[1])]
    return Table({"target": y}, sparse.csr_array(X), names, ["The labels of the svmlight file are called 'target'."])


def _read_xlsx(source: Source, reading: Reading) -> Table:
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise TableError("Reading .xlsx needs openpyxl: install smaller with the extra 'data'.") from error
    try:
        with source.open() as stream:
            _check_unpacked(stream, source.name)
            stream.seek(0)
            book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
            sheet, sheets = book.worksheets[0], len(book.worksheets)
            rows, title = _sheet_rows(sheet, source), sheet.title
            book.close()
    except TableError:
        raise
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile, EOFError, InvalidFileException) as error:
        raise TableError(f"{source.name} is not an intact Excel file: {reason(error)}") from error
    if len(rows) < 2:
        raise TableError(f"{source.name} has no rows: its first sheet must hold a line of names and the data below it.")
    width = max(j + 1 for row in rows for j, value in enumerate(row) if value is not None)
    notes = [f"Only the first of {sheets} sheets, {title!r}, was read."] if sheets > 1 else []
    names = unique_names(["" if value is None else str(value) for value in (*rows[0], *[None] * width)[:width]])
    return _from_cells(names, rows[1:], notes)


def _sheet_rows(sheet: Any, source: Source) -> list[tuple[Any, ...]]:
    """Return the rows of a sheet that are not empty."""
    rows, cells = [], 0
    for row in sheet.iter_rows(values_only=True):
        cells += len(row)
        if cells > MAX_CELLS // 10:  # a cell of a sheet is a Python object
            raise too_large(source.name)
        if any(value is not None for value in row):
            rows.append(row)
    return rows


def _from_cells(names: list[str], rows: list[tuple[Any, ...]], notes: list[str]) -> Table:
    from smaller.app.delimited import MISSING

    missing, columns, refused = set(MISSING), {}, {}
    for j, name in enumerate(names):
        values = np.empty(len(rows), dtype=object)
        values[:] = [row[j] if j < len(row) else None for row in rows]
        values[[isinstance(value, str) and value in missing for value in values]] = None
        try:
            columns[name] = numbers_or_text(values, name)
        except TableError as error:
            refused[name] = str(error)
    return Table(columns, notes=notes, refused=refused)


def _check_unpacked(stream: Any, name: str) -> None:
    with zipfile.ZipFile(stream) as archive:
        if sum(info.file_size for info in archive.infolist()) > 8 * MAX_CELLS:
            raise too_large(name)


READERS: dict[str, Callable[[Source, Reading], Table]] = {
    ".parquet": _read_parquet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
    ".npz": _read_npz,
    ".svm": _read_svmlight,
    ".svmlight": _read_svmlight,
    ".libsvm": _read_svmlight,
    ".xlsx": _read_xlsx,
}
