r"""What mistakes cost, and the decisions that follow from it.

    decision_i = argmin_a sum_k p_ik C_ka,        expected cost = (1/n) sum_i C_{y_i, decision_i}

With ``C_ka = 1 / (K pi_k)`` for every a other than k, the expected cost is one minus the balanced accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.app.study.intervals import mean_interval
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["EXPECTED", "Costs", "balanced_costs", "checked_costs", "cost_matrix", "judge_costs"]

EXPECTED, BALANCED = "expected cost", "balanced error"


@dataclass(frozen=True)
class Costs:
    """What it costs to decide for one class where another is true.

    Parameters
    ----------
    name : str
        What their expectation is called: "expected cost" or "balanced error".
    matrix : ndarray of shape (K, K)
        Rows are true classes, columns decisions.
    """

    name: str
    matrix: Array

    @property
    def priced(self) -> bool:
        """Whether a user has said what mistakes cost; else they are made up so that classes count the same."""
        return self.name == EXPECTED

    def decide(self, proba: Array) -> Array:
        """Return the decision of least expected cost for probabilities of shape (..., K)."""
        return np.asarray((proba @ self.matrix).argmin(axis=-1))


def balanced_costs(shares: Array) -> Costs:
    """Return costs under which every class counts the same, however rare."""
    return Costs(BALANCED, (1.0 - np.eye(len(shares))) / (len(shares) * np.asarray(shares))[:, None])


def cost_matrix(table: Table, classes: Sequence[Any] | Array) -> tuple[tuple[float, ...], ...]:
    """Read costs: a row for every true class, named in the first column, and a column for every decision."""
    labels = [_text(label) for label in np.asarray(classes).tolist()]
    names = list(table.columns)
    decisions, true = names[1:], [_text(value) for value in table.columns[names[0]].tolist()]
    if sorted(true) != sorted(labels) or sorted(decisions) != sorted(labels):
        raise TableError(
            "--costs needs one row for every true class, named in the first column, and one column for every decision: "
            f"{', '.join(labels)}; it has the rows {', '.join(true)} and the columns {', '.join(decisions)}."
        )
    columns = [table.columns[label] for label in labels]
    if any(column.dtype.kind == "O" for column in columns):
        raise TableError("--costs must hold numbers.")
    matrix = np.stack([column.astype(np.float64) for column in columns], axis=1)[[true.index(one) for one in labels]]
    return checked_costs(matrix, len(labels))


def checked_costs(matrix: Any, n_classes: int) -> tuple[tuple[float, ...], ...]:
    """Return a matrix of costs as tuples, or say what is wrong with it."""
    C = np.asarray(matrix, dtype=np.float64)
    if C.shape != (n_classes, n_classes):
        raise TableError(f"The costs must be a matrix with {n_classes} rows (true) and columns (decided).")
    if not np.isfinite(C).all():
        raise TableError("The costs must be finite numbers, none of them missing.")
    if (np.diag(C)[:, None] >= C).sum() > n_classes:
        raise TableError("To decide for the true class must cost less than any mistake: the diagonal is the smallest.")
    return tuple(tuple(row) for row in C.tolist())


def judge_costs(codes: Array, decided: Array, costs: Costs, groups: Array | None = None) -> dict[str, Any]:
    """Return the mean cost of decisions of shape (repeats, n), its interval, and the best that one answer can do.

    The interval is that of a mean (t statistic); shares of classes are taken as they are in the table.
    """
    paid = costs.matrix[codes, decided]
    always = costs.matrix[codes].mean(axis=0)
    low, high = mean_interval(paid, groups)
    return {
        "name": costs.name,
        "value": float(paid.mean()),
        "interval": [max(low, float(costs.matrix.min())), high],
        "baseline": float(always.min()),
        "baseline_decision": int(always.argmin()),
        "matrix": costs.matrix.tolist(),
    }


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
