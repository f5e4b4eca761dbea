"""What RVC and RVR share: candidate columns in; weights, strengths and averaged scores in the user's units out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg, sparse

from smaller.arrays import Array, log_partition
from smaller.bases import Basis
from smaller.estimators.fields import checked
from smaller.problem import Solution
from smaller.searches.marginal import Columns, Fit, Marginal, standardise
from smaller.searches.relevance import Relevance, find_relevant
from smaller.solvers.driver import Progress
from smaller.telling import tell

__all__ = [
    "candidates",
    "double",
    "find",
    "inverse_root",
    "moderated",
    "solution_of",
    "strengths",
    "used_columns",
    "warn_crowded",
]

_LARGEST_BYTES = 2 << 30  # of all candidate columns
_CROWDED = 0.25  # share of the rows that are columns at the end: the kernel is too narrow
_MANY = 10  # columns, below which no kernel is called too narrow


def candidates(model: Any, data: Any, basis: Basis) -> tuple[Columns, Array, Array | None]:
    """Return the columns to choose from, on rows of positive weight, which rows these are, and their weights."""
    rows = np.arange(data.X.shape[0]) if data.weight is None else np.flatnonzero(data.weight > 0)
    X = data.X.tocsr() if sparse.issparse(data.X) else data.X
    design: Any = basis.expand(X[rows])
    n, d = design.shape
    if 8 * n * d > _LARGEST_BYTES:
        raise ValueError(
            f"{type(model).__name__} holds every candidate column, {8 * n * d / 2**20:.0f} MiB for {n} rows and {d} "
            f"columns: {'select features first' if model.kernel is None else 'set n_centers to some 2000'}."
        )
    matrix = design.matrix
    matrix = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
    weight = None if data.weight is None else data.weight[rows]
    return standardise(matrix, weight, center=checked(model, "fit_intercept")), rows, weight


def double(data: Any) -> Any:
    """Return the data in double precision: a factorisation needs it."""
    X = data.X.astype(np.float64) if sparse.issparse(data.X) else np.asarray(data.X, dtype=np.float64)
    return replace(data, X=X)


def find(model: Any, marginal: Marginal, progress: Progress | None) -> Relevance:
    """Run the search with the estimator's settings."""
    return find_relevant(
        marginal,
        tol=checked(model, "tol"),
        max_iter=checked(model, "max_iter"),
        progress=progress,
    )


def solution_of(found: Relevance, columns: Columns, shape: tuple[int, int], evidence: float, unit: float) -> Solution:
    """Return the end of a search with weights in the user's units; ``unit`` is that of the responses."""
    fit, q = found.fit, shape[1]
    w = np.zeros(shape)
    j = fit.pairs // q
    with np.errstate(over="ignore", invalid="ignore"):
        values = unit * fit.w / columns.scale[j]
        moves = unit * fit.w * columns.mean[j] / columns.scale[j]
    _check_range("their weights", np.isfinite(values + moves))
    w[columns.index[j], fit.pairs % q] = values
    shift = np.zeros(q)
    np.add.at(shift, fit.pairs % q, moves)
    offset = evidence - fit.log_evidence
    history = tuple(-(value + offset) for value in found.history)
    return Solution(
        w, unit * fit.b - shift, -evidence, found.gain, None, found.n_iter, found.status, "evidence", 1.0, history
    )


def strengths(fit: Fit, columns: Columns, used: Array, q: int, unit: float) -> Array:
    """Return the strengths (q, k) of the weights in the user's units, infinite where a column has none."""
    j = fit.pairs // q
    strengths = np.full((q, len(used)), np.inf)
    with np.errstate(over="ignore", under="ignore"):
        values = fit.a * (columns.scale[j] / unit) ** 2
    _check_range("the strengths of their weights", np.isfinite(values) & ((values > 0) | (fit.a == 0)))
    strengths[fit.pairs % q, np.searchsorted(used, columns.index[j])] = values
    return strengths


def _check_range(what: str, held: Array) -> None:
    """Refuse what float64 cannot hold in the user's units: zero and infinity would say something else."""
    if not held.all():
        raise ValueError(
            f"X has columns so small or so large that float64 cannot hold {what}: multiply them by a constant."
        )


def warn_crowded(model: Any, n_rows: int) -> None:
    """Say so when too many rows are centres."""
    count = len(model.support_) if model.kernel is not None else 0
    if count > max(_CROWDED * n_rows, _MANY):
        tell(
            f"{type(model).__name__} keeps {count} of {n_rows} rows as centres: the kernel is too narrow, and what it "
            "predicts between the rows is little more than a guess. Choose a smaller gamma.",
        )


def inverse_root(root: Array) -> Array:
    """Return ``L^-1``; nothing of nothing."""
    return linalg.solve_triangular(root, np.eye(len(root)), lower=True) if len(root) else root


def used_columns(model: Any, X: Any) -> Array:
    """Return the columns in use (n, k) of new rows."""
    basis = model._basis_.take(model.active_features_) if hasattr(model, "coef_") else model._basis_
    matrix = basis.expand(X).matrix
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)


def moderated(eta: Array, deviations: Array) -> Array:
    """Return scores of the averaged probabilities (MacKay 1992), every difference of two outputs moderated."""
    if eta.shape[1] == 1:
        variance = np.einsum("nk,nk->n", deviations[0], deviations[0])
        return eta / np.sqrt(1.0 + math.pi / 8.0 * variance)[:, None]
    scores = np.empty_like(eta)
    for k in range(eta.shape[1]):
        apart = deviations[k] - deviations
        variance = np.einsum("lnk,lnk->nl", apart, apart)
        differences = (eta[:, k, None] - eta) / np.sqrt(1.0 + math.pi / 8.0 * variance)
        scores[:, k] = -log_partition(-differences, pinned=False)[0]
    return scores
