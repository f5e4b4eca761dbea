"""A strength for every block of columns: the equations its state satisfies, and what it is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, special

from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem, Status
from smaller.searches.blocks import find_strengths
from smaller.searches.evidence import find_strength, log_evidence
from smaller.solvers import solve

Array = Any


def problem(X: Array, labels: Array, **parts: Any) -> Problem:
    likelihood = Multinomial(int(labels.max()) + 1)
    prior = Laplace(1.0, parts.pop("factors", None))
    return Problem(as_design(X), likelihood.encode(labels), parts.pop("weight", None), likelihood, prior, **parts)


def drawn(seed: int, K: int = 2, n: int = 120, sizes: tuple[int, ...] = (6, 30)) -> tuple[Array, Array, Array]:
    """Rows whose first block tells the classes apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, sum(sizes)))
    W = np.zeros((sum(sizes), K))
    W[:4] = 1.5 * np.cos(2.0 * np.pi * np.arange(K) / K + np.arange(4)[:, None])
    labels = np.argmax(X @ W + rng.gumbel(size=(n, K)), axis=1)
    labels[:K] = np.arange(K)
    return X, labels, np.repeat(np.arange(len(sizes)), sizes)


def f_of(case: Problem, alphas: Array, blocks: Array, b: int) -> float:
    """Solve afresh at strengths of all blocks; return alpha_b E_b / W_b. A strength of a million is none."""
    strengths = np.where(np.isinf(alphas), 1e6, alphas)[blocks][:, None]
    solution = solve(case.with_prior(Laplace(1.0, strengths)), tol=1e-10)
    w = solution.w[blocks == b]
    return float(alphas[b] * np.abs(w).sum() / np.count_nonzero(w)) if w.any() else 0.0


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4))
def test_every_state_is_self_consistent_and_certified(seed: int, K: int) -> None:
    X, labels, blocks = drawn(seed, K)
    case = problem(X, labels)
    found = find_strengths(case, blocks, tol=1e-9)
    w, b, alphas = found.solution.w, found.solution.b, found.alphas
    if found.solution.status is Status.NO_FIXED_POINT:
        assert np.isinf(alphas).all()
        assert not w.any()
        return
    assert found.solution.status in (Status.CONVERGED, Status.KINK)
    assert found.n_active.tolist() == [np.count_nonzero(w[blocks == k]) for k in range(2)]
    assert not w[np.isinf(alphas)[blocks]].any()
    if found.solution.status is Status.CONVERGED:
        for k in np.flatnonzero(np.isfinite(alphas)):
            assert alphas[k] * np.abs(w[blocks == k]).sum() / found.n_active[k] == pytest.approx(1.0, abs=1e-2)
    # The gap from scratch, by the dual of the softmax: strengths of a million take the place of infinite ones.
    prior = Laplace(1.0, np.where(np.isinf(alphas), 1e6, alphas)[blocks][:, None])
    fresh = solve(case.with_prior(prior), tol=1e-11)
    scores = X @ (w if K > 2 else np.column_stack([0 * w, w])) + (b if K > 2 else np.r_[0.0, b])
    loss = float(np.sum(special.logsumexp(scores, axis=1) - scores[np.arange(len(X)), labels]))
    penalty = sum(a * np.abs(w[blocks == k]).sum() for k, a in enumerate(alphas) if np.isfinite(a))
    assert loss + penalty == pytest.approx(fresh.objective, abs=2e-9 * found.solution.scale)


@pytest.mark.parametrize("seed", range(3))
def test_a_block_that_is_left_out_has_no_strength_of_its_own(seed: int) -> None:
    X, labels, blocks = drawn(seed, sizes=(6, 150))
    case = problem(X, labels)
    found = find_strengths(case, blocks, tol=1e-9)
    if np.isinf(found.alphas[1]):
        P = special.expit(X @ found.solution.w[:, 0] + found.solution.b[0])
        top = np.abs(X[:, blocks == 1].T @ (P - labels)).max()
        steps = top * 10.0 ** (-np.arange(1, 16) / 15)  # beyond these the model has as many weights as rows
        fs = [f_of(case, np.array([found.alphas[0], a]), blocks, 1) for a in steps]
        falls = [i for i in range(14) if fs[i] > 1.0 >= fs[i + 1]]
        assert not falls
    assert np.isfinite(found.alphas[0])


def test_useless_blocks_go_to_zero() -> None:
    gone = 0
    for seed in range(8):
        X, labels, blocks = drawn(seed, sizes=(6, 200))
        found = find_strengths(problem(X, labels), blocks)
        assert found.n_active[0] >= 3
        gone += found.n_active[1] == 0
    assert gone >= 6


def test_of_pure_noise_nothing_is_kept_and_it_is_said() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(500, 20)), rng.integers(0, 3, 500)
    found = find_strengths(problem(X, labels), np.arange(20) % 2)
    assert found.solution.status is Status.NO_FIXED_POINT
    assert np.isinf(found.alphas).all()
    assert not found.solution.w.any()
    assert np.isnan(found.log_evidence)


