"""Probabilities for rows that the model was not learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from smaller.app.study.models import FOLDS, MODELS, available_models, fit_model
from smaller.arrays import Array

__all__ = ["HeldOut", "Plan", "is_small", "make_plan", "predict_held_out", "stages"]

NESTED_ROWS, NESTED_CELLS = 3_000, 3_000_000  # up to here nested cross-validation, beyond one hold-out part
HOLD_OUT_SHARE, HOLD_OUT_ROWS = 0.25, 100_000
_LEAST = np.finfo(np.float64).eps  # probability of a class that a fold did not have


@dataclass(frozen=True)
class Plan:
    """How the honest error is found."""

    nested: bool
    splits: list[tuple[Array, Array]]

    @property
    def sentence(self) -> str:
        """The rule, for the report."""
        if self.nested:
            return (
                f"Nested cross-validation: {len(self.splits)} times one part of the rows was set aside, everything "
                "(filling, scaling, strength, weights) was learnt from the others, and the part was predicted. "
                f"(Rule: up to {NESTED_ROWS:,} rows and {NESTED_CELLS:,} cells; one hold-out part beyond.)"
            )
        return (
            f"One hold-out part: {len(self.splits[0][1]):,} rows, chosen at random within the classes, were set aside, "
            "everything was learnt from the others, and the part was predicted; the model that was judged is the one "
            f"that is kept. (Rule: more than {NESTED_ROWS:,} rows or {NESTED_CELLS:,} cells; nested cross-validation "
            "below.)"
        )


@dataclass(frozen=True)
class HeldOut:
    """Class codes and probabilities of rows that were predicted without having been learnt from."""

    codes: Array  # (n,)
    proba: Array  # (n, K)
    sizes: list[int]  # features or reference points used, per fold
    unit: str  # what is counted
    kept: tuple[Any, Any] | None = None  # of one hold-out part: the model judged, and where its strength was chosen

    @property
    def size(self) -> str:
        """The sizes as text."""
        low, high = min(self.sizes), max(self.sizes)
        return f"{low}-{high} {self.unit}" if low < high else f"{low} {self.unit}"


def is_small(n: int, p: int) -> bool:
    """Tell whether a table of this size is judged by nested cross-validation."""
    return n <= NESTED_ROWS and n * p <= NESTED_CELLS


def stages(X: Any, model: str) -> int:
    """Return how many stages a study of these data has, for a progress bar."""
    if model == "compare":
        return len(available_models())
    return (FOLDS if is_small(*X.shape) else 1) + 3 + 2 * (model == "auto")


def make_plan(X: Any, y: Array, *, seed: int) -> Plan:
    """Choose between nested cross-validation and one hold-out part, by size alone."""
    n, p = X.shape
    nested = is_small(n, p)
    splitter: Any
    if nested:
        splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    else:
        size = min(int(n * HOLD_OUT_SHARE), HOLD_OUT_ROWS)
        splitter = StratifiedShuffleSplit(1, test_size=size, random_state=seed)
    return Plan(nested, list(splitter.split(np.zeros(n), y)))


def predict_held_out(
    name: str,
    X: Any,
    y: Array,
    plan: Plan,
    *,
    seed: int,
    rule: str,
    tick: Callable[[str], None] = lambda stage: None,
) -> HeldOut:
    """Fit on every training part and predict its test part."""
    classes = np.unique(y)
    codes, proba, sizes = [], [], []
    unit = "features" if MODELS[name].linear else "points"
    for number, (train, test) in enumerate(plan.splits, 1):
        tick(f"honest error, part {number} of {len(plan.splits)}")
        model, search = fit_model(name, X[train], y[train], seed=seed, rule=rule)
        P = np.full((len(test), len(classes)), _LEAST)
        P[:, np.searchsorted(classes, model.classes_)] = np.maximum(model.predict_proba(X[test]), _LEAST)
        codes.append(np.searchsorted(classes, y[test]))
        proba.append(P / P.sum(axis=1, keepdims=True))
        sizes.append(len(getattr(model[-1], "active_features_" if MODELS[name].linear else "support_")))
    return HeldOut(np.concatenate(codes), np.concatenate(proba), sizes, unit, None if plan.nested else (model, search))
