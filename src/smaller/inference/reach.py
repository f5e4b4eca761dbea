r"""How much wider the log-odds would be if the features left out counted too: the number that says when not to believe.

    reach = median over training rows, each left out, of  s_all / s

s takes the chosen features as given. s_all keeps the others, each with the variance v of its prior (2/(alpha r)^2 for
the Laplace prior), in the normal approximation around the fit. With om_i = c_i p_i (1 - p_i) and the leverage
l_i = om_i x_i' A^-1 x_i of a row in a model with precision A, leaving the row out gives the variance
l_i / (1 - l_i) / om_i: om cancels from the ratio.

p < n: A = X' diag(om) X + diag(1/v).    p >= n: 1 - l is the diagonal of P = V^-1 - V^-1 Z (Z'V^-1 Z)^-1 Z'V^-1 with
V = 1 + diag(om)^1/2 X_N diag(v) X_N' diag(om)^1/2 and Z the chosen columns times om^1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from smaller.arrays import Array, tilted, to_host
from smaller.designs import Design, blocks
from smaller.likelihoods import Curvature
from smaller.priors import ElasticNet, Prior
from smaller.searches.refit import Active, inverse

__all__ = ["left_out_variance", "reach"]

_MOST = 3000  # rows, or columns, of the matrices that are factored
_FLOOR = 1e-12  # of om, relative to the weight of the row: far tails hold no information either way
_MOST_CHOSEN = 0.9  # of a row's squares, for the others to be what is left after a subtraction
_LAPLACE = 1e3  # t = slope / sqrt(ridge) beyond which the ridge changes nothing


def left_out_variance(prior: Prior, n_columns: int) -> Array:
    """Return the prior variance of every weight (d,); infinite without a penalty.

    Elastic net: with ``t = slope / sqrt(ridge)``, ``E w^2 = (1 - t (h(t) - t)) / ridge``, h the normal hazard.
    """
    assert isinstance(prior, ElasticNet)
    slope, ridge = (
        np.broadcast_to(np.asarray(to_host(part), dtype=np.float64), (n_columns, 1))[:, 0]
        for part in (prior.slope, prior.ridge)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if not ridge.any():
            return np.asarray(2.0 / slope**2)
        t = slope / np.sqrt(ridge)
        mixed = (1.0 - t * tilted(-np.minimum(np.nan_to_num(t), _LAPLACE))) / ridge
        return np.asarray(np.where((ridge > 0) & (t < _LAPLACE), mixed, 2.0 / slope**2))


def reach(active: Active, eta: Array) -> float:
    """Return it for a fit with outputs ``eta``; of several classes, each against the rest, the largest."""
    problem = active.problem
    P = to_host(problem.likelihood.predict(eta))
    P = P[:, 1:] if P.shape[1] == 2 else P
    weight = np.ones(len(P)) if problem.weight is None else to_host(problem.weight)
    om = weight[:, None] * np.maximum(P * (1.0 - P), _FLOOR)
    variance = left_out_variance(problem.prior, problem.n_columns)
    variance[active.used] = 0.0  # these are not left out
    rows = np.flatnonzero(weight > 0)
    if len(rows) > _MOST:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST, replace=False))
    few = problem.n_columns <= min(len(rows), _MOST)
    part = problem.design.rows(rows) if len(rows) < len(om) else problem.design
    once = np.minimum(weight[rows], 1.0) / weight[rows]  # a weight of 3 is a row three times: one of them is left out
    # A sample stands for all rows.
    scale = weight.sum() / weight[rows].sum()
    leverages = _by_columns(active, part, variance) if few else _by_rows(active, part, variance, scale)
    found = []
    for k in range(om.shape[1]):
        all_columns, only = leverages(om[:, k], rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (all_columns / (1.0 - once * all_columns)) / (only / (1.0 - once * only))
        found.append(_median(np.sqrt(np.maximum(ratio, 1.0)), weight[rows]))
    return max(found)


# Leverages of some rows, given om of all and the rows' indices: with all columns, and with those chosen.
_Leverages = Callable[[Array, Array], tuple[Array, Array]]


def _by_columns(active: Active, part: Design, variance: Array) -> _Leverages:
    """Return leverages by the matrix of all columns; the chosen ones come first, so that one factor serves both."""
    problem, d = active.problem, active.problem.n_columns
    left_out = np.flatnonzero(variance)
    columns = np.concatenate([active.used, np.arange(d, d + problem.fit_intercept), left_out])
    X = _dense(part)
    X = (np.column_stack([X, np.ones(len(X))]) if problem.fit_intercept else X)[:, columns]
    m = len(columns) - len(left_out)
    precision = np.append(np.zeros(m), 1.0 / variance[left_out])
    at, diagonal = (columns, np.zeros(len(columns), dtype=np.int64)), np.diag_indices(len(columns))

    def leverages(om: Array, rows: Array) -> tuple[Array, Array]:
        R = np.sqrt(om[rows])[:, None] * X
        A = R.T @ R if len(rows) == len(om) else to_host(problem.design.gram(Curvature(om[:, None]), at))
        A[diagonal] += precision
        return _nested(A, R, m)

    return leverages


def _by_rows(active: Active, part: Design, variance: Array, scale: float) -> _Leverages:
    """Return leverages by the matrix of all rows."""
    inner, chosen = _inner(part, variance), _chosen(active, part)

    def leverages(om: Array, rows: Array) -> tuple[Array, Array]:
        om = scale * om[rows]
        return _dual(inner, chosen, om) / scale, _hat(np.sqrt(om)[:, None] * chosen) / scale

    return leverages


def _nested(A: Array, R: Array, m: int) -> tuple[Array, Array]:
    """Return ``r' A^-1 r`` for the rows of ``R``, with all columns and with the first ``m`` alone."""
    if not A.size:
        return np.zeros(len(R)), np.zeros(len(R))
    factor, failed = linalg.lapack.dpotrf(A, lower=1)
    if failed:
        return _quadratic(A, R), _quadratic(A[:m, :m], R[:, :m])
    root = linalg.blas.dtrsm(1.0, factor, R.T, lower=1)
    only = np.einsum("ij,ij->j", root[:m], root[:m])
    return only + np.einsum("ij,ij->j", root[m:], root[m:]), only


