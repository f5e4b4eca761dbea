"""The one place where users' arguments are checked; everything below trusts its input.

Messages name the argument and say what to do. scikit-learn's own checks (and texts) are used wherever they exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, compute_class_weight, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from smaller.arrays import Array
from smaller.rows.registry import elsewhere, is_rows

__all__ = [
    "Block",
    "Responses",
    "TrainingData",
    "check_choice",
    "check_classification_data",
    "check_factors",
    "check_flag",
    "check_integer",
    "check_magnitudes",
    "check_number",
    "check_regression_data",
    "check_rows",
    "check_weight",
    "column_ranges",
    "finite_numbers",
    "powers_of_two",
    "refuse_rows",
    "sparse_formats",
    "unchanged_on_failure",
]

# Columns whose largest entry lies outside this range are brought to order 1 by an exact power of two, so that their
# squares neither overflow nor vanish.
_SAFE_EXPONENT = 200
_LARGEST_EXPONENT = 1000  # of a scale: 2^1024 is infinite, and only subnormal columns would ask for it
_SAFE_SPAN = 1e30  # largest over smallest positive weight
_SAFE_TOTAL = 1e100  # of the weights, and one over it: beyond, the squares of gradients leave the range of float64


@dataclass(frozen=True)
class TrainingData:
    """Checked data: X dense (any order) or CSC, class codes, weights folded together."""

    X: Any
    codes: Array  # (n,) int64, index into classes
    weight: Array | None  # (n,) or None for ones
    classes: Array  # (K,) labels
    shares: Array | None = None  # (n, K) of soft labels, of which `codes` then are the largest
    offset: Array | None = None  # (n, K), added to the scores of the classes

    @property
    def labels(self) -> Array:
        """What a likelihood encodes: the shares of the classes, or the codes."""
        return self.codes if self.shares is None else self.shares


@dataclass(frozen=True)
class Block:
    """Some of the rows to predict for, whose columns have been compared with those of the fit already."""

    X: Any


@dataclass(frozen=True)
class Responses:
    """Checked data of a regression."""

    X: Any
    y: Array  # (n,) float64
    weight: Array | None  # (n,) or None for ones


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the body raises (Ctrl-C included): nothing is ever half-fitted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        # scikit-learn keeps the state of running callbacks on the estimator and still needs it to close them.
        running = {name: value for name, value in vars(estimator).items() if name.startswith(("_callback", "_skl"))}
        vars(estimator).clear()
        vars(estimator).update(before | running)
        raise


def check_number(
    name: str, value: Any, *, least: float = -math.inf, most: float = math.inf, open_left: bool = False
) -> float:
    """Return ``value`` as a finite float inside the range."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    inside = least <= number <= most and not (open_left and number == least)
    if not math.isfinite(number) or not inside:
        raise ValueError(f"{name} must be a finite number {_range(least, most, open_left)}, got {value!r}.")
    return number


def _range(least: float, most: float, open_left: bool) -> str:
    """Return a range in words."""
    lower = [f"{'>' if open_left else '>='} {least:g}"] if math.isfinite(least) else []
    upper = [f"<= {most:g}"] if math.isfinite(most) else []
    return " and ".join(lower + upper) or "finite"


