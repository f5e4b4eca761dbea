"""Dask arrays and dataframes: from collections to rows, and answers as lazy collections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from scipy import sparse

from smaller.arrays import Array
from smaller.distributed.crew import crew_of
from smaller.distributed.rows import DaskRows, density_of, gathered, height_of
from smaller.distributed.shelves import Form, look, shelved
from smaller.likelihoods import Likelihood
from smaller.rows.files import distinct
from smaller.rows.reading import smallest_type

__all__ = ["mapped", "rows_of"]


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
    crew = crew_of()
    parts = _frame(X, y, weight) if hasattr(X, "npartitions") and hasattr(X, "columns") else _array(X, y, weight)
    task = delayed(look, pure=False)
    looks = [task(block, dask_key_name=crew.key("labels", i)) for i, block in enumerate(parts.y)]
    seen = crew.value(delayed(list)(looks))
    counts = tuple(n for n, _ in seen)
    if parts.counts not in (None, counts):
        raise ValueError("y must have as many rows as X in every block.")
    classes = distinct(labels for n, labels in seen if n)
    made = likelihood(len(classes))
    form = Form(parts.dtype, parts.empty.shape[1], classes, parts.features, made)
    n = sum(counts)
    held = crew.holds(n * (form.n_columns * form.dtype.itemsize * density_of(parts.empty) + 24.0 * made.n_outputs))
    height = height_of(len(counts), crew.threads()) if held else 1
    firsts = list(accumulate(counts, initial=0))
    weights = [None] * len(counts) if parts.weight is None else parts.weight
    blocks = list(zip(parts.X, parts.y, weights, strict=True))
    shelf = delayed(shelved, pure=False)
    recipes = []
    for number, start in enumerate(range(0, len(counts), height)):
        span = slice(start, min(start + height, len(counts)))
        key = crew.key("shelf", number)
        recipes.append(shelf(start, firsts[span], blocks[span], cloudpickle.dumps(form), dask_key_name=key))
    return gathered(crew, form.rows(0, parts.empty, classes[:0], None), counts, recipes, height, held)


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
