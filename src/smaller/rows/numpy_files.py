"""NPY and NPZ files as blocks of rows: read into memory block by block, not mapped.

A mapped file counts as memory of the process that maps it, and a worker on a cluster would be killed for it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.rows.reading import Part, Raw, Targets, cut, section, smallest_type, starts

__all__ = ["ArrayReader", "open_arrays"]

_SPARSE = ("data", "indices", "indptr", "shape")  # members of a file of scipy.sparse.save_npz
_COPIED = 1 << 20  # bytes that are turned from rows to columns at a time: they stay in the cache


class Stored(NamedTuple):
    """An array in a file: which member of an archive (None: the file itself), and what its header says."""

    member: str | None
    shape: tuple[int, ...]
    dtype: Any
    by_column: bool


@contextmanager
def _opened(file: str, member: str | None) -> Iterator[Any]:
    if member is None:
        with open(file, "rb") as stream:
            yield stream
    else:
        with zipfile.ZipFile(file) as archive, archive.open(f"{member}.npy") as stream:
            yield stream


def _head(stream: Any, member: str | None, file: str) -> Stored:
    """Read the header; the stream then stands at the first entry."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError(f"{file} holds Python objects, which are not read: save arrays of numbers or of text.")
    return Stored(member, shape, dtype, by_column)


def _stored(file: str, member: str | None) -> Stored:
    with _opened(file, member) as stream:
        return _head(stream, member, file)


