"""Rows on a Dask cluster: every question is a round of tasks, one for each shelf of blocks.

A block is the unit of summation, fixed by the data; a shelf is a run of ``2^k`` blocks that begins at a multiple of
``2^k``, the unit of scheduling. A shelf's sum is a node of the tree over blocks, so the answer has the same bits
whoever holds which shelf. Tasks are plain and a shelf is a recipe: what a lost worker held is made again elsewhere.

Loaded when a Dask collection arrives. Without a client the same tasks run in this process.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any
from uuid import uuid4

import cloudpickle
import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from dask.utils import parse_timedelta
from scipy import sparse

from smaller.arrays import Array
from smaller.designs import as_design
from smaller.likelihoods import Likelihood
from smaller.rows import Files, HostRows, Place
from smaller.rows.blocks import Tree, tree_sum
from smaller.rows.files import distinct
from smaller.rows.gathered import Gathered, Question, combine, refuse_broken
from smaller.rows.reading import Source, encoded, smallest_type

__all__ = ["DaskRows", "Spread", "mapped", "rows_of", "spread"]

_ADDED_BY_ONE = 16  # answers that one task adds
_SHELVES_A_THREAD = 4  # so that slow workers have less to do
_HELD_SHARE = 0.5  # of the memory that blocks may take; what is beyond is read again for every question
_PATIENCE = "60s"  # how long a cluster may be without workers: `dask.config.set({"smaller.no-workers-timeout": ...})`
_LOOK = 1.0  # seconds between looks at who is still there
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 GiB"}  # weights and labels travel once, on purpose


# ---- on the workers ----


class Shelf:
    """A run of blocks in the memory of a worker, with what views of them were asked for last."""

    def __init__(self, start: int, blocks: Sequence[HostRows]) -> None:
        self.start, self._blocks = start, tuple(blocks)
        self._seen: tuple[tuple[str, ...], tuple[HostRows, ...]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Shelf, (self.start, self._blocks)

    def __sizeof__(self) -> int:
        # Dask copies freely what it takes for small.
        return 1000 + sum(_bytes(block) for block in self._blocks)

    def _each(self, question: Question) -> Sequence[HostRows]:
        key = tuple(view.id for view in question.views)
        if not key:
            return self._blocks
        seen = self._seen
        if seen is None or seen[0] != key:
            seen = key, tuple(question.seen(number, block) for number, block in enumerate(self._blocks, self.start))
            self._seen = seen
        return seen[1]

    def answer(self, question: Question) -> Any:
        answers = [question.answered_by(block) for block in self._each(question)]
        return tree_sum(answers, combine(question.name))


class FileShelf:
    """A run of blocks in files, read for every question; or once, where all of them fit into memory."""

    def __init__(self, source: Source, start: int, held: bool) -> None:
        self.source, self.start, self.held = source, start, held
        self._shelf: Shelf | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return FileShelf, (self.source, self.start, self.held)

    def __sizeof__(self) -> int:
        rows = sum(self.source.counts)
        return 1000 + (rows * self.source.reader.n_columns * self.source.reader.dtype.itemsize if self.held else 0)

    def _blocks(self) -> Iterator[HostRows]:
        return self.source.blocks(0, len(self.source.counts))

    def answer(self, question: Question) -> Any:
        if self.held:
            with self._lock:
                self._shelf = self._shelf or Shelf(self.start, list(self._blocks()))
            return self._shelf.answer(question)
        answers = Tree(combine(question.name))
        for number, block in enumerate(self._blocks(), self.start):
            answers.append(question.put_to(number, block))
            del block
        return answers.total()


def _bytes(rows: HostRows) -> int:
    matrix = rows.design.matrix
    parts = (matrix.data, matrix.indices, matrix.indptr) if sparse.issparse(matrix) else (matrix,)
    return sum(part.nbytes for part in (*parts, rows.y) if isinstance(part, np.ndarray))


def _shelved(start: int, firsts: Sequence[int], blocks: Sequence[Any], recipe: bytes) -> Shelf:
    """Make rows of the chunks of Dask collections: (X, labels, weight or None) each."""
    form: Form = pickle.loads(recipe)
    return Shelf(start, [form.rows(first, *block) for first, block in zip(firsts, blocks, strict=True)])


def _shelf_of_files(start: int, recipe: bytes, held: bool) -> FileShelf:
    return FileShelf(pickle.loads(recipe), start, held)


def _answer(shelf: Any, question: bytes) -> Any:
    return shelf.answer(pickle.loads(question))


def _same(value: Any) -> Any:
    return value


def _total(name: str, answers: Sequence[Any]) -> Any:
    return tree_sum(answers, combine(name))


def _look(labels: Any) -> tuple[int, Array]:
    """Return how many labels a block has, and which."""
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"y must be one label for every row; a block of it has shape {values.shape}.")
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        raise ValueError("y contains NaN or infinity: leave those rows out.")
    try:
        found = np.unique(values)
    except TypeError as error:
        raise ValueError(
            "y mixes text with numbers or missing labels: make all labels text, or all numbers."
        ) from error
    narrow = np.asarray(found.tolist())
    return len(values), found if narrow.dtype.kind == "U" else narrow


@dataclass(frozen=True)
class Form:
    """How chunks of collections become rows."""

    dtype: Any
    n_columns: int
    classes: Array
    features: Array | None
    likelihood: Likelihood

    def rows(self, first: int, X: Any, labels: Any, weight: Any) -> HostRows:
        X = X.to_numpy() if hasattr(X, "columns") else X
        labels = np.asarray(labels)
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise ValueError(f"A block of X has shape {X.shape}: it must have {self.n_columns} columns.")
        weight = None if weight is None else _checked(np.asarray(weight, dtype=np.float64))
        if any(len(part) != X.shape[0] for part in (labels, weight) if part is not None):
            raise ValueError("y and sample_weight must have as many rows as X in every block.")
        return HostRows(
            as_design(X.astype(self.dtype) if sparse.issparse(X) else np.asfortranarray(X, dtype=self.dtype)),
            self.likelihood.encode(encoded(labels, self.classes)),
            weight,
            self.likelihood,
            first=first,
            labels=self.classes,
            features=self.features,
        )


def _checked(weight: Array) -> Array:
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("sample_weight must hold finite numbers >= 0.")
    return weight


# ---- on the client ----


class Crew:
    """Who works: the cluster of a client, or this process; and names for tasks that no other task has."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.fit = f"{uuid4().int % 10**12:012d}"  # digits: Dask's dashboard groups names by the words before them
        self._rounds = count()

    def key(self, word: str, *numbers: int) -> str:
        """Return a task's name."""
        return "-".join(["smaller", word, self.fit, *map(str, numbers)])

    def round(self) -> int:
        """Return the number of a new round."""
        return next(self._rounds)

    def kept(self, recipes: Sequence[Delayed]) -> tuple[Delayed, ...]:
        """Have things made and kept where they are made."""
        with dask.config.set(_QUIET):
            return tuple(dask.persist(*recipes, optimize_graph=True))

    def value(self, wanted: Delayed) -> Any:
        """Return the value of a task; whatever interrupts the wait takes the round back."""
        if self.client is None:
            return dask.compute(wanted)[0]
        with dask.config.set(_QUIET):
            future = self.client.compute(wanted)
        try:
            return self._awaited(future)
        except BaseException as error:
            self.client.cancel([future], force=True)
            if type(error).__name__ == "KilledWorker":
                error.add_note(
                    "Workers died one after the other at the same rows: give them more memory, or make blocks smaller."
                )
            raise

    def _awaited(self, future: Any) -> Any:
        from distributed import TimeoutError as Waited

        alone = None
        patience = parse_timedelta(dask.config.get("smaller.no-workers-timeout", _PATIENCE))
        while True:
            try:
                return future.result(timeout=_LOOK)
            except Waited:
                if future.status != "pending":  # it ended just after the wait; or the error is the task's own
                    return future.result()
            if self.client.nthreads():
                alone = None
            elif time.monotonic() - (alone := alone or time.monotonic()) > patience:
                raise RuntimeError(
                    f"The cluster has had no workers for {patience:g} s: start some, and fit again. (How long to wait "
                    "is dask.config's smaller.no-workers-timeout.)"
                )

    def threads(self) -> int:
        """Return how many tasks run at once."""
        return max(1, sum(self.client.nthreads().values())) if self.client else os.cpu_count() or 1

    def holds(self, n_bytes: float) -> bool:
        """Whether blocks of this size altogether are to stay in memory."""
        if self.client is None:
            return n_bytes <= _HELD_SHARE * _physical()
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return n_bytes <= _HELD_SHARE * sum(worker["memory_limit"] or _physical() for worker in workers)


