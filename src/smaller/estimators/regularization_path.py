"""The whole path as a function: `smlr_path` and `alpha_max`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from smaller.arrays import Array
from smaller.estimators.assembly import Assembly, Units
from smaller.estimators.feature_cap import beyond, check_max_features, refuse_cap
from smaller.estimators.fields import checked
from smaller.estimators.located import LocatedData, assemble_rows, located, refuse_unusual
from smaller.estimators.offsets import refuse_elsewhere
from smaller.estimators.smlr import SMLR
from smaller.estimators.solver_choice import check_solver
from smaller.estimators.strength import grid_of, largest_alpha
from smaller.problem import Status
from smaller.searches.path import PathPoint, trace_path
from smaller.searches.row_path import walk
from smaller.soft_labels import training_data
from smaller.solvers import Method, engine
from smaller.solvers.driver import Progress
from smaller.telling import tell
from smaller.validation import check_integer, check_number

__all__ = ["RegularizationPath", "alpha_max", "as_path", "path_of", "smlr_path"]


@dataclass(frozen=True)
class RegularizationPath:
    """Solutions at decreasing strengths, each with its certificate.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths, largest first.
    intercepts : ndarray of shape (n_alphas, q)
        Intercepts.
    n_active : ndarray of shape (n_alphas,)
        Features (or kernel centres) with a non-zero weight for any class.
    gaps : ndarray of shape (n_alphas,)
        Duality gaps: how far each objective can be from its minimum.
    objectives, losses : ndarray of shape (n_alphas,)
        Penalised and plain sums of log-losses.
    null_loss : float
        Sum of log-losses of the model without features; ``1 - losses/null_loss`` is the deviance explained (of soft
        labels, whose entropy no model explains, an understatement).
    statuses : tuple of Status
        How each solve ended.
    used : tuple of pairs of ndarrays (m,) and (m, q)
        Features (or centres) in use, and their weights.
    n_features : int
        Number of features (or centres) d.
    classes : ndarray
        Labels.
    """

    alphas: Array
    intercepts: Array
    n_active: Array
    gaps: Array
    objectives: Array
    losses: Array
    null_loss: float
    statuses: tuple[Status, ...]
    used: tuple[tuple[Array, Array], ...]
    n_features: int
    classes: Array

    @cached_property
    def weights(self) -> tuple[Any, ...]:
        """The weights at every strength, as sparse arrays (d, q)."""
        return tuple(_sparse(columns, values, self.n_features) for columns, values in self.used)

    @property
    def coefs(self) -> Array:
        """Dense weights (n_alphas, q, d): q is 1 for two classes. Large for wide data; ``weights`` is sparse."""
        dense = np.zeros((len(self.used), self.intercepts.shape[1], self.n_features))
        for w, (columns, values) in zip(dense, self.used, strict=True):
            w[:, columns] = values.T
        return dense

    @property
    def converged(self) -> bool:
        """Whether every strength met its tolerance."""
        return all(status is Status.CONVERGED for status in self.statuses)


def path_of(
    assembly: Assembly,
    alphas: Array,
    classes: Array,
    *,
    method: Method,
    tol: float,
    max_iter: int,
    most: int | None = None,
    progress: Progress | None = None,
) -> RegularizationPath:
    """Trace the path of an assembled problem (of unit strength), up to ``most`` features, in the user's units."""
    points = trace_path(
        assembly.problem,
        alphas,
        method=method,
        tol=tol,
        max_iter=max_iter,
        progress=progress,
        until=beyond(assembly, most),
    )
    if not points:
        refuse_cap(most, float(alphas[0]))
    return as_path(assembly, points, classes, assembly.problem.null().loss)


def path_elsewhere(
    model: SMLR,
    data: LocatedData,
    alphas: Any,
    eps: Any,
    scale: str,
    *,
    tol: float,
    max_iter: int,
    most: int | None,
) -> RegularizationPath:
    """Trace the path of rows that are elsewhere, up to ``most`` features."""
    refuse_unusual(model, "kernel", None)
    problem, units = assemble_rows(model, data, alpha=1.0, l1_ratio=model._l1_ratio())
    grid = grid_of(partial(engine.alpha_max, problem), alphas, eps, scale, data.shape)
    quadratic = engine.model_of(problem)
    [path] = engine.lockstep(problem.rows, [walk(problem, quadratic, grid, tol=tol, max_iter=max_iter, most=most)])
    if not path.points:
        refuse_cap(most, float(grid[0]))
    return as_path(units, path.points, data.classes, path.null_loss)


def as_path(units: Units, points: Sequence[PathPoint], classes: Array, null_loss: float) -> RegularizationPath:
    """Bring the points of a path to the user's units."""
    used, intercepts = zip(*(_in_user_units(units, point) for point in points), strict=True)
    return RegularizationPath(
        np.array([point.alpha for point in points]),
        np.stack(intercepts),
        np.array([len(columns) for columns, _ in used]),
        np.array([np.nan if point.gap is None else point.gap for point in points]),
        np.array([point.objective for point in points]),
        np.array([point.loss for point in points]),
        null_loss,
        tuple(point.status for point in points),
        used,
        units.n_features,
        classes,
    )


