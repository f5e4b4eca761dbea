r"""Rows unlike anything a model has learnt from.

    r_i = max_j |z_ij|,        z_ij the numbers in use, in standard deviations from their means in training

Indicators of levels and of gaps do not count. A row with an r beyond that of all n training rows is unlike them; of
rows drawn as they were, one in n + 1 is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.answer import TableModel
from smaller.app.study.facts import farthest
from smaller.app.tables import Table
from smaller.arrays import Array

__all__ = ["unlike", "unlike_sentence"]

_ROUNDING = 1e-9


def unlike(model: TableModel, table: Table) -> Array | None:
    """Tell which rows are unlike all training rows; None for models that do not know how far those lie."""
    limit: Any = model.settings.get("farthest")
    if limit is None:
        return None
    return np.asarray(farthest(model.pipeline, model.features(table), model.encoder) > float(limit) * (1.0 + _ROUNDING))


def unlike_sentence(model: TableModel, table: Table) -> str | None:
    """Return how many rows are unlike all training rows, in words; None where there are none."""
    found = unlike(model, table)
    if found is None or not found.any():
        return None
    count = int(found.sum())
    first = ", ".join(str(row + 1) for row in np.flatnonzero(found)[:5]) + ", ..." * (count > 5)
    verb = "is" if count == 1 else "are"
    return (
        f"{count:,} of {len(found):,} rows {verb} unlike anything seen in training (row {first}): a number in use "
        f"lies more than {model.settings['farthest']:.3g} standard deviations from its mean, farther "
        "than in any row learnt from."
    )