def _physical() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system: a small machine's
        return 4.0 * 2**30


def _crew(client: Any = None) -> Crew:
    """Return the crew of a client: the given one, the one that is current, or none."""
    if client is None:
        owner = getattr(dask.base.get_scheduler(), "__self__", None)
        client = owner if hasattr(owner, "scheduler_info") else None
    return Crew(client)


def _height(n_blocks: int, threads: int) -> int:
    """Return how many blocks make a shelf: a power of two."""
    height = 1
    while n_blocks / height > _SHELVES_A_THREAD * threads:
        height *= 2
    return height


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskRows(Gathered):
    """Rows on a cluster; every question is one round of tasks."""

    crew: Crew
    shelves: tuple[Delayed, ...]
    starts: tuple[int, ...]  # the number of each shelf's first block

    def _answers(self, question: Question) -> tuple[int, list[Delayed]]:
        number, key = self.crew.round(), self.crew.key
        # One task that holds the question: workers fetch it from each other, and it can be made again.
        asked = delayed(_same, pure=False)(cloudpickle.dumps(question), dask_key_name=key("question", number))
        ask = delayed(_answer, pure=False)
        names = (key(question.name, number, i) for i in range(len(self.shelves)))
        return number, [ask(shelf, asked, dask_key_name=name) for shelf, name in zip(self.shelves, names, strict=True)]

    def _ask(self, question: Question) -> Any:
        number, answers = self._answers(question)
        add, level = delayed(_total, pure=False), 0
        while len(answers) > 1:
            groups = [answers[i : i + _ADDED_BY_ONE] for i in range(0, len(answers), _ADDED_BY_ONE)]
            names = (self.crew.key("sum", number, level, i) for i in range(len(groups)))
            answers = [add(question.name, group, dask_key_name=name) for group, name in zip(groups, names, strict=True)]
            level += 1
        return self.crew.value(answers[0])

    def outputs(self, place: Place) -> Array:
        """Return eta (n, q) as a Dask array with a chunk for every shelf."""
        _, answers = self._answers(Question("outputs", (place,), self.views))
        edges = [self._first[start] for start in (*self.starts, len(self.counts))]
        q = max(self.likelihood.n_outputs, self.likelihood.n_free)
        parts = [
            da.from_delayed(answer, (stop - start, q), np.float64)
            for answer, start, stop in zip(answers, edges[:-1], edges[1:], strict=True)
        ]
        return da.concatenate(parts)


