"""The answer to a study: the fitted model, and everything the report says about it."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.columns import TableEncoder
from smaller.app.study import facts as say
from smaller.app.study.honest import HeldOut, Plan, make_plan, predict_held_out, with_shuffled_labels
from smaller.app.study.judgement import calibration, confusion, decision_tables, performance
from smaller.app.study.models import MODELS, Procedure, available_models, fit_model
from smaller.app.study.question import Data
from smaller.app.study.ridge import fit_ridge
from smaller.app.study.schema import SCHEMA, Facts
from smaller.app.study.stability import measure_stability
from smaller.app.study.verdict import cost_of_sparsity, verdict
from smaller.app.tables import Table
from smaller.arrays import Array

__all__ = ["Study", "TableModel", "UnusableModelError", "run_study"]

AUTO = "auto"
ADVICE = "leave out columns of extreme range or near-copies of others, or take another model."
PRICE_WORTH_SAYING = 5.0  # seconds
LARGEST_GAP = 0.1  # of the loss without features; beyond it the weights say nothing about the optimum


class UnusableModelError(RuntimeError):
    """The solver stopped so far from the optimum that its model must not be used."""


@dataclass(frozen=True)
class TableModel:
    """A model that predicts rows of a table: what `smaller fit` writes and `smaller predict` reads.

    Parameters
    ----------
    encoder : TableEncoder
        From columns to features.
    pipeline : Pipeline
        From features to probabilities.
    train_priors : ndarray of shape (n_classes,)
        Class shares in training.
    settings : dict
        How it was made.
    """

    encoder: TableEncoder
    pipeline: Any
    train_priors: Array
    settings: dict[str, Any]

    @property
    def classes(self) -> Array:
        """Labels, in the order of the probabilities."""
        return np.asarray(self.pipeline.classes_)

    def predict_proba(self, table: Table) -> Array:
        """Return class probabilities (n, n_classes)."""
        X = self.encoder.transform(table)
        if "fill" not in self.pipeline.named_steps and not sparse.issparse(X) and np.isnan(X.sum()):
            X = np.where(np.isnan(X), self.pipeline.named_steps["scale"].mean_, X)  # training had no gaps: the mean
        return np.asarray(self.pipeline.predict_proba(X))


@dataclass(frozen=True)
class Study:
    """A fitted table model, and the facts about it as plain values (ready for JSON)."""

    model: TableModel
    facts: Facts


def run_study(
    data: Data,
    how: Procedure | None = None,
    *,
    tick: Callable[[str], None] = lambda stage: None,
    announce: Callable[[str], None] = lambda sentence: None,
) -> Study:
    """Fit a model, judge it on rows it has not seen, and say which features are found again on other rows.

    Parameters
    ----------
    data : Data
        A table made ready by `prepare`.
    how : Procedure, optional
        What is done to it.
    tick : callable
        Called with the name of every stage that begins.
    announce : callable
        Called with a sentence about the time that repeats and the run with shuffled labels will take.
    """
    start = time.perf_counter()
    X, y, encoder, told = data.X, data.y, data.encoder, list(data.notes)
    gaps = not sparse.issparse(X) and bool(np.isnan(X.sum()))
    how = replace(how or Procedure(), ordered=data.units.ordered, gaps=gaps)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how.model == AUTO:
            model, why = _choose_model(data, how, tick=tick)
            how = replace(how, model=model)
            told.append(why)
        plan = make_plan(X, y, data.units, how)
        held_out = predict_held_out(X, y, plan, how, tick=_priced(tick, announce, plan, how))
        tick("final model")
        pipeline, search = held_out.kept or fit_model(X, y, how, data.units.codes)
        _check_usable(pipeline[-1], held_out)
        said = [entry for entry in caught if issubclass(entry.category, UserWarning)]
        told += sorted({str(entry.message).splitlines()[0] for entry in said})
        tick("stability of the features")
        stability = measure_stability(X, y, pipeline, how, data.units.grouped)
        full = predict_held_out(X, y, replace(plan, repeats=plan.repeats[:1]), how, fit=fit_ridge, tick=tick,
                                name="all features")  # fmt: skip
        shuffled = with_shuffled_labels(X, y, plan, how, tick=tick) if how.shuffle else None
        tick("report")
        learnt = slice(None) if plan.nested else plan.repeats[0][0][0]
        bound = say.generalisation_bound(pipeline, X, y, learnt)
    classes = how.labels(y)
    counts = np.array([np.count_nonzero(y == label) for label in classes])
    table_model = TableModel(encoder, pipeline, counts / counts.sum(), _settings(how, encoder.target))
    names = encoder.features
    chosen = say.chosen(pipeline, names, stability.frequencies)
    used = None if chosen is None else len(chosen["features"])
    groups = data.units.grouped
    held_groups = None if groups is None else groups[held_out.rows]
    judged = performance(held_out.codes, held_out.proba, held_groups)
    luck = None if shuffled is None else _luck(shuffled, groups)
    facts: Facts = {
        "schema": SCHEMA,
        "settings": table_model.settings,
        "summary": MODELS[how.model].summary,
        "citation": MODELS[how.model].citation,
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "columns": len(encoder.columns) + len(encoder.block_names),
        "classes": [str(label) for label in classes.tolist()],
        "graded": how.grades is not None,
        "class_counts": counts.tolist(),
        "plan": plan.sentence,
        "nested": plan.nested,
        "together": data.units.sentence,
        "verdict": verdict(judged, luck, data.likely_group, used, int(X.shape[1])),
        "performance": judged,
        "shuffled": luck,
        "audit": [
            {"kind": finding.kind, "columns": list(finding.columns), "sentence": finding.sentence}
            for finding in data.findings
        ],
        "all_features": cost_of_sparsity(
            held_out.codes, held_out.proba[0], full.proba[0], held_groups, int(X.shape[1]), used
        ),
        "calibration": calibration(held_out.codes, held_out.proba),
        "confusion": confusion(held_out.codes, held_out.proba),
        "decisions": decision_tables(held_out.codes, held_out.proba, table_model.train_priors),
        "sizes_per_fold": held_out.sizes,
        "chosen": chosen,
        "stability": stability.facts(names, [row["name"] for row in chosen["features"]] if chosen else []),
        "path": say.path(search, names),
        "certificate": say.certificate(pipeline[-1]),
        "caution": _caution(say.certificate(pipeline[-1])),
        "bound": bound,
        "points": len(getattr(pipeline[-1], "support_", ())) or None,
        "import_path": say.import_path(pipeline[-1]),
        "scales": say.feature_scales(pipeline[-1], names),
        "notes": told,
        "seconds": round(time.perf_counter() - start, 2),
    }
    return Study(table_model, facts)


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


def _luck(shuffled: HeldOut, groups: Array | None) -> dict[str, Any]:
    """Return what the same procedure finds where there is nothing to find."""
    judged = performance(shuffled.codes, shuffled.proba, None if groups is None else groups[shuffled.rows])
    keys = ("error", "error_interval", "log_loss", "baseline_error")
    return {key: judged[key] for key in keys} | {"size": shuffled.size}


def _settings(how: Procedure, target: str) -> dict[str, Any]:
    versions = {name: version(name) for name in ("smaller", "numpy", "scipy", "scikit-learn")}
    versions["python"] = platform.python_version()
    return asdict(how) | {"target": target, "versions": versions}


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


def _caution(proof: dict[str, Any]) -> str | None:
    """Return what a user must know before anything else; None if the final model is what it was meant to be."""
    if proof["converged"]:
        return None
    away = (
        "" if proof["gap"] is None else f" (at most {proof['gap'] / proof['scale']:.2g} of the loss without features)"
    )
    return (
        f"The final model is not certified as the best one{away}. {proof['status']} The error was measured on rows not "
        f"learnt from and holds all the same; small weights may be off. To do better, {ADVICE}"
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
