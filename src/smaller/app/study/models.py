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

from smaller.app.study.catalogue import MODELS, ModelSpec
from smaller.app.study.costs import EXPECTED, Costs, balanced_costs
from smaller.app.study.splits import GroupFolds, PastFolds
from smaller.app.tables import TableError
from smaller.arrays import Array

__all__ = ["MODELS", "ModelSpec", "Procedure", "available_models", "fit_model", "make_model", "preparation"]

SEARCH_ROWS = 5_000  # beyond this many rows the strength is chosen on a sample of as many
FOLDS, LARGE_FOLDS = 5, 3
STRONGER = 1.1  # step of the strength where a cap on the features is not met
LARGEST_HESSIAN = 2_000_000_000  # products to sum up for that
LARGEST_POSTERIOR = 3_000  # weights that a model can have, for it to keep how they vary together


@dataclass(frozen=True)
class Procedure:
    """What is done to every set of rows, the same inside the folds as on the whole table.

    Parameters
    ----------
    model : str
        One of `available_models`, or "auto".
    rule : {"1se", "min"}
        How SMLR chooses its strength.
    seed : int
        Of every random choice.
    repeats : int, optional
        How often cross-validation is done with other parts; None: by the size of the table.
    shuffle : bool
        Whether the whole procedure is done once more with shuffled labels.
    relax : bool
        Whether SMLR and SBMLR take the shrinkage out of its probabilities, as far as rows left out confirm it.
    alphas : int
        Number of strengths tried by SMLR.
    eps : float, optional
        The smallest of them as a share of the largest.
    features : int, optional
        The most features that SMLR may use.
    class_weight : {"balanced"}, optional
        Whether the classes count the same, however rare: in the fit, in decisions and in the verdict. Probabilities
        stay those of the table's class shares.
    costs : tuple of tuples, optional
        What it costs to decide for a class (column) where another one (row) is true.
    positive : optional
        The class of two that is looked for: its sensitivity is told.
    specificity : float
        The share of the other class that must not be taken for it.
    free : tuple of int
        Numbers of the features that are always in the model, without a penalty.
    ordered : bool
        Whether units follow each other in time.
    gaps : bool, optional
        Whether the table has gaps, perhaps not among the rows learnt from.
    grades : tuple, optional
        The classes from lowest to highest, where they have an order.
    ranges : bool
        Whether the model keeps what ranges of its probabilities need, if it offers them and is not too large.
    """

    model: str = "smlr"
    rule: str = "1se"
    seed: int = 0
    repeats: int | None = None
    shuffle: bool = True
    relax: bool = False
    alphas: int = 50
    eps: float | None = None
    features: int | None = None
    class_weight: str | None = None
    costs: tuple[tuple[float, ...], ...] | None = None
    positive: Any = None
    specificity: float = 0.9
    free: tuple[int, ...] = ()
    ordered: bool = False
    gaps: bool | None = None
    grades: tuple[Any, ...] | None = None
    ranges: bool = False

    def labels(self, y: Array) -> Array:
        """Return the classes among ``y``: grades from the lowest, others sorted."""
        present = np.unique(y)
        return present if self.grades is None else np.array([one for one in self.grades if one in present])

    def costs_at(self, shares: Array) -> Costs | None:
        """Return what decisions are judged by, where the classes have these shares; None: all mistakes are the same."""
        if self.costs is not None:
            return Costs(EXPECTED, np.asarray(self.costs))
        return balanced_costs(shares) if self.class_weight == "balanced" else None

    def folds(self, count: int, y: Array, units: Array | None) -> Any:
        """Return the splitter for choices within a training part; every fold gets a row of the rarest class."""
        if units is None:
            count = min(count, max(2, int(np.unique(y, return_counts=True)[1].min())))
            return StratifiedKFold(count, shuffle=True, random_state=self.seed)
        return PastFolds(count) if self.ordered else GroupFolds(count, self.seed)


