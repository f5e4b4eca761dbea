"""Which features are found again on other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

from smaller.app.study.models import Procedure
from smaller.arrays import Array
from smaller.estimators.regularization_path import alpha_max, smlr_path
from smaller.estimators.stability import StabilitySelection

__all__ = ["Stability", "measure_stability"]

ROWS, PAIRS = 2_000, 25
MANY_CELLS, FEW_PAIRS = 2_000_000, 10  # beyond so many cells fewer pairs are drawn
STRENGTHS = 15  # on the path of a half
SHOWN = 15


@dataclass(frozen=True)
class Stability:
    """Selection frequencies of every feature (None for kernel models), the threshold, and a sentence on both."""

    frequencies: Array | None
    threshold: float | None  # from here on a feature is unlikely to be there by chance; None where there is no such
    note: str

    def facts(self, names: list[str], used: list[str]) -> dict[str, Any]:
        """Return the features found most often as plain values."""
        top: list[dict[str, Any]] = []
        if self.frequencies is not None:
            order = np.argsort(-self.frequencies, kind="stable")[:SHOWN]
            in_model = set(used)
            top = [
                {"name": names[j], "frequency": float(self.frequencies[j]), "used": names[j] in in_model}
                for j in order
                if self.frequencies[j] > 0
            ]
        return {"note": self.note, "threshold": self.threshold, "top": top}


def measure_stability(X: Any, y: Array, pipeline: Any, how: Procedure, units: Array | None = None) -> Stability:
    """Split the rows (a sample of them, if there are many) into halves, and count what is chosen on each."""
    model, count = pipeline[-1], X.shape[0]
    if not hasattr(model, "coef_"):
        return Stability(None, None, "Selection frequencies are given for linear models only.")
    pairs = FEW_PAIRS if count * X.shape[1] > MANY_CELLS else PAIRS
    if count > ROWS:
        rows = _sample(y, how.seed)
        X, y, units = X[rows], y[rows], None if units is None else units[rows]
    filled = pipeline[:-1].transform(X)
    strength = getattr(model, "alpha_", getattr(model, "alpha", None)) if how.model == "smlr" else None
    what, rule = _what_counts(
        model, None if strength is None else strength * (filled.shape[0] // 2) / count, X.shape[1], how
    )
    selector = StabilitySelection(n_pairs=pairs, bound="unimodal", random_state=how.seed, **what)
    try:
        selector.fit(filled, y, groups=units)
    except ValueError:
        return Stability(None, None, "The rows cannot be halved so that each half has two classes.")
    sample = f"A sample of {filled.shape[0]:,} rows was" if count > ROWS else "The rows were"
    whole = "" if units is None else ", rows that belong together in one half,"
    note = f"{sample} split into halves {pairs} times{whole} and {rule}."
    frequencies = selector.frequencies_.copy()
    frequencies[list(how.free)] = np.nan  # what is always in is not chosen
    if selector.threshold_ > 1.0:
        return Stability(frequencies, None, f"{note} So many are used that no frequency rules out chance.")
    note += (
        f" Of the features found in at least {selector.threshold_:.0%} of the halves at most "
        f"{selector.expected_false_:.2g} are expected to be there by chance (Shah and Samworth's bound for unimodal "
        "frequencies)."
    )
    return Stability(frequencies, float(selector.threshold_), note)


def _sample(y: Array, seed: int) -> Array:
    """Return some rows, without classes of which only one is among them."""
    rows = np.sort(np.random.default_rng(seed).choice(len(y), ROWS, replace=False))
    return rows[np.isin(y[rows], [label for label in np.unique(y) if (y[rows] == label).sum() >= 2])]


def _what_counts(model: Any, strength: float | None, n_features: int, how: Procedure) -> tuple[dict[str, Any], str]:
    """Return the rule of being chosen on half of the rows, as arguments of the selector and in words."""
    used = len(model.active_features_)
    if strength is not None and used:
        rule = "a feature counts if it is used at any strength down to the chosen one, for as many rows"
        return {"estimator": PathTo(strength, how.free, how.class_weight)}, rule
    first = max(1, min(used, n_features // 2))
    return {"n_features": first, "standardize": True}, f"the first {first} features to enter the path count"


class PathTo(BaseEstimator):
    """What enters anywhere on the path from the largest strength down to ``alpha``; features are standardised.

    ``coef_`` holds, for every feature, the largest absolute weight on the way. The features numbered ``free`` have no
    penalty.
    """

    def __init__(self, alpha: float = 1.0, free: tuple[int, ...] = (), class_weight: str | None = None) -> None:
        self.alpha = alpha
        self.free = free
        self.class_weight = class_weight

    def fit(self, X: Any, y: Array) -> PathTo:
        """Follow the path."""
        X = StandardScaler(with_mean=not hasattr(X, "tocsr")).fit_transform(X)
        options: dict[str, Any] = {"class_weight": self.class_weight}
        if self.free:
            options["penalty_factors"] = factors = np.ones(X.shape[1])
            factors[list(self.free)] = 0.0
        largest = alpha_max(X, y, **options)
        self.coef_ = np.zeros((1, X.shape[1]))
        if self.alpha < largest:
            strengths = np.geomspace(largest, self.alpha, STRENGTHS)
            for w in smlr_path(X, y, alphas=strengths, tol=1e-3, **options).weights:
                self.coef_ = np.maximum(self.coef_, abs(w).max(axis=1).toarray().reshape(1, -1))
        return self
