"""Predictions of rows that were not learnt from, as the facts a report shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.by_class import by_class
from smaller.app.study.costs import Costs, judge_costs
from smaller.app.study.discrimination import operate, sensitivity_interval
from smaller.app.study.honest import HeldOut
from smaller.app.study.intervals import LEVEL
from smaller.app.study.judgement import calibration, confusion, decision_tables, performance
from smaller.app.study.models import Procedure
from smaller.app.study.recalibration import recalibrate
from smaller.app.study.schema import Judged
from smaller.arrays import Array
from smaller.decisions import net_benefit

__all__ = ["decisions_of", "judge", "scored"]

THRESHOLDS = np.arange(0.01, 0.995, 0.01)
MOST_ENTRIES = 1_000_000  # rows x classes squared that a recalibration looks at


def decisions_of(proba: Array, costs: Costs | None) -> Array:
    """Return the decisions (repeats, n): the cheapest ones, without costs the most probable classes."""
    return np.asarray(proba.argmax(axis=2)) if costs is None else costs.decide(proba)


def scored(held_out: HeldOut, costs: Costs | None, groups: Array | None) -> dict[str, Any]:
    """Return error, losses and (where there are costs) the cost of predictions."""
    decided = decisions_of(held_out.proba, costs)
    paid = None if costs is None else judge_costs(held_out.codes, decided, costs, groups)
    return performance(held_out.codes, held_out.proba, groups, decided) | {"cost": paid}


def judge(held_out: HeldOut, how: Procedure, labels: list[str], groups: Array | None, priors: Array) -> Judged:
    """Return what predictions say about errors, classes and probabilities, as plain values."""
    codes, proba, costs = held_out.codes, held_out.proba, how.costs_at(priors)
    decided = decisions_of(proba, costs)
    two, asked = len(labels) == 2, how.positive is not None
    k = labels.index(str(how.positive)) if asked else 1
    return {
        "by_class": by_class(codes, proba, decided, groups),
        "benefit": _benefit(held_out, k, labels[k]) if two else None,
        "operation": _operation(held_out, k, labels[k], groups, how) if two and asked else None,
        "calibration": calibration(codes, proba),
        "recalibration": _recalibration(codes, proba, groups),
        "confusion": confusion(codes, proba, decided),
        "decisions": decision_tables(codes, proba, priors),
    }


def _recalibration(codes: Array, proba: Array, groups: Array | None) -> dict[str, Any] | None:
    """Return calibration slope and intercepts, means over the repeats; no interval where rows belong together.

    The interval's ends are means over the repeats, too. Of very many rows the first ones are looked at.
    """
    rows = slice(0, max(1000, MOST_ENTRIES // proba.shape[2] ** 2))
    fits = [recalibrate(codes[rows], one[rows]) for one in proba]
    found = [fit for fit in fits if fit is not None]
    if len(found) < len(fits):
        return None
    alone = groups is None
    ends = np.mean([fit.intercept_intervals for fit in found], axis=0).tolist()
    return {
        "slope": float(np.mean([fit.slope for fit in found])),
        "slope_interval": np.mean([fit.slope_interval for fit in found], axis=0).tolist() if alone else None,
        "intercepts": np.mean([fit.intercepts for fit in found], axis=0).tolist(),
        "intercept_intervals": ends if alone else None,
    }


def _operation(held_out: HeldOut, k: int, label: str, groups: Array | None, how: Procedure) -> dict[str, Any]:
    """Return the sensitivity for class ``k`` of two at a chosen specificity, with its interval and threshold."""
    positive, score = held_out.codes == k, held_out.proba[:, :, k]
    found = [operate(positive, one, how.specificity) for one in score]
    threshold = float(np.median([one.threshold for one in found]))
    return {
        "positive": label,
        "wanted": how.specificity,
        "sensitivity": float(np.mean([one.sensitivity for one in found])),
        "interval": list(sensitivity_interval(positive, score, how.specificity, groups, how.seed)),
        "specificity": float(np.mean([one.specificity for one in found])),
        "threshold": threshold if np.isfinite(threshold) else None,
        "level": LEVEL,
    }


def _benefit(held_out: HeldOut, k: int, label: str) -> dict[str, Any]:
    """Return the decision curve for class ``k`` of two: net benefits of the model, and of acting on everybody."""
    positive = held_out.codes == k
    curves = [net_benefit(positive, one, THRESHOLDS) for one in held_out.proba[:, :, k]]
    return {
        "positive": label,
        "thresholds": THRESHOLDS.round(4).tolist(),
        "model": np.mean(curves, axis=0).tolist(),
        "everybody": net_benefit(positive, np.ones(len(positive)), THRESHOLDS).tolist(),
    }
