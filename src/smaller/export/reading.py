"""From fitted models to a formula: what stands before the last estimator becomes steps of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from smaller import kernels
from smaller.arrays import Array
from smaller.estimators.base import KernelOrLinearClassifier, feature_names
from smaller.estimators.ordinal import OrdinalSMLR
from smaller.estimators.relevance import RVC
from smaller.export.formula import ExportError, Feature, Formula, Kernel, plain
from smaller.likelihoods import Multinomial, Ordinal, Probit

__all__ = ["apply", "columns_of", "formula_of", "predictor"]

Features = Sequence[Feature]


def formula_of(model: Any) -> Formula:
    """Return the formula of a fitted classifier of this package, alone or at the end of a `Pipeline`.

    Parameters
    ----------
    model : estimator
        A fitted `SMLR`, `SMLRCV`, `RMLR`, `SBMLR`, `SparseProbit`, `JCFO`, `JCFOCV`, `KLR`, `IVM`, `OrdinalSMLR`, or
        `RVC` with ``moderate=False``.

    Returns
    -------
    Formula
        Only the features and columns that take part.

    Raises
    ------
    ExportError
        If a part of the model has no formula here; the message names it.

    See Also
    --------
    to_json, to_sql, to_onnx, to_card : Write it down.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> formula_of(SMLR(alpha=20).fit(X, y)).used_columns
    ('petal length (cm)',)
    """
    names, named = columns_of(model)
    features = [Feature(name, name) for name in names]
    return predictor(model, features, names, named).reduced()


@singledispatch
def columns_of(model: Any) -> tuple[tuple[str, ...], bool]:
    """Return the columns a model was fitted with, and whether these are names of the user."""
    check_is_fitted(model)
    return tuple(str(name) for name in feature_names(model)), hasattr(model, "feature_names_in_")


# ---- the last estimator ---------------------------------------------------------------------------------------------


@singledispatch
def predictor(model: Any, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    """Return the formula of a model whose inputs are ``features``; register a type here to teach it."""
    raise ExportError(
        f"{type(model).__name__} has no formula to export: give a fitted classifier of smaller, alone or at the end of "
        "a Pipeline. Of a wrapper, give the estimator in it."
    )


@predictor.register
def _(model: Pipeline, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    for _, step in model.steps[:-1]:
        features = apply(step, features)
    return predictor(model.steps[-1][1], features, columns, named)


@predictor.register
def _(model: FrozenEstimator, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    return predictor(model.estimator, features, columns, named)


@predictor.register
def _(model: RVC, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    if model.moderate:
        raise ExportError(
            "RVC moderates its probabilities by the covariance of all weights, which has no short formula: fit "
            "RVC(moderate=False) to export it."
        )
    return _classifier(model, features, columns, named)


@predictor.register
def _(model: KernelOrLinearClassifier, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    return _classifier(model, features, columns, named)


@predictor.register
def _(model: OrdinalSMLR, features: Features, columns: tuple[str, ...], named: bool) -> Formula:
    return _classifier(model, features, columns, named, intercept=-model.thresholds_)


def _classifier(
    model: Any, features: Features, columns: tuple[str, ...], named: bool, intercept: Array | None = None
) -> Formula:
    if vars(model).get("_offset", False):
        raise ExportError(
            f"This {type(model).__name__} was fitted with an offset, which is no column of the table: a formula of the "
            "columns alone would leave it out."
        )
    intercept = np.atleast_1d(np.asarray(model.intercept_ if intercept is None else intercept, dtype=np.float64))
    linear = hasattr(model, "coef_")
    weights = np.atleast_2d(model.coef_ if linear else model.dual_coef_).T
    return Formula(
        made_of=type(model).__name__,
        columns=columns,
        named=named,
        features=tuple(features),
        kernel=None if linear else _kernel(model._basis_.kernel, model.support_vectors_, len(features)),
        weights=np.broadcast_to(np.asarray(weights, dtype=np.float64), (len(weights), len(intercept))),
        intercept=intercept,
        link=_link(model._likelihood),
        classes=tuple(plain(label) for label in model.classes_),
    )


@singledispatch
def _link(likelihood: Any) -> str:
    raise ExportError(f"Probabilities of a {type(likelihood).__name__} likelihood have no formula to export yet.")


@_link.register
def _(likelihood: Multinomial) -> str:
    return "logistic" if likelihood.n_outputs == 1 else "softmax"


@_link.register
def _(likelihood: Ordinal) -> str:
    return "logistic" if likelihood.n_free == 1 else "cumulative"


@_link.register
def _(likelihood: Probit) -> str:
    return "probit"


@singledispatch
def _kernel(kernel: Any, centers: Any, d: int) -> Kernel:
    raise ExportError(
        f"A {type(kernel).__name__} kernel has no formula to export: use kernel='rbf', 'poly', 'linear' or None."
    )


@_kernel.register
def _(kernel: kernels.RBF, centers: Any, d: int) -> Kernel:
    return Kernel("rbf", _scales(kernel.gamma, d), _dense(centers))


@_kernel.register
def _(kernel: kernels.Polynomial, centers: Any, d: int) -> Kernel:
    return Kernel("poly", _scales(kernel.gamma, d), _dense(centers), int(kernel.degree), float(kernel.coef0))


@_kernel.register
def _(kernel: kernels.Linear, centers: Any, d: int) -> Kernel:
    return Kernel("poly", _scales(kernel.gamma, d), _dense(centers))


def _scales(gamma: Any, d: int) -> Array:
    return np.broadcast_to(np.asarray(gamma, dtype=np.float64), (d,))


def _dense(centers: Any) -> Array:
    return np.asarray(centers.toarray() if sparse.issparse(centers) else centers, dtype=np.float64)


# ---- what stands before it ------------------------------------------------------------------------------------------


@singledispatch
def apply(step: Any, features: Features) -> list[Feature]:
    """Return the features after a fitted transformer; register a type here to teach it."""
    if step is None or step == "passthrough":
        return list(features)
    raise ExportError(
        f"{type(step).__name__} before the model has no formula to export. Known are Pipeline, ColumnTransformer, "
        "FeatureUnion, SimpleImputer, StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, OneHotEncoder, "
        "OrdinalEncoder and selectors of features."
    )


def _each(features: Features, steps: Callable[[int], Sequence[tuple[str, Any]]]) -> list[Feature]:
    return [feature.then(*steps(j)) for j, feature in enumerate(features)]


def _number(verb: str, values: Any, j: int) -> list[tuple[str, Any]]:
    return [] if values is None else [(verb, float(values[j]))]


@apply.register
def _(step: Pipeline, features: Features) -> list[Feature]:
    for _, part in step.steps:
        features = apply(part, features)
    return list(features)


@apply.register
def _(step: FrozenEstimator, features: Features) -> list[Feature]:
    return apply(step.estimator, features)


@apply.register
def _(step: ColumnTransformer, features: Features) -> list[Feature]:
    made: list[Feature] = []
    indices = step._transformer_to_input_indices
    for name, part, _ in step.transformers_:
        chosen = [features[j] for j in np.atleast_1d(indices[name]).tolist()]
        if not (isinstance(part, str) and part == "drop") and chosen:
            made += apply(part, chosen)
    return made


@apply.register
def _(step: FeatureUnion, features: Features) -> list[Feature]:
    if step.transformer_weights:
        raise ExportError("FeatureUnion with transformer_weights has no formula to export: scale after it instead.")
    return [feature for _, part in step.transformer_list if part != "drop" for feature in apply(part, features)]


@apply.register
def _(step: FunctionTransformer, features: Features) -> list[Feature]:
    if step.func is not None:
        raise ExportError("FunctionTransformer holds a function of Python, which has no formula to export.")
    return list(features)


@apply.register
def _(step: StandardScaler, features: Features) -> list[Feature]:
    mean, scale = (step.mean_ if step.with_mean else None), step.scale_
    return _each(features, lambda j: [*_number("subtract", mean, j), *_number("divide", scale, j)])


@apply.register
def _(step: RobustScaler, features: Features) -> list[Feature]:
    center, scale = (step.center_ if step.with_centering else None), (step.scale_ if step.with_scaling else None)
    return _each(features, lambda j: [*_number("subtract", center, j), *_number("divide", scale, j)])


@apply.register
def _(step: MaxAbsScaler, features: Features) -> list[Feature]:
    clip = [("clip", [-1.0, 1.0])] if getattr(step, "clip", False) else []
    return _each(features, lambda j: [*_number("divide", step.scale_, j), *clip])


@apply.register
def _(step: MinMaxScaler, features: Features) -> list[Feature]:
    clip = [("clip", [float(limit) for limit in step.feature_range])] if step.clip else []
    return _each(features, lambda j: [*_number("multiply", step.scale_, j), *_number("add", step.min_, j), *clip])


@apply.register
def _(step: SimpleImputer, features: Features) -> list[Feature]:
    if plain(step.missing_values) is not None:
        raise ExportError(
            f"SimpleImputer(missing_values={step.missing_values!r}) has no formula to export: mark gaps as NaN or None."
        )
    values = [plain(value) for value in step.statistics_]
    made = [feature.then(("fill", value)) for feature, value in zip(features, values, strict=True) if value is not None]
    return made + (apply(step.indicator_, features) if step.indicator_ is not None else [])


@apply.register
def _(step: MissingIndicator, features: Features) -> list[Feature]:
    marked = [features[j] for j in step.features_]
    return [feature.then(("one_of", [None]), name=f"{feature.name} is missing") for feature in marked]


@apply.register
def _(step: OneHotEncoder, features: Features) -> list[Feature]:
    made = []
    for j, feature in enumerate(features):
        groups = _level_groups(step, j)
        dropped = None if step.drop_idx_ is None else step.drop_idx_[j]
        for k, levels in enumerate(groups):
            if dropped is None or k != dropped:
                shown = " or ".join("missing" if level is None else str(level) for level in levels[:3])
                name = f"{feature.name} = {shown}{' or others' * (len(levels) > 3)}"
                made.append(feature.then(("one_of", levels), name=name))
    return made


def _level_groups(step: OneHotEncoder, j: int) -> list[list[Any]]:
    """Return the levels behind every indicator of a column; infrequent ones share the last."""
    levels = [plain(level) for level in step.categories_[j]]
    rare = getattr(step, "infrequent_categories_", None)
    rare = [] if rare is None or rare[j] is None else [plain(level) for level in rare[j]]
    if rare and step.handle_unknown == "infrequent_if_exist":
        raise ExportError(
            "OneHotEncoder(handle_unknown='infrequent_if_exist') has no formula to export: use handle_unknown='ignore'."
        )
    return [[level] for level in levels if level not in rare] + ([rare] if rare else [])


@apply.register
def _(step: OrdinalEncoder, features: Features) -> list[Feature]:
    if getattr(step, "infrequent_categories_", None) is not None and any(
        rare is not None for rare in step.infrequent_categories_
    ):
        raise ExportError("OrdinalEncoder with infrequent categories has no formula to export.")
    other = step.unknown_value if step.handle_unknown == "use_encoded_value" else None
    made = []
    for feature, categories in zip(features, step.categories_, strict=True):
        pairs = [[plain(level), float(k)] for k, level in enumerate(categories)]
        if pairs and pairs[-1][0] is None:
            pairs[-1][1] = plain(float(step.encoded_missing_value))
        made.append(feature.then(("code", [pairs, plain(other) if other is None else plain(float(other))])))
    return made


@apply.register
def _(step: SelectorMixin, features: Features) -> list[Feature]:
    return [features[j] for j in step.get_support(indices=True)]
