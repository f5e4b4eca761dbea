"""Grades as training data, their problem, and the choice of its strength by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.assembly import Units, basis_is_linear, survey
from smaller.estimators.fields import checked
from smaller.estimators.fold_scores import choose, judged, warn_at_edge
from smaller.estimators.folds import SMALLEST_PROBABILITY, folds_of, part_of
from smaller.estimators.regularization_path import RegularizationPath, as_path
from smaller.estimators.strength import grid_of
from smaller.likelihoods import Ordinal
from smaller.priors import ElasticNet
from smaller.problem import Solution
from smaller.row_problem import RowProblem
from smaller.rows.host import HostRows
from smaller.searches.row_path import RowPath, walk
from smaller.solvers.driver import Progress
from smaller.solvers.engine import alpha_max, lockstep
from smaller.solvers.sampled import draw
from smaller.threads import carried
from smaller.validation import TrainingData, check_classification_data, check_weight

__all__ = ["assemble_grades", "cross_validated", "graded_data"]


@dataclass(frozen=True)
class Choice:
    """What a cross-validation found, in the user's units."""

    alpha: float
    alphas: Array  # (n_alphas,)
    scores: Array  # (n_folds, n_alphas)
    path: RegularizationPath
    solution: Solution


def graded_data(estimator: Any, X: Any, y: Any, sample_weight: Any, class_weight: Any) -> TrainingData:
    """Check training data; the codes count the grades from the lowest."""
    data = check_classification_data(estimator, X, y, sample_weight, class_weight)
    order = estimator.order
    dtype: Any = getattr(y, "dtype", None)
    if order is None and getattr(dtype, "ordered", False):
        order = list(dtype.categories)
    if order is None:
        return data
    place = {grade: k for k, grade in enumerate(order)}
    unknown = [grade for grade in data.classes.tolist() if grade not in place]
    if unknown:
        raise ValueError(f"order must name every grade from lowest to highest: {unknown[0]!r} of y is missing.")
    if len(place) < len(order):
        raise ValueError("order must name every grade once.")
    rank = np.argsort([place[grade] for grade in data.classes.tolist()])
    return replace(data, codes=np.argsort(rank)[data.codes], classes=data.classes[rank])


def assemble_grades(
    estimator: Any, data: TrainingData, basis: Basis, centers: Array | None
) -> tuple[RowProblem, Units]:
    """Put rows, thresholds and a prior of unit strength together."""
    likelihood, l1_ratio = Ordinal(len(data.classes)), estimator._l1_ratio()
    factors = estimator._factors(data.X.shape[1], centers)
    r: Any = 1.0 if factors is None else factors
    slope, ridge = l1_ratio * r, (1.0 - l1_ratio) * r
    features = survey(data.X, data.weight, ridge, True) if basis_is_linear(basis) else None
    design = basis.expand(data.X if features is None else features.columns(data.X))
    if features is not None:
        column = features.scales[:, None]
        with np.errstate(over="ignore", under="ignore"):
            slope, ridge = (slope * column)[features.kept], (ridge * column * column)[features.kept]
    rows = HostRows(design, likelihood.encode(data.codes), data.weight, likelihood)
    return RowProblem(rows, ElasticNet(slope, ridge)), Units(likelihood, rows.n_columns, features)


def cross_validated(
    estimator: Any,
    data: TrainingData,
    basis: Basis,
    centers: Array | None,
    groups: Any,
    sample_weight: Any,
    progress: Progress | None,
) -> Choice:
    """Walk the path of all rows and of every fold, and choose."""
    problem, units = assemble_grades(estimator, data, basis, centers)
    shape = data.X.shape[0], problem.n_columns if centers is not None else data.X.shape[1]
    scale = checked(estimator, "alpha_scale")
    alphas = grid_of(partial(alpha_max, problem), estimator.alphas, estimator.eps, scale, shape)
    weight = check_weight(sample_weight, data.X.shape[0])
    scores = Parallel(n_jobs=estimator.n_jobs)(
        delayed(carried(_score))(estimator, data, weight, train, test, alphas)
        for train, test in folds_of(estimator.cv, data, groups)
    )
    table = np.array(scores)[:, None, :]
    _, chosen = choose(table, estimator.rule)
    warn_at_edge(chosen, alphas)
    found = _path(estimator, problem, alphas, progress)
    path = as_path(units, found.points, data.classes, found.null_loss)
    point = found.points[chosen]
    w, b = units.to_user(point.w, point.b)
    solution = Solution(
        w, b, point.objective, point.violation, point.gap, len(alphas), point.status, "engine", found.null_loss
    )
    return Choice(float(alphas[chosen]), alphas, table[:, 0], path, solution)


def _path(estimator: Any, problem: RowProblem, alphas: Array, progress: Progress | None = None) -> RowPath:
    model = draw(problem.rows, problem.totals)
    steps = walk(problem, model, alphas, **estimator._limits(), progress=progress)
    return lockstep(problem.rows, [steps])[0]


def _score(estimator: Any, data: TrainingData, weight: Array | None, train: Array, test: Array, alphas: Array) -> Array:
    """Return the held-out score of every strength; grades absent from the fold have probability zero."""
    test_weight = None if weight is None else weight[test]
    if test_weight is not None and not test_weight.any():
        return np.full(len(alphas), np.nan)
    part, X_test, present = part_of(data, train, test, pairwise=estimator._precomputed)
    basis, centers = estimator._basis(part)
    problem, units = assemble_grades(estimator, part, basis, centers)
    found = [units.to_user(point.w, point.b) for point in _path(estimator, problem, alphas).points]
    position = basis.expand(X_test).forward(np.hstack([w for w, _ in found]))
    likelihood = Ordinal(len(part.classes))
    log_proba = np.full((len(test), len(alphas), len(data.classes)), np.log(SMALLEST_PROBABILITY))
    for i, (_, b) in enumerate(found):
        log_proba[:, i, present] = likelihood.log_predict(position[:, i, None] + b)
    return judged(estimator.scoring, log_proba, data.codes[test], data.classes, test_weight)
