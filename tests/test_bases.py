"""Bases: take and expand commute, scales have derivatives, whitening makes the RKHS norm Euclidean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from smaller import bases
from smaller.bases import Kernel, Linear, Whitened
from smaller.designs import KernelBlocks
from smaller.kernels import RBF, FromCallable, Polynomial, Precomputed
from smaller.kernels import Linear as LinearKernel

seeds = st.integers(0, 2**32 - 1)
SCALED = [RBF(0.4), Polynomial(gamma=0.3, coef0=1.0, degree=3), LinearKernel(0.7)]


def rows(seed: int, n: int = 9, p: int = 3) -> Any:
    return np.random.default_rng(seed).standard_normal((n, p))


def whitened(seed: int, m: int) -> tuple[Any, Whitened]:
    X = rows(seed)
    basis = Whitened.empty(RBF(0.5), X)
    for i in range(m):
        basis = basis.append(X[i : i + 1])
    return X, basis


def every_basis(X: Any) -> list[Any]:
    return [
        Linear(),
        Linear(np.array([2, 0, 1])),
        *(Kernel(kernel, X[:5]) for kernel in SCALED),
        Kernel(FromCallable(lambda A, C: np.tanh(A @ C.T)), X[:5]),
    ]


@given(seed=seeds)
def test_take_and_expand_commute(seed: int) -> None:
    X, new = rows(seed), rows(seed + 1, n=4)
    columns = np.array([2, 0])
    for basis in every_basis(X):
        once, twice = basis.take(columns).expand(new), basis.expand(new).take(columns)
        np.testing.assert_allclose(once.X, twice.X, rtol=1e-12)
        assert once.shape == (4, 2)


def test_take_and_expand_commute_for_precomputed_and_sparse() -> None:
    X = rows(0)
    K = RBF(0.3)(X, X)
    basis = Kernel(Precomputed(), np.arange(9))
    columns = np.array([7, 3])
    np.testing.assert_array_equal(basis.take(columns).expand(K).X, K[:, columns])
    S = sparse.csc_array(X)
    np.testing.assert_array_equal(Linear().take(columns[:1] - 5).expand(S).X.toarray(), X[:, [2]])


def test_linear_takes_of_takes() -> None:
    X = rows(0, p=5)
    basis = Linear().take(np.array([4, 2, 0])).take(np.array([2, 0]))
    np.testing.assert_array_equal(basis.expand(X).X, X[:, [0, 4]])


def test_large_kernels_stay_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(0)
    basis = Kernel(RBF(0.3), X)
    dense = basis.expand(X)
    monkeypatch.setattr(bases, "LARGEST_MATRIX_BYTES", 100)
    lazy = basis.expand(X)
    assert isinstance(lazy, KernelBlocks)
    R = rows(1, p=2)
    np.testing.assert_allclose(lazy.adjoint(R), dense.adjoint(R), rtol=1e-12)


@pytest.mark.parametrize("kernel", SCALED, ids=lambda kernel: type(kernel).__name__)
@given(seed=seeds)
def test_pullback_by_differences(kernel: Any, seed: int) -> None:
    """d/d theta of <residual, K(theta) w> at fixed residual."""
    rng = np.random.default_rng(seed)
    X, theta = rows(seed), rng.random(3) + 0.2
    basis = Kernel(kernel.rescale(theta), X[:4])
    w = rng.standard_normal((4, 2)) * (rng.random((4, 1)) < 0.7)
    residual = rng.standard_normal((9, 2))

    def value(at: Any) -> float:
        return float(np.sum(residual * basis.rescale(at).expand(X).forward(w)))

    h = 1e-6
    expected = [(value(theta + h * e) - value(theta - h * e)) / (2 * h) for e in np.eye(3)]
    scale = 1.0 + np.abs(residual).sum() * np.abs(w).sum()
    np.testing.assert_allclose(basis.pullback(X, residual, w), expected, atol=1e-7 * scale, rtol=1e-6)
    K = basis.expand(X).X
    np.testing.assert_allclose(
        basis.pullback(X, residual, w, K), basis.pullback(X, residual, w), rtol=1e-10, atol=1e-12
    )


def test_kernel_diagonal() -> None:
    X = rows(0)
    for kernel in SCALED:
        np.testing.assert_allclose(Kernel(kernel, X).diagonal(X), np.diag(kernel(X, X)), rtol=1e-12)


@given(seed=seeds)
def test_whitened_inner_products_are_the_kernel(seed: int) -> None:
    X, basis = whitened(seed, 9)
    phi = basis.expand(X).X
    np.testing.assert_allclose(phi @ phi.T, RBF(0.5)(X, X), atol=1e-9)
    np.testing.assert_allclose(basis.factor @ basis.factor.T, RBF(0.5)(X, X), atol=1e-12)


@given(seed=seeds)
def test_appending_keeps_the_old_columns(seed: int) -> None:
    X, basis = whitened(seed, 4)
    before = basis.expand(X).X
    after = basis.append(X[5:6])
    assert after.expand(X).shape == (9, 5)
    np.testing.assert_allclose(after.expand(X).X[:, :4], before, atol=1e-10)
    np.testing.assert_array_equal(after.centers, X[[0, 1, 2, 3, 5]])
    np.testing.assert_allclose(after.take(np.arange(4)).expand(X).X, before, atol=1e-10)


@given(seed=seeds)
def test_what_is_left_of_a_row(seed: int) -> None:
    X, basis = whitened(seed, 4)
    left = basis.remainder(X, basis.expand(X).X)
    np.testing.assert_allclose(left[:4], 0.0, atol=1e-12)
    K = RBF(0.5)(X, X)
    schur = np.diag(K[4:, 4:] - K[4:, :4] @ np.linalg.solve(K[:4, :4], K[:4, 4:]))
    np.testing.assert_allclose(left[4:], schur, atol=1e-8)


def test_duplicates_are_refused() -> None:
    X, basis = whitened(0, 4)
    with pytest.raises(ValueError, match="adds nothing"):
        basis.append(X[2:3])
    flat = Whitened.empty(LinearKernel(1.0), X)
    for i in range(3):
        flat = flat.append(X[i : i + 1])
    with pytest.raises(ValueError, match="adds nothing"):
        flat.append(X[4:5])  # a linear kernel in three dimensions has rank three


def test_a_whitened_basis_is_cut_at_the_end_only() -> None:
    _, basis = whitened(0, 4)
    with pytest.raises(ValueError, match="cut at the end"):
        basis.take(np.array([1, 2]))


@given(seed=seeds)
def test_dual_coefficients_give_the_same_function_and_norm(seed: int) -> None:
    X, basis = whitened(seed, 5)
    new = rows(seed + 1, n=4)
    w = np.random.default_rng(seed).standard_normal((5, 2))
    a = basis.dual_coef(w)
    np.testing.assert_allclose(RBF(0.5)(new, X[:5]) @ a, basis.expand(new).X @ w, atol=1e-8)
    np.testing.assert_allclose(np.sum(a * (RBF(0.5)(X[:5], X[:5]) @ a)), np.sum(w**2), rtol=1e-8)


def test_the_empty_whitened_basis() -> None:
    X = rows(0)
    basis = Whitened.empty(RBF(0.5), X)
    assert basis.expand(X).shape == (9, 0)
    np.testing.assert_allclose(basis.remainder(X, basis.expand(X).X), 1.0)


def test_kernels_that_are_not_finite_are_refused() -> None:
    X = 1e150 * rows(0)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="scale the features"):
        Kernel(Polynomial(gamma=1.0, coef0=1.0, degree=3), X).expand(X)
