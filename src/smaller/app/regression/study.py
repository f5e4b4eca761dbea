"""A regression judged on rows it has not learnt from: variance explained, errors, and how many intervals hold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from smaller.app.regression.model import MODELS, ResponseModel, make_regression
from smaller.app.regression.question import ResponseData
from smaller.app.study.intervals import share_interval
from smaller.app.study.units import shuffled_labels
from smaller.arrays import Array

__all__ = ["LEVEL", "ResponseStudy", "run_regression"]

FOLDS = 5
LEVEL = 0.9  # of the intervals of single rows
RESAMPLES = 1000


@dataclass(frozen=True)
class ResponseStudy:
    """A fitted regression of a table, and the facts about it as plain values."""

    model: ResponseModel
    facts: dict[str, Any]


def run_regression(
    data: ResponseData,
    name: str = "sparse-regressor",
    *,
    target: str = "the target",
    seed: int = 0,
    shuffle: bool = True,
    tick: Callable[[str], None] = lambda stage: None,
) -> ResponseStudy:
    """Fit a regression, and judge the same procedure on rows left out, and on shuffled responses."""
    start = time.perf_counter()
    pipeline = make_regression(name, data.X, seed)
    held_out = _held_out(pipeline, data, data.y, seed, tick)
    luck = None
    if shuffle:
        shuffled = shuffled_labels(data.y, data.units, np.random.default_rng(seed))
        luck = _explained(*_squares(shuffled, _held_out(pipeline, data, shuffled, seed, tick)))
    tick("all rows")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        fitted = pipeline.fit(data.X, data.y)
    settings = {"task": "regression", "target": target, "model": name, "seed": seed}
    summary, citation = MODELS[name]
    facts = {
        "settings": settings,
        "summary": summary,
        "citation": citation,
        "rows": len(data.y),
        "columns": len(data.encoder.columns),
        "features": int(data.X.shape[1]),
        "performance": _performance(data, held_out),
        "shuffled": luck,
        "model": _inside(fitted[-1], data.encoder.features),
        "status": fitted[-1].solution_.status.value,
        "notes": [*data.notes, *(str(one.message) for one in told)],
        "seconds": time.perf_counter() - start,
    }
    return ResponseStudy(ResponseModel(data.encoder, fitted, settings), facts)


def _held_out(pipeline: Any, data: ResponseData, y: Array, seed: int, tick: Callable[[str], None]) -> Array:
    """Return for every row, left out: mean, deviation, and the mean of the rows learnt from (n, 3)."""
    found = np.empty((len(y), 3))
    count = min(FOLDS, len(np.unique(data.units)))
    folds = GroupKFold(count, shuffle=True, random_state=seed).split(data.X, groups=data.units)
    for train, test in folds:
        tick("rows left out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a fold's doubts are those of the final fit
            part = clone(pipeline).fit(data.X[train], y[train])
        found[test] = np.column_stack(
            [*part.predict(data.X[test], return_std=True), np.full(len(test), y[train].mean())]
        )
    return found


def _squares(y: Array, held_out: Array) -> tuple[Array, Array]:
    """Return the squared errors of the model, and of the mean."""
    return (y - held_out[:, 0]) ** 2, (y - held_out[:, 2]) ** 2


def _explained(errors: Array, spread: Array) -> float:
    return float(1.0 - errors.sum() / spread.sum())


def _performance(data: ResponseData, held_out: Array) -> dict[str, Any]:
    errors, spread = _squares(data.y, held_out)
    reach = stats.norm.ppf(0.5 + LEVEL / 2.0) * held_out[:, 1]
    inside = np.abs(data.y - held_out[:, 0]) <= reach
    r2, rmse = _resampled(errors, spread, data.units)
    return {
        "r2": _explained(errors, spread),
        "r2_interval": r2,
        "rmse": float(np.sqrt(errors.mean())),
        "rmse_interval": rmse,
        "baseline_rmse": float(np.sqrt(spread.mean())),
        "level": LEVEL,
        "coverage": float(inside.mean()),
        "coverage_interval": list(share_interval(inside[None, :].astype(float), data.units)),
    }


def _resampled(errors: Array, spread: Array, units: Array) -> tuple[list[float], list[float]]:
    """Return 95 % intervals of R2 and of the root mean square error, from units drawn with replacement."""
    codes = np.unique(units, return_inverse=True)[1]
    sums = np.array([np.bincount(codes, weights=values) for values in (errors, spread, np.ones(len(units)))])
    rng = np.random.default_rng(0)
    drawn = np.array([sums[:, rng.integers(sums.shape[1], size=sums.shape[1])].sum(axis=1) for _ in range(RESAMPLES)])
    r2, rmse = 1.0 - drawn[:, 0] / drawn[:, 1], np.sqrt(drawn[:, 0] / drawn[:, 2])
    return np.quantile(r2, [0.025, 0.975]).tolist(), np.quantile(rmse, [0.025, 0.975]).tolist()


def _inside(model: Any, names: list[str]) -> dict[str, Any]:
    """Return the features in use with their weights for one standard deviation, or how many rows are centres."""
    noise = float(model.noise_variance_) ** 0.5
    if not hasattr(model, "coef_"):
        return {"noise": noise, "points": len(model.support_), "features": None}
    order = np.argsort(-np.abs(model.coef_), kind="stable")[: len(model.active_features_)]
    weights = [{"name": names[j], "weight": float(model.coef_[j])} for j in order]
    return {"noise": noise, "points": None, "features": weights}
