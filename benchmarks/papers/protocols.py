"""How a table was measured: outer splits, and cross-validation inside the training part only.

A `Task` is one training part with its test part. It keeps what several methods share: standardised
features, Gram blocks by kernel width, inner folds, and the width that cross-validation chose for the SVM.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import model_selection
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC
from sklearn.utils import Bunch

Array = NDArray[np.float64]
Labels = NDArray[Any]
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]

# Gaussian kernel exp(-gamma |x - z|^2) on standardised features: sigma = (2 gamma)^(-1/2) from .35 to 5.7
GAMMAS = tuple(4.0**k for k in range(-3, 2))
SVM_COSTS = tuple(10.0**k for k in range(-1, 5))
INNER_FOLDS = 5
# inner fits only rank strengths: a gap of 1e-3 of the null model's loss is far below the folds' noise
INNER_TOL = 1e-3


# ------------------------------------------------------------------------------------------ outer protocols


@dataclass(frozen=True)
class GivenSplit:
    """The data set's own training and test part; the seed only enters the inner folds."""

    def __call__(self, data: Bunch, seed: int) -> list[Pair]:
        return [(data.split["train"], data.split["test"])]


@dataclass(frozen=True)
class Realisation:
    """Number `seed` of the data set's list of training and test parts."""

    def __call__(self, data: Bunch, seed: int) -> list[Pair]:
        return [data.realisations[seed]]


@dataclass(frozen=True)
class KFold:
    """Stratified folds for classes, plain ones for regression; every row is tested once."""

    n_splits: int

    def __call__(self, data: Bunch, seed: int) -> list[Pair]:
        return folds(data.target, self.n_splits, seed)


@dataclass(frozen=True)
class LeaveOneOut:
    """Every row is tested by a model of all others."""

    def __call__(self, data: Bunch, seed: int) -> list[Pair]:
        return list(model_selection.LeaveOneOut().split(data.target))


@dataclass(frozen=True)
class RandomSplits:
    """Independent random splits, stratified for classes."""

    n_splits: int
    n_test: int

    def __call__(self, data: Bunch, seed: int) -> list[Pair]:
        classes = data.target.dtype.kind != "f"
        splitter = model_selection.StratifiedShuffleSplit if classes else model_selection.ShuffleSplit
        split = splitter(self.n_splits, test_size=self.n_test, random_state=seed).split
        return list(split(np.zeros(len(data.target)), data.target))


def folds(y: Labels, n_splits: int, seed: int) -> list[Pair]:
    """Shuffled folds, stratified if y holds classes; a class smaller than their number misses some."""
    if y.dtype.kind == "f":
        return list(model_selection.KFold(n_splits, shuffle=True, random_state=seed).split(y))
    splitter = model_selection.StratifiedKFold(n_splits, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        return list(splitter.split(y, y))


# ----------------------------------------------------------------------------------------------------- task


@dataclass(frozen=True)
class Choice:
    """Hyper-parameters found by cross-validation on the training part."""

    strength: float
    gamma: float | None = None


class Task:
    """One training part and its test part, standardised by the training part's means and deviations.

    Parameters
    ----------
    X, y, X_test
        Training rows, their labels, test rows.
    kernel : "rbf", "linear" or None
        Basis of the methods; None means the features themselves.
    seed : int
        Seed of the inner folds.
    """

    def __init__(self, X: Array, y: Labels, X_test: Array, kernel: Literal["rbf", "linear"] | None, seed: int) -> None:
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0] = 1.0
        self.X, self.y, self.X_test = (X - mean) / scale, y, (X_test - mean) / scale
        self.kernel, self.seed = kernel, seed
        self._designs: dict[float | None, tuple[Array, Array]] = {}

    @cached_property
    def inner(self) -> list[Pair]:
        """Folds of the training part."""
        return folds(self.y, INNER_FOLDS, self.seed)

    def without_kernel(self) -> Task:
        """Return the same rows and folds with the features themselves as basis."""
        return Task(self.X, self.y, self.X_test, None, self.seed)

    @property
    def gammas(self) -> tuple[float | None, ...]:
        return GAMMAS if self.kernel == "rbf" else (None,)

    @cached_property
    def _distances(self) -> tuple[Array, Array]:
        train = euclidean_distances(self.X, squared=True)
        return train, euclidean_distances(self.X_test, self.X, squared=True)

    def design(self, gamma: float | None = None) -> tuple[Array, Array]:
        """Columns for training and test rows: Gram blocks, computed once per width, or the features."""
        if gamma not in self._designs:
            if self.kernel == "rbf":
                train, test = (np.exp(-gamma * distances) for distances in self._distances)
            elif self.kernel == "linear":
                # the mean product, not the sum: a constant factor that only moves the grid of strengths
                train, test = (rows @ self.X.T / self.X.shape[1] for rows in (self.X, self.X_test))
            else:
                train, test = self.X, self.X_test
            self._designs[gamma] = (train, test)
        return self._designs[gamma]

    def block(self, gamma: float | None, fit: NDArray[np.int64], rows: NDArray[np.int64]) -> Array:
        """Part of the training design: with a kernel, only columns centred on rows that are fitted."""
        design = self.design(gamma)[0][rows]
        return design if self.kernel is None else design[:, fit]

    @cached_property
    def svm(self) -> Choice:
        """Cost and width of the SVM with the fewest errors in the inner folds; ties: the smoother one."""
        scores = {
            Choice(cost, gamma): sum(
                int(np.sum(one_versus_rest_svm(self, fit, held, cost, gamma)[0] != self.y[held]))
                for fit, held in self.inner
            )
            for gamma in self.gammas
            for cost in SVM_COSTS
        }
        return min(scores, key=lambda choice: scores[choice])


