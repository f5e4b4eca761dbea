"""What workers hold and do: runs of blocks, which answer questions."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.designs import as_design
from smaller.likelihoods import Likelihood
from smaller.rows import HostRows
from smaller.rows.blocks import Tree, tree_sum
from smaller.rows.gathered import Question, combine
from smaller.rows.reading import Source, encoded

__all__ = ["FileShelf", "Form", "Shelf", "answer_of", "look", "same", "shelf_of_files", "shelved", "total"]


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


def shelved(start: int, firsts: Sequence[int], blocks: Sequence[Any], recipe: bytes) -> Shelf:
    """Make rows of the chunks of Dask collections: (X, labels, weight or None) each."""
    form: Form = pickle.loads(recipe)
    return Shelf(start, [form.rows(first, *block) for first, block in zip(firsts, blocks, strict=True)])


def shelf_of_files(start: int, recipe: bytes, held: bool) -> FileShelf:
    """Make a run of blocks in files from its recipe."""
    return FileShelf(pickle.loads(recipe), start, held)


def answer_of(shelf: Any, question: bytes) -> Any:
    """Return a shelf's answer to a question that has travelled."""
    return shelf.answer(pickle.loads(question))


def same(value: Any) -> Any:
    """Return the value itself: a task that holds what others fetch."""
    return value


def total(name: str, answers: Sequence[Any]) -> Any:
    """Add answers to the question ``name``, in the tree's order."""
    return tree_sum(answers, combine(name))


def look(labels: Any) -> tuple[int, Array]:
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
