"""What taking the shrinkage out of the probabilities has brought, on rows that were not learnt from."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.honest import HeldOut
from smaller.arrays import Array

__all__ = ["relaxing"]


def relaxing(held_out: HeldOut) -> dict[str, Any] | None:
    """Return both log-losses, and one sentence; None for models that are not relaxed."""
    if held_out.penalised is None:
        return None
    after, before = (_log_loss(proba, held_out.codes) for proba in (held_out.proba, held_out.penalised))
    sentence = (
        "The weights are a blend of the penalised fit and a refit of its features, as far as rows left out confirm it: "
        f"on rows not learnt from, the log-loss is {after:.3f}, that of the penalised fit {before:.3f}."
    )
    if after > before:
        sentence += " Here it did not help; --no-relax keeps the penalised fit."
    return {"log_loss": after, "penalised_log_loss": before, "sentence": sentence}


def _log_loss(proba: Array, codes: Array) -> float:
    return float(-np.log(proba[:, np.arange(len(codes)), codes]).mean())
