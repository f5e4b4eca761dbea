"""Rows that are asked block by block, wherever the blocks are: questions as values, and how their answers add.

A question is put to every block, through the views that the rows are seen through; the answers are added in the fixed
tree of `smaller.rows.blocks`. Who carries the question to the blocks (a loop over files, tasks on a cluster) is what
the final classes say.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any, Protocol, Self
from uuid import uuid4

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.designs import Coordinates
from smaller.likelihoods import Likelihood
from smaller.rows.host import HostRows
from smaller.rows.protocol import Fold, Local, Place, Reply, Totals, added
from smaller.rows.registry import under

__all__ = ["Gathered", "Question", "View", "combine", "refuse_broken"]


def _replies(first: list[Reply], second: list[Reply]) -> list[Reply]:
    return [added(one, two) for one, two in zip(first, second, strict=True)]


def _products(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return first[0] + second[0], first[1] + second[1]


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "totals": Totals.merged,
    "at": _replies,
    "curve": _products,
    "sample": lambda first, second: HostRows.joined([first, second]),
    "outputs": lambda first, second: np.concatenate([first, second]),
}


def combine(name: str) -> Callable[[Any, Any], Any]:
    """Return how two answers to the question ``name`` become one; most are arrays or numbers that add."""
    return _COMBINE.get(name, operator.add)


class View(Protocol):
    """One way of seeing blocks differently; small enough to travel with every question."""

    @property
    def id(self) -> str:
        """A name that no other view has."""

    @property
    def by_row(self) -> bool:
        """Whether it has a say for every row, and none about columns."""

    def see(self, number: int, block: HostRows) -> HostRows:
        """Return block ``number`` as it is seen."""

    def kept(self, number: int, numbers: Array) -> Array:
        """Return those of a block's row numbers that are left."""


def _id() -> str:
    return uuid4().hex


@dataclass(frozen=True)
class _Alike:
    """A view that is the same for all blocks: a method of `Rows` and its arguments."""

    name: str
    arguments: tuple[Any, ...]
    id: str = field(default_factory=_id)

    @property
    def by_row(self) -> bool:
        return isinstance(self.arguments[0], Fold)

    def see(self, number: int, block: HostRows) -> HostRows:
        seen: HostRows = getattr(block, self.name)(*self.arguments)
        return seen

    def kept(self, number: int, numbers: Array) -> Array:
        return numbers[self.arguments[0].member(numbers)] if self.by_row else numbers


@dataclass(frozen=True)
class _Cut:
    """A view whose argument has an entry for every row, cut into blocks: "subset" by position, or "weighted"."""

    name: str
    pieces: tuple[Array, ...]
    id: str = field(default_factory=_id)
    by_row: bool = True

    def see(self, number: int, block: HostRows) -> HostRows:
        seen: HostRows = getattr(block, self.name)(self.pieces[number])
        return seen

    def kept(self, number: int, numbers: Array) -> Array:
        return numbers[self.pieces[number]] if self.name == "subset" else numbers


@dataclass(frozen=True, eq=False)
class Question:
    """A method of `Rows` with its arguments, and the views through which the blocks are asked."""

    name: str
    arguments: tuple[Any, ...] = ()
    views: tuple[View, ...] = ()

    def put_to(self, number: int, block: HostRows) -> Any:
        """Return the answer of block ``number``."""
        return self.answered_by(self.seen(number, block))

    def seen(self, number: int, block: HostRows) -> HostRows:
        """Return block ``number`` as the question sees it."""
        return reduce(lambda rows, view: view.see(number, rows), self.views, block)

    def answered_by(self, seen: HostRows) -> Any:
        """Return the answer of a block that is seen already."""
        return getattr(seen, self.name)(*self.arguments)