def available_models() -> list[str]:
    """Return the names of the models that this installation has, for classes without an order."""
    return [name for name, spec in MODELS.items() if not spec.graded and _class(spec) is not None]


def _class(spec: ModelSpec) -> Any:
    try:
        return getattr(import_module(spec.module), spec.name, None)
    except ImportError:
        return None


def _installed(spec: ModelSpec, name: str) -> Any:
    """Return the class of a model."""
    cls = _class(spec)
    if cls is None:
        raise TableError(f"This installation has no model {name}: it has {', '.join(available_models())}.")
    return cls


def preparation(X: Any, gaps: bool | None = None) -> list[tuple[str, Any]]:
    """Return the steps before the model: gaps filled (None: if there are any here), features brought to one spread."""
    steps: list[tuple[str, Any]] = [("scale", StandardScaler(with_mean=not sparse.issparse(X)))]
    if not sparse.issparse(X) and (np.isnan(X.sum()) if gaps is None else gaps):
        steps.insert(0, ("fill", SimpleImputer(strategy="median", keep_empty_features=True)))
    return steps


def make_model(X: Any, y: Array, how: Procedure, units: Array | None = None) -> Pipeline:
    """Return an unfitted pipeline for data like these."""
    name = how.model
    spec = MODELS[name]
    if X.shape[0] > spec.most_rows:
        raise TableError(f"The model {name} takes at most {spec.most_rows} rows: take a sample, or use smlr.")
    model = _installed(spec, name)(**_settings(how, y, units))
    asked = {"class_weight": how.class_weight, "penalty_factors": _factors(how, X.shape[1])}
    if any(value is not None for value in asked.values()) and not spec.logistic:
        raise TableError(f"--class-weight and --always do not exist for the model {name}: use smlr or sbmlr.")
    if how.features is not None and name != "smlr":
        raise TableError(f"--features does not exist for the model {name}: use smlr.")
    given = {key: value for key, value in asked.items() if value is not None}
    if how.ranges and "posterior" in model.get_params() and _affordable(len(y), _most_weights(X, y, spec)):
        given["posterior"] = True
    return Pipeline([*preparation(X, how.gaps), ("model", model.set_params(**given))])


def _settings(how: Procedure, y: Array, units: Array | None) -> dict[str, Any]:
    """Return what a model is told of how strength and width are to be chosen."""
    chosen: dict[str, dict[str, Any]] = {
        "smlr": {
            "alphas": how.alphas, "eps": how.eps, "cv": how.folds(FOLDS, y, units), "rule": how.rule, "tol": 1e-5,
            "relax": how.relax, "max_features": how.features,
        },
        "ordinal": {
            "alpha": "cv", "alphas": how.alphas, "eps": how.eps, "cv": how.folds(FOLDS, y, units), "rule": how.rule,
            "order": None if how.grades is None else list(how.grades), "tol": 1e-5,
        },
        "sbmlr": {"relax": how.relax and units is None, "cv": how.folds(FOLDS, y, None)},
        "ivm": {"alphas": [10.0, 1.0, 0.1], "gamma": "cv", "random_state": how.seed},
        "rvm": {"gamma": "cv", "random_state": how.seed},
        "sbmlr-rbf": {"kernel": "rbf", "gamma": "cv", "random_state": how.seed},
        "jcfo": {
            "alphas": (1.0, 0.3), "alphas_scales": (10.0, 3.0, 1.0), "cv": how.folds(LARGE_FOLDS, y, units),
            "rule": how.rule, "random_state": how.seed,
        },
    }  # fmt: skip
    return chosen.get(how.model, {})


def _factors(how: Procedure, n_features: int) -> Array | None:
    """Return the penalty factors; None where all features are penalised alike."""
    if not how.free:
        return None
    factors = np.ones(n_features)
    factors[list(how.free)] = 0.0
    return factors