def _rows(file: str, array: Stored, spans: Sequence[tuple[int, int]], dtype: Any) -> Iterator[Array]:
    """Yield runs of rows of a matrix (n, d) column by column, or of a vector, in one walk through the file."""
    n = array.shape[0]
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    size = array.dtype.itemsize
    with _opened(file, array.member) as stream:
        _head(stream, array.member, file)
        origin = stream.tell()
        for start, stop in spans:
            if array.by_column and width > 1:
                out = np.empty((stop - start, width), dtype, order="F")
                for j in range(width):
                    stream.seek(origin + (j * n + start) * size)
                    out[:, j] = _entries(stream, stop - start, array.dtype, file)
                yield out
                continue
            stream.seek(origin + start * width * size)
            if len(array.shape) == 1:
                yield _entries(stream, stop - start, array.dtype, file)
                continue
            out = np.empty((stop - start, width), dtype, order="F")
            step = max(1, _COPIED // max(width * size, 1))
            for at in range(0, stop - start, step):
                height = min(step, stop - start - at)
                out[at : at + height] = _entries(stream, height * width, array.dtype, file).reshape(height, width)
            yield out
            del out


def _entries(stream: Any, count: int, dtype: Any, file: str) -> Array:
    text = stream.read(count * dtype.itemsize)
    if len(text) < count * dtype.itemsize:
        raise ValueError(f"{file} is shorter than its header says: it is damaged, or was changed in a fit.")
    return np.frombuffer(text, dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayReader:
    """Blocks of matrices; labels and weights are a column, a member of the archive, or beside the files."""

    files: tuple[str, ...]
    parts: tuple[Part, ...]
    arrays: tuple[Stored, ...] | None  # the matrix of each file; None: sparse matrices, a file being a block
    target: int | str | Targets | None
    weight: int | str | Targets | None
    chosen: Array | None  # columns that are features; None: all
    n_columns: int
    dtype: Any

    @property
    def features(self) -> None:
        return None

    @property
    def empty(self) -> Any:
        if self.arrays is None:
            return sparse.csc_array((0, self.n_columns), dtype=self.dtype)
        return np.zeros((0, self.n_columns), self.dtype, order="F")

    @cached_property
    def _first(self) -> list[int]:
        return starts(self.parts)

    def section(self, start: int, stop: int) -> ArrayReader:
        return section(self, start, stop)  # type: ignore[no-any-return]

    def stream(self, start: int, stop: int) -> Iterator[Raw]:
        number = start
        while number < stop:
            file = self.parts[number].file
            last = number
            while last < stop and self.parts[last].file == file:
                last += 1
            for X in self._matrices(number, last):
                labels, weight = (self._beside(column, number, X) for column in (self.target, self.weight))
                yield Raw(X if self.chosen is None else np.asfortranarray(X[:, self.chosen]), labels, weight)
                del X
                number += 1

    def _matrices(self, start: int, stop: int) -> Iterator[Any]:
        file = self.parts[start].file
        if self.arrays is None:
            yield sparse.csc_array(sparse.load_npz(self.files[file]).astype(self.dtype, copy=False))
            return
        spans = [(part.start, part.stop) for part in self.parts[start:stop]]
        yield from _rows(self.files[file], self.arrays[file], spans, self.dtype)

    def _beside(self, column: int | str | Targets | None, number: int, X: Any) -> Array | None:
        if column is None:
            return None
        if isinstance(column, Targets):
            return column.of(self._first[number], self._first[number + 1])
        if isinstance(column, str):
            part = self.parts[number]
            file = self.files[part.file]
            return next(_rows(file, _stored(file, column), [(part.start, part.stop)], None))
        return X[:, column]

    def label_blocks(self) -> Iterator[Array]:
        if isinstance(self.target, Targets):
            yield self.target.values
        elif isinstance(self.target, str):
            yield from (self._beside(self.target, number, None) for number in range(len(self.parts)))
        elif self.target is not None:
            yield from (raw.labels for raw in self.stream(0, len(self.parts)) if raw.labels is not None)


def open_arrays(
    files: tuple[str, ...], target: Any, weight: Any, columns: Sequence[int] | None, block_bytes: int
) -> ArrayReader:
    """Return the blocks of NPY or NPZ files; only their headers are read."""
    members = [_members(file) for file in files]
    if all(set(_SPARSE) <= names for names in members):
        return _open_sparse(files, target, weight, columns)
    arrays = tuple(_matrix(file, names, target, weight) for file, names in zip(files, members, strict=True))
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise ValueError(f"The files have {sorted(widths)} columns: all must have the same.")
    d = widths.pop()
    chosen = _chosen(d, [column for column in (target, weight) if isinstance(column, int)], columns)
    dtype = smallest_type([array.dtype for array in arrays])
    parts = cut([array.shape[0] for array in arrays], max(1, block_bytes // (d * dtype.itemsize)))
    n_columns = d if chosen is None else len(chosen)
    return ArrayReader(
        files=files, parts=parts, arrays=arrays, target=target, weight=weight, chosen=chosen, n_columns=n_columns,
        dtype=dtype,
    )  # fmt: skip


def _chosen(d: int, beside: list[int], columns: Sequence[int] | None) -> Array | None:
    """Return the columns that are features, of ``d``, without labels and weights; None for all."""
    outside = [c for c in (*beside, *(columns or ())) if isinstance(c, int) and not -d <= c < d]
    if outside:
        raise ValueError(f"There is no column {outside[0]}: the files have columns 0 to {d - 1}.")
    if columns is None and not beside:
        return None
    taken = {column % d for column in beside}
    return np.array([j for j in (range(d) if columns is None else columns) if j not in taken], dtype=np.int64)


def _open_sparse(files: tuple[str, ...], target: Any, weight: Any, columns: Any) -> ArrayReader:
    if columns is not None or isinstance(target, int) or isinstance(weight, int):
        raise ValueError("Sparse files are read with all their columns: leave columns out, and name labels by a member "
                         "of the archive, or give them as an array.")  # fmt: skip
    shapes, types = [], []
    for file in files:
        with _opened(file, "shape") as stream:
            shapes.append(tuple(int(size) for size in np.lib.format.read_array(stream)))
        types.append(_stored(file, "data").dtype)
    if len({d for _, d in shapes}) > 1:
        raise ValueError(f"The files have {sorted({d for _, d in shapes})} columns: all must have the same.")
    parts = tuple(Part(i, 0, n) for i, (n, _) in enumerate(shapes))
    return ArrayReader(
        files=files, parts=parts, arrays=None, target=target, weight=weight, chosen=None, n_columns=shapes[0][1],
        dtype=smallest_type(types),
    )  # fmt: skip


def _members(file: str) -> set[str]:
    if not zipfile.is_zipfile(file):
        return set()
    with zipfile.ZipFile(file) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def _matrix(file: str, members: set[str], target: Any, weight: Any) -> Stored:
    """Return the matrix of a file: the only array, the member "X", or the only member beside labels and weights."""
    beside = [name for name in (target, weight) if isinstance(name, str)]
    array = _stored(file, _matrix_name(file, members, beside) if members else None)
    if len(array.shape) != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"{file} must hold a matrix of numbers; it holds {array.dtype} of shape {array.shape}.")
    return array


def _matrix_name(file: str, members: set[str], beside: list[str]) -> str:
    missing = [name for name in beside if name not in members]
    if missing:
        raise ValueError(f"{file} has no member {missing[0]!r}; it has {sorted(members)}.")
    rest = members.difference(beside)
    if "X" not in rest and len(rest) != 1:
        raise ValueError(f"{file} has the members {sorted(members)}: name the matrix of features 'X'.")
    return "X" if "X" in rest else rest.pop()
