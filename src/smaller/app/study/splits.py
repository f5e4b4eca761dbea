"""Splits that keep units whole: folds of groups, and folds of the past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from smaller.arrays import Array

__all__ = ["GroupFolds", "PastFolds", "fold_of_rows"]


def fold_of_rows(y: Array, groups: Array, count: int, seed: int) -> Array:
    """Return the fold of every row: groups stay whole, folds have about the same size and classes.

    Groups are dealt out like cards, to and fro: class by class (by the commonest label of the group), the largest
    first, in random order among equals.
    """
    K = len(labels := np.unique(y))
    names, codes = np.unique(groups, return_inverse=True)
    table = np.bincount(codes * K + np.searchsorted(labels, y), minlength=len(names) * K).reshape(-1, K)
    chance = np.random.default_rng(seed).permutation(len(names))
    order = np.lexsort((chance, -table.sum(axis=1), table.argmax(axis=1)))
    deal = np.r_[np.arange(count), np.arange(count)[::-1]]
    fold = np.empty(len(names), dtype=np.int64)
    fold[order] = deal[np.arange(len(names)) % len(deal)]
    return np.asarray(fold[codes])


@dataclass(frozen=True)
class GroupFolds:
    """Folds of whole groups; ``groups`` is asked for in ``split``.

    Parameters
    ----------
    count : int
        Number of folds; fewer where there are fewer groups.
    seed : int
        Which groups go together.
    """

    count: int
    seed: int

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.count if groups is None else min(self.count, len(np.unique(groups)))

    def split(self, X: Any, y: Any, groups: Any) -> Iterator[tuple[Array, Array]]:
        """Yield rows to learn from and rows to predict."""
        y, groups = np.asarray(y), np.asarray(groups)
        count = self.get_n_splits(groups=groups)
        fold = fold_of_rows(y, groups, count, self.seed)
        for k in range(count):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


@dataclass(frozen=True)
class PastFolds:
    """Growing windows: each fold is predicted from everything before it; the first half is never predicted.

    ``groups`` says the order in time; rows of one time stay together.
    """

    count: int

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the largest number of folds; windows without two classes, or without rows, are left out."""
        return self.count

    def split(self, X: Any, y: Any, groups: Any) -> Iterator[tuple[Array, Array]]:
        """Yield rows to learn from and rows to predict."""
        y, time = np.asarray(y), np.asarray(groups)
        cuts = np.quantile(time, np.linspace(0.5, 1.0, self.count + 1), method="lower")
        for start, end in pairwise(cuts):
            train, test = np.flatnonzero(time <= start), np.flatnonzero((time > start) & (time <= end))
            if len(test) and len(np.unique(y[train])) > 1:
                yield train, test