def _affordable(rows: int, weights: int) -> bool:
    """Tell whether it costs little, beside the fit, to keep how the weights vary together."""
    return weights <= LARGEST_POSTERIOR and rows * weights**2 <= LARGEST_HESSIAN


def _most_weights(X: Any, y: Array, spec: ModelSpec) -> int:
    """Return how many weights other than zero a model can be expected to have at most."""
    n_classes = len(np.unique(y))
    parts = min(X.shape) if spec.linear else min(X.shape[0], 500)
    return int(parts) * (1 if n_classes == 2 else n_classes)


def fit_model(X: Any, y: Array, how: Procedure, units: Array | None = None) -> tuple[Pipeline, Pipeline]:
    """Fit a model; return it and the pipeline in which its strength was chosen (the same one for small data).

    With many rows SMLR is fitted to all of them at the strength *per row* that was best on a sample.
    """
    fitted, search = _fit(X, y, how, units)
    if how.class_weight is not None:
        _to_shares_of(fitted[-1], y)
    return fitted, search


def _to_shares_of(model: Any, y: Array) -> None:
    """Move the intercepts of a model that took the classes as equally common to the shares in the table.

    P(k | x) prop. exp(eta_k) pi_k: under a softmax, other shares are other intercepts (King and Zeng 2001).
    """
    shift = np.log(np.unique(y, return_counts=True)[1] / len(y))
    shift = shift[1:] - shift[0] if len(model.intercept_) == 1 else shift - shift.mean()
    model.intercept_ = model.intercept_ + shift
    if hasattr(model, "penalized_intercept_"):
        model.penalized_intercept_ = model.penalized_intercept_ + shift


def _fit(X: Any, y: Array, how: Procedure, units: Array | None) -> tuple[Pipeline, Pipeline]:
    pipeline = make_model(X, y, how, units)
    if not MODELS[how.model].folded:
        return (fitted := pipeline.fit(X, y)), fitted
    if X.shape[0] <= SEARCH_ROWS or how.model != "smlr":
        return (fitted := pipeline.fit(X, y, **_grouped(units))), fitted
    from smaller import SMLR

    sample, kept = _sample(y, SEARCH_ROWS, how.seed), pipeline[-1].posterior
    few = None if units is None else units[sample]
    search = pipeline.set_params(
        model__alphas=min(how.alphas, 15), model__eps=how.eps or 3e-3, model__tol=1e-3,
        model__cv=how.folds(LARGE_FOLDS, y[sample], few), model__relax=False, model__posterior=False,
    )  # fmt: skip
    search.fit(X[sample], y[sample], **_grouped(few))
    alpha = search[-1].alpha_ * X.shape[0] / len(sample)
    steps = [(step, clone(part)) for step, part in search.steps[:-1]]
    while True:
        model = SMLR(
            alpha=float(alpha),
            tol=1e-3,
            class_weight=how.class_weight,
            penalty_factors=_factors(how, X.shape[1]),
            posterior=kept,
        )
        fitted = Pipeline([*steps, ("model", model)]).fit(X, y)
        if how.features is None or len(fitted[-1].active_features_) <= how.features:
            return fitted, search
        alpha *= STRONGER  # other rows: a few more features than on the sample


def _grouped(units: Array | None) -> dict[str, Any]:
    return {} if units is None else {"model__groups": units}


def _sample(y: Array, count: int, seed: int) -> Array:
    """Return about ``count`` row numbers, the classes in proportion but none without five rows."""
    rng = np.random.default_rng(seed)
    labels, sizes = np.unique(y, return_counts=True)
    chosen = []
    for label, size in zip(labels, sizes, strict=True):
        rows = np.flatnonzero(y == label)
        take = min(size, max(FOLDS, math.ceil(count * size / len(y))))
        chosen.append(rng.choice(rows, take, replace=False))
    return np.sort(np.concatenate(chosen))