def _in_user_units(units: Units, point: PathPoint) -> tuple[tuple[Array, Array], Array]:
    """Return the columns in use with their weights, and the intercepts."""
    if units.plain:
        return (point.columns, point.values), point.b
    w, b = units.to_user(point.w, point.b)
    columns = np.flatnonzero(w.any(axis=1))
    return (columns, w[columns]), b


def _sparse(columns: Array, values: Array, d: int) -> Any:
    present = values != 0
    first = np.zeros(d + 1, dtype=np.int64)
    first[columns + 1] = present.sum(axis=1)
    return sparse.csr_array((values[present], np.nonzero(present)[1], np.cumsum(first)), shape=(d, values.shape[1]))


def smlr_path(
    X: Any,
    y: Any = None,
    *,
    alphas: Any = 100,
    eps: float | None = None,
    max_features: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    solver: str = "auto",
    **settings: Any,
) -> RegularizationPath:
    """Compute SMLR solutions for a whole grid of strengths, each certified by its duality gap.

    Parameters
    ----------
    X, y
        As in :meth:`SMLR.fit`.
    alphas : int or array-like, default=100
        Number of log-spaced strengths below the one that zeroes every weight, or the strengths themselves.
    eps : float, default=None
        Smallest strength of the grid as a fraction of the largest: 1e-2 if there are more columns than rows, else 1e-3.
    max_features : int, default=None
        End the path before the first strength that keeps more features (with a kernel: centres) than this.
    sample_weight : array-like of shape (n_samples,), default=None
        Observation weights.
    offset : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
        As in :meth:`SMLR.fit`.
    tol, max_iter, solver
        As in :class:`SMLR`, for every strength.
    **settings
        Other parameters of :class:`SMLR`: ``l1_ratio``, ``kernel``, ``coding``, ``penalty_factors``, ... With
        ``alpha_scale="max"`` a list of ``alphas`` holds shares of the largest strength.

    Returns
    -------
    RegularizationPath
        With ``alphas, coefs, intercepts, n_active, gaps`` and more.

    See Also
    --------
    SMLRCV : Chooses a point of the path by cross-validation.
    alpha_max : Where the path begins.
    smaller.plotting.PathDisplay : A picture of the path.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import smlr_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = smlr_path(X, y, alphas=20)
    >>> path.coefs.shape
    (20, 3, 4)
    >>> int(path.n_active[0]), path.converged
    (0, True)
    """
    tol = check_number("tol", tol, least=0.0, open_left=True)
    max_iter = check_integer("max_iter", max_iter, least=1)
    method = check_solver(solver)
    most = check_max_features(max_features)
    model = _model(settings | {"solver": solver})
    scale = checked(model, "alpha_scale")
    refuse_elsewhere(X, offset)
    there = located(model, X, y, sample_weight)
    if there is not None:
        path = path_elsewhere(model, there, alphas, eps, scale, tol=tol, max_iter=max_iter, most=most)
    else:
        data, assembly, d = _prepare(model, X, y, sample_weight, offset)
        grid = grid_of(assembly.problem.alpha_max, alphas, eps, scale, (data.X.shape[0], d))
        path = path_of(assembly, grid, data.classes, method=method, tol=tol, max_iter=max_iter, most=most)
    if not path.converged:
        worst = next(status for status in path.statuses if status is not Status.CONVERGED)
        tell(f"smlr_path did not converge at every alpha: {worst.value}", ConvergenceWarning)
    return path


def alpha_max(X: Any, y: Any = None, *, sample_weight: Any = None, offset: Any = None, **settings: Any) -> float:
    """Return the smallest ``alpha``, on the scale of the sum, at which every penalised weight of :class:`SMLR` is zero.

    Parameters
    ----------
    X, y
        As in :meth:`SMLR.fit`.
    sample_weight : array-like of shape (n_samples,), default=None
        Observation weights.
    offset : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
        As in :meth:`SMLR.fit`.
    **settings
        Other parameters of :class:`SMLR`.

    See Also
    --------
    smlr_path : All strengths below this one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR, alpha_max
    >>> X, y = load_iris(return_X_y=True)
    >>> SMLR(alpha=alpha_max(X, y)).fit(X, y).active_features_.size
    0
    """
    model = _model(settings)
    refuse_elsewhere(X, offset)
    there = located(model, X, y, sample_weight)
    if there is not None:
        refuse_unusual(model, "kernel", None)
        problem, _ = assemble_rows(model, there, alpha=1.0, l1_ratio=model._l1_ratio())
        return largest_alpha(partial(engine.alpha_max, problem))
    _, assembly, _ = _prepare(model, X, y, sample_weight, offset)
    return largest_alpha(assembly.problem.alpha_max)


def _model(settings: dict[str, Any]) -> SMLR:
    if "alpha" in settings:
        raise TypeError("alpha is what varies here: use alphas for the strengths.")
    return SMLR(**settings)


def _prepare(model: SMLR, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Any, Assembly, int]:
    data = training_data(model, X, y, sample_weight, model.class_weight, offset=offset)
    basis, centers = model._basis(data)
    d = data.X.shape[1] if centers is None else len(centers)
    return data, model._assemble(data, basis, centers, 1.0), d