# ---- from collections to rows ----


@dataclass(frozen=True)
class _Collections:
    """X, y and weight as lists of chunks."""

    X: list[Delayed]
    y: list[Delayed]
    weight: list[Delayed] | None
    counts: tuple[int, ...] | None  # rows of each chunk, where they are known
    dtype: Any
    empty: Any  # X of no rows
    features: Array | None


def rows_of(X: Any, y: Any, weight: Any, likelihood: Callable[[int], Likelihood]) -> DaskRows:
    """Return Dask collections as rows on the current client's cluster, or in this process where there is no client."""
    if y is None:
        raise ValueError("y is missing: pass the labels as a Dask array or Series with the rows' chunks.")
    crew = _crew()
    parts = _frame(X, y, weight) if hasattr(X, "npartitions") and hasattr(X, "columns") else _array(X, y, weight)
    look = delayed(_look, pure=False)
    looks = [look(block, dask_key_name=crew.key("labels", i)) for i, block in enumerate(parts.y)]
    seen = crew.value(delayed(list)(looks))
    counts = tuple(n for n, _ in seen)
    if parts.counts is not None and parts.counts != counts:
        raise ValueError("y must have as many rows as X in every block.")
    classes = distinct(labels for n, labels in seen if n)
    made = likelihood(len(classes))
    form = Form(parts.dtype, parts.empty.shape[1], classes, parts.features, made)
    n = sum(counts)
    held = crew.holds(n * (form.n_columns * form.dtype.itemsize * _density(parts.empty) + 24.0 * made.n_outputs))
    height = _height(len(counts), crew.threads()) if held else 1
    firsts = list(accumulate(counts, initial=0))
    shelf = delayed(_shelved, pure=False)
    recipes = []
    for start in range(0, len(counts), height):
        span = slice(start, min(start + height, len(counts)))
        weights = [None] * len(parts.X[span]) if parts.weight is None else parts.weight[span]
        blocks = list(zip(parts.X[span], parts.y[span], weights, strict=True))
        recipes.append(
            shelf(
                start, firsts[span], blocks, cloudpickle.dumps(form), dask_key_name=crew.key("shelf", start // height)
            )
        )
    return _gathered(crew, form.rows(0, parts.empty, classes[:0], None), counts, recipes, height, held)


def _gathered(
    crew: Crew, empty: HostRows, counts: tuple[int, ...], recipes: Sequence[Delayed], height: int, kept: bool
) -> DaskRows:
    """Return rows on shelves of ``height`` blocks, looked at once."""
    rows = DaskRows(
        empty=empty,
        counts=counts,
        crew=crew,
        shelves=crew.kept(recipes) if kept else tuple(recipes),
        starts=tuple(range(0, len(counts), height)),
    )
    refuse_broken(rows)
    return rows


def _array(X: Any, y: Any, weight: Any) -> _Collections:
    """Return the chunks of a Dask array, and those of y and weight cut like them."""
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix (rows, columns); its shape is {X.shape}.")
    if len(X.chunks[1]) > 1:
        raise ValueError(
            "X is chunked by columns, but rows are needed whole: rechunk to one chunk of columns, X.rechunk({1: -1})."
        )
    if np.isnan(X.shape).any():
        raise ValueError(
            "X has chunks of unknown size: call X.compute_chunk_sizes() first, or pass the dataframe itself."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers; it holds {X.dtype}.")
    counts = X.chunks[0]
    beside = [
        None if part is None else _beside(name, part, counts) for name, part in (("y", y), ("sample_weight", weight))
    ]
    dtype = smallest_type([X.dtype])
    meta = X._meta
    empty = (
        sparse.csc_array((0, X.shape[1]), dtype=dtype) if sparse.issparse(meta) else np.zeros((0, X.shape[1]), dtype)
    )
    assert beside[0] is not None
    return _Collections(list(X.to_delayed().ravel()), beside[0], beside[1], counts, dtype, empty, None)


def _beside(name: str, part: Any, counts: tuple[int, ...]) -> list[Delayed]:
    """Return a vector's chunks, one for every chunk of rows."""
    if hasattr(part, "to_delayed") and not hasattr(part, "chunks"):  # a Series: its partitions must be the rows'
        blocks = list(part.to_delayed())
        if len(blocks) != len(counts):
            raise ValueError(
                f"{name} has {len(blocks)} partitions, X has {len(counts)} chunks of rows: cut them alike."
            )
        return blocks
    vector = part if hasattr(part, "chunks") else da.from_array(np.asarray(part), chunks=-1)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(f"{name} must be one entry for every row; its shape is {vector.shape}.")
    if np.isnan(vector.shape[0]):
        if len(vector.chunks[0]) != len(counts):
            raise ValueError(f"{name} has chunks of unknown size: call {name}.compute_chunk_sizes() first.")
    elif vector.shape[0] != sum(counts):
        raise ValueError(f"{name} has {vector.shape[0]} entries, but X has {sum(counts)} rows.")
    elif vector.chunks[0] != counts:
        vector = vector.rechunk((counts,))
    return list(vector.to_delayed().ravel())


def _frame(X: Any, y: Any, weight: Any) -> _Collections:
    """Return the partitions of a Dask dataframe; y and weight must have the same."""
    text = [name for name, kind in X.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
    if text:
        raise ValueError(f"Column {text[0]!r} of X holds {X.dtypes[text[0]]}, not numbers: leave it out, or encode it.")
    blocks = list(X.to_delayed())
    beside: list[list[Delayed] | None] = []
    for name, part in (("y", y), ("sample_weight", weight)):
        if part is None:
            beside.append(None)
            continue
        if not hasattr(part, "to_delayed"):
            raise TypeError(
                f"{name} must be a Dask Series or array with the partitions of X, got {type(part).__name__}."
            )
        found = list(np.ravel(part.to_delayed()))
        if len(found) != len(blocks):
            raise ValueError(f"{name} has {len(found)} partitions, X has {len(blocks)}: cut them alike.")
        beside.append(found)
    names = [str(name) for name in X.columns]
    dtype = smallest_type([getattr(kind, "numpy_dtype", kind) for kind in X.dtypes])
    assert beside[0] is not None
    features = np.array(names, dtype=object)
    return _Collections(blocks, beside[0], beside[1], None, dtype, np.zeros((0, len(names)), dtype), features)


def _density(empty: Any) -> float:
    """Return what part of a matrix is stored, as far as one can tell."""
    return 0.1 if sparse.issparse(empty) else 1.0


def mapped(X: Any, answer: Callable[[Any], Array], accept: Callable[[int, Any], None]) -> Any:
    """Return ``answer(block)`` of every block as a lazy Dask array with the rows' chunks."""
    frame = hasattr(X, "columns")
    accept(X.shape[1], [str(name) for name in X.columns] if frame else None)
    like = answer(np.zeros((1, X.shape[1])))
    empty = like[:0]
    if frame:
        return X.map_partitions(_answered, answer, meta=empty)
    whole = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    chunks = (whole.chunks[0], *((size,) for size in empty.shape[1:]))
    return whole.map_blocks(
        _answered, answer, dtype=empty.dtype, chunks=chunks, drop_axis=[1] if empty.ndim == 1 else [], meta=empty
    )


def _answered(X: Any, answer: Callable[[Any], Array]) -> Array:
    return answer(X.to_numpy() if hasattr(X, "columns") else X)


# ---- files on a cluster ----


@dataclass(frozen=True, eq=False)
class Spread:
    """Files to be read by the workers of a cluster: pass it to ``fit`` as X, without y. Made by :func:`spread`."""

    files: Files
    client: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.files.shape

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> DaskRows:
        crew = _crew(self.client)
        source = self.files.source(likelihood(len(self.files.classes)))
        counts, reader = source.counts, source.reader
        held = crew.holds(sum(counts) * reader.n_columns * float(reader.dtype.itemsize) * _density(reader.empty))
        height = _height(len(counts), crew.threads())
        shelf = delayed(_shelf_of_files, pure=False)
        recipes = [
            shelf(start, cloudpickle.dumps(source.section(start, start + height)), held,
                  dask_key_name=crew.key("shelf", start // height))
            for start in range(0, len(counts), height)
        ]  # fmt: skip
        return _gathered(crew, source.empty(), counts, recipes, height, kept=True)


def spread(files: Files, client: Any = None) -> Spread:
    """Let the workers of a cluster read files, which all of them must see under the same names.

    Parameters
    ----------
    files : Files
        What :func:`smaller.rows.from_files` returns.
    client : distributed.Client, default=None
        Of the cluster; None takes the current one, and without any the files are read by this process' threads.

    Returns
    -------
    Spread
        To be passed to ``fit`` as X, without y. Where all blocks together take less than half of the workers' memory,
        they are read once and kept; otherwise they are read for every question.
    """
    if not isinstance(files, Files):
        raise TypeError(f"files must be made by smaller.rows.from_files, got {type(files).__name__}.")
    return Spread(files, client)