@pytest.mark.parametrize("K", [2, 3])
def test_one_block_is_one_strength_exactly(K: int) -> None:
    X, labels, _ = drawn(1, K)
    case = problem(X, labels)
    one, many = find_strength(case), find_strengths(case, np.zeros(36, dtype=int))
    assert many.alphas.tolist() == [one.alpha]
    assert (many.solution.w == one.solution.w).all()
    assert (many.solution.gap, many.solution.status) == (one.solution.gap, one.solution.status)
    assert many.log_evidence == one.log_evidence
    # Nor does the search of a block, begun elsewhere, find another one.
    other = find_strengths(case, np.zeros(36, dtype=int), start=np.array([3.0 * one.alpha]))
    assert other.alphas[0] == pytest.approx(one.alpha, rel=1e-4)


def test_blocks_without_anything_in_common_end_at_the_same_state_from_anywhere() -> None:
    for seed in range(4):
        X, labels, blocks = drawn(seed, n=200)
        case = problem(X, labels)
        found = find_strengths(case, blocks)
        for start in ([np.inf, np.inf], [0.5, 20.0], [20.0, 0.5]):
            other = find_strengths(case, blocks, start=np.array(start))
            assert other.n_rounds <= 6
            if found.solution.status is other.solution.status is Status.CONVERGED:
                assert_allclose(other.alphas, found.alphas, rtol=2e-2)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 3))
def test_order_and_repetition(seed: int, K: int) -> None:
    X, labels, blocks = drawn(seed, K, n=100, sizes=(5, 15))
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 3, len(labels))
    rows, columns = rng.permutation(len(labels)), rng.permutation(20)
    first = find_strengths(problem(X, labels, weight=weight.astype(float)), blocks, tol=1e-10)
    often = np.repeat(np.arange(len(labels)), weight)
    second = find_strengths(problem(X[often], labels[often]), blocks, tol=1e-10)
    third = find_strengths(
        problem(X[rows][:, columns], labels[rows], weight=weight[rows].astype(float)), blocks[columns], tol=1e-10
    )
    assert_allclose(second.alphas, first.alphas, rtol=1e-6)
    assert_allclose(third.alphas, first.alphas, rtol=1e-6)
    assert_allclose(third.solution.w, first.solution.w[columns], atol=1e-5)


def test_factors_and_units_are_the_same_thing() -> None:
    X, labels, blocks = drawn(2)
    units = np.where(np.arange(36) % 3 == 0, 8.0, 1.0)
    first = find_strengths(problem(X, labels), blocks, tol=1e-10)
    second = find_strengths(problem(X / units, labels, factors=(1.0 / units)[:, None]), blocks, tol=1e-10)
    assert_allclose(second.alphas, first.alphas, rtol=1e-6)
    assert second.log_evidence == pytest.approx(first.log_evidence, abs=1e-4)


def test_free_columns_belong_to_no_strength() -> None:
    X, labels, blocks = drawn(3)
    factors = np.ones((36, 1))
    factors[0] = 0.0
    found = find_strengths(problem(X, labels, factors=factors), blocks)
    assert found.solution.w[0].any()
    assert found.n_active[0] == np.count_nonzero(found.solution.w[1:6])
    factors[blocks == 0] = 0.0
    free = find_strengths(problem(X, labels, factors=factors), blocks)
    assert np.isnan(free.alphas[0])
    assert free.n_active[0] == 0
    assert free.solution.w[:6].all()


def test_the_evidence_has_a_term_for_every_block() -> None:
    """int prod over the block of alpha/2 exp(-alpha |w|) d alpha / alpha, by quadrature, for each block."""
    X, labels, blocks = drawn(0)
    case = problem(X, labels)
    w = solve(case.with_prior(Laplace(3.0)), tol=1e-10).w
    b = np.zeros(1)

    def prior(part: Array) -> float:
        W, E = np.count_nonzero(part), np.abs(part).sum()
        mode = np.log(W / E)
        value, _ = integrate.quad(lambda t: np.exp(W * t - np.exp(t) * E - (W * mode - W)), mode - 40, mode + 10)
        return float(np.log(value) + W * mode - W - W * np.log(2))

    masks = [blocks == k for k in range(2)]
    difference = log_evidence(case, w, b, masks) - log_evidence(case, w, b)
    expected = sum(prior(w[mask]) for mask in masks) - prior(w)
    assert all(w[mask].any() for mask in masks)
    assert difference == pytest.approx(expected, abs=1e-6)


def test_a_callback_can_stop_the_search() -> None:
    X, labels, blocks = drawn(0)
    called = [0]

    def count(*_: Any) -> None:
        called[0] += 1

    find_strengths(problem(X, labels), blocks, tol=1e-12, progress=count)
    for calls in (1, called[0] // 4, called[0] // 2, called[0] - 1):
        left = [calls]

        def progress(*_: Any, left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] <= 0

        found = find_strengths(problem(X, labels), blocks, tol=1e-12, progress=progress)
        assert found.solution.status is Status.STOPPED
