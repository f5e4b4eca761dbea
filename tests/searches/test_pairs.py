"""The screen of pairs: what it computes, and what it sees that one feature at a time does not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from smaller.datasets import make_rings, make_xor
from smaller.searches import pairs
from smaller.searches.pairs import pair_scores

Array = Any


def one_pair_at_a_time(X: Array, y: Array) -> Array:
    """The definition, loop by loop."""
    n, p = X.shape
    Z = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -3, 3)
    scores = np.zeros(p)
    for k in np.unique(y):
        v = (y == k) - np.mean(y == k)
        v = v / v.std()
        for i in range(p):
            scores[i] = max(scores[i], abs(v @ Z[:, i]) / np.sqrt(n))
            for j in range(p):
                product = Z[:, i] * Z[:, j]
                z = v @ product / np.sqrt(np.sum((product - product.mean()) ** 2))
                scores[i] = max(scores[i], abs(z))
    return scores


def members(y: Array) -> Array:
    return y[:, None] == np.unique(y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("block", [2, 1024])
def test_scores_are_the_definition_in_blocks_of_any_size(
    classes: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "_BLOCK", block)
    rng = np.random.default_rng(0)
    X, y = rng.standard_t(3, size=(60, 7)) + 5.0, rng.integers(0, classes, 60)
    assert_allclose(pair_scores(X, members(y), None), one_pair_at_a_time(X, y), rtol=1e-10)


def test_a_weight_is_a_repetition_and_sparse_is_dense() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 6)) * (rng.uniform(size=(50, 6)) < 0.4)
    y, weight = rng.integers(0, 2, 50), rng.integers(0, 4, 50)
    repeated = pair_scores(np.repeat(X, weight, axis=0), members(np.repeat(y, weight)), None)
    assert_allclose(pair_scores(X, members(y), weight.astype(float)), repeated, rtol=1e-10)
    assert_allclose(pair_scores(sparse.csr_array(X), members(y), weight.astype(float)), repeated, rtol=1e-10)


def test_what_is_constant_scores_nothing() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([np.full(40, 1e8), np.zeros(40), rng.choice([-1.0, 1.0], 40)])
    y = np.arange(40) % 2
    scores = pair_scores(X, members(y), None)
    assert np.isfinite(scores).all()
    assert scores[:2].tolist() == [0.0, 0.0]
    # The square of a sign is one: what is left is its own difference between the classes.
    signs = (X[:, 2] - X[:, 2].mean()) / X[:, 2].std()
    assert scores[2] >= abs(signs @ np.where(y, 1, -1)) / np.sqrt(40) - 1e-12


@pytest.mark.parametrize("make", [make_rings, make_xor])
@pytest.mark.parametrize("seed", range(4))
def test_both_features_of_rings_and_of_xor_are_among_the_best_three(make: Any, seed: int) -> None:
    X, y = make(200, 100, random_state=100 + seed)
    scores = pair_scores(X, members(y), None)
    assert {0, 1} <= set(np.argsort(-scores)[:3].tolist())
