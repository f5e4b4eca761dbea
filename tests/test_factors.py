"""Triangular factors in pieces are those of LAPACK, and each piece is short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from smaller import factors
from smaller.factors import cholesky, lower_inverse, pivoted_cholesky, weighted_gram


@pytest.fixture(params=[1 << 10, 16, 5], ids=["at once", "16 at a time", "5 at a time"])
def pieces(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(factors, "AT_ONCE", request.param)
    monkeypatch.setattr(factors, "PANEL", max(2, request.param // 4))
    monkeypatch.setattr(factors, "PIECE", 1 << 40 if request.param > 1000 else 40 * request.param)
    return int(request.param)


@pytest.mark.parametrize("n", [0, 1, 7, 16, 37])
def test_cholesky_and_its_inverse(pieces: int, n: int) -> None:
    A = np.random.default_rng(n).normal(size=(n, n + 3))
    S = A @ A.T + np.eye(n)
    L = cholesky(np.tril(S))
    assert_allclose(L, np.linalg.cholesky(S) if n else S, rtol=1e-10, atol=1e-12)
    assert_allclose(lower_inverse(L) @ L, np.eye(n), atol=1e-10)


def test_a_matrix_that_is_not_positive_definite_is_refused(pieces: int) -> None:
    S = np.eye(30)
    S[29, 29] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky(S)


@pytest.mark.parametrize("order", ["C", "F"])
def test_weighted_gram(pieces: int, order: Any) -> None:
    rng = np.random.default_rng(0)
    X, weight = np.asarray(rng.normal(size=(50, 9)), order=order), rng.integers(0, 3, 50).astype(float)
    assert_allclose(np.tril(weighted_gram(X, weight)), np.tril(X.T @ (weight[:, None] * X)), rtol=1e-12, atol=1e-12)
    assert weighted_gram(X[:0], weight[:0]).shape == (9, 9)
    assert weighted_gram(X[:, :0], weight).shape == (0, 0)


@pytest.mark.parametrize("rank", [1, 6, 23, 40])
def test_pivots_are_the_largest_that_is_left(pieces: int, rank: int) -> None:
    A = np.random.default_rng(rank).normal(size=(40, rank))
    K = A @ A.T
    order, L = pivoted_cholesky(K)
    assert sorted(order) == list(range(40))
    assert L.shape == (40, rank)
    assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-10 * np.abs(K).max())
    assert np.array_equal(L, np.tril(L))
    left = np.diag(K)[order].astype(float)
    for j in range(rank):
        assert left[j] >= left[j:].max() - 1e-9 * np.abs(K).max()
        left = left - L[:, j] ** 2
    order_cut, L_cut = pivoted_cholesky(K, max_rank=1)
    assert order_cut[0] == order[0]
    assert_allclose(L_cut, L[:, :1], rtol=1e-12)


@pytest.mark.parametrize("kind", ["indefinite", "skew"])
def test_what_is_no_kernel_is_refused(pieces: int, kind: str) -> None:
    A = np.random.default_rng(0).normal(size=(30, 30))
    K = A + A.T if kind == "indefinite" else A @ A.T + 0.1 * A
    with pytest.raises(ValueError, match="symmetric and positive semi-definite"):
        pivoted_cholesky(K)
