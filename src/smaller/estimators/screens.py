"""Screens that leave few of many features before a model of them is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.designs import as_design
from smaller.estimators.centers import double_rows
from smaller.likelihoods import Likelihood
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.pairs import pair_scores
from smaller.solvers import solve
from smaller.validation import TrainingData

__all__ = ["SCREENS", "by_linear_model", "by_pairs", "by_separation", "scores_of_pairs"]

SCREENS = ("linear", "univariate", "pairs")


def by_linear_model(data: TrainingData, likelihood: Likelihood, strength: float) -> Array:
    """Return the features that have a weight in an L1 model on them; all if the model can have none."""
    problem = Problem(
        as_design(data.X), likelihood.encode(data.codes), data.weight, likelihood, Laplace(1.0), fit_intercept=True
    )
    largest = problem.alpha_max()
    solution = solve(problem.with_prior(Laplace(min(strength, 0.5 * largest) or 1.0)), tol=1e-4)
    kept = np.flatnonzero(solution.w.any(axis=1))
    return kept if len(kept) else np.arange(data.X.shape[1])


def by_separation(data: TrainingData, count: int) -> Array:
    """Return the features whose mean or spread differs most between the classes."""
    return _best(_class_separation(data), count)


def by_pairs(data: TrainingData, count: int) -> Array:
    """Return the features that differ most between the classes alone or as products of two."""
    return _best(scores_of_pairs(data), count)


def scores_of_pairs(data: TrainingData) -> Array:
    """Return every feature's score in the screen of pairs (p,)."""
    return pair_scores(data.X, data.codes[:, None] == np.arange(len(data.classes)), data.weight)


def _best(scores: Array, count: int) -> Array:
    return np.sort(np.argsort(-scores, kind="stable")[:count])


def _class_separation(data: TrainingData) -> Array:
    """Return for every feature the share of its variance between the classes; of its squares' variance if larger."""
    X, weight = double_rows(data.X), np.ones(len(data.codes)) if data.weight is None else data.weight
    members = (data.codes[:, None] == np.arange(len(data.classes))) * weight[:, None]
    totals = members.sum(axis=0)

    def share(Z: Any) -> Array:
        means = (Z.T @ members) / totals  # (p, K)
        mean = (means @ totals) / totals.sum()
        between = (means - mean[:, None]) ** 2 @ totals
        spread = np.asarray((Z.power(2) if sparse.issparse(Z) else Z**2).T @ weight) - totals.sum() * mean**2
        constant = spread <= 1e-12 * totals.sum() * mean**2
        return np.where(constant, 0.0, between / np.where(constant, 1.0, spread))

    if sparse.issparse(X):
        return np.maximum(share(X), share(X.power(2)))
    centred = X - (weight @ X) / weight.sum()
    return np.maximum(share(centred), share(centred**2))
