"""Algorithms as published, each corrected where its paper is in error; nothing else in the library builds on them.

They are reached by name (``solver="block"``, ``mode="greedy"``, ``selection="onestep"``); solvers with options as
objects, too: ``solver=Componentwise(visitation="adaptive")``.
"""

from collections.abc import Callable

from smaller.papers.block import Block
from smaller.papers.componentwise import Componentwise
from smaller.papers.greedy import find_greedily
from smaller.papers.selection import by_one_step, exactly
from smaller.searches.forward import Choice
from smaller.solvers import Stepper

__all__ = ["SELECTIONS", "SOLVERS", "Block", "Componentwise", "find_greedily"]

SOLVERS: dict[str, Callable[[], Stepper]] = {"block": Block(), "componentwise": Componentwise()}
SELECTIONS: dict[str, Choice] = {"onestep": by_one_step, "exact": exactly}
