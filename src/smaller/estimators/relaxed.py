"""Probabilities without the shrinkage of the penalty, as far as rows left out confirm them.

    eta = a eta_penalised + c eta_refit

The support stays, and with it one linear model; what is certified is the penalised fit, and it alone. Every fold goes
through the whole procedure, the choice of the support (and of the strength, where data choose it) included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from smaller.arrays import Array, log_partition
from smaller.bases import Basis
from smaller.designs import Design
from smaller.estimators.assembly import Assembly
from smaller.estimators.base import Fitted, all_outputs, class_scores
from smaller.estimators.folds import SMALLEST_PROBABILITY, folds_of, part_of
from smaller.searches.blend import blend_weights
from smaller.searches.refit import refit
from smaller.telling import tell
from smaller.validation import TrainingData, check_integer

__all__ = ["Ended", "forget_relaxed", "relaxed"]

_ATTRIBUTES = ("relax_", "refit_strength_", "penalized_coef_", "penalized_dual_coef_", "penalized_intercept_")


@dataclass(frozen=True)
class Ended:
    """The end of a penalised fit, in the solver's units; ``assembly`` has unit strength."""

    basis: Basis
    assembly: Assembly
    w: Array
    b: Array


Procedure = Callable[[TrainingData], Ended]


def forget_relaxed(estimator: Any) -> None:
    """Remove what an earlier, relaxed fit has left."""
    for name in _ATTRIBUTES:
        estimator.__dict__.pop(name, None)


def relaxed(
    estimator: Any, fitted: Fitted, ended: Ended, data: TrainingData, procedure: Procedure, cv: Any, groups: Any = None
) -> Fitted:
    """Return the blend of a penalised fit and its refit; the estimator keeps both parts and their weights."""
    problem = ended.assembly.problem
    again = refit(problem, ended.w, ended.b)
    w, b = ended.assembly.to_user(again.w, again.b)
    used = fitted.w.any(axis=1)
    folds = _folds(cv, data, groups) if used.any() else []
    a, c = _cross_fitted(data, folds, procedure, again.strength, estimator._precomputed) if folds else (1.0, 0.0)
    estimator.relax_, estimator.refit_strength_ = (a, c), again.strength
    estimator.penalized_intercept_ = all_outputs(fitted.b[None, :], fitted.likelihood)[0]
    if fitted.centers is None:
        estimator.penalized_coef_ = np.ascontiguousarray(all_outputs(fitted.w, fitted.likelihood).T)
    else:
        estimator.penalized_dual_coef_ = np.ascontiguousarray(all_outputs(fitted.w[used], fitted.likelihood).T)
    return replace(fitted, w=a * fitted.w + c * w, b=a * fitted.b + c * b)


def _folds(cv: Any, data: TrainingData, groups: Any) -> list[tuple[Array, Array]]:
    """Return the folds; none, with a warning, where one of them would have a single class to learn from."""
    weight = np.ones(len(data.codes)) if data.weight is None else data.weight
    counts = np.bincount(data.codes, weight > 0)
    # The splitter itself refuses more folds than the largest class has rows.
    few = isinstance(cv, Integral) and counts.max() < check_integer("cv", cv, least=2)
    folds = [] if few else folds_of(cv, data, groups)
    if few or any(len(np.unique(data.codes[train][weight[train] > 0])) < 2 for train, _ in folds):
        tell(
            "relax=True needs folds of cv with two classes each, and these rows do not make them: the penalised fit is "
            "kept as it is. Give fewer folds, or relax=False.",
        )
        return []
    return folds


def _cross_fitted(
    data: TrainingData, folds: list[tuple[Array, Array]], procedure: Procedure, strength: float, pairwise: bool
) -> tuple[float, float]:
    """Return (a, c), from the outputs of both fits for every row that its fold has left out.

    ``strength``, of the refit on all rows, is where those of the folds begin.
    """
    penalised: list[Array] = []
    again: list[Array] = []
    rows: list[Array] = []
    for train, test in folds:
        part, X_test, present = part_of(data, train, test, pairwise=pairwise)
        ended = procedure(part)
        design = ended.basis.expand(X_test)
        refitted = refit(ended.assembly.problem, ended.w, ended.b, start=strength)
        for found, (w, b) in ((penalised, (ended.w, ended.b)), (again, (refitted.w, refitted.b))):
            log_proba = np.full((len(test), len(data.classes)), np.log(SMALLEST_PROBABILITY))
            log_proba[:, present] = _log_proba(ended, design, w, b)
            found.append(log_proba)
        rows.append(test)
    tested = np.concatenate(rows)
    Y = np.eye(len(data.classes))[data.codes[tested]]
    weight = None if data.weight is None else data.weight[tested]
    return blend_weights(np.concatenate(penalised), np.concatenate(again), Y, weight)


def _log_proba(ended: Ended, design: Design, w: Array, b: Array) -> Array:
    w, b = ended.assembly.to_user(w, b)
    likelihood = ended.assembly.problem.likelihood
    eta = all_outputs(design.forward(w) + b, likelihood)
    scores = class_scores(eta[:, 0] if eta.shape[1] == 1 else eta, likelihood)
    log_proba: Array = scores - log_partition(scores, pinned=False)[0][:, None]
    return log_proba
