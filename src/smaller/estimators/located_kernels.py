"""Kernel columns of rows that are elsewhere: centres are drawn from them once, and sent to where the rows are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.equal_rows import first_of_equals
from smaller.estimators.fields import checked
from smaller.estimators.located import LocatedData
from smaller.kernels import make_kernel
from smaller.rows.protocol import Totals, uniform

__all__ = ["drawn_centers", "width_of"]


def drawn_centers(estimator: Any, data: LocatedData) -> tuple[KernelBasis, Array]:
    """Return the kernel basis of ``n_centers`` rows drawn by lot, and their numbers."""
    name = type(estimator).__name__
    if estimator.kernel == "precomputed":
        raise ValueError(f"{name}(kernel='precomputed') needs arrays in memory: name the kernel, or pass a callable.")
    if "local" in data.rows.offers and not isinstance(data.rows.local.y, np.ndarray):
        raise TypeError(f"{name} with a kernel works on the host: call .cpu() on a tensor, .get() on a CuPy array.")
    count = checked(estimator, "n_centers")
    if count is None:
        raise ValueError(f"{name} needs n_centers for rows that are elsewhere: so many of them become kernel centres.")
    X, numbers = _drawn(data, count, estimator.random_state)
    kernel = make_kernel(
        estimator.kernel,
        gamma=width_of(estimator.gamma, data.totals),
        degree=estimator.degree,
        coef0=estimator.coef0,
        kernel_params=estimator.kernel_params,
        X=X,
    )
    return KernelBasis(kernel, X), numbers


def width_of(gamma: Any, totals: Totals) -> Any:
    """Return what ``gamma="scale"`` means: one over the number of columns and the variance of all entries."""
    if not (isinstance(gamma, str) and gamma == "scale"):
        return gamma
    variance = float(np.mean(totals.M2) / totals.weight + np.var(totals.mean))
    return 1.0 / (len(totals.mean) * variance) if variance > 0 else 1.0


def _drawn(data: LocatedData, count: int, random_state: Any) -> tuple[Any, Array]:
    """Return rows that are all different, with their numbers: those with the smallest lots."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    flat = replace(data.totals, M2=np.zeros_like(data.totals.M2))  # every row has the same chance, times its weight
    found = data.rows.sample(2 * count + 50, flat, seed)
    X = found.design.matrix
    X = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X)
    rows = first_of_equals(X)
    rows = np.sort(rows[np.argsort(uniform(found.row_numbers[rows], seed), kind="stable")[:count]])
    return X[rows], found.row_numbers[rows]
