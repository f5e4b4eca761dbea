"""Which features are found again on other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.estimators.stability import StabilitySelection

__all__ = ["Stability", "measure_stability"]

ROWS, PAIRS = 2_000, 25
MANY_CELLS, FEW_PAIRS = 2_000_000, 10  # beyond so many cells fewer pairs are drawn
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


def measure_stability(X: Any, y: Array, pipeline: Any, *, seed: int) -> Stability:
    """Split the rows (a sample of them, if there are many) into halves, and count what is chosen on each."""
    if not hasattr(pipeline[-1], "coef_"):
        return Stability(None, None, "Selection frequencies are given for linear models only.")
    count = X.shape[0]
    pairs = FEW_PAIRS if count * X.shape[1] > MANY_CELLS else PAIRS
    if count > ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(count, ROWS, replace=False))
        kept = np.isin(y[rows], [label for label in np.unique(y) if (y[rows] == label).sum() >= 2])
        X, y = X[rows[kept]], y[rows[kept]]
    filled = pipeline[:-1].transform(X)
    # As many as the model uses; but where nearly all are taken, being taken says nothing.
    size = max(1, min(len(pipeline[-1].active_features_), X.shape[1] // 2))
    selector = StabilitySelection(n_features=size, n_pairs=pairs, bound="unimodal", random_state=seed).fit(filled, y)
    sample = f"A sample of {filled.shape[0]:,} rows was" if count > ROWS else "The rows were"
    note = f"{sample} split into halves {pairs} times; on each half the first {size} features to enter the path count."
    if selector.threshold_ > 1.0:
        return Stability(selector.frequencies_, None, f"{note} So many are used that no frequency rules out chance.")
    note += (
        f" Of the features found in at least {selector.threshold_:.0%} of the halves at most "
        f"{selector.expected_false_:.2g} are expected to be there by chance (Shah and Samworth's bound for unimodal "
        "frequencies)."
    )
    return Stability(selector.frequencies_, float(selector.threshold_), note)
