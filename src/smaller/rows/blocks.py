"""Several holders as one: their answers are summed in a fixed binary tree.

    ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + r6)

The tree depends on the number of blocks alone. Any run of 2^k blocks that begins at a multiple of 2^k is one of its
nodes, so whoever holds such a run may add it up by himself: the bits of the sum do not depend on who added what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.designs import Coordinates
from smaller.likelihoods import Likelihood
from smaller.rows.host import HostRows
from smaller.rows.protocol import Fold, Local, Place, Reply, Rows, Totals, added
from smaller.rows.registry import under

__all__ = ["Blocks", "Tree", "tree_sum"]

T = TypeVar("T")


def tree_sum(parts: Sequence[T], add: Callable[[T, T], T]) -> T:
    """Add neighbours, then neighbouring sums, until one is left."""
    level = list(parts)
    while len(level) > 1:
        pairs = [add(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


class Tree:
    """The same sum for parts that come one after the other: one partial sum for every level is kept."""

    def __init__(self, add: Callable[[Any, Any], Any]) -> None:
        self._add = add
        self._runs: list[tuple[int, Any]] = []  # sums of 2^k parts each, in falling order of k

    def append(self, part: Any) -> None:
        """Add the next part."""
        level = 0
        while self._runs and self._runs[-1][0] == level:
            part = self._add(self._runs.pop()[1], part)
            level += 1
        self._runs.append((level, part))

    def total(self) -> Any:
        """Return the sum of all parts so far, at least one."""
        return reduce(lambda right, left: self._add(left, right), (run for _, run in reversed(self._runs)))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of rows under one likelihood and with the same columns, at least one, in the order of their rows.

    See Also
    --------
    HostRows : One block in memory.
    from_files : Blocks in files.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import Blocks, HostRows
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> Blocks.cut(rows, 2).n_rows
    4
    """

    holders: tuple[Rows, ...]

    @classmethod
    def cut(cls, rows: HostRows, count: int) -> Blocks:
        """Return ``rows`` in ``count`` blocks of about equal size."""
        edges = np.linspace(0, rows.design.shape[0], count + 1).astype(np.int64)
        return cls(tuple(rows.subset(np.arange(a, b)) for a, b in pairwise(edges)))

    @property
    def likelihood(self) -> Likelihood:
        return self.holders[0].likelihood

    @property
    def n_rows(self) -> int:
        return self._first[-1]

    @property
    def n_columns(self) -> int:
        return self.holders[0].n_columns

    @property
    def dtype(self) -> Any:
        return np.result_type(*(holder.dtype for holder in self.holders))

    @property
    def labels(self) -> Array | None:
        return self.holders[0].labels

    @property
    def features(self) -> Array | None:
        return self.holders[0].features

    @property
    def offers(self) -> frozenset[str]:
        """What all blocks offer; the matrix itself is in pieces."""
        return reduce(frozenset.intersection, (holder.offers for holder in self.holders)) - {"gram", "local", "sweep"}

    def _sum(self, ask: Callable[[Rows], Any]) -> Any:
        return tree_sum([ask(holder) for holder in self.holders], lambda a, b: a + b)

    def totals(self) -> Totals:
        return tree_sum([holder.totals() for holder in self.holders], Totals.merged)

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        answers = [holder.at(places, columns) for holder in self.holders]
        return tree_sum(answers, lambda a, b: [added(one, two) for one, two in zip(a, b, strict=True)])

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        return self._sum(lambda holder: holder.line(start, end, steps))

    def dual(self, place: Place, scale: float) -> float:
        return float(self._sum(lambda holder: holder.dual(place, scale)))

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        return self._sum(lambda holder: holder.squares(place, columns))

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        return HostRows.joined([holder.sample(count, totals, seed) for holder in self.holders])

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        return self._sum(lambda holder: holder.hessian(place, left, right))

    def outputs(self, place: Place) -> Array:
        return np.concatenate([holder.outputs(place) for holder in self.holders])

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        answers = [holder.curve(place, direction) for holder in self.holders]
        return tree_sum(answers, lambda a, b: (a[0] + b[0], a[1] + b[1]))

    @property
    def local(self) -> Local:
        raise NotImplementedError("The matrix is in pieces: these rows do not offer it.")

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> Blocks:
        return under(self, likelihood)

    def _each(self, view: Callable[[Rows], Rows]) -> Blocks:
        return replace(self, holders=tuple(view(holder) for holder in self.holders))

    def scaled(self, shift: Array, scale: Array) -> Blocks:
        return self._each(lambda holder: holder.scaled(shift, scale))

    def take(self, columns: Array) -> Blocks:
        return self._each(lambda holder: holder.take(columns))

    @cached_property
    def _first(self) -> list[int]:
        """Where each block begins, and where the last one ends."""
        return [0, *accumulate(holder.n_rows for holder in self.holders)]

    def subset(self, rows: Array | Fold) -> Blocks:
        if isinstance(rows, Fold):
            return self._each(lambda holder: holder.subset(rows))
        cuts = np.searchsorted(rows, self._first)
        parts = zip(self.holders, self._first[:-1], pairwise(cuts), strict=True)
        return Blocks(tuple(holder.subset(rows[a:b] - first) for holder, first, (a, b) in parts))

    def weighted(self, factors: Array | Callable[[Array], Array]) -> Blocks:
        if callable(factors):
            return self._each(lambda holder: holder.weighted(factors))
        spans = pairwise(self._first)
        parts = [holder.weighted(factors[a:b]) for holder, (a, b) in zip(self.holders, spans, strict=True)]
        return Blocks(tuple(parts))

    def expanded(self, basis: Basis) -> Blocks:
        return self._each(lambda holder: holder.expanded(basis))

    def with_likelihood(self, likelihood: Likelihood) -> Blocks:
        return self._each(lambda holder: holder.with_likelihood(likelihood))
