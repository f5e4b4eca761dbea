"""Whether what is asked of a procedure can be done with these data; said before any work is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smaller.app.study.costs import checked_costs
from smaller.app.study.models import Procedure
from smaller.app.study.question import Data
from smaller.app.tables import TableError
from smaller.arrays import Array

__all__ = ["check_demands", "graded"]


def check_demands(how: Procedure, data: Data) -> None:
    """Raise an error that names the option and what to do instead."""
    labels = [str(label) for label in np.unique(data.y).tolist()]
    if how.class_weight not in (None, "balanced"):
        raise TableError(f"--class-weight must be balanced, or left out, not {how.class_weight!r:.40}.")
    if how.costs is not None:
        if how.class_weight is not None:
            raise TableError("--costs says what each mistake costs: leave --class-weight out.")
        checked_costs(how.costs, len(labels))
    if how.positive is not None:
        if len(labels) != 2:
            raise TableError(f"--positive needs a target of two classes: this one has {len(labels)}.")
        if str(how.positive) not in labels:
            raise TableError(f"--positive must be one of {', '.join(labels)}, not {str(how.positive)!r:.40}.")
    if not 0 < how.specificity < 1:
        raise TableError(f"--specificity must lie between 0 and 1, not be {how.specificity:g}.")
    if how.features is not None and how.features < max(1, len(data.free)):
        raise TableError(
            f"--features {how.features} is too few: at least one, and the {len(data.free)} that --always names."
        )


def graded(named: Sequence[Any], y: Array, model: str) -> tuple[Any, ...]:
    """Return the target's classes in the order that the user names."""
    if model != "smlr":
        raise TableError(f"--ordinal has a model of its own: leave --model {model} out.")
    known = {str(label): label for label in np.unique(y).tolist()}
    texts = [str(one).strip() for one in named]
    if sorted(texts) != sorted(known):
        raise TableError(
            f"--ordinal must name every class of the target once, lowest first ({', '.join(known)}), not "
            f"{', '.join(texts)}."
        )
    return tuple(known[one] for one in texts)
