"""What the engine asks of a quadratic model of the loss, whoever makes it and wherever it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from smaller.arrays import Array
from smaller.row_problem import RowPoint, RowProblem
from smaller.rows.protocol import Place
from smaller.solvers.working_set import WorkingSet

__all__ = ["Model", "Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """From a point to the minimiser of the model."""

    ws: WorkingSet
    old: Array  # (m,) weights of the working set
    new: Array
    w: Array  # (d, q) where the step leads
    b: Array
    promise: float  # change of the objective that the gradients promise: below zero

    @classmethod
    def to(cls, problem: RowProblem, point: RowPoint, ws: WorkingSet, new: Array, db: Array) -> Step:
        """Return the step to the weights ``new`` of a working set, the free numbers moved by ``db``."""
        free, old = problem.n_free, point.w[ws.at]
        w, b = point.w.copy(), point.b.copy()
        w[ws.at] = new
        b[:free] += db
        slope = float(point.G[ws.at] @ (new - old) + point.gb[:free] @ db)
        return cls(ws, old, new, w, b, slope + ws.penalty_change(old, new))

    def penalty_change(self, t: float) -> float:
        """Return the change of the penalty after a fraction of the step."""
        return self.ws.penalty_change(self.old, self.old + t * (self.new - self.old))


class Model(Protocol):
    """Contract of a quadratic model. What it gets wrong costs steps, never accuracy."""

    @property
    def margin(self) -> float:
        """Zero weights are let in if their gradient is within this fraction of the slope: where room costs little."""

    def begin(self) -> None:
        """Begin another descent with what is known."""

    def another(self) -> Model:
        """Return a model of the same rows that knows nothing yet: for another problem that they share."""

    def head_start(self, problem: RowProblem, tol: float) -> tuple[Array, Array] | None:
        """Return weights and free numbers that cost no look at all rows and are better than none, or None."""

    def step(self, problem: RowProblem, point: RowPoint, ws: WorkingSet, tol: float) -> Step:
        """Return the step to the minimiser of model and penalty over a working set, up to a violation of ``tol``."""

    def learn(self, problem: RowProblem, before: RowPoint, after: RowPoint, step: Step, *, left: float) -> None:
        """Learn from two points of a full step; ``left`` is the part of the violation that is left."""

    def forget(self) -> None:
        """Have the model made anew at the next point."""

    def damp(self, before: Place, after: Place) -> None:
        """Learn from a step that could not be taken."""