@dataclass(frozen=True, eq=False, kw_only=True)
class Gathered(ABC):
    """Interface of rows in blocks that are elsewhere; a final class says how a question gets there (`_ask`)."""

    empty: HostRows  # no rows, but columns, names, labels and likelihood as every block has them
    counts: tuple[int, ...]  # rows of each block
    views: tuple[View, ...] = ()

    @abstractmethod
    def _ask(self, question: Question) -> Any:
        """Return the blocks' answers, combined in the tree over block numbers."""

    @cached_property
    def _seen(self) -> HostRows:
        return reduce(lambda rows, view: view.see(0, rows), (v for v in self.views if not v.by_row), self.empty)

    def _put(self, name: str, *arguments: Any) -> Any:
        return self._ask(Question(name, arguments, self.views))

    @property
    def likelihood(self) -> Likelihood:
        return self._seen.likelihood

    @property
    def n_rows(self) -> int:
        return self._first[-1]

    @property
    def n_columns(self) -> int:
        return self._seen.n_columns

    @property
    def dtype(self) -> Any:
        return self._seen.dtype

    @property
    def labels(self) -> Array | None:
        return self._seen.labels

    @property
    def features(self) -> Array | None:
        return self._seen.features

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({"curve"})

    @cached_property
    def _first(self) -> list[int]:
        """Where each block begins among the rows that are seen, and where the last one ends."""
        if not any(view.by_row for view in self.views):
            return [0, *accumulate(self.counts)]
        spans = pairwise(accumulate(self.counts, initial=0))
        return [0, *accumulate(self._left(number, np.arange(*span)) for number, span in enumerate(spans))]

    def _left(self, number: int, numbers: Array) -> int:
        """Return how many rows of a block are seen."""
        return len(reduce(lambda left, view: view.kept(number, left), self.views, numbers))

    # ---- questions ----

    def totals(self) -> Totals:
        return self._totals

    @cached_property
    def _totals(self) -> Totals:
        found: Totals = self._put("totals")
        return found

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        answers: list[Reply] = self._put("at", list(places), columns)
        return answers

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        return self._put("line", start, end, steps)

    def dual(self, place: Place, scale: float) -> float:
        return float(self._put("dual", place, scale))

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        return self._put("squares", place, columns)

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        found: HostRows = self._put("sample", count, totals, seed)
        return found

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        return self._put("hessian", place, left, right)

    def outputs(self, place: Place) -> Array:
        return self._put("outputs", place)

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        answer: tuple[Array, Array] = self._put("curve", place, direction)
        return answer

    @property
    def local(self) -> Local:
        raise NotImplementedError("The matrix is in pieces elsewhere: these rows do not offer it.")

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> Self:
        return under(self, likelihood)

    # ---- views ----

    def _through(self, view: View) -> Self:
        return replace(self, views=(*self.views, view))

    def scaled(self, shift: Array, scale: Array) -> Self:
        return self._through(_Alike("scaled", (shift, scale)))

    def take(self, columns: Array) -> Self:
        return self._through(_Alike("take", (columns,)))

    def subset(self, rows: Array | Fold) -> Self:
        if isinstance(rows, Fold):
            return self._through(_Alike("subset", (rows,)))
        cuts = np.searchsorted(rows, self._first)
        pieces = zip(self._first[:-1], pairwise(cuts), strict=True)
        return self._through(_Cut("subset", tuple(rows[a:b] - first for first, (a, b) in pieces)))

    def weighted(self, factors: Array | Callable[[Array], Array]) -> Self:
        if callable(factors):
            return self._through(_Alike("weighted", (factors,)))
        return self._through(_Cut("weighted", tuple(factors[a:b] for a, b in pairwise(self._first))))

    def expanded(self, basis: Basis) -> Self:
        return self._through(_Alike("expanded", (basis,)))

    def with_likelihood(self, likelihood: Likelihood) -> Self:
        return self._through(_Alike("with_likelihood", (likelihood,)))


def refuse_broken(rows: Gathered) -> None:
    """Raise ValueError where X has missing or infinite entries, with the names of the columns."""
    broken = np.flatnonzero(~rows.totals().finite)
    if len(broken):
        names = broken if rows.features is None else rows.features[broken]
        listed = ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names[:5].tolist())
        if len(broken) > 5:
            listed += f" and {len(broken) - 5} more"
        raise ValueError(
            f"Input X contains NaN or infinity in column {listed}: fill them in, or leave those rows or columns out."
        )