def check_integer(name: str, value: Any, *, least: int = 0) -> int:
    """Return ``value`` as an int not below ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the strings."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_weight(weight: Any, n: int) -> Array | None:
    """Return observation weights as float64 (n,), or None for ones."""
    if weight is None:
        return None
    if isinstance(weight, Real):
        weight = np.full(n, float(weight))
    weight = finite_numbers("sample_weight", weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n,)}!")
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`: weights must be >= 0.")
    if not weight.any():
        raise ValueError("sample_weight is all zeros: at least two classes need a row with a positive weight.")
    return None if (weight == 1.0).all() else weight


def finite_numbers(name: str, values: Any) -> Array:
    """Return ``values`` as a finite float64 array; texts name the argument."""
    try:
        return check_array(values, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0)
    except (TypeError, ValueError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name} must hold numbers: {error}") from error


def check_classification_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    class_weight: Any = None,
) -> TrainingData:
    """Check training data of a classifier; classes without any weight are as if absent."""
    refuse_rows(estimator, X, y, sample_weight)
    X, y = _arrays(estimator, X, y)
    check_classification_targets(y)
    y = column_or_1d(y, warn=True)
    weight = check_weight(sample_weight, X.shape[0])
    present = y if weight is None else y[weight > 0]
    classes = np.unique(present)
    if len(classes) < 2:
        raise ValueError(
            f"This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
            f"{classes.tolist()[0]!r}. ({type(estimator).__name__} cannot learn from one class.)"
        )
    codes = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1).astype(np.int64)
    if class_weight is not None:
        weight = _with_class_weight(class_weight, classes, y, codes, weight)
    if weight is not None:
        check_magnitudes(weight)
    return TrainingData(X, codes, weight, classes)


def check_regression_data(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Responses:
    """Check training data of a regressor."""
    refuse_rows(estimator, X, y, sample_weight)
    X, y = _arrays(estimator, X, y, y_numeric=True)
    weight = check_weight(sample_weight, X.shape[0])
    if weight is not None:
        check_magnitudes(weight)
    return Responses(X, y.astype(np.float64), weight)


_OF_TABLES = ("could not convert string to float", "Input X contains NaN")  # what scikit-learn says of texts and gaps


def _arrays(estimator: Any, X: Any, y: Any, **about_y: bool) -> tuple[Any, Any]:
    """Return a finite matrix of numbers and one target for every row."""
    try:
        return validate_data(  # type: ignore[no-any-return]
            estimator, X, y, accept_sparse=sparse_formats(estimator), dtype=[np.float64, np.float32],
            multi_output=False, accept_large_sparse=True, **about_y,
        )  # fmt: skip
    except ValueError as error:
        if any(words in str(error) for words in _OF_TABLES):
            raise ValueError(
                f"{error}\nTableFeatures() in front of it makes features of texts and fills gaps."
            ) from error
        raise


def refuse_rows(estimator: Any, X: Any, y: Any, weight: Any) -> None:
    """Refuse what is not in this process, rather than fetch it silently."""
    if is_rows(X) or elsewhere(X, y, weight) is not None:
        raise TypeError(
            f"{type(estimator).__name__} needs arrays in memory here, got {type(X).__name__}: convert them first "
            "(.compute() on a dask collection, .cpu() on a tensor)."
        )


def sparse_formats(estimator: Any) -> tuple[str, ...] | bool:
    """Return the sparse formats that an estimator takes, as scikit-learn wants to be told."""
    return ("csc", "csr") if get_tags(estimator).input_tags.sparse else False


def check_magnitudes(weight: Array) -> None:
    """Refuse weights whose sums would leave the range or the precision of float64."""
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if not 1.0 / _SAFE_TOTAL <= total <= _SAFE_TOTAL:
        raise ValueError(
            f"sample_weight (times class_weight) sums to {total:g}, which is out of range: divide it by its mean, and "
            "alpha by the same number."
        )
    largest, smallest = float(weight.max()), float(weight[weight > 0].min())
    if largest > _SAFE_SPAN * smallest:
        raise ValueError(
            f"sample_weight (times class_weight) spans {smallest:g} to {largest:g}, more than float64 can add up: give "
            "rows with next to no weight the weight 0."
        )


def _with_class_weight(class_weight: Any, classes: Array, y: Array, codes: Array, weight: Array | None) -> Array:
    weight = np.ones(len(codes)) if weight is None else weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        # Weighted counts, so that a weight still equals a repetition.
        totals = np.bincount(codes, weight, minlength=len(classes))
        factors = weight.sum() / (len(classes) * totals)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=y[np.isin(y, classes)])
    if not np.isfinite(factors).all() or (factors < 0).any():
        raise ValueError("class_weight must hold finite values >= 0.")
    weight = weight * factors[codes]
    if len(np.unique(codes[weight > 0])) < len(classes):
        raise ValueError("class_weight leaves a class without any weight: remove its rows from the data instead.")
    return weight


def check_rows(estimator: Any, X: Any) -> Any:
    """Check data to predict for."""
    options: dict[str, Any] = {
        "accept_sparse": sparse_formats(estimator),
        "dtype": [np.float64, np.float32],
        "accept_large_sparse": True,
    }
    if isinstance(X, Block):
        return check_array(X.X, **options)
    refuse_rows(estimator, X, None, None)
    return validate_data(estimator, X, reset=False, **options)


def check_factors(factors: Any, n_features: int) -> Array | None:
    """Return penalty factors as a column (d, 1), or None for ones."""
    if factors is None:
        return None
    values = finite_numbers("penalty_factors", factors)
    if values.shape != (n_features,):
        raise ValueError(
            f"penalty_factors must hold one number per feature, {n_features} in all; its shape is {values.shape}."
        )
    if (values < 0).any():
        raise ValueError("penalty_factors must be >= 0 (0 leaves a feature unpenalised).")
    return values[:, None]


def column_ranges(X: Any, weight: Array | None = None) -> tuple[Array, Array]:
    """Return the smallest and the largest entry (d,) of every column, over rows that have any weight."""
    rows = X if weight is None or (weight > 0).all() else X[weight > 0]
    if sparse.issparse(rows):
        low, high = (extreme.toarray().ravel() for extreme in (rows.min(axis=0), rows.max(axis=0)))
    else:
        low, high = rows.min(axis=0), rows.max(axis=0)
    return low.astype(np.float64), high.astype(np.float64)


def powers_of_two(largest: Array) -> Array | None:
    """Return exact scales (d,) that bring extreme columns to order 1, or None when no column is extreme."""
    _, exponent = np.frexp(largest)
    extreme = (np.abs(exponent) > _SAFE_EXPONENT) & (largest > 0)
    if not extreme.any():
        return None
    return np.ldexp(1.0, np.where(extreme, np.minimum(-exponent, _LARGEST_EXPONENT), 0))
