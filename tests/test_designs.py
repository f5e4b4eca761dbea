"""One matrix, four ways to store it: every operation gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from smaller import grams
from smaller.designs import Csc, Dense, KernelBlocks, as_design
from smaller.likelihoods import Curvature

seeds = st.integers(0, 2**32 - 1)
STORAGES = ["dense", "csc", "csc64", "blocks"]
every_storage = pytest.mark.parametrize("storage", STORAGES)
every_precision = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(autouse=True)
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few columns or rows at a time, so that the block loops run."""
    monkeypatch.setattr(grams, "BLOCK_BYTES", 200)


def matrix(seed: int, dtype: Any = np.float64, n: int = 11, d: int = 6) -> Any:
    rng = np.random.default_rng(seed)
    return np.asfortranarray((rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype))


def stored(X: Any, storage: str) -> Any:
    if storage == "dense":
        return as_design(X)
    if storage == "blocks":
        return KernelBlocks(lambda index: X[:, index], X.shape)
    S = sparse.csc_array(X)
    if storage == "csc64":
        S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return as_design(S)


def curvature(seed: int, n: int = 11, q: int = 3, coupled: bool = True) -> Curvature:
    P = np.random.default_rng(seed).dirichlet(np.ones(q + 1), size=n)[:, :q]
    return Curvature(P, P if coupled else None)


@every_storage
@every_precision
@settings(max_examples=10)
@given(seed=seeds)
def test_forward_adjoint_and_squares(storage: str, dtype: Any, seed: int) -> None:
    X = matrix(seed, dtype)
    design = stored(X, storage)
    rng = np.random.default_rng(seed + 1)
    w = rng.standard_normal((6, 3)) * (rng.random((6, 1)) < 0.7)
    R, h = rng.standard_normal((11, 3)), rng.random((11, 2))
    exact = X.astype(np.float64)
    assert design.shape == (11, 6)
    np.testing.assert_allclose(design.forward(w), exact @ w, atol=1e-13)
    np.testing.assert_allclose(design.adjoint(R), exact.T @ R, atol=1e-13)
    np.testing.assert_allclose(design.squares(h), (exact**2).T @ h, atol=1e-13)
    for result in (design.forward(w), design.adjoint(R), design.squares(h)):
        assert result.dtype == np.float64  # float32 data, float64 sums
    np.testing.assert_array_equal(design.forward(np.zeros((6, 3))), np.zeros((11, 3)))


@every_storage
@every_precision
@settings(max_examples=10)
@given(seed=seeds)
def test_take_and_with_ones(storage: str, dtype: Any, seed: int) -> None:
    X = matrix(seed, dtype)
    design = stored(X, storage)
    R = np.random.default_rng(seed).standard_normal((11, 2))
    columns = np.array([4, 0, 5])
    part = design.take(columns)
    assert part.shape == (11, 3)
    np.testing.assert_allclose(part.adjoint(R), X[:, columns].astype(float).T @ R, atol=1e-13)
    ones = design.with_ones()
    assert ones.shape == (11, 7)
    np.testing.assert_allclose(ones.adjoint(R)[:6], design.adjoint(R), atol=1e-13)
    np.testing.assert_allclose(ones.adjoint(R)[6], R.sum(axis=0), atol=1e-13)


def dense_hessian(X: Any, H: Curvature, left: Any, right: Any) -> Any:
    """Entry by entry, with column d standing for ones."""
    Z = np.column_stack([X.astype(float), np.ones(len(X))])
    return np.array(
        [
            [np.sum(Z[:, j] * H.block(k, m) * Z[:, i]) for i, m in zip(*right, strict=True)]
            for j, k in zip(*left, strict=True)
        ]
    )


@every_storage
@every_precision
@pytest.mark.parametrize("coupled", [False, True])
@settings(max_examples=5)
@given(seed=seeds)
def test_gram_with_the_virtual_ones_column(storage: str, dtype: Any, coupled: bool, seed: int) -> None:
    X, H = matrix(seed, dtype), curvature(seed, coupled=coupled)
    design = stored(X, storage)
    rng = np.random.default_rng(seed + 1)
    left, right = ((rng.integers(0, 7, m), rng.integers(0, 3, m)) for m in (8, 5))
    left[0][:2] = [6, 5]
    symmetric = design.gram(H, left)
    np.testing.assert_allclose(symmetric, dense_hessian(X, H, left, left), atol=1e-13)
    np.testing.assert_allclose(design.gram(H, left, right), dense_hessian(X, H, left, right), atol=1e-13)
    assert np.linalg.eigvalsh(symmetric).min() >= -1e-12


@every_storage
def test_gram_agrees_with_curvature_apply(storage: str) -> None:
    X, H = matrix(1), curvature(1)
    design = stored(X, storage)
    columns, outputs = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6)
    v = np.random.default_rng(1).standard_normal((6, 3))
    np.testing.assert_allclose(
        design.gram(H, (columns, outputs)) @ v.ravel(), design.adjoint(H.apply(design.forward(v))).ravel(), atol=1e-13
    )


def test_as_design_does_not_copy_what_fits() -> None:
    X = matrix(0)
    assert np.shares_memory(as_design(X).X, X)
    S = sparse.csc_array(X)
    assert np.shares_memory(as_design(S).X.data, S.data)


def test_as_design_takes_every_layout() -> None:
    X = matrix(0)
    R = np.random.default_rng(0).standard_normal((11, 2))
    for other in (np.ascontiguousarray(X), sparse.csr_array(X), sparse.coo_array(X), sparse.csc_matrix(X)):
        np.testing.assert_allclose(as_design(other).adjoint(R), X.T @ R, atol=1e-13)
    X.flags.writeable = False
    np.testing.assert_allclose(as_design(X).adjoint(R), X.T @ R, atol=1e-13)


def test_duplicate_entries_are_added_on_a_copy() -> None:
    S = sparse.csc_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    stored_before = S.nnz
    design = as_design(S)
    assert isinstance(design, Csc)
    np.testing.assert_array_equal(design.squares(np.ones((2, 1))), [[4.0], [1.0]])
    assert S.nnz == stored_before


def test_kernel_blocks_never_ask_for_everything_at_once() -> None:
    X = matrix(0)
    asked: list[int] = []

    def columns(index: Any) -> Any:
        asked.append(len(index))
        return X[:, index]

    KernelBlocks(columns, X.shape).adjoint(np.ones((11, 1)))
    assert max(asked) < 6
    assert isinstance(KernelBlocks(columns, X.shape).take(np.array([1])), Dense)
