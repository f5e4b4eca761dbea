"""Rows on a cluster; every question is one round of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from scipy import sparse

from smaller.arrays import Array
from smaller.distributed.crew import Crew
from smaller.distributed.shelves import answer_of, same, total
from smaller.rows import HostRows, Place
from smaller.rows.gathered import Gathered, Question, refuse_broken

__all__ = ["DaskRows", "density_of", "gathered", "height_of"]

_ADDED_BY_ONE = 16  # answers that one task adds
_SHELVES_A_THREAD = 4  # so that slow workers have less to do


def height_of(n_blocks: int, threads: int) -> int:
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
        asked = delayed(same, pure=False)(cloudpickle.dumps(question), dask_key_name=key("question", number))
        ask = delayed(answer_of, pure=False)
        names = (key(question.name, number, i) for i in range(len(self.shelves)))
        return number, [ask(shelf, asked, dask_key_name=name) for shelf, name in zip(self.shelves, names, strict=True)]

    def _ask(self, question: Question) -> Any:
        number, answers = self._answers(question)
        add, level = delayed(total, pure=False), 0
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


def gathered(
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


def density_of(empty: Any) -> float:
    """Return what part of a matrix is stored, as far as one can tell."""
    return 0.1 if sparse.issparse(empty) else 1.0
