"""Training rows that live elsewhere (in files, on a cluster, on a device), as an estimator meets them.

The twin of `smaller.validation` and `smaller.estimators.assembly` for rows that are asked, never fetched: one look at
all of them (`Rows.totals`) tells classes, columns and scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.arguments import MultinomialArguments, StructureArguments
from smaller.estimators.assembly import Units, entering
from smaller.estimators.fields import checked
from smaller.estimators.structure import Structure, structure_of, without
from smaller.likelihoods import Multinomial
from smaller.row_problem import RowProblem
from smaller.rows.protocol import Rows, Totals
from smaller.rows.registry import rows_of
from smaller.validation import check_factors

__all__ = ["ClassWeights", "LocatedData", "assemble_rows", "class_sums", "located", "refuse_unusual"]


@dataclass(frozen=True)
class LocatedData:
    """Checked training rows: class weights are folded in."""

    rows: Rows
    totals: Totals
    classes: Array  # (K,) labels

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.rows.n_rows, self.rows.n_columns

    def expanded(self, basis: Basis) -> LocatedData:
        """Return the rows with the columns that a basis makes of them."""
        rows = self.rows.expanded(basis)
        return LocatedData(rows, rows.totals(), self.classes)


@dataclass(frozen=True)
class ClassWeights:
    """The factor of each row from its targets: that of its class; a class without a column has what is left."""

    columns: tuple[float, ...]
    rest: float

    def __call__(self, y: Array) -> Array:
        """Return the factors (n,) of rows with targets ``y`` (n, t)."""
        return y @ (np.array(self.columns) - self.rest) + self.rest


def located(estimator: Any, X: Any, y: Any, weight: Any) -> LocatedData | None:
    """Return rows that are elsewhere with what one look at them tells; None where ``X`` is an ordinary array."""
    coding = checked(estimator, "coding") if isinstance(estimator, MultinomialArguments) else "symmetric"
    rows = rows_of(X, y, weight, partial(Multinomial, coding=coding))
    if rows is None:
        return None
    _refuse_what_needs_memory(estimator)
    estimator.__dict__.pop("_posterior", None)  # of an earlier fit in memory
    totals = rows.totals()
    likelihood = rows.likelihood
    assert isinstance(likelihood, Multinomial)
    classes = np.arange(likelihood.n_classes) if rows.labels is None else rows.labels
    sums = class_sums(totals, likelihood)
    if len(classes) < 2:
        raise ValueError(f"The rows hold one class only ({classes.tolist()}): at least 2 classes are needed.")
    if (sums <= 0).any():
        absent = classes[int(np.flatnonzero(sums <= 0)[0])]
        raise ValueError(f"No row of class {absent.item()!r} has a positive weight: leave the class out of the labels.")
    if estimator.class_weight is not None:
        factors = _factors(estimator.class_weight, classes, sums)
        shared = likelihood.shift_invariant
        columns = factors if shared else factors[1:] if len(factors) == 2 else factors[:-1]
        rest = 0.0 if shared else factors[0] if len(factors) == 2 else factors[-1]
        rows = rows.weighted(ClassWeights(tuple(columns.tolist()), float(rest)))
        totals = rows.totals()
    _remember_features(estimator, rows)
    return LocatedData(rows, totals, classes)


def _refuse_what_needs_memory(estimator: Any) -> None:
    """Refuse arguments that need the matrix itself."""
    for argument, usual in (("solver", "auto"), ("penalize_intercept", False), ("posterior", False)):
        refuse_unusual(estimator, argument, usual)


def refuse_unusual(estimator: Any, argument: str, usual: Any) -> None:
    """Refuse an argument that is not as by default."""
    value = getattr(estimator, argument, usual)
    if type(value) is not type(usual) or value != usual:
        raise ValueError(
            f"{type(estimator).__name__}({argument}={value!r}) needs arrays in memory: leave {argument} as it is by "
            f"default ({usual!r}) for rows that are elsewhere."
        )


def class_sums(totals: Totals, likelihood: Any) -> Array:
    """Return the weight of each class (K,)."""
    rest = totals.weight - totals.targets.sum()
    if likelihood.shift_invariant:
        return totals.targets
    return np.append(rest, totals.targets) if likelihood.n_classes == 2 else np.append(totals.targets, rest)


def _factors(class_weight: Any, classes: Array, sums: Array) -> Array:
    if isinstance(class_weight, str) and class_weight == "balanced":
        return sums.sum() / (len(classes) * sums)
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.isfinite(factors).all() or (factors <= 0).any():
        raise ValueError("class_weight must hold finite values > 0 for rows that are elsewhere.")
    return factors


def _remember_features(estimator: Any, rows: Rows) -> None:
    """Set what scikit-learn's estimators know of the columns."""
    estimator.n_features_in_ = rows.n_columns
    estimator.__dict__.pop("feature_names_in_", None)
    if rows.features is not None:
        estimator.feature_names_in_ = np.asarray(rows.features, dtype=object)


def assemble_rows(
    estimator: Any, data: LocatedData, *, alpha: float, l1_ratio: float, kernel: bool = False
) -> tuple[RowProblem, Units]:
    """Put rows and prior together, in the solver's units; with the way back. ``kernel``: columns are kernels."""
    totals, (_, d) = data.totals, data.shape
    free = checked(estimator, "fit_intercept")
    if kernel and estimator.penalty_factors is not None:
        raise ValueError("penalty_factors belong to features: leave them out when a kernel is used.")
    factors = check_factors(estimator.penalty_factors, d)
    r: Any = np.asarray(1.0) if factors is None else factors
    slope, ridge = alpha * l1_ratio * r, alpha * (1.0 - l1_ratio) * r
    structured = isinstance(estimator, StructureArguments)
    structure = (structure_of(estimator, d, kernel=kernel) if structured else None) or Structure()
    features = None if kernel else entering(totals.low, totals.high, data.rows.dtype, totals.weight, ridge, free)
    features = without(features, structure.excluded)
    rows = data.rows
    if features is not None:
        column = features.scales[:, None]
        with np.errstate(over="ignore", under="ignore"):
            slope, ridge = (slope * column)[features.kept], (ridge * column * column)[features.kept]
        kept = np.flatnonzero(features.kept)
        if len(kept) < d:
            rows = rows.take(kept)
        if features.moved or (features.scales[kept] != 1.0).any():
            rows = rows.scaled(features.shifts[kept], 1.0 / features.scales[kept])
    problem = RowProblem(rows, structure.prior(slope, ridge, features, False), free)
    return problem, Units(rows.likelihood, problem.n_columns, features)
