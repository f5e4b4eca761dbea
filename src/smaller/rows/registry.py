"""From what a user passes to rows: who makes them, and the sentence where nobody does."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from smaller.arrays import Array
from smaller.likelihoods import Likelihood
from smaller.rows.protocol import Rows

__all__ = ["elsewhere", "is_rows", "mapped", "rows_of", "under"]

R = TypeVar("R", bound=Rows)

# Top module of an array's type -> the module that makes rows of it, `rows_of(X, y, weight, likelihood) -> Rows`, and
# answers for every row, `mapped(X, answer, accept)`. It is imported when such an array arrives.
_MAKERS: dict[str, str] = dict.fromkeys(("dask", "dask_expr"), "smaller.distributed")
_COLLECTIONS = {"dask", "dask_expr"}  # lazy collections: to call np.asarray on them would fetch everything
_DEVICES = {"torch", "cupy", "array_api_strict"}  # their module says of an array whether it `stays` where it is
_MAKERS.update(dict.fromkeys(_DEVICES, "smaller.devices"))


def elsewhere(*arrays: Any) -> str | None:
    """Return the top module of the first array that lives elsewhere and must not be fetched silently, or None."""
    for a in arrays:
        top = type(a).__module__.partition(".")[0]
        if top in _COLLECTIONS or (top in _DEVICES and importlib.import_module(_MAKERS[top]).stays(a)):
            return top
    return None


def is_rows(X: Any) -> bool:
    """Whether ``X`` says that it is rows, or can become rows."""
    return getattr(type(X), "__smaller_rows__", None) is not None


def rows_of(X: Any, y: Any, weight: Any, likelihood: Callable[[int], Likelihood]) -> Rows | None:
    """Return ``X`` as rows under ``likelihood(K)``, or None where X is an ordinary array.

    Raises
    ------
    TypeError
        With the sentence for the user, where the data are elsewhere and nobody makes rows of them.
    """
    if is_rows(X):
        if y is not None or weight is not None:
            raise TypeError("Rows hold their labels and weights themselves: leave y and sample_weight out.")
        rows: Rows = X.__smaller_rows__(likelihood)
        return rows
    top = elsewhere(X, y, weight)
    if top is None:
        return None
    if top in _DEVICES and elsewhere(X) is None:
        raise TypeError(f"y or sample_weight is an array of {top} and X is not: move all of them to one place.")
    if top not in _MAKERS or elsewhere(X) is None:
        raise TypeError(
            f"X, y and sample_weight of {top} would all be fetched into this process: call .compute() on them if they "
            "fit into memory, or cut them into smaller.rows.Blocks."
        )
    made: Rows = importlib.import_module(_MAKERS[top]).rows_of(X, y, weight, likelihood)
    return made


def mapped(X: Any, answer: Callable[[Any], Array], accept: Callable[[int, Any], None]) -> Any:
    """Return ``answer(block)`` for the rows of ``X``, where and when they are there; None for an ordinary array.

    ``accept(n_columns, names)`` raises where these are not the columns that ``answer`` expects.
    """
    each = getattr(type(X), "__smaller_map__", None)
    if each is not None:
        return each(X, answer, accept)
    top = elsewhere(X)
    if top is None or top not in _MAKERS:
        return None
    return importlib.import_module(_MAKERS[top]).mapped(X, answer, accept)


def under(rows: R, likelihood: Callable[[int], Likelihood]) -> R:
    """Return rows, whose targets are encoded already, if that is what ``likelihood`` would have made of them."""
    known = rows.likelihood
    n_classes = known.predict(np.zeros((1, known.n_free))).shape[1]
    wanted = likelihood(n_classes)
    if wanted != known:
        raise ValueError(f"These rows hold targets for {known}, and {wanted} is asked for: make them for it.")
    return rows
