"""From the argument ``solver=`` to a solver: the library's own, or one as published."""

from __future__ import annotations

from typing import Any, cast

from smaller.papers import SOLVERS
from smaller.solvers import ALL_SOLVERS, Method
from smaller.validation import check_choice

__all__ = ["check_solver"]


def check_solver(solver: Any) -> Method:
    """Return what ``solver`` names, or a solver object: something that is called for the steps of one problem."""
    if isinstance(solver, type):
        raise TypeError(f"solver must be a name or an object, got a class: write solver={solver.__name__}().")
    if callable(solver):
        return cast(Method, solver)
    name: str = check_choice("solver", solver, ("auto", *ALL_SOLVERS, *SOLVERS))
    return SOLVERS.get(name, name)
