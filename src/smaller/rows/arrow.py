"""Parquet and CSV files as blocks of rows, by Arrow. pyarrow is imported when such files are opened."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np

from smaller import threads
from smaller.arrays import Array
from smaller.rows.reading import Part, Raw, Targets, cut, rebatched, section, smallest_type, starts

__all__ = ["CsvReader", "ParquetReader", "open_csv", "open_parquet"]

Column = str | Targets | None  # where labels or weights are: a column's name, or one entry for every row


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Parquet and CSV files are read by pyarrow: install the extra 'data'.") from error
    return pyarrow


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tables(ABC):
    """Interface of files of named columns, which come in batches of rows."""

    files: tuple[str, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    dtype: Any
    target: Column
    weight: Column

    @property
    def n_columns(self) -> int:
        return len(self.names)

    @property
    def features(self) -> Array:
        return np.array(self.names, dtype=object)

    @property
    def empty(self) -> Array:
        return np.zeros((0, len(self.names)), self.dtype, order="F")

    @cached_property
    def _first(self) -> list[int]:
        """The number of each part's first row among the rows of all files."""
        return starts(self.parts)

    def section(self, start: int, stop: int) -> Self:
        return section(self, start, stop)  # type: ignore[no-any-return]

    @abstractmethod
    def _runs(self, start: int, stop: int, columns: list[str]) -> Iterator[list[Any]]:
        """Yield the batches of each of the parts ``start`` to ``stop``."""

    def stream(self, start: int, stop: int) -> Iterator[Raw]:
        beside = [name for name in (self.target, self.weight) if isinstance(name, str)]
        columns = [*self.names, *(name for name in dict.fromkeys(beside) if name not in self.names)]
        for number, run in enumerate(self._runs(start, stop, columns), start):
            part = self.parts[number]
            X = np.empty((part.stop - part.start, len(self.names)), self.dtype, order="F")
            at = 0
            for batch in run:
                for j, name in enumerate(self.names):
                    X[at : at + batch.num_rows, j] = _numbers(batch.column(name))
                at += batch.num_rows
            labels = self._beside(self.target, number, run, _labels)
            weight = self._beside(self.weight, number, run, _numbers)
            del run
            yield Raw(X, labels, weight)
            del X

    def _beside(self, column: Column, number: int, run: list[Any], read: Callable[[Any], Array]) -> Array | None:
        if column is None:
            return None
        if isinstance(column, Targets):
            return column.of(self._first[number], self._first[number + 1])
        return np.concatenate([read(batch.column(column)) for batch in run])

    def label_blocks(self) -> Iterator[Array]:
        if isinstance(self.target, Targets):
            yield self.target.values
        elif self.target is not None:
            for run in self._runs(0, len(self.parts), [self.target]):
                yield np.concatenate([_labels(batch.column(self.target)) for batch in run])


def _numbers(column: Any) -> Array:
    """Return a column as NumPy numbers; what is missing is nan."""
    arrow = _pyarrow()
    if arrow.types.is_decimal(column.type):
        column = column.cast(arrow.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any) -> Array:
    if column.null_count:
        raise ValueError("The target column has missing labels: leave those rows out of the files.")
    arrow = _pyarrow()
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    labels = column.to_numpy(zero_copy_only=False)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("The target column has missing labels: leave those rows out of the files.")
    return labels


