"""What a study observes: the procedure on rows it has not seen, the final model, and how it fares on halves."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.study import facts as say
from smaller.app.study.certainty import effects, keeping_ranges
from smaller.app.study.demands import check_demands
from smaller.app.study.honest import HeldOut, Plan, make_plan, predict_held_out, with_shuffled_labels
from smaller.app.study.models import Procedure, available_models, fit_model
from smaller.app.study.question import Data
from smaller.app.study.ridge import fit_ridge
from smaller.app.study.stability import Stability, measure_stability
from smaller.arrays import Array

__all__ = ["ADVICE", "Observed", "UnusableModelError", "observe"]

AUTO = "auto"
ADVICE = "leave out columns of extreme range or near-copies of others, or take another model."
PRICE_WORTH_SAYING = 5.0  # seconds
LARGEST_GAP = 0.1  # of the loss without features; beyond it the weights say nothing about the optimum


class UnusableModelError(RuntimeError):
    """The solver stopped so far from the optimum that its model must not be used."""


@dataclass(frozen=True)
class Observed:
    """Everything a study has seen, before anything is said about it."""

    data: Data
    how: Procedure  # as it was run: the model chosen, gaps and order known
    plan: Plan
    held_out: HeldOut  # predictions of rows that were not learnt from
    all_features: HeldOut  # the same of a ridge model of all features
    shuffled: HeldOut | None  # the same with shuffled labels
    pipeline: Any  # the final model
    search: Any  # over strengths, that chose it
    stability: Stability
    learnt: Array | slice  # rows of the final model
    bound: dict[str, float] | None
    effects: dict[str, Any] | None  # of the chosen features, with ranges
    notes: list[str]

    @property
    def classes(self) -> Array:
        """Labels in the order of the probabilities."""
        return self.how.labels(self.data.y)

    @property
    def counts(self) -> Array:
        """Rows of every class."""
        return np.array([np.count_nonzero(self.data.y == label) for label in self.classes])

    def groups_of(self, predicted: HeldOut) -> Array | None:
        """Return the groups of the rows predicted, where rows belong together."""
        groups = self.data.units.grouped
        return None if groups is None else groups[predicted.rows]


def observe(data: Data, how: Procedure, *, tick: Callable[[str], None], announce: Callable[[str], None]) -> Observed:
    """Choose a model if asked to, judge its procedure on held-out rows, fit it to all rows and to halves of them."""
    check_demands(how, data)
    X, y, notes = data.X, data.y, list(data.notes)
    gaps = not sparse.issparse(X) and bool(np.isnan(X.sum()))
    how = replace(how, ordered=data.units.ordered, gaps=gaps, free=data.free)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how.model == AUTO:
            model, why = _choose_model(data, how, tick=tick)
            how = replace(how, model=model)
            notes.append(why)
        plan = make_plan(X, y, data.units, how)
        final = keeping_ranges(how, data.units)
        judged = how if plan.nested else final  # one hold-out part: the model judged is the one that is kept
        held_out = predict_held_out(X, y, plan, judged, tick=_priced(tick, announce, plan, how))
        tick("final model")
        pipeline, search = held_out.kept or fit_model(X, y, final, data.units.codes)
        _check_usable(pipeline[-1], held_out)
        warned = [entry for entry in caught if issubclass(entry.category, UserWarning)]
        notes += sorted({str(entry.message).splitlines()[0] for entry in warned})
        tick("stability of the features")
        stability = measure_stability(X, y, pipeline, how, data.units.grouped)
        once = replace(plan, repeats=plan.repeats[:1])
        full = predict_held_out(X, y, once, how, fit=fit_ridge, tick=tick, name="all features")
        shuffled = with_shuffled_labels(X, y, plan, how, tick=tick) if how.shuffle else None
        tick("report")
        learnt = slice(None) if plan.nested else plan.repeats[0][0][0]
        bound = None if how.free else say.generalisation_bound(pipeline, X, y, learnt)  # free: no proper prior
        found = effects(pipeline, X[learnt], y[learnt], data.encoder.features, data.units)
    return Observed(
        data, how, plan, held_out, full, shuffled, pipeline, search, stability, learnt, bound, found, notes
    )  # fmt: skip


def _priced(
    tick: Callable[[str], None], announce: Callable[[str], None], plan: Plan, how: Procedure
) -> Callable[[str], None]:
    """Return a tick that announces, after the first part, what repeats and the shuffled run will cost."""
    started: list[float] = []
    parts = len(plan.repeats[0])
    more = [f"{len(plan.repeats)} repeats"] * (len(plan.repeats) > 1) + ["a run with shuffled labels"] * how.shuffle

    def ticked(stage: str) -> None:
        started.append(time.perf_counter())
        if len(started) == 2 and more:
            each = (started[1] - started[0]) * parts
            total = each * (len(plan.repeats) + how.shuffle)
            options = ["--repeats 1"] * (len(plan.repeats) > 1) + ["--no-shuffle"] * how.shuffle
            if total >= PRICE_WORTH_SAYING:
                announce(
                    f"{' and '.join(more)} will take about {total:.2g} s; with {' '.join(options)} about {each:.2g} s."
                )
        tick(stage)

    return ticked


def _check_usable(model: Any, held_out: HeldOut) -> None:
    """Refuse a model that must not be used: not a number, or nowhere near the optimum it was meant to be."""
    proof = say.certificate(model)
    if not np.isfinite(held_out.proba).all() or not np.isfinite(proof["objective"]):
        raise UnusableModelError("the model predicts values that are not numbers, so none was written: " + ADVICE)
    if not proof["converged"] and (proof["gap"] or 0.0) > LARGEST_GAP * proof["scale"]:
        raise UnusableModelError(
            f"the solver stopped far from the optimum (it may be {proof['gap'] / proof['scale']:.0%} of the loss "
            "without features away), so no model was written: " + ADVICE
        )


def _choose_model(data: Data, how: Procedure, *, tick: Callable[[str], None]) -> tuple[str, str]:
    """Take the import vector machine where it predicts clearly better than SMLR, else SMLR, which can be read."""
    X, y = data.X, data.y
    once = replace(how, model="smlr", seed=how.seed + 1, repeats=1, rule="min")
    plan = make_plan(X, y, data.units, once)
    if "ivm" not in available_models() or not plan.nested or sparse.issparse(X):
        return "smlr", "auto chose smlr: the table is too large (or too wide) to try the kernel model."
    losses = {}
    for name in ("smlr", "ivm"):
        tick(f"try {name}")
        held_out = predict_held_out(X, y, plan, replace(once, model=name, seed=how.seed))
        losses[name] = -np.log(held_out.proba[0, np.arange(len(held_out.codes)), held_out.codes])
    gain = losses["smlr"] - losses["ivm"]
    better = gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
    chosen = "ivm" if better else "smlr"
    means = ", ".join(f"{name} {loss.mean():.3f}" for name, loss in losses.items())
    return chosen, f"auto chose {chosen}; mean log-loss on held-out rows: {means} (ivm must be better by two errors)."
