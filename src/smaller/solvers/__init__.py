"""How the sum is lowered for fixed hyper-parameters: one driver, several steppers.

``solve(problem)`` picks by the shape of the problem; ``ALL_SOLVERS`` maps public names to steppers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smaller.arrays import is_numpy_array, to_host
from smaller.priors import ElasticNet
from smaller.problem import Point, Problem, Solution
from smaller.solvers.coordinate import Coordinate, head_start
from smaller.solvers.driver import Progress, Stepper, drive
from smaller.solvers.proximal import Proximal
from smaller.solvers.reweighted import Reweighted

__all__ = ["ALL_SOLVERS", "Method", "Stepper", "choose", "make_stepper", "solve"]

Method = str | Callable[[], Stepper]  # "auto", a name in ALL_SOLVERS, or a maker of steppers

ALL_SOLVERS: dict[str, Callable[[], Stepper]] = {
    "coordinate": Coordinate,
    "newton": Reweighted,
    "proximal": Proximal,
}


def choose(problem: Problem) -> str:
    """Return the name of the solver that suits the problem.

    Smooth penalties: Newton. Sparse ones: coordinate descent on the host, proximal gradients elsewhere.
    """
    prior = problem.prior
    if isinstance(prior, ElasticNet) and not np.any(to_host(prior.slope) > 0):
        return "newton"
    return "coordinate" if is_numpy_array(problem.y) else "proximal"


def make_stepper(problem: Problem, method: Method = "auto") -> Stepper:
    """Return a stepper of the method, or with "auto" of the one that suits the problem."""
    if not isinstance(method, str):
        return method()
    name = choose(problem) if method == "auto" else method
    if name not in ALL_SOLVERS:
        raise ValueError(f"solver must be 'auto' or one of {sorted(ALL_SOLVERS)}, got {method!r}.")
    return ALL_SOLVERS[name]()


def solve(
    problem: Problem,
    method: Method = "auto",
    *,
    start: Solution | Point | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: Progress | None = None,
) -> Solution:
    """Minimise a convex problem to a duality gap of ``tol`` times the null model's loss."""
    stepper = make_stepper(problem, method)
    if start is None and stepper.name == "coordinate":
        start = head_start(problem)
    return drive(problem, stepper, start, tol=tol, max_iter=max_iter, progress=progress)
