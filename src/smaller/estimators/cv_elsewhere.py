"""The strength chosen by cross-validation over rows that are elsewhere: all folds share every look at the data.

A row's fold follows from a hash of its number, so folds need no lists, and are the same however the rows are stored.
They are not stratified: the classes' shares differ between folds by about one over the square root of their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.estimators.assembly import Units
from smaller.estimators.feature_cap import affordable
from smaller.estimators.located import LocatedData, assemble_rows, class_sums
from smaller.estimators.regularization_path import RegularizationPath, as_path
from smaller.estimators.strength import grid_of
from smaller.row_problem import RowProblem
from smaller.rows.protocol import Fold
from smaller.searches.row_path import RowPath, walk
from smaller.solvers.driver import Progress
from smaller.solvers.engine import alpha_max, lockstep, model_of
from smaller.validation import check_integer

__all__ = ["CrossPaths", "cross_paths"]


@dataclass(frozen=True)
class CrossPaths:
    """Paths of all rows and of every fold, for every mix of the penalties."""

    units: list[Units]
    grids: list[Array]
    paths: list[RowPath]  # of all rows
    scores: Array  # (n_folds, n_mixes, n_alphas): minus the mean loss of the rows that are left out
    allowed: Array | None  # (n_mixes, n_alphas)

    def path(self, mix: int, classes: Array) -> RegularizationPath:
        """Return the path of all rows in the user's units."""
        return as_path(self.units[mix], self.paths[mix].points, classes, self.paths[mix].null_loss)


def cross_paths(
    models: list[Any],
    data: LocatedData,
    *,
    alphas: Any,
    eps: Any,
    scale: str,
    cv: Any,
    seed: Any,
    most: int | None,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> CrossPaths:
    """Walk the paths of all rows and of ``cv`` folds for each model, which differ in their mix of the penalties."""
    folds = _folds(cv, seed)
    problems, units = zip(*(assemble_rows(m, data, alpha=1.0, l1_ratio=m._l1_ratio()) for m in models), strict=True)
    model = model_of(problems[0])
    grids, paths, scores = [], [], []
    for problem in problems:
        grid = grid_of(partial(alpha_max, problem), alphas, eps, scale, data.shape)
        parts = [_part(problem, fold, data) for fold in folds]
        walks = [
            walk(one, model.another(), grid, tol=tol, max_iter=max_iter, progress=told)
            for one, told in [(problem, progress), *((part, None) for part in parts)]
        ]
        whole, *rest = lockstep(problem.rows, walks)
        left = [data.totals.weight - part.totals.weight for part in parts]
        scores.append([-path.held_out / weight for path, weight in zip(rest, left, strict=True)])
        grids.append(grid)
        paths.append(whole)
    allowed = None if most is None else affordable([path.points for path in paths], units, most)
    return CrossPaths(list(units), grids, paths, np.array(scores).swapaxes(0, 1), allowed)


def _folds(cv: Any, seed: Any) -> list[Fold]:
    if not isinstance(cv, int | np.integer):
        raise ValueError(f"cv must be a number for rows that are elsewhere, got {cv!r}: their folds are drawn by lot.")
    count = check_integer("cv", cv, least=2)
    return [Fold(i, count, 0 if seed is None else check_integer("random_state", seed)) for i in range(count)]


def _part(problem: RowProblem, fold: Fold, data: LocatedData) -> RowProblem:
    """Return the problem of the rows outside a fold; every class must be there."""
    part = replace(problem, fold=fold)
    sums = class_sums(part.totals, problem.rows.likelihood)
    if (sums <= 0).any() or part.totals.weight >= data.totals.weight:
        absent = data.classes[int(np.argmin(sums))].item()
        what = f"all rows of class {absent!r}" if (sums <= 0).any() else "no row with a weight"
        raise ValueError(
            f"Fold {fold.index} of cv={fold.count} holds {what}: folds of rows that are elsewhere are drawn by lot, "
            "not stratified. Use fewer folds, or SMLRCV on arrays in memory where there are so few rows."
        )
    return part
