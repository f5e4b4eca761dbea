"""Probabilities for rows that the model was not learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from smaller.app.study.models import FOLDS, MODELS, Procedure, fit_model
from smaller.app.study.splits import GroupFolds, PastFolds, fold_of_rows
from smaller.app.study.units import Units, shuffled_labels
from smaller.app.tables import TableError
from smaller.arrays import Array

__all__ = ["HeldOut", "Plan", "is_small", "make_plan", "predict_held_out", "stages", "with_shuffled_labels"]

NESTED_ROWS, NESTED_CELLS = 3_000, 3_000_000  # up to here nested cross-validation, beyond one hold-out part
REPEATS, REPEATED_SIZE = 5, 3_000_000  # repeated up to this many rows x features x classes squared
HOLD_OUT_PARTS, HOLD_OUT_ROWS = 4, 100_000
_LEAST = np.finfo(np.float64).eps  # probability of a class that a fold did not have

Split = tuple[Array, Array]


@dataclass(frozen=True)
class Plan:
    """How the honest error is found: for every repeat the splits into rows to learn from and rows to predict."""

    nested: bool
    repeats: list[list[Split]]
    units: Units

    @property
    def sentence(self) -> str:
        """The rule, for the report."""
        kept = f" {self.units.sentence}" if self.units.sentence else ""
        if self.nested:
            parts, times = len(self.repeats[0]), len(self.repeats)
            again = f", and all of it {times} times with other parts" if times > 1 else ""
            return (
                f"Nested cross-validation: {parts} times one part of the rows was set aside, everything (filling, "
                f"scaling, strength, weights) was learnt from the others, and the part was predicted{again}.{kept} "
                f"(Rule: up to {NESTED_ROWS:,} rows and {NESTED_CELLS:,} cells; one hold-out part beyond.)"
            )
        return (
            f"One hold-out part: {len(self.repeats[0][0][1]):,} rows were set aside, everything was learnt from the "
            f"others, and the part was predicted; the model that was judged is the one that is kept.{kept} (Rule: more "
            f"than {NESTED_ROWS:,} rows or {NESTED_CELLS:,} cells; nested cross-validation below.)"
        )


@dataclass(frozen=True)
class HeldOut:
    """Class codes and probabilities of rows that were predicted without having been learnt from."""

    rows: Array  # (m,), of the table
    codes: Array  # (m,)
    proba: Array  # (repeats, m, K)
    sizes: list[int]  # features or reference points used, per fold
    unit: str  # what is counted
    kept: tuple[Any, Any] | None = None  # of one hold-out part: the model judged, and where its strength was chosen
    penalised: Array | None = None  # (repeats, m, K), of a relaxed model before its shrinkage was taken out

    @property
    def size(self) -> str:
        """The sizes as text."""
        low, high = min(self.sizes), max(self.sizes)
        return f"{low}-{high} {self.unit}s" if low < high else f"{low} {self.unit}{'s' * (low != 1)}"


def is_small(n: int, p: int) -> bool:
    """Tell whether a table of this size is judged by nested cross-validation."""
    return n <= NESTED_ROWS and n * p <= NESTED_CELLS


def repeats_of(X: Any, n_classes: int, how: Procedure, units: Units) -> int:
    """Return how often cross-validation is done: as asked for, else by the size of the table."""
    if not is_small(*X.shape) or units.ordered:
        return 1
    if how.repeats is not None:
        return how.repeats
    affordable = X.shape[0] * X.shape[1] * n_classes**2 <= REPEATED_SIZE
    return REPEATS if affordable and MODELS[how.model].linear else 1


def stages(X: Any, n_classes: int, how: Procedure, units: Units) -> int:
    """Return how many stages a study of these data has, for a progress bar."""
    parts = FOLDS if is_small(*X.shape) else 1
    return parts * (repeats_of(X, n_classes, how, units) + 1 + how.shuffle) + 3 + 2 * (how.model == "auto")


def make_plan(X: Any, y: Array, units: Units, how: Procedure) -> Plan:
    """Choose between nested cross-validation and one hold-out part by the size of the table."""
    nested = is_small(*X.shape)
    count = repeats_of(X, len(np.unique(y)), how, units)
    repeats = [list(_splits(y, units, nested, how.seed + 1000 * r)) for r in range(count)]
    if not all(repeats) or any(len(np.unique(y[train])) < 2 for splits in repeats for train, _ in splits):
        raise TableError(
            f"The rows cannot be split by {units.column!r} so that every part to learn from has two classes: take "
            "another column, or --group none."
        )
    return Plan(nested, repeats, units)


def _splits(y: Array, units: Units, nested: bool, seed: int) -> Iterator[Split]:
    nothing = np.zeros(len(y))
    if units.ordered:
        folds = PastFolds(FOLDS if nested else 2)
        yield from list(folds.split(nothing, y, units.codes))[-(FOLDS if nested else 1) :]
    elif units.codes is not None and nested:
        yield from GroupFolds(FOLDS, seed).split(nothing, y, units.codes)
    elif units.codes is not None:
        fold = fold_of_rows(y, units.codes, max(HOLD_OUT_PARTS, -(-len(y) // HOLD_OUT_ROWS)), seed)
        yield np.flatnonzero(fold), np.flatnonzero(fold == 0)
    elif nested:
        yield from StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(nothing, y)
    else:
        size = min(len(y) // HOLD_OUT_PARTS, HOLD_OUT_ROWS)
        yield from StratifiedShuffleSplit(1, test_size=size, random_state=seed).split(nothing, y)


def predict_held_out(
    X: Any,
    y: Array,
    plan: Plan,
    how: Procedure,
    *,
    fit: Callable[..., tuple[Any, Any]] = fit_model,
    tick: Callable[[str], None] = lambda stage: None,
    name: str = "honest error",
) -> HeldOut:
    """Fit on every training part and predict its test part."""
    classes = how.labels(y)
    sizes: list[int] = []
    proba = np.full((len(plan.repeats), len(y), len(classes)), np.nan)
    penalised = np.full_like(proba, np.nan)
    kept = None
    for r, splits in enumerate(plan.repeats):
        again = f" (repeat {r + 1} of {len(plan.repeats)})" if len(plan.repeats) > 1 else ""
        for number, (train, test) in enumerate(splits, 1):
            tick(f"{name}, part {number} of {len(splits)}{again}")
            kept = fit(X[train], y[train], how, plan.units.take(train))
            model = kept[0]
            proba[r, test] = _known(model.predict_proba(X[test]), model.classes_, classes)
            before = _before_relaxing(model, X[test])
            if before is not None:
                penalised[r, test] = _known(before, model.classes_, classes)
            sizes.append(_size(model))
    rows = np.flatnonzero(np.isfinite(proba).all(axis=(0, 2)))
    if not len(rows):  # predictions that are not numbers: whoever judges them must see them
        rows = np.sort(plan.repeats[0][0][1])
    codes = _places(y[rows], classes)
    relaxed = bool(np.isfinite(penalised[:, rows]).all())
    unit = "feature" if MODELS[how.model].linear else "point"
    return HeldOut(
        rows, codes, proba[:, rows], sizes, unit, None if plan.nested else kept, penalised[:, rows] if relaxed else None
    )


def with_shuffled_labels(
    X: Any, y: Array, plan: Plan, how: Procedure, *, tick: Callable[[str], None] = lambda stage: None
) -> HeldOut | None:
    """Do the same with labels permuted between units; None where such labels cannot be learnt from at all."""
    shuffled = shuffled_labels(y, plan.units.grouped, np.random.default_rng(how.seed))
    try:
        again = make_plan(X, shuffled, plan.units, replace(how, repeats=1))
        return predict_held_out(X, shuffled, again, how, tick=tick, name="shuffled labels")
    except ValueError:
        return None


def _places(labels: Array, classes: Array) -> Array:
    """Return where labels stand among the classes, whatever their order."""
    order = np.argsort(classes)
    places: Array = order[np.searchsorted(classes, labels, sorter=order)]
    return places


def _known(P: Array, present: Array, classes: Array) -> Array:
    """Return probabilities of all classes; one that was absent in training gets next to none."""
    full = np.full((len(P), len(classes)), _LEAST)
    full[:, _places(present, classes)] = np.maximum(P, _LEAST)
    return np.asarray(full / full.sum(axis=1, keepdims=True))


def _before_relaxing(model: Any, X: Any) -> Array | None:
    """Return what a relaxed model would say with the weights of its penalised fit."""
    last = model[-1] if hasattr(model, "steps") else model
    if getattr(last, "relax_", None) is None or not hasattr(last, "penalized_coef_"):
        return None
    eta = model[:-1].transform(X) @ last.penalized_coef_.T + last.penalized_intercept_
    if eta.shape[1] == 1:
        eta = np.hstack([np.zeros_like(eta), eta])
    eta -= eta.max(axis=1, keepdims=True)
    P = np.exp(eta)
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _size(model: Any) -> int:
    last = model[-1] if hasattr(model, "steps") else model
    for name in ("active_features_", "support_"):
        if hasattr(last, name):
            return len(getattr(last, name))
    return 0
