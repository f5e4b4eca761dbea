"""The answer to a study: the fitted model, and everything the report says about it."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import sparse

from smaller.arrays import Array
from smaller.columns import TableEncoder
from smaller.estimators.stability import StabilitySelection
from smaller.study.honest import make_plan, predict_held_out
from smaller.study.judgement import calibration, confusion, decision_tables, performance
from smaller.study.models import MODELS, available_models, fit_model
from smaller.tables import Table

__all__ = ["Study", "TableModel", "run_study"]

STABILITY_ROWS, STABILITY_PAIRS = 2_000, 25
SHOWN_ON_PATH = 15
AUTO = "auto"


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
        return np.asarray(self.pipeline.predict_proba(self.encoder.transform(table)))


@dataclass(frozen=True)
class Study:
    """A fitted table model, and the facts about it as plain values (ready for JSON)."""

    model: TableModel
    facts: dict[str, Any]


def run_study(
    X: Any,
    y: Array,
    encoder: TableEncoder,
    *,
    model: str = "smlr",
    rule: str = "1se",
    seed: int = 0,
    notes: list[str] | None = None,
    tick: Callable[[str], None] = lambda stage: None,
) -> Study:
    """Fit a model, judge it on rows it has not seen, and say which features are found again on other rows.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n, p)
        Features as `TableEncoder.transform` gives them.
    y : ndarray of shape (n,)
        Labels.
    encoder : TableEncoder
        Where the features come from.
    model : str
        One of `available_models`, or "auto".
    rule : {"1se", "min"}
        How SMLR chooses its strength.
    seed : int
        Of every random choice.
    notes : list of str, optional
        What happened to the table before.
    tick : callable
        Called with the name of every stage that begins.
    """
    start = time.perf_counter()
    told = list(notes or [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if model == AUTO:
            model, why = _choose_model(X, y, seed=seed, rule=rule, tick=tick)
            told.append(why)
        plan = make_plan(X, y, seed=seed)
        held_out = predict_held_out(model, X, y, plan, seed=seed, rule=rule, tick=tick)
        tick("final model")
        pipeline, search = held_out.kept or fit_model(model, X, y, seed=seed, rule=rule)
        tick("stability of the features")
        frequencies, threshold, stability_note = _stability(X, y, pipeline, seed)
        tick("report")
    told += sorted({str(entry.message).splitlines()[0] for entry in caught if issubclass(entry.category, UserWarning)})
    classes, counts = np.unique(y, return_counts=True)
    priors = counts / counts.sum()
    settings = {
        "model": model, "rule": rule, "seed": seed, "target": encoder.target,
        "versions": {name: version(name) for name in ("smaller", "numpy", "scipy", "scikit-learn")}
        | {"python": platform.python_version()},
    }  # fmt: skip
    names = encoder.features
    facts = {
        "settings": settings,
        "summary": MODELS[model].summary,
        "citation": MODELS[model].citation,
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "columns": len(encoder.columns) + len(encoder.block_names),
        "classes": [str(label) for label in classes.tolist()],
        "class_counts": counts.tolist(),
        "plan": plan.sentence,
        "nested": plan.nested,
        "performance": performance(held_out.codes, held_out.proba),
        "calibration": calibration(held_out.codes, held_out.proba),
        "confusion": confusion(held_out.codes, held_out.proba),
        "decisions": decision_tables(held_out.codes, held_out.proba, priors),
        "sizes_per_fold": held_out.sizes,
        "chosen": _chosen(pipeline, names, frequencies),
        "stability": {"note": stability_note, "threshold": threshold},
        "path": _path(search, names),
        "certificate": _certificate(pipeline[-1]),
        "points": len(getattr(pipeline[-1], "support_", ())) or None,
        "scales": _scales(pipeline[-1], names),
        "notes": told,
        "seconds": round(time.perf_counter() - start, 2),
    }
    return Study(TableModel(encoder, pipeline, priors, settings), facts)


def _choose_model(X: Any, y: Array, *, seed: int, rule: str, tick: Callable[[str], None]) -> tuple[str, str]:
    """Take the import vector machine where it predicts clearly better than SMLR, else SMLR, which can be read."""
    plan = make_plan(X, y, seed=seed + 1)
    if "ivm" not in available_models() or not plan.nested or sparse.issparse(X):
        return "smlr", "auto chose smlr: the table is too large (or too wide) to try the kernel model."
    losses = {}
    for name in ("smlr", "ivm"):
        tick(f"try {name}")
        held_out = predict_held_out(name, X, y, plan, seed=seed, rule="min")
        losses[name] = -np.log(held_out.proba[np.arange(len(held_out.codes)), held_out.codes])
    gain = losses["smlr"] - losses["ivm"]
    better = gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
    chosen = "ivm" if better else "smlr"
    means = ", ".join(f"{name} {loss.mean():.3f}" for name, loss in losses.items())
    return chosen, f"auto chose {chosen}; mean log-loss on held-out rows: {means} (ivm must be better by two errors)."


def _stability(X: Any, y: Array, pipeline: Any, seed: int) -> tuple[Array | None, float, str]:
    """Return selection frequencies on halves of (at most some) rows, for linear models."""
    if not hasattr(pipeline[-1], "coef_"):
        return None, 1.0, "Selection frequencies are given for linear models only."
    filled = pipeline[:-1].transform(X)
    count, wide = X.shape[0], X.shape[0] * X.shape[1] > 2_000_000
    if count > STABILITY_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(count, STABILITY_ROWS, replace=False))
        kept = np.isin(y[rows], [label for label in np.unique(y) if (y[rows] == label).sum() >= 2])
        filled, y = filled[rows[kept]], y[rows[kept]]
    pairs = 10 if wide else STABILITY_PAIRS
    size = len(pipeline[-1].active_features_)
    selector = StabilitySelection(n_features=max(1, size), n_pairs=pairs, random_state=seed).fit(filled, y)
    sample = f"a sample of {filled.shape[0]} rows" if count > STABILITY_ROWS else "the rows"
    note = (
        f"{sample[0].upper()}{sample[1:]} were split into halves {pairs} times; on each half the first "
        f"{max(1, size)} features to enter the path were taken. At the threshold {selector.threshold_:.2f} at most "
        f"{selector.expected_false_:.2g} of the features found are expected to be there by chance."
    )
    if selector.threshold_ > 1.0:
        note = note.split(" At the threshold")[0] + " So many features are used that no frequency rules out chance."
    return selector.frequencies_, float(min(selector.threshold_, 1.0)), note


def original_units(pipeline: Any) -> tuple[Array, Array]:
    """Return weights and intercepts for features as they are in the table, unscaled."""
    scaler, model = pipeline.named_steps["scale"], pipeline[-1]
    weights = model.coef_ / scaler.scale_
    mean = 0.0 if scaler.mean_ is None or not scaler.with_mean else weights @ scaler.mean_
    return weights, model.intercept_ - mean


def _chosen(pipeline: Any, names: list[str], frequencies: Array | None) -> dict[str, Any] | None:
    """Return the features with a weight, largest first, in both units."""
    model = pipeline[-1]
    if not hasattr(model, "coef_"):
        return None
    original, intercepts = original_units(pipeline)
    active = np.flatnonzero(model.coef_.any(axis=0))
    order = active[np.argsort(-np.abs(model.coef_[:, active]).max(axis=0), kind="stable")]
    rows = [
        {
            "name": names[j],
            "weights": model.coef_[:, j].tolist(),
            "original": original[:, j].tolist(),
            "frequency": None if frequencies is None else float(frequencies[j]),
        }
        for j in order
    ]
    return {"features": rows, "intercepts": np.atleast_1d(intercepts).tolist()}


def _path(search: Any, names: list[str]) -> dict[str, Any] | None:
    """Return the path of the strongest features and the cross-validation curve, for SMLR."""
    model = search[-1]
    if not hasattr(model, "path_") or not hasattr(model, "coef_"):
        return None
    coefs = model.path_.coefs
    strongest = np.abs(coefs).max(axis=0).argmax(axis=0)
    signed = coefs[:, strongest, np.arange(len(strongest))]
    order = np.argsort(-np.abs(signed).max(axis=0), kind="stable")[:SHOWN_ON_PATH]
    mean, error = model.scores_.mean(axis=0), model.scores_.std(axis=0, ddof=1) / np.sqrt(len(model.scores_))
    best = int(np.nanargmax(mean))
    within = int(np.flatnonzero(mean >= mean[best] - error[best])[0])
    return {
        "alphas": model.alphas_.tolist(),
        "lines": [{"name": names[j], "weights": signed[:, j].tolist()} for j in order if signed[:, j].any()],
        "n_active": model.path_.n_active.tolist(),
        "score": mean.tolist(),
        "score_error": error.tolist(),
        "alpha": model.alpha_,
        "alpha_min": float(model.alphas_[best]),
        "alpha_1se": float(model.alphas_[within]),
    }


def _certificate(model: Any) -> dict[str, Any]:
    solution = model.solution_
    gap = getattr(solution, "gap", None)
    return {
        "status": solution.status.value,
        "converged": bool(solution.converged),
        "objective": float(solution.objective),
        "gap": None if gap is None or not np.isfinite(gap) else float(gap),
        "scale": float(getattr(solution, "scale", 1.0)),
        "solver": str(solution.solver),
        "alpha": float(getattr(model, "alpha_", getattr(model, "alpha", np.nan)) or 0.0),
    }


def _scales(model: Any, names: list[str]) -> list[dict[str, Any]] | None:
    if not hasattr(model, "scales_"):
        return None
    order = np.argsort(-model.scales_, kind="stable")[:50]
    return [{"name": names[j], "scale": float(model.scales_[j])} for j in order if model.scales_[j] > 0]
