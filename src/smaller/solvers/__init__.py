"""How the sum is lowered for fixed hyper-parameters: one driver, several steppers.

``ALL_SOLVERS`` maps public names to steppers, the preferred ones first; ``solve(problem)`` takes the first that suits.
"""

from __future__ import annotations

from collections.abc import Callable

from smaller.problem import Point, Problem, Solution
from smaller.solvers.blockwise import Blockwise
from smaller.solvers.coordinate import Coordinate, head_start
from smaller.solvers.driver import Progress, Stepper, drive
from smaller.solvers.proximal import Proximal
from smaller.solvers.reweighted import Reweighted

__all__ = ["ALL_SOLVERS", "Method", "Stepper", "choose", "make_stepper", "solve"]

Method = str | Callable[[], Stepper]  # "auto", a name in ALL_SOLVERS, or a maker of steppers

ALL_SOLVERS: dict[str, Callable[[], Stepper]] = {
    "newton": Reweighted,
    "coordinate": Coordinate,
    "blockwise": Blockwise,
    "proximal": Proximal,
}


def choose(problem: Problem) -> str:
    """Return the name of the first solver that suits the problem."""
    return next(name for name, make in ALL_SOLVERS.items() if make().suits(problem) is None)


def make_stepper(problem: Problem, method: Method = "auto") -> Stepper:
    """Return a stepper of the method, or with "auto" of the one that suits the problem; refuse one that does not."""
    if isinstance(method, str):
        name = choose(problem) if method == "auto" else method
        if name not in ALL_SOLVERS:
            raise ValueError(f"solver must be 'auto' or one of {sorted(ALL_SOLVERS)}, got {method!r}.")
        method = ALL_SOLVERS[name]
    stepper = method()
    reason = stepper.suits(problem)
    if reason is not None:
        raise ValueError(reason)
    return stepper


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
