"""Groups and limits: certificates recomputed in plain NumPy, and the optimum of a method that shares no code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference import evaluate, random_case
from smaller.papers import SOLVERS
from smaller.priors import GroupNorm, Laplace, Limited
from smaller.problem import Status
from smaller.searches.path import alpha_grid, trace_path
from smaller.solvers import ALL_SOLVERS, choose, solve
from structured import Structured, descend, judge, penalty, random_structured

Array = Any
EXACT = 1e-12


def wide(K: int = 4, size: int = 1, n: int = 80, d: int = 120) -> Structured:
    """More columns than rows, a few groups that matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    truth = np.zeros((d, K))
    truth[: 6 * size] = rng.standard_normal((6 * size, K))
    labels = (X @ truth + rng.gumbel(size=(n, K))).argmax(axis=1)
    labels[:K] = np.arange(K)
    group = np.arange(d) // size
    nothing, endless = np.zeros(d), np.full(d, np.inf)
    norm = np.sqrt(np.bincount(group))
    return Structured(
        X, np.eye(K)[labels], np.ones(n), np.zeros((n, K)), group, norm, nothing, nothing, -endless, endless
    )


@pytest.mark.parametrize("block", range(20))
def test_random_problems_have_the_optimum_of_a_method_of_its_own(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        case = random_structured(seed)
        solution = solve(case.problem(), "auto" if case.slope.any() or case.norm.any() else "blockwise", tol=EXACT)
        assert solution.solver == "blockwise"
        assert solution.status is Status.CONVERGED
        judged = judge(case, solution.w, solution.b)
        assert solution.objective == pytest.approx(judged.objective, rel=1e-12)
        assert judged.gap <= EXACT * solution.scale + 1e-12 * judged.objective
        w, b = descend(case)
        other = judge(case, w, b)
        assert abs(other.objective - judged.objective) <= 1e-8 * max(1.0, judged.objective)


@pytest.mark.parametrize("seed", range(30, 60))
def test_dense_and_sparse_are_one_problem(seed: int) -> None:
    case = random_structured(seed)
    dense, sparse = (solve(case.problem(storage), tol=EXACT) for storage in ("dense", "csc"))
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-11)


@pytest.mark.parametrize("seed", range(40))
def test_the_largest_strength_is_exact(seed: int) -> None:
    case = random_structured(seed)
    problem = case.problem()
    largest = problem.alpha_max()
    if not np.isfinite(largest) or largest == 0.0:
        return
    at, below = (
        solve(problem.with_prior(problem.prior.times(f * largest)), "blockwise", tol=1e-11) for f in (1 + 1e-9, 0.98)
    )
    assert at.n_active == 0
    assert below.n_active > 0


def test_one_column_a_group_and_two_classes_are_absolute_values() -> None:
    case = random_case(3, K=2, n=60, d=9, alpha=1.5)
    problem = case.problem()
    plain = solve(problem, "coordinate", tol=1e-14)
    grouped = GroupNorm(np.arange(9), np.full(9, 1.5), np.zeros(9), np.zeros(9))
    solution = solve(problem.with_prior(grouped), tol=1e-14)
    assert solution.solver == "blockwise"
    np.testing.assert_allclose(solution.w, plain.w, atol=1e-8)
    assert solution.objective == pytest.approx(plain.objective, rel=1e-13)


def test_limits_out_of_reach_are_none() -> None:
    case = random_case(4, K=3, n=60, d=9)
    problem = case.problem()
    column = np.ones((9, 1))
    limited = problem.with_prior(Limited(column, 0.0 * column, -100.0 * column, 100.0 * column))
    ours = solve(limited, tol=1e-13)
    assert ours.objective == pytest.approx(solve(problem, tol=1e-13).objective, rel=1e-12)


