"""What a fitted pipeline says about itself, as plain values: the pieces of a report that need no other rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.columns import TableEncoder
from smaller.arrays import Array
from smaller.bounds import pac_bayes_bound
from smaller.estimators.fold_scores import choose

__all__ = [
    "cap",
    "certificate",
    "chosen",
    "feature_scales",
    "generalisation_bound",
    "import_path",
    "original_units",
    "path",
]

SHOWN_ON_PATH = 15


def original_units(pipeline: Any) -> tuple[Array, Array]:
    """Return weights and intercepts for features as they are in the table, unscaled."""
    scaler, model = pipeline.named_steps["scale"], pipeline[-1]
    weights = model.coef_ / scaler.scale_
    mean = 0.0 if scaler.mean_ is None or not scaler.with_mean else weights @ scaler.mean_
    intercepts = -model.thresholds_ if hasattr(model, "thresholds_") else model.intercept_
    return weights, intercepts - mean


def chosen(pipeline: Any, names: list[str], frequencies: Array | None) -> dict[str, Any] | None:
    """Return the features with a weight, largest first, in both units; None for a kernel model."""
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
            "frequency": None if frequencies is None or np.isnan(frequencies[j]) else float(frequencies[j]),
        }
        for j in order
    ]
    return {"features": rows, "intercepts": np.atleast_1d(intercepts).tolist()}


def path(search: Any, names: list[str]) -> dict[str, Any] | None:
    """Return the path of the strongest features and the cross-validation curve, for SMLR."""
    model = search[-1]
    if not hasattr(model, "path_") or not hasattr(model, "coef_"):
        return None
    coefs = model.path_.coefs
    strongest = np.abs(coefs).max(axis=0).argmax(axis=0)
    signed = coefs[:, strongest, np.arange(len(strongest))]
    used = int(np.argmin(np.abs(model.alphas_ - model.alpha_)))
    order = np.lexsort((-np.abs(signed).max(axis=0), -np.abs(signed[used])))[:SHOWN_ON_PATH]  # those in the model first
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


def cap(search: Any, most: int | None, rule: str) -> dict[str, Any] | None:
    """Return what it costs, in cross-validated log-loss, to use at most so many features; None without a cap."""
    model = search[-1]
    if most is None or not hasattr(model, "path_"):
        return None
    scores, counts = model.scores_, model.path_.n_active
    used = int(np.argmin(np.abs(model.alphas_ - model.alpha_)))
    free = choose(scores[:, None], rule)[1]
    loss = scores[:, free] - scores[:, used]  # of the folds; positive: the cap costs
    spread = float(loss.std(ddof=1) / np.sqrt(len(loss)))
    start = f"At most {most} features were asked for"
    if free <= used:
        sentence = f"{start}; the cap changes nothing: without it, {int(counts[free])} would have been used."
    else:
        sentence = (
            f"{start}: without that, {int(counts[free])} would have been used instead of {int(counts[used])}, and the "
            f"cross-validated log-loss would be {-scores[:, free].mean():.3f} instead of "
            f"{-scores[:, used].mean():.3f} (the difference has a standard error of {spread:.3f})."
        )
    return {
        "most": most,
        "used": int(counts[used]),
        "uncapped": int(counts[free]),
        "log_loss": float(-scores[:, used].mean()),
        "uncapped_log_loss": float(-scores[:, free].mean()),
        "error": spread,
        "sentence": sentence,
    }


def certificate(model: Any) -> dict[str, Any]:
    """Return how the fit ended and how far it can be from the optimum."""
    solution = model.solution_
    gap = getattr(solution, "gap", None)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    return {
        "status": solution.status.value,
        "converged": bool(solution.converged),
        "objective": float(solution.objective),
        "gap": None if gap is None or not np.isfinite(gap) else float(gap),
        "scale": float(getattr(solution, "scale", 1.0)),
        "solver": str(solution.solver),
        "alpha": None if alpha is None or not np.isfinite(alpha) else float(alpha),
    }


def generalisation_bound(pipeline: Any, X: Any, y: Array, learnt: Array | slice) -> dict[str, float] | None:
    """Return the PAC-Bayes bound of a model from the rows it was learnt from; None where the theorem says nothing.

    It speaks about linear models of two classes. The prior rates, of weights and intercept, are one: fixed here, before
    any data are seen. That the scaling is estimated on the same rows is left for the report to say.
    """
    model = pipeline[-1]
    logistic = hasattr(model, "coef_") and hasattr(model, "intercept_") and len(model.classes_) == 2
    if not logistic or not model.coef_.any():
        return None
    bound = pac_bayes_bound(
        model,
        pipeline[:-1].transform(X[learnt]),
        y[learnt],
        alphas=(1.0,),
        intercept_alpha=1.0,
        assume=("fixed_scaling",),
    )
    if bound.point_value >= 1.0:
        return None
    return {"error": float(bound.point_value), "gibbs": float(bound.value), "confidence": float(bound.confidence)}


def import_path(model: Any) -> dict[str, Any] | None:
    """Return the objective, and the error on rows held back, after every import point that was added."""
    if not hasattr(model, "import_path_"):
        return None
    error = model.import_path_.validation_error
    return {
        "objective": model.import_path_.objective.tolist(),
        "error": error.tolist() if np.isfinite(error).all() else None,
    }


def reference_rows(model: Any, y: Array, learnt: Array | slice, numbers: Array | None) -> list[dict[str, Any]] | None:
    """Return the rows that a kernel model compares with, by their number in the table (from 1), and their classes."""
    support = getattr(model, "support_", None)
    if support is None or hasattr(model, "coef_"):
        return None
    rows = np.sort(np.arange(len(y))[learnt][support])
    shown = rows if numbers is None else numbers[rows]
    return [
        {"row": int(number) + 1, "class": str(label)} for number, label in zip(shown, y[rows].tolist(), strict=True)
    ]


def farthest(pipeline: Any, X: Any, encoder: TableEncoder) -> Array:
    """Return how far each row lies from the mean of training in the feature, of those in use, where it lies farthest.

    In standard deviations; zero where no number is in use. Indicators are left out: a rare level lies far away, and has
    been seen.
    """
    Z, model = pipeline[:-1].transform(X), pipeline[-1]
    numbers = [number for column in encoder.columns for number in column.numbers] + [True] * len(encoder.block_names)
    used = np.intersect1d(getattr(model, "active_features_", np.arange(Z.shape[1])), np.flatnonzero(numbers))
    if not len(used):
        return np.zeros(Z.shape[0])
    largest = abs(Z[:, used]).max(axis=1)
    return np.asarray(largest.toarray().ravel() if hasattr(largest, "toarray") else largest)


def feature_scales(model: Any, names: list[str]) -> list[dict[str, Any]] | None:
    """Return the feature scales of JCFO, largest first, without those that are zero."""
    if not hasattr(model, "scales_"):
        return None
    order = np.argsort(-model.scales_, kind="stable")
    return [{"name": names[j], "scale": float(model.scales_[j])} for j in order if model.scales_[j] > 0]