def _is_number(kind: Any) -> bool:
    types = _pyarrow().types
    return any(bool(test(kind)) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _chosen(
    columns: Sequence[str] | None, types: dict[str, Any], target: Column, weight: Column, file: str
) -> tuple[str, ...]:
    """Return the names of the features, all of which hold numbers."""
    beside = {name for name in (target, weight) if isinstance(name, str)}
    wanted = [name for name in types if name not in beside] if columns is None else [str(name) for name in columns]
    for name in [*wanted, *beside]:
        if name not in types:
            raise ValueError(f"{file} has no column {name!r}; it has {_listed(types)}.")
    if not wanted:
        raise ValueError(f"{file} has no column beside the target: there is nothing to learn from.")
    twice = sorted(beside.intersection(wanted))
    if twice:
        raise ValueError(f"columns must not name {twice[0]!r}, the target or the weight.")
    _check_numbers({name: types[name] for name in wanted}, file)
    return tuple(wanted)


def _check_numbers(types: dict[str, Any], file: str) -> None:
    text = [name for name, kind in types.items() if not _is_number(kind)]
    if text:
        raise ValueError(
            f"Column {text[0]!r} of {file} holds {types[text[0]]}, not numbers: leave it out (columns=[...] names the "
            "features), or write it as numbers."
        )


def _listed(names: Any) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _height(n_columns: int, dtype: np.dtype[Any], block_bytes: int) -> int:
    return max(1, block_bytes // (n_columns * dtype.itemsize))


# ---- Parquet ----


@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetReader(_Tables):
    """Blocks cut from the row groups of Parquet files, which are decoded a batch at a time."""

    def _runs(self, start: int, stop: int, columns: list[str]) -> Iterator[list[Any]]:
        _pyarrow()
        from pyarrow import parquet

        for file, parts in groupby(self.parts[start:stop], key=lambda part: part.file):
            spans = list(parts)
            with parquet.ParquetFile(self.files[file], buffer_size=1 << 20) as opened:
                lengths = [opened.metadata.row_group(g).num_rows for g in range(opened.num_row_groups)]
                ends = np.cumsum(lengths)
                group = int(np.searchsorted(ends, spans[0].start, side="right"))
                batches = opened.iter_batches(
                    batch_size=max(span.stop - span.start for span in spans),
                    row_groups=range(group, len(lengths)),
                    columns=columns,
                    use_threads=threads.count() > 1,
                )
                skip = spans[0].start - int(ends[group] - lengths[group])
                yield from rebatched(batches, len, [span.stop - span.start for span in spans], skip)


def open_parquet(
    files: tuple[str, ...], target: Column, weight: Column, columns: Sequence[str] | None, block_bytes: int
) -> ParquetReader:
    """Return the blocks of Parquet files; only their footers are read."""
    _pyarrow()
    from pyarrow import parquet

    counts: list[int] = []
    kinds: set[Any] = set()
    names: tuple[str, ...] | None = None
    for file in files:
        with parquet.ParquetFile(file) as opened:
            types = {field.name: field.type for field in opened.schema_arrow}
            chosen = _chosen(columns if names is None else names, types, target, weight, file)
            names = names or chosen
            kinds.update(types[name] for name in names)
            counts.append(opened.metadata.num_rows)
    assert names is not None
    arrow = _pyarrow()
    dtype = smallest_type([np.float64 if arrow.types.is_decimal(kind) else kind.to_pandas_dtype() for kind in kinds])
    parts = cut(counts, _height(len(names), dtype, block_bytes))
    return ParquetReader(files=files, parts=parts, names=names, dtype=dtype, target=target, weight=weight)


# ---- CSV ----


@dataclass(frozen=True, eq=False, kw_only=True)
class CsvReader(_Tables):
    """Blocks that are runs of lines of CSV files: ``spans`` says from which byte to which."""

    spans: tuple[tuple[int, int], ...]
    header: tuple[str, ...]
    labels: Any  # Arrow's type of the target

    def section(self, start: int, stop: int) -> Self:
        return section(self, start, stop, spans=self.spans[start:stop])  # type: ignore[no-any-return]

    def _runs(self, start: int, stop: int, columns: list[str]) -> Iterator[list[Any]]:
        arrow = _pyarrow()
        types = {name: arrow.float64() for name in columns}
        if isinstance(self.target, str):
            types[self.target] = self.labels
        for number in range(start, stop):
            part = self.parts[number]
            with open(self.files[part.file], "rb") as opened:
                opened.seek(self.spans[number][0])
                text = opened.read(self.spans[number][1] - self.spans[number][0])
            table = _parsed(text, self.header, columns, types, self.files[part.file])
            if table.num_rows != part.stop - part.start:
                raise ValueError(f"{self.files[part.file]} changed since it was opened: do not change files in a fit.")
            yield table.combine_chunks().to_batches()


def _parsed(text: bytes, header: Sequence[str], columns: Sequence[str], types: Any, file: str) -> Any:
    """Return lines of a CSV file as an Arrow table."""
    arrow = _pyarrow()
    from pyarrow import csv

    try:
        return csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=list(header), use_threads=threads.count() > 1),
            convert_options=csv.ConvertOptions(include_columns=list(columns), column_types=types),
        )
    except arrow.ArrowInvalid as error:
        raise ValueError(
            f"{file} cannot be read as numbers ({error}): leave columns of text out (columns=[...] names the features)."
        ) from error


def _lines(file: str, block_bytes: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield runs of whole lines: from which byte to which, and the text."""
    with open(file, "rb") as opened:
        at = 0
        while text := opened.read(block_bytes):
            text += opened.readline()
            yield at, at + len(text), text
            at += len(text)


def _header(file: str) -> tuple[str, ...]:
    from pyarrow import csv

    with open(file, "rb") as opened:
        line = opened.readline()
    if not line.strip():
        raise ValueError(f"{file} is empty: the first line of a CSV file names its columns.")
    return tuple(csv.read_csv(io.BytesIO(line)).column_names)


def open_csv(
    files: tuple[str, ...], target: Column, weight: Column, columns: Sequence[str] | None, block_bytes: int
) -> CsvReader:
    """Return the blocks of CSV files with a header line; all lines are looked at once, to count them."""
    arrow = _pyarrow()
    header = _header(files[0])
    parts: list[Part] = []
    spans: list[tuple[int, int]] = []
    kinds: set[Any] = set()
    names: tuple[str, ...] = ()
    for number, file in enumerate(files):
        if _header(file) != header:
            raise ValueError(f"{file} has other columns than {files[0]}: give each kind of file a call of its own.")
        row = 0
        for start, stop, text in _lines(file, block_bytes):
            if start == 0:
                line = text.index(b"\n") + 1 if b"\n" in text else len(text)
                start, text = line, text[line:]
            if not text.strip():
                continue
            if not names:
                found = _parsed(text, header, header, {}, file).schema
                names = _chosen(columns, dict(zip(found.names, found.types, strict=True)), target, weight, file)
            looked = [target] if isinstance(target, str) else [names[0]]
            table = _parsed(text, header, looked, {}, file)
            if isinstance(target, str):
                kinds.add(table.schema.field(target).type)
            parts.append(Part(number, row, row + table.num_rows))
            spans.append((start, stop))
            row += table.num_rows
    labels = _common(kinds, arrow) if kinds else None
    return CsvReader(
        files=files, parts=tuple(parts), names=names, dtype=np.dtype(np.float64), target=target, weight=weight,
        spans=tuple(spans), header=header, labels=labels,
    )  # fmt: skip


def _common(kinds: set[Any], arrow: Any) -> Any:
    """Return the one type of the labels, which all blocks share; whole numbers may meet others."""
    kinds = kinds - {arrow.null()}
    if len(kinds) <= 1:
        return next(iter(kinds), arrow.string())
    if kinds <= {arrow.int64(), arrow.float64()}:
        return arrow.float64()
    raise ValueError(
        f"The target column holds {' and '.join(sorted(map(str, kinds)))} in different places: labels must be all "
        "numbers or all text."
    )
