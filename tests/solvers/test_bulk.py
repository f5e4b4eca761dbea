"""Whole sets of weights at a time reach the minimum that sweeps reach; rows on a device give the fit in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rows.test_device import MOVES
from tests.solvers.test_engine import CASES, N, case

from smaller.arrays import Array, to_host
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet
from smaller.problem import Problem, Status
from smaller.row_problem import RowProblem
from smaller.rows import Blocks, Fold, HostRows
from smaller.rows.device import DeviceRows
from smaller.rows.device_matrix import DeviceMatrix
from smaller.searches.path import alpha_grid, trace_path
from smaller.searches.row_path import walk
from smaller.solvers import engine, solve, whole_model
from smaller.solvers.bulk import minimise_in_bulk
from smaller.solvers.working_set import minimise_quadratic


def quadratic(rank: int, m: int, noise: float) -> tuple[Array, Array]:
    """Return a Hessian of columns that are ``noise`` away from a space of six dimensions (0: independent)."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rank, m))
    if noise:
        A = rng.standard_normal((rank, 6)) @ rng.standard_normal((6, m)) + noise * A
    return A.T @ A, 3.0 * A.T @ rng.standard_normal(rank)


def violation(H: Array, g: Array, slope: Array, ridge: Array, v: Array) -> float:
    gradient = g + H @ v + ridge * v
    return float(np.where(v == 0, np.abs(gradient) - slope, np.abs(gradient + slope * np.sign(v))).max())


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(("rank", "m", "noise"), [(200, 50, 0.0), (20, 60, 0.0), (30, 80, 1e-4), (12, 90, 1e-7)])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_minimum_of_a_quadratic_model(move: Any, rank: int, m: int, noise: float, ridge: float) -> None:
    H, g = quadratic(rank, m, noise)
    slope, kept = np.linspace(0.1, 0.3, m) * np.abs(g).max(), np.full(m, ridge)
    tol = float(1e-7 * np.abs(g).max())
    there, ended = minimise_in_bulk(*map(move, (H, g, slope, kept, np.zeros(m))), tol, solves=40)
    found = to_host(there)
    assert ended
    assert violation(H, g, slope, kept, found) <= 1.01 * tol
    swept = np.zeros(m)
    minimise_quadratic(H.copy(), g.copy(), slope, kept, swept, 0.1 * tol)
    values = [g @ v + 0.5 * v @ (H @ v + kept * v) + slope @ np.abs(v) for v in (found, swept)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    nowhere, ended = minimise_in_bulk(*map(move, (H, 0.1 * slope, slope, kept, np.zeros(m))), tol)
    assert ended
    assert not to_host(nowhere).any()
    there, ended = minimise_in_bulk(*map(move, (H, g, slope, kept, np.zeros(m))), 0.0, solves=3)
    lower = to_host(there)
    assert not ended
    assert g @ lower + 0.5 * lower @ (H @ lower + kept * lower) + slope @ np.abs(lower) <= 0.0


def on_device(rows: HostRows, X: Any, move: Any) -> DeviceRows:
    """Return dense rows elsewhere."""
    weight, offset = (None if part is None else move(part) for part in (rows.weight, rows.offset))
    return DeviceRows(DeviceMatrix(move(X)), move(rows.y), weight, rows.likelihood, offset)


def agree(problem: RowProblem, found: Any, same: Any, alpha: float) -> None:
    """Objectives to 1e-8; the same weights in use, but where a gradient is within 1e-6 of the slope."""
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(same.objective, rel=1e-8)
    [reply] = problem.rows.at([problem.place(same.w, same.b)])
    slope, ridge = problem.prior.linearise(same.w, "l1")
    clear = np.abs(np.abs(reply.G + ridge * same.w) - slope) > 1e-6 * alpha
    assert np.array_equal((found.w != 0) & clear & (same.w == 0), np.zeros(clear.shape))


@pytest.mark.parametrize("name", [name for name in CASES if name != "sparse"])
@pytest.mark.parametrize("small", [0, 1000], ids=["bulk", "swept"])
def test_a_fit_on_a_device_is_the_fit_in_memory(name: str, small: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(whole_model, "_FEW", small)
    rows, X, prior, fit_intercept = case(**CASES[name])
    problem = RowProblem(on_device(rows, X, np.array), prior, fit_intercept)
    found = engine.solve_rows(problem, tol=1e-10)
    if rows.offset is None:
        same = solve(Problem(rows.design, rows.y, rows.weight, rows.likelihood, prior, fit_intercept), tol=1e-10)
        agree(problem, found, same, 20.0)
    else:
        same = engine.solve_rows(RowProblem(rows, prior, fit_intercept), tol=1e-10)
        agree(problem, found, same, 20.0)
    assert found.gap is not None
    assert found.gap <= 1e-10 * found.scale


@pytest.mark.parametrize("move", MOVES[:2])
@pytest.mark.parametrize("small", [0, 1000], ids=["bulk", "swept"])
def test_other_libraries_give_the_same_fit(move: Any, small: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(whole_model, "_FEW", small)
    rows, X, prior, _ = case(**CASES["everything"])
    here = engine.solve_rows(RowProblem(on_device(rows, X, np.array), prior), tol=1e-9)
    there = engine.solve_rows(RowProblem(on_device(rows, X, move), prior), tol=1e-9)
    assert there.objective == pytest.approx(here.objective, rel=1e-10)


def test_a_path_of_nearly_collinear_columns_is_certified_at_every_strength(monkeypatch: Any) -> None:
    """Kernel columns: whole sets of them have a singular Hessian."""
    monkeypatch.setattr(whole_model, "_FEW", 0)
    rng = np.random.default_rng(0)
    Z, codes = rng.standard_normal((150, 2)), rng.integers(0, 3, 150)
    X = np.exp(-((Z[:, None] - Z[None]) ** 2).sum(axis=2) / 2.0)
    likelihood = Multinomial(3)
    rows = DeviceRows(DeviceMatrix(X), likelihood.encode(codes), None, likelihood)
    problem = RowProblem(rows, ElasticNet(1.0))
    grid = alpha_grid(engine.alpha_max(problem), 20, 0.01)
    [path] = engine.lockstep(rows, [walk(problem, engine.model_of(problem), grid, tol=1e-6, max_iter=100)])
    same = trace_path(Problem(as_design(X), rows.y, None, likelihood, ElasticNet(1.0)), grid)
    for mine, theirs in zip(path.points, same, strict=True):
        assert mine.status is Status.CONVERGED
        assert abs(mine.objective - theirs.objective) <= 1e-6 * path.null_loss


def test_blocks_of_rows_on_a_device_are_rows_too() -> None:
    rows, X, prior, _ = case(**CASES["weights"])
    whole = on_device(rows, X, np.array)
    halves = Blocks((whole.subset(np.arange(N // 2)), whole.subset(np.arange(N // 2, N))))
    found, same = (engine.solve_rows(RowProblem(one, prior), tol=1e-9) for one in (halves, whole))
    assert found.objective == pytest.approx(same.objective, rel=1e-8)


def test_folds_are_masks_of_the_same_rows() -> None:
    rows, X, prior, _ = case(**CASES["weights"])
    there = on_device(rows, X, np.array)
    fold = Fold(1, 3)
    found = engine.solve_rows(RowProblem(there, prior, fold=fold), tol=1e-9)
    part = rows.subset(np.flatnonzero(fold.member(np.arange(N))))
    same = solve(Problem(part.design, part.y, part.weight, part.likelihood, prior), tol=1e-9)
    assert found.objective == pytest.approx(same.objective, rel=1e-8)