def one_versus_rest_svm(
    task: Task, fit: NDArray[np.int64], rows: NDArray[np.int64] | None, cost: float, gamma: float | None
) -> tuple[Labels, int]:
    """Label training rows (test rows if None) by one-versus-all SVMs; count their support vectors."""
    gram = task.block(gamma, fit, fit)
    queries = task.design(gamma)[1] if rows is None else task.block(gamma, fit, rows)
    classes = np.unique(task.y[fit])
    margins, n_support = [], 0
    for label in classes[1:] if len(classes) == 2 else classes:
        machine = SVC(C=cost, kernel="precomputed").fit(gram, task.y[fit] == label)
        margins.append(machine.decision_function(queries))
        n_support += int(machine.n_support_.sum())
    if len(classes) == 2:
        return classes[(margins[0] > 0).astype(int)], n_support
    return classes[np.argmax(margins, axis=0)], n_support


# ----------------------------------------------------------------------------- cross-validation along paths


def largest_strength(design: Array, y: Labels, fit_intercept: bool) -> float:
    """Strength above which an l1-penalised multinomial model is all zero: max |design' (Y - P_0)|."""
    onehot = (y[:, None] == np.unique(y)).astype(float)
    null = onehot.mean(axis=0) if fit_intercept else 1.0 / onehot.shape[1]
    return float(np.abs(design.T @ (onehot - null)).max())


def l1_grid(design: Array, y: Labels, fit_intercept: bool, *, n: int = 12, ratio: float = 3e-3) -> Array:
    """Decreasing strengths for a Laplace prior, from just under the null model."""
    return largest_strength(design, y, fit_intercept) * np.geomspace(0.9, ratio, n)


def l2_grid(design: Array, y: Labels, fit_intercept: bool, *, n: int = 12) -> Array:
    """Decreasing strengths for a Normal prior, on the scale of the mean curvature of a column."""
    return 0.25 * float((design**2).sum(axis=0).mean()) * np.geomspace(10.0, 1e-5, n)


def deviance(model: Any, rows: Array, y: Labels) -> float:
    """Minus the log-probability of the true classes, summed; a class the model never saw costs -log 1e-12."""
    chosen = np.zeros(len(y))
    proba = model.predict_proba(rows)
    for k, label in enumerate(model.classes_):
        chosen[y == label] = proba[y == label, k]
    return float(-np.log(np.maximum(chosen, 1e-12)).sum())


def choose(task: Task, model: Any, grid: Callable[..., Array], gammas: Sequence[float | None]) -> Choice:
    """Cross-validate strength and width by held-out deviance; ties go to the larger strength.

    The Gram matrix of a width is computed once and sliced; in every fold the strengths are fitted in
    decreasing order, each from the solution before (``warm_start``).
    """
    best, best_score = Choice(np.nan), np.inf
    for gamma in gammas:
        strengths = grid(task.design(gamma)[0], task.y, model.fit_intercept)
        scores = sum((_path_deviances(task, model, strengths, gamma, pair) for pair in task.inner), 0.0)
        winner = int(np.argmin(scores))
        if scores[winner] < best_score:
            best, best_score = Choice(float(strengths[winner]), gamma), scores[winner]
    return best


def _path_deviances(task: Task, model: Any, strengths: Iterable[float], gamma: float | None, pair: Pair) -> Array:
    fit, held = pair
    design, queries = task.block(gamma, fit, fit), task.block(gamma, fit, held)
    walker = clone(model).set_params(warm_start=True, tol=INNER_TOL)
    return np.array(
        [
            deviance(walker.set_params(alpha=strength).fit(design, task.y[fit]), queries, task.y[held])
            for strength in strengths
        ]
    )
