"""From the arguments of an estimator to a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.kernels.blocks import (
    as_float64,
    as_vector,
    by_rows,
    check_matrix,
    device_of,
    is_number,
    is_sparse,
    namespace_of,
)
from smaller.kernels.given import FromCallable, Precomputed
from smaller.kernels.protocol import Kernel
from smaller.kernels.scaled import RBF, Linear, Polynomial

__all__ = ["make_kernel", "resolve_gamma"]


def make_kernel(
    kernel: str | Callable[..., Array],
    *,
    gamma: float | str,
    degree: int,
    coef0: float,
    kernel_params: Mapping[str, Any] | None,
    X: Array,
    weight: Array | None = None,
) -> Kernel:
    """Build a kernel from an estimator's arguments.

    Parameters
    ----------
    kernel : "rbf", "poly", "linear", "precomputed" or callable
    gamma : float, "scale" or "auto"
        Read by "rbf" and "poly" alone; see `resolve_gamma`.
    degree, coef0 : int, float
        Read by "poly" alone.
    kernel_params : mapping or None
        Keyword arguments of a callable kernel.
    X : array of shape (n, p)
        The training rows.
    weight : array of shape (n,) or None
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> make_kernel("rbf", gamma="auto", degree=3, coef0=1.0, kernel_params=None, X=np.eye(4))
    RBF(gamma=0.25)
    """
    if callable(kernel):
        return FromCallable(kernel, dict(kernel_params or {}))
    if kernel == "rbf":
        return RBF(gamma=resolve_gamma(gamma, X, weight))
    if kernel == "poly":
        return Polynomial(degree=degree, gamma=resolve_gamma(gamma, X, weight), coef0=coef0)
    if kernel == "linear":
        return Linear()
    if kernel == "precomputed":
        return Precomputed()
    raise ValueError(f"kernel must be 'rbf', 'poly', 'linear', 'precomputed' or a callable, got {kernel!r}")


def resolve_gamma(gamma: float | str, X: Array, weight: Array | None = None) -> float:
    """Turn the argument ``gamma`` into a number.

    "scale" is 1 / (p * v), v the weighted variance over all entries of X (1 if they are all equal); "auto" is
    1 / p; a number stays.

    Examples
    --------
    >>> import numpy as np
    >>> resolve_gamma("scale", np.array([[-1.0, 1.0], [-1.0, 1.0]]))
    0.5
    """
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / float(X.shape[1])
        if gamma == "scale":
            return _of_scale(float(X.shape[1]) * float(_weighted_variance(X, weight)))
    elif is_number(gamma) and 0 < gamma < math.inf:
        return float(gamma)
    raise ValueError(f"gamma must be a finite number > 0, 'scale' or 'auto', got {gamma!r}")


def _of_scale(total: float) -> float:
    """Return 1 / ``total`` (1 for zero) where that is a number at all."""
    if total == 0:
        return 1.0
    if math.isfinite(total) and math.isfinite(1.0 / total):
        return 1.0 / total
    raise ValueError(
        f"gamma='scale' is one over the variance of X's entries, and that is {total:.3g}: no kernel can be computed "
        "from numbers of this size. Scale the features, or give gamma as a number."
    )


def _weighted_variance(X: Array, weight: Array | None) -> float:
    """Variance over all entries of X, row i counting weight_i times; two passes against cancellation."""
    check_matrix(X, "X")
    xp, n, p = namespace_of(X), int(X.shape[0]), int(X.shape[1])
    X = as_float64(xp, by_rows(X))
    w = as_vector(xp, 1.0 if weight is None else weight, n, device_of(X))
    total = p * float(xp.sum(w))
    mean = float(xp.sum(X.T @ w)) / total
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses what is infinite
        if not is_sparse(X):
            return float(xp.sum(w @ (X - mean) ** 2)) / total
        entry_weight = np.repeat(w, np.diff(X.indptr))
        unstored = total - float(entry_weight.sum())  # zeros, which all deviate by the mean
        return (float(entry_weight @ (X.data - mean) ** 2) + unstored * np.float64(mean) ** 2) / total
