"""The solvers' door to the compiled core (the softmax and the passes over rows are the others)."""

from __future__ import annotations

import itertools
from typing import Any

import smaller._core as _core
from smaller.arrays import Array
from smaller.designs import Csc, Dense, Design
from smaller.likelihoods import Multinomial
from smaller.problem import Problem
from smaller.rows.passes import pass_over

__all__ = [
    "MOST_SWEEPS",
    "NEWTON_STEPS",
    "call",
    "correct",
    "descend_blocks",
    "descend_gram",
    "evaluate",
    "is_small",
    "room",
]

NEWTON_STEPS = 10  # between two certificates
MOST_SWEEPS = 100  # over the columns, in one model
_SMALLEST_START, _LARGEST_START = 64, 512  # coordinates admitted to a working set: half the rows, within these
_SMALL = 20_000  # entries of eta up to which the interpreter would cost more than the arithmetic

correct, descend_blocks, descend_gram = _core.correct, _core.descend_blocks, _core.descend_gram


def is_small(problem: Problem) -> bool:
    """Whether whole Newton iterations are left to the core, which knows the softmax only."""
    return isinstance(problem.likelihood, Multinomial) and problem.y.size <= _SMALL


def room(problem: Problem, reach: float) -> int:
    """Return for how many zero weights a working set has room; few where the strong rule says which will be needed."""
    return _SMALLEST_START if reach > 0.0 else max(_SMALLEST_START, min(problem.y.shape[0] // 2, _LARGEST_START))


def call(name: str, design: Design, *arguments: tuple[Any, ...]) -> Any:
    """Call a function of the core on the columns of a design."""
    flat = itertools.chain(*arguments)
    if isinstance(design, Csc):
        return getattr(_core, f"{name}_sparse")(design.X.data, design.X.indices, design.X.indptr, *flat)
    assert isinstance(design, Dense)
    return getattr(_core, name)(design.X, *flat)


def evaluate(
    problem: Problem, eta: Array, design: Design, change: Array | None = None, n_threads: int | None = None
) -> tuple[float, Array, Array]:
    """Return the loss, its gradient in ``eta``, and in the weights of ``design`` (some columns of the problem's).

    With ``change`` (of these weights) ``eta`` first moves along, in place.
    """
    return pass_over(problem.likelihood, design, problem.y, problem.weight, eta, change, n_threads)