def _quadratic(A: Array, R: Array) -> Array:
    return np.einsum("ij,jk,ik->i", R, inverse(A), R, optimize=True)


def _chosen(active: Active, rows: Design) -> Array:
    """Return the chosen columns, and ones for an intercept, as a matrix."""
    Z = _dense(rows.take(active.used))
    return np.column_stack([Z, np.ones(len(Z))]) if active.problem.fit_intercept else Z


def _dense(design: Design) -> Array:
    matrix = design.matrix
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else to_host(matrix), dtype=np.float64)


def _inner(rows: Design, variance: Array) -> Array:
    """Return ``X_N diag(v) X_N'`` (n, n)."""
    left_out, largest = variance > 0, float(variance.max(initial=0.0))
    if (variance[left_out] == largest).all():  # as without penalty factors: no copy of X is needed
        every, chosen = _gram_of_rows(rows), _gram_of_rows(rows.take(np.flatnonzero(~left_out)))
        if (chosen.diagonal() <= _MOST_CHOSEN * every.diagonal()).all():
            return largest * (every - chosen)
    return _gram_of_rows(rows, np.sqrt(variance))


def _gram_of_rows(rows: Design, factors: Array | None = None) -> Array:
    """Return ``Z Z'`` (n, n), Z the columns times ``factors``."""
    n, d = rows.shape
    total = np.zeros((n, n), order="F")
    for block in blocks(d, 8 * n):
        every = block.stop - block.start == d
        A = _dense(rows if every else rows.take(np.arange(block.start, block.stop)))
        A = np.asfortranarray(A if factors is None else A * factors[block])
        total = linalg.blas.dsyrk(1.0, A, beta=1.0, c=total, lower=1, overwrite_c=1)
    return np.asarray(total + np.tril(total, -1).T)


def _hat(A: Array) -> Array:
    """Return the leverages of the rows of ``A``: the diagonal of ``A (A'A)^-1 A'``."""
    return np.asarray((np.linalg.qr(A)[0] ** 2).sum(axis=1)) if A.shape[1] else np.zeros(len(A))


def _dual(inner: Array, chosen: Array, om: Array) -> Array:
    """Return the leverages by the matrix of all rows."""
    root = np.sqrt(om)
    V = root[:, None] * inner * root
    V[np.diag_indices_from(V)] += 1.0
    L = linalg.cholesky(V, lower=True, overwrite_a=True, check_finite=False)
    inverse = linalg.solve_triangular(L, np.eye(len(V)), lower=True, check_finite=False)
    A = inverse @ (root[:, None] * chosen)
    Q = np.linalg.qr(A)[0] if A.shape[1] else A
    return np.asarray(1.0 - (inverse**2).sum(axis=0) + ((inverse.T @ Q) ** 2).sum(axis=1))


def _median(values: Array, weight: Array) -> float:
    """Return the weighted median; a row of weight 2 is a row given twice."""
    values = np.where(np.isnan(values), 1.0, values)  # nothing chosen, nothing left out: 0 / 0
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    half = 0.5 * total[-1]
    low = values[order][np.searchsorted(total, half * (1.0 - 1e-12))]
    high = values[order][min(np.searchsorted(total, half * (1.0 + 1e-12), side="right"), len(order) - 1)]
    return float(low) if low == high else float(0.5 * (low + high)) if math.isfinite(high) else float(high)
