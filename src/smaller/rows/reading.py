"""Files as blocks of rows: what a reader of a format has to offer, and how blocks are read ahead and become rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from smaller import threads
from smaller.arrays import Array
from smaller.designs import as_design
from smaller.likelihoods import Likelihood
from smaller.rows.host import HostRows

__all__ = [
    "Part",
    "Raw",
    "Reader",
    "Source",
    "Targets",
    "ahead",
    "cut",
    "encoded",
    "rebatched",
    "smallest_type",
    "starts",
]

T = TypeVar("T")


class Raw(NamedTuple):
    """One block as it stands in the files."""

    X: Any  # (n, d) column by column, or sparse
    labels: Array | None  # (n,)
    weight: Array | None  # (n,)


class Part(NamedTuple):
    """One block's place: which file, and which of its rows."""

    file: int
    start: int
    stop: int


class Reader(Protocol):
    """Contract of a reader: names and numbers only, so that it travels; files are opened when they are read."""

    @property
    def parts(self) -> Sequence[Part]:
        """The blocks in the order of their rows."""

    @property
    def n_columns(self) -> int:
        """Number of features d."""

    @property
    def dtype(self) -> Any:
        """Type of X: float32 where that loses nothing, else float64."""

    @property
    def features(self) -> Array | None:
        """Names of the features (d,), or None."""

    @property
    def empty(self) -> Any:
        """X of no rows, stored as blocks are."""

    def stream(self, start: int, stop: int) -> Iterator[Raw]:
        """Yield the blocks ``start`` to ``stop`` in order; each may be dropped before the next is read."""

    def section(self, start: int, stop: int) -> Reader:
        """Return the reader of some of the blocks, which travels with no more than it needs."""

    def label_blocks(self) -> Iterator[Array]:
        """Yield the labels of some rows after the other, without the features where the format allows it."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels or weights that stand beside the files: one for every row."""

    values: Array

    def section(self, start: int, stop: int) -> Targets:
        """Return those of a run of rows, which are then counted from its first."""
        return Targets(self.values[start:stop])

    def of(self, start: int, stop: int) -> Array:
        """Return those of some rows."""
        return self.values[start:stop]


def smallest_type(types: Sequence[Any]) -> Any:
    """Return float32 if it holds every value of these types exactly, else float64."""
    narrow = all(np.can_cast(t, np.float32, "safe") for t in types)
    return np.dtype(np.float32 if narrow else np.float64)


def cut(counts: Sequence[int], height: int) -> tuple[Part, ...]:
    """Return blocks of at most ``height`` rows of files with these numbers of rows; a file without rows has none."""
    return tuple(
        Part(file, start, min(start + height, count))
        for file, count in enumerate(counts)
        for start in range(0, count, height)
    )


def starts(parts: Sequence[Part]) -> list[int]:
    """Return the number of each part's first row among the rows of all files, and how many rows there are."""
    return [0, *accumulate(part.stop - part.start for part in parts)]


def section(reader: Any, start: int, stop: int, **changes: Any) -> Any:
    """Return a reader with the parts ``start`` to ``stop``, and what stands beside the files cut alike."""
    first = starts(reader.parts)
    cut_alike = {
        name: value.section(first[start], first[min(stop, len(reader.parts))])
        for name in ("target", "weight")
        if isinstance(value := getattr(reader, name), Targets)
    }
    return replace(reader, parts=reader.parts[start:stop], **cut_alike, **changes)


def rebatched(
    batches: Iterator[T], size: Callable[[T], int], wanted: Sequence[int], skip: int = 0
) -> Iterator[list[T]]:
    """Yield runs of whole or cut batches that hold ``wanted`` rows each; the first ``skip`` rows are left out.

    ``T`` has ``slice(offset, length)``, as Arrow's batches have.
    """
    run: list[T] = []
    sizes = iter(wanted)
    missing = next(sizes, None)
    for batch in batches:
        offset = min(skip, size(batch))
        skip -= offset
        while missing is not None and offset < size(batch):
            length = min(missing, size(batch) - offset)
            run.append(batch.slice(offset, length))  # type: ignore[attr-defined]
            offset, missing = offset + length, missing - length
            if missing == 0:
                yield run
                run, missing = [], next(sizes, None)
        if missing is None:
            return
    raise ValueError("A file has fewer rows than it had when it was opened: do not change files while they are fitted.")


def ahead(blocks: Iterator[T]) -> Iterator[T]:
    """Yield what ``blocks`` yields, while a thread prepares the next one."""
    end = object()
    read = threads.carried(next)
    with ThreadPoolExecutor(1, thread_name_prefix="smaller-read") as pool:
        coming = pool.submit(read, blocks, end)
        while True:
            block: Any = coming.result()
            if block is end:
                return
            coming = pool.submit(read, blocks, end)
            yield block
            del block  # or it would be kept while the one after the next is read


def encoded(labels: Array, classes: Array) -> Array:
    """Return the codes (n,) of labels."""
    try:
        codes = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1).astype(np.int64)
        known = classes[codes] == labels
    except TypeError:
        known = np.isin(labels.astype(str), classes.astype(str))
    if not np.all(known):
        raise ValueError(
            f"The label {labels[~known][0]!r} is not among the classes {classes.tolist()!r}: leave classes out to have "
            "them found."
        )
    return codes


@dataclass(frozen=True, eq=False)
class Source:
    """Blocks of files as rows under a likelihood: a recipe, which is all that travels."""

    reader: Reader
    classes: Array
    likelihood: Likelihood
    first: int = 0  # the number of the first row

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each block."""
        return tuple(part.stop - part.start for part in self.reader.parts)

    def section(self, start: int, stop: int) -> Source:
        """Return some of the blocks; their rows keep their numbers."""
        return replace(
            self, reader=self.reader.section(start, stop), first=self.first + starts(self.reader.parts)[start]
        )

    def empty(self) -> HostRows:
        """Return no rows, with everything that all blocks share."""
        y = self.likelihood.encode(np.zeros(0, dtype=np.int64))
        return HostRows(
            as_design(self.reader.empty), y, None, self.likelihood, labels=self.classes, features=self.reader.features
        )

    def blocks(self, start: int, stop: int) -> Iterator[HostRows]:
        """Yield the blocks ``start`` to ``stop``."""
        first = starts(self.reader.parts)
        for number, raw in enumerate(self.reader.stream(start, stop), start):
            if raw.labels is None:
                raise ValueError("from_files(..., target=...) was not told where the labels are.")
            y = self.likelihood.encode(encoded(raw.labels, self.classes))
            yield HostRows(
                as_design(raw.X),
                y,
                _checked(raw.weight),
                self.likelihood,
                first=self.first + first[number],
                labels=self.classes,
                features=self.reader.features,
            )
            del raw


def _checked(weight: Array | None) -> Array | None:
    """Return weights as float64."""
    if weight is None:
        return None
    weight = np.asarray(weight, dtype=np.float64)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("weight must hold finite numbers >= 0.")
    return weight
