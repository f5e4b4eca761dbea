"""Answers for rows that are elsewhere: block by block, where and when the rows are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.rows.registry import mapped
from smaller.validation import Block

__all__ = ["where_rows_are"]


@dataclass(frozen=True, eq=False)
class _Answer:
    """A method of a fitted estimator as a function of blocks; it travels to where they are."""

    estimator: Any
    method: str

    def __call__(self, X: Any) -> Array:
        """Return the answer for one block; a block may be empty."""
        ask = getattr(self.estimator, self.method)
        if X.shape[0] == 0:
            return ask(Block(np.zeros((1, X.shape[1]))))[:0]
        return ask(Block(X))


def where_rows_are(method: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Any]:
    """Let a method of rows answer for rows that are elsewhere too: files give an iterator, collections a lazy array."""

    @wraps(method)
    def answered(self: Any, X: Any) -> Any:
        def accept(n_columns: int, names: Any) -> None:
            check_is_fitted(self)
            _accept(self, n_columns, names)

        answer = mapped(X, _Answer(self, method.__name__), accept)
        return method(self, X) if answer is None else answer

    return answered


def _accept(estimator: Any, n_columns: int, names: Any) -> None:
    """Refuse other columns than those of the fit."""
    name, known = type(estimator).__name__, getattr(estimator, "feature_names_in_", None)
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )
    if known is not None and names is not None and list(names) != list(known):
        j = next(j for j, (one, other) in enumerate(zip(names, known, strict=True)) if one != other)
        raise ValueError(
            f"Column {j} of X is {names[j]!r}, but {name} was fitted with {known[j]!r} there: give the columns in the "
            "order of the fit."
        )
