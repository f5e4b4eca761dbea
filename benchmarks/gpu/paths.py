"""One path of strengths, certified at every one: on the device, and on the processor of the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.compare.problems import Problem as Data
from smaller import SMLRCV
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet
from smaller.problem import Problem
from smaller.row_problem import RowProblem
from smaller.rows.device import DeviceRows
from smaller.rows.device_matrix import DeviceMatrix
from smaller.searches.path import PathPoint, alpha_grid, trace_path
from smaller.searches.row_path import walk
from smaller.solvers.engine import alpha_max, lockstep, model_of

COUNT, RATIO, TOL = 100, 0.01, 1e-6


@dataclass(frozen=True)
class Traced:
    """What a path took, and how it ended."""

    seconds: float
    first_seconds: float  # of the first run: libraries are loaded, kernels compiled
    steps: int
    converged: int  # of all strengths
    active: int  # weights at the last strength
    largest_gap: float  # relative to the null loss
    last_objective: float  # likewise

    def row(self) -> dict[str, Any]:
        return asdict(self)


def on_device(data: Data, move: Callable[[Any], Any], synchronize: Callable[[], None], runs: int) -> Traced:
    """Trace the path of arrays that are on the device already, as a user would find them."""
    X, codes = move(np.ascontiguousarray(data.X)), move(data.y)

    def once() -> tuple[tuple[PathPoint, ...], float]:
        likelihood = Multinomial(data.n_classes)
        rows = DeviceRows(DeviceMatrix(X), likelihood.encode(codes), None, likelihood)
        problem = RowProblem(rows, ElasticNet(1.0))
        alphas = alpha_grid(alpha_max(problem), COUNT, RATIO)
        walked = walk(problem, model_of(problem), alphas, tol=TOL, max_iter=1000)
        [path] = lockstep(rows, [walked])
        synchronize()
        return path.points, path.null_loss

    return _timed(once, runs)


def cross_validated(data: Data, move: Callable[[Any], Any]) -> dict[str, float]:
    """Choose the strength by five folds, which are masks of the same rows on the device."""
    likelihood = Multinomial(data.n_classes)
    X, codes = move(np.ascontiguousarray(data.X)), move(data.y)
    start = time.perf_counter()
    rows = DeviceRows(DeviceMatrix(X), likelihood.encode(codes), None, likelihood)
    found = SMLRCV(cv=5, eps=RATIO).fit(rows)
    return {"seconds": time.perf_counter() - start, "alpha": float(found.alpha_)}


def on_host(data: Data, runs: int) -> Traced:
    """Trace the same path by the library's default solver, with all the threads it is given."""

    def once() -> tuple[list[PathPoint], float]:
        likelihood = Multinomial(data.n_classes)
        y = likelihood.encode(data.y)
        problem = Problem(as_design(data.X), y, None, likelihood, ElasticNet(1.0))
        return trace_path(problem, alpha_grid(problem.alpha_max(), COUNT, RATIO), tol=TOL), problem.null().loss

    return _timed(once, runs)


def _timed(once: Callable[[], tuple[Any, float]], runs: int) -> Traced:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        points, null = once()
        seconds.append(time.perf_counter() - start)
    gaps = [point.gap / null for point in points]
    return Traced(
        min(seconds),
        seconds[0],
        sum(point.n_iter for point in points),
        sum(point.status.name == "CONVERGED" for point in points),
        points[-1].n_active,
        max(gaps),
        points[-1].objective / null,
    )
