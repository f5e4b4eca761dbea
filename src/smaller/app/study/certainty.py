"""How sure a study is of single things: ranges of effects, and what may be said of ranges of probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from smaller.app.study.models import Procedure
from smaller.app.study.units import Units
from smaller.arrays import Array
from smaller.estimators.intervals import notes_on_ranges
from smaller.inference import EFFECTS_NOTE, coef_interval

__all__ = ["effects", "keeping_ranges", "ranges_of_probabilities"]

LEVEL = 0.9
MOST_EFFECTS = 30  # features, those with the largest weights
LARGEST_TABLE = 3_000_000  # cells; a range of an effect explains a column by all others
DEPENDENT = (
    "Rows that belong together are no draws of their own, as ranges of effects would take them: none are shown. "
    "Intervals of the error do count them together."
)


def keeping_ranges(how: Procedure, units: Units) -> Procedure:
    """Return the procedure of the final model, which keeps what ranges of probabilities need where they are sound.

    They take every row as a draw, and the class shares as they are.
    """
    return replace(how, ranges=how.class_weight is None and units.grouped is None)


def effects(pipeline: Any, X: Any, y: Array, names: list[str], units: Units) -> dict[str, Any] | None:
    """Return the effects of the chosen features of a model of two classes with ranges; None where there are none.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted one, of gaps, scales and the model.
    X, y : array-like
        The rows it was fitted to.
    names : list of str
        Of the features.
    units : Units
        Which rows belong together.
    """
    model, scale = pipeline[-1], pipeline.named_steps["scale"].scale_
    if not _has_effects(model) or X.shape[0] * X.shape[1] > LARGEST_TABLE:
        return None
    facts: dict[str, Any] = {"level": LEVEL, "columns": int(X.shape[1]), "features": [], "note": DEPENDENT}
    if units.grouped is not None:
        return facts
    largest = np.argsort(-np.abs(model.coef_[0]), kind="stable")[:MOST_EFFECTS]
    columns = largest[model.coef_[0, largest] != 0.0]
    found = coef_interval(model, pipeline[:-1].transform(X), y, columns, LEVEL)
    rows = [
        {
            "name": names[j],
            "effect": found.estimate[i] / scale[j],
            "low": found.low[i] / scale[j],
            "high": found.high[i] / scale[j],
            "deviation": scale[j],
            "p_value": found.p_value[i],
            "p_corrected": found.p_corrected[i],
        }
        for i, j in enumerate(columns.tolist())
        if np.isfinite(found.p_value[i])
    ]
    plain = [{key: value if key == "name" else float(value) for key, value in row.items()} for row in rows]
    return facts | {"features": plain, "note": EFFECTS_NOTE}


def _has_effects(model: Any) -> bool:
    """Tell whether a model is a penalised logistic one of two classes with features in it."""
    logistic = hasattr(model, "coef_") and hasattr(model, "intercept_") and hasattr(model, "penalty_factors")
    return logistic and len(model.classes_) == 2 and bool(model.coef_.any())


def ranges_of_probabilities(model: Any) -> dict[str, Any] | None:
    """Return `reach_` and the sentences that go with ranges of a fitted model; None where it keeps none."""
    if not getattr(model, "posterior", False):
        return None
    reach = getattr(model, "reach_", None)
    known = None if reach is None or not np.isfinite(reach) else float(reach)
    return {"reach": known, "sentences": list(notes_on_ranges(model, LEVEL))}