def test_blockwise_solves_what_coordinate_solves() -> None:
    for K in (2, 3, 5):
        case = random_case(K, K=K, n=70, d=12, l1_ratio=0.7, factors=[1, 0, 2, 1, 0.5, 1] * 2)
        solution = solve(case.problem(), "blockwise", tol=1e-11)
        judged = evaluate(case, solution.w, solution.b)
        assert judged.gap <= 1e-10 * solution.scale + 10 * judged.imbalance


@pytest.mark.parametrize("count", [5, 20, 60])
@pytest.mark.parametrize(("K", "size"), [(2, 3), (4, 1), (4, 5), (9, 1)])
def test_coarse_and_fine_paths_are_certified_all_along(count: int, K: int, size: int) -> None:
    """A path in few steps asks for long ones; a stepper without damping stops short on it."""
    case = wide(K, size)
    problem = case.problem()
    alphas = alpha_grid(problem.alpha_max(), count, 1e-2)
    path = trace_path(problem, alphas, tol=1e-6)
    assert len(path) == count
    assert path[0].n_active == 0
    for point in path[:: max(count // 5, 1)] + path[-1:]:
        scaled = case.__class__(**{**vars(case), "norm": point.alpha * case.norm})
        judged = judge(scaled, point.w, point.b)
        assert point.status is Status.CONVERGED
        assert judged.gap <= 1.01e-6 * path[0].loss + 1e-9
        assert point.objective == pytest.approx(judged.objective, rel=1e-10)
        together = (point.w.reshape(-1, size, K if K > 2 else 1) != 0).any(axis=(1, 2))
        every = (point.w != 0).all(axis=1).reshape(-1, size).all(axis=1)
        np.testing.assert_array_equal(together, every)  # a group is in or out as a whole


def test_a_path_with_limits() -> None:
    case = wide(3)
    limits = {"lower": np.full(120, -0.05), "upper": np.full(120, np.inf)}
    case = case.__class__(**{**vars(case), "norm": np.zeros(120), "slope": np.ones(120), **limits})
    problem = case.problem()
    path = trace_path(problem, alpha_grid(problem.alpha_max(), 30, 1e-2))
    for point in path:
        judged = judge(case.__class__(**{**vars(case), "slope": point.alpha * case.slope}), point.w, point.b)
        assert judged.gap <= 1.01e-6 * path[0].loss


@pytest.mark.parametrize("solver", ["coordinate", "newton", "proximal", "block", "componentwise"])
def test_other_solvers_refuse_what_they_do_not_know(solver: str) -> None:
    problem = random_structured(1).problem()
    d = problem.n_columns
    column, label = np.ones((d, 1)), np.arange(d)
    limited = problem.with_prior(Limited(column, column, -column, column))
    grouped = problem.with_prior(GroupNorm(label, np.ones(d), np.zeros(d), np.zeros(d)))
    method = SOLVERS.get(solver, solver)
    with pytest.raises(ValueError, match=r"single weights|smooth penalty"):
        solve(grouped, method)
    if solver == "proximal":  # clips, which is all that limits ask for
        assert solve(limited, method).objective == pytest.approx(solve(limited).objective, rel=1e-6)
        return
    with pytest.raises(ValueError, match="knows penalties of single weights without limits"):
        solve(limited, method)


def test_auto_prefers_what_it_did_before() -> None:
    problem = random_case(0).problem()
    assert choose(problem) == "coordinate"
    assert list(ALL_SOLVERS).index("blockwise") > list(ALL_SOLVERS).index("coordinate")
    assert choose(problem.with_prior(Laplace(2.0))) == "coordinate"


def test_the_canonical_point_has_rows_of_mean_zero() -> None:
    case = wide(4)
    solution = solve(case.problem().with_prior(GroupNorm(case.group, 3 * case.norm, *np.zeros((2, 120)))), tol=1e-10)
    np.testing.assert_allclose(solution.w.sum(axis=1), 0.0, atol=1e-12)
    assert penalty(case, solution.w) > 0
