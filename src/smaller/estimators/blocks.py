"""Blocks of columns as users name them, and what a fit with a strength per block has to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from smaller.arrays import Array

__all__ = ["Blocks", "blocks_in_words", "check_blocks", "forget_blocks", "store_blocks"]

_ATTRIBUTES = ("blocks_", "block_names_", "alphas_", "n_active_blocks_")


@dataclass(frozen=True)
class Blocks:
    """Names of the blocks, and the block of every feature as an index into them."""

    names: Array  # (B,)
    of_feature: Array  # (n_features,) int


def check_blocks(blocks: Any, n_features: int, feature_names: Array | None) -> Blocks:
    """Return ``blocks`` checked: a label for every feature, or a dict from names of blocks to their columns."""
    if isinstance(blocks, Mapping):
        return _from_columns(blocks, n_features, feature_names)
    labels = np.asarray(blocks)
    if labels.shape != (n_features,):
        raise ValueError(
            f"blocks must hold one label per feature, {n_features} in all, or be a dict from names of blocks to their "
            f"columns; its shape is {labels.shape}."
        )
    if labels.dtype.kind not in "iubOUT" or any(label is None or label != label for label in labels.tolist()):
        raise ValueError("blocks must hold labels, integers or strings, and no missing value.")
    try:
        names, of_feature = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("blocks must hold labels of one kind: integers or strings, not both.") from None
    return Blocks(np.asarray(names.tolist()), of_feature)


def _from_columns(blocks: Mapping[Any, Any], n_features: int, feature_names: Array | None) -> Blocks:
    if not all(isinstance(name, str) for name in blocks) and not all(isinstance(name, Integral) for name in blocks):
        raise ValueError("blocks must have names of one kind: integers or strings, not both.")
    of_feature = np.full(n_features, -1)
    for b, (name, columns) in enumerate(blocks.items()):
        found = _indices(name, columns, n_features, feature_names)
        if (of_feature[found] >= 0).any() or len(np.unique(found)) < len(found):
            raise ValueError(f"blocks must not share columns: one of block {name!r} is there twice.")
        of_feature[found] = b
    if (of_feature < 0).any():
        missing = np.flatnonzero(of_feature < 0)
        shown = missing[:5] if feature_names is None else feature_names[missing[:5]]
        raise ValueError(
            f"blocks must name every column; {len(missing)} are in none, such as {shown.tolist()}: put them into a "
            "block of their own."
        )
    return Blocks(np.asarray(list(blocks)), of_feature)


def _indices(name: Any, columns: Any, n_features: int, feature_names: Array | None) -> Array:
    """Return the columns of one block, given as a slice, indices, or names, as indices."""
    asked = np.arange(n_features)[columns] if isinstance(columns, slice) else np.atleast_1d(np.asarray(columns))
    if asked.ndim != 1 or asked.size == 0:
        raise ValueError(f"Block {name!r} of blocks must list columns, got {columns!r}.")
    if asked.dtype.kind in "iu":
        if asked.min() < -n_features or asked.max() >= n_features:
            raise ValueError(f"Block {name!r} of blocks must list columns below {n_features}, got {columns!r}.")
        return np.asarray(asked % n_features)
    if asked.dtype.kind not in "OU":
        raise ValueError(f"Block {name!r} of blocks must list indices or names of columns, got {columns!r}.")
    return _named(name, asked.tolist(), feature_names)


def _named(name: Any, asked: list[Any], feature_names: Array | None) -> Array:
    """Return the columns of one block, given by their names."""
    if feature_names is None:
        raise ValueError(f"Block {name!r} of blocks lists names, but X has none: give indices, or X as a dataframe.")
    place = {column: j for j, column in enumerate(feature_names)}
    unknown = [column for column in asked if column not in place]
    if unknown:
        raise ValueError(f"Block {name!r} of blocks lists columns that X does not have: {unknown[:5]}.")
    return np.array([place[column] for column in asked])


def store_blocks(estimator: Any, blocks: Blocks, alphas: Array, n_active: Array) -> None:
    """Set what a fit has found about its blocks."""
    estimator.blocks_, estimator.block_names_ = blocks.of_feature, blocks.names
    estimator.alphas_, estimator.n_active_blocks_ = alphas, n_active


def forget_blocks(estimator: Any) -> None:
    """Remove what an earlier fit with blocks has left."""
    for name in _ATTRIBUTES:
        estimator.__dict__.pop(name, None)


def blocks_in_words(model: Any) -> tuple[str, ...]:
    """Return a phrase for every block: "block A: strength 1.7, 9 of 10 features"."""
    used = np.zeros(len(model.blocks_), dtype=bool)
    used[model.active_features_] = True
    phrases = []
    for b, (name, alpha) in enumerate(zip(model.block_names_.tolist(), model.alphas_.tolist(), strict=True)):
        inside = model.blocks_ == b
        strength = "not penalised" if np.isnan(alpha) else "left out" if np.isinf(alpha) else f"strength {alpha:.2g}"
        phrases.append(f"block {name}: {strength}, {used[inside].sum()} of {inside.sum()} features")
    return tuple(phrases)
