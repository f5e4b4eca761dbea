"""The models a study can fit, each behind one name, always as a pipeline that fills gaps and scales first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from smaller.app.tables import TableError
from smaller.arrays import Array

__all__ = ["MODELS", "ModelSpec", "available_models", "fit_model", "make_model"]

SEARCH_ROWS = 5_000  # beyond this many rows the strength is chosen on a sample of as many
FOLDS, LARGE_FOLDS = 5, 3


@dataclass(frozen=True)
class ModelSpec:
    """Where a model lives, and what to say about it."""

    module: str
    name: str
    summary: str
    citation: str
    most_rows: int = 10**9
    linear: bool = True


_SMLR_2005 = (
    "Krishnapuram, Carin, Figueiredo, Hartemink (2005). Sparse multinomial logistic regression: fast algorithms and "
    "generalization bounds. IEEE PAMI 27(6)."
)
MODELS: dict[str, ModelSpec] = {
    "smlr": ModelSpec(
        "smaller.estimators.cross_validated",
        "SMLRCV",
        "sparse multinomial logistic regression, strength chosen by cross-validation",
        _SMLR_2005,
    ),
    "sbmlr": ModelSpec(
        "smaller.estimators.sbmlr",
        "SBMLR",
        "sparse multinomial logistic regression that finds its own strength",
        "Cawley, Talbot, Girolami (2006). Sparse multinomial logistic regression via Bayesian L1 regularisation. NIPS.",
    ),
    "ivm": ModelSpec(
        "smaller.estimators.import_vectors",
        "IVM",
        "import vector machine: kernel logistic regression on few rows",
        "Zhu, Hastie (2005). Kernel logistic regression and the import vector machine. JCGS 14(1).",
        most_rows=50_000,
        linear=False,
    ),
    "jcfo": ModelSpec(
        "smaller.estimators.jcfo",
        "JCFO",
        "joint choice of kernel centres and feature scales",
        "Krishnapuram, Hartemink, Carin, Figueiredo (2004). A Bayesian approach to joint feature selection and "
        "classifier design. IEEE PAMI 26(9).",
        most_rows=2_000,
        linear=False,
    ),
    "sparse-probit": ModelSpec(
        "smaller.estimators.adaptive",
        "SparseProbit",
        "probit regression with a parameter-free sparse prior",
        "Figueiredo (2003). Adaptive sparseness for supervised learning. IEEE PAMI 25(9).",
    ),
}


def available_models() -> list[str]:
    """Return the names of the models that this installation has."""
    return [name for name, spec in MODELS.items() if _class(spec) is not None]


def _class(spec: ModelSpec) -> Any:
    try:
        return getattr(import_module(spec.module), spec.name, None)
    except ImportError:
        return None


def make_model(name: str, X: Any, *, seed: int, rule: str = "1se") -> Pipeline:
    """Return an unfitted pipeline for data like ``X``."""
    spec = MODELS[name]
    if X.shape[0] > spec.most_rows:
        raise TableError(f"The model {name} takes at most {spec.most_rows} rows: take a sample, or use smlr.")
    cls = _class(spec)
    if cls is None:
        raise TableError(f"This installation has no model {name}: it has {', '.join(available_models())}.")
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    settings: dict[str, dict[str, Any]] = {
        "smlr": {"alphas": 50, "cv": folds, "rule": rule, "tol": 1e-5},
        "ivm": {"alphas": [10.0, 3.0, 1.0, 0.3, 0.1, 0.03], "random_state": seed},
    }
    steps: list[tuple[str, Any]] = [("scale", StandardScaler(with_mean=not sparse.issparse(X)))]
    if not sparse.issparse(X) and np.isnan(X.sum()):
        steps.insert(0, ("fill", SimpleImputer(strategy="median", keep_empty_features=True)))
    return Pipeline([*steps, ("model", cls(**settings.get(name, {})))])


def fit_model(name: str, X: Any, y: Array, *, seed: int, rule: str = "1se") -> tuple[Pipeline, Pipeline]:
    """Fit a model; return it and the pipeline in which its strength was chosen (the same one for small data).

    With many rows SMLR is fitted to all of them at the strength *per row* that was best on a sample.
    """
    pipeline = make_model(name, X, seed=seed, rule=rule)
    if X.shape[0] <= SEARCH_ROWS or name != "smlr":
        return (fitted := pipeline.fit(X, y)), fitted
    from smaller import SMLR

    sample = _stratified_sample(y, SEARCH_ROWS, seed)
    folds = StratifiedKFold(LARGE_FOLDS, shuffle=True, random_state=seed)
    search = pipeline.set_params(model__alphas=15, model__eps=3e-3, model__tol=1e-3, model__cv=folds)
    search.fit(X[sample], y[sample])
    alpha = search[-1].alpha_ * X.shape[0] / len(sample)
    steps = [(step, clone(part)) for step, part in search.steps[:-1]]
    return Pipeline([*steps, ("model", SMLR(alpha=float(alpha), tol=1e-3))]).fit(X, y), search


def _stratified_sample(y: Array, count: int, seed: int) -> Array:
    """Return about ``count`` row numbers, the classes in proportion but none without five rows."""
    rng = np.random.default_rng(seed)
    labels, sizes = np.unique(y, return_counts=True)
    chosen = []
    for label, size in zip(labels, sizes, strict=True):
        rows = np.flatnonzero(y == label)
        take = min(size, max(FOLDS, math.ceil(count * size / len(y))))
        chosen.append(rng.choice(rows, take, replace=False))
    return np.sort(np.concatenate(chosen))
