r"""Ranges and p-values of weights, two classes: one step from the refit takes out what the choice of features did.

    om = c p (1 - p),    z = x_j - g' x_-j (lasso under the weights om),    est_j = w_j + z'(c (y - p)) / z'(om x_j),
    se_j = (z' om z)^1/2 / |z' om x_j|,    range est -+ q se,    p_j = 2 Phi(-|est / se|),  times ALL p columns

(van de Geer, Buehlmann, Ritov, Dezeure 2014.) The start (w, b) is the evidence refit of the model's support, not the
penalised fit: from there one step would have the shrinkage to make up for as well, and covers less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.designs import Design, as_design
from smaller.inference.posterior import quantile
from smaller.likelihoods import Gaussian, Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.refit import refit
from smaller.solvers import solve
from smaller.validation import TrainingData, check_classification_data, check_factors, check_rows

__all__ = ["CoefIntervals", "coef_interval"]

_FLOOR = 1e-5  # of p (1 - p)
_STRENGTH = 0.5  # times sqrt(2 log p / n): of the lasso that explains a column by the others
_TOL = 1e-5  # of that lasso; what it leaves over is second order in the estimate


@dataclass(frozen=True)
class CoefIntervals:
    """Effects of single columns, given all others; arrays of one length."""

    column: Array  # indices
    estimate: Array  # change of the log-odds of classes_[1] per unit of the column
    low: Array
    high: Array
    p_value: Array  # of no effect given the other columns
    p_corrected: Array  # times the number of all columns, at most 1
    n_columns: int
    names: Array  # of the columns
    level: float = 0.9  # nominal, of the ranges

    @property
    def odds_ratio(self) -> Array:
        """Factor of the odds per unit of the column, and the ends of its range: (n, 3)."""
        with np.errstate(over="ignore"):
            return np.exp(np.column_stack([self.estimate, self.low, self.high]))

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per column, indexed by name."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: install it, or read the arrays.") from error
        fields = ("column", "estimate", "low", "high", "p_value", "p_corrected")
        table = {field: getattr(self, field) for field in fields} | {"odds_ratio": self.odds_ratio[:, 0]}
        return pd.DataFrame(table, index=pd.Index(self.names, name="feature"))


def coef_interval(
    model: Any, X: Any, y: Any, columns: Any = None, level: float = 0.9, *, sample_weight: Any = None
) -> CoefIntervals:
    """Return estimates, ranges and p-values of the weights of a sparse linear model of two classes.

    Each estimate is the change of the log-odds of ``classes_[1]`` per unit of the column, all other columns held; the
    shrinkage of the penalty and the choice of features are taken out by one Newton step (desparsified lasso). The
    ranges are those of large samples: docs/how-sure.md has their simulated coverage.

    Parameters
    ----------
    model : SMLR, SMLRCV or SBMLR, or a pipeline that ends in one
        Fitted to two classes, without a kernel. With a pipeline, units are those of the columns that reach the model.
    X, y : array-like
        The rows the model was fitted to.
    columns : array-like of int, default=None
        Columns of interest; None: those with a weight. p-values are corrected for *all* columns either way.
    level : float, default=0.9
        Nominal level of the ranges.
    sample_weight : array-like of shape (n_samples,), default=None
        As in ``fit``; a weight counts as so many rows.

    Returns
    -------
    CoefIntervals
        ``column, estimate, low, high, p_value, p_corrected``, ``odds_ratio`` and ``to_frame()``. Not a number where a
        column is constant or a combination of others.

    See Also
    --------
    SMLR : With ``posterior=True``: ranges of probabilities.
    StabilitySelection : How often other rows choose the same features.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from smaller import SBMLR, coef_interval
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> effects = coef_interval(SBMLR().fit(scale(X), y), scale(X), y, columns=[21])
    >>> bool(effects.high[0] < 0)
    True
    """
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        X, model = model[:-1].transform(X), model[-1]
    q = quantile(level)
    support = _support(model)
    data = check_classification_data(_Rows(model), check_rows(model, X), y, sample_weight, model.class_weight)
    if not np.array_equal(data.classes, model.classes_):
        raise ValueError(
            f"y must hold the labels that the model was fitted to, {model.classes_.tolist()}, got "
            f"{data.classes.tolist()}."
        )
    asked = _columns(columns, support, data.X.shape[1])
    step = _Step.prepare(model, data, support)
    found = np.array([step.take(j) for j in asked]).reshape(-1, 2)
    estimate, error = found[:, 0], found[:, 1]
    p = 2.0 * special.ndtr(-np.abs(estimate / error))
    d = data.X.shape[1]
    names = getattr(model, "feature_names_in_", np.array([f"x{j}" for j in range(d)], dtype=object))[asked]
    low, high = estimate - q * error, estimate + q * error
    return CoefIntervals(asked, estimate, low, high, p, np.minimum(1.0, d * p), d, names, float(level))


class _Rows:
    """Stands for a fitted model while rows are checked: what the check leaves behind, it leaves here."""

    def __init__(self, model: Any) -> None:
        self._tags = get_tags(model)

    def __sklearn_tags__(self) -> Any:
        return self._tags


def _support(model: Any) -> Array:
    """Return the weights (d,) whose support is refitted."""
    coef = getattr(model, "penalized_coef_", getattr(model, "coef_", None))
    if coef is None or "penalty_factors" not in model.get_params(deep=False):
        raise ValueError(
            f"coef_interval needs a sparse linear model (SMLR, SMLRCV or SBMLR without a kernel), got "
            f"{type(model).__name__}."
        )
    if len(model.classes_) > 2:
        raise ValueError(
            f"coef_interval is for two classes, and the model has {len(model.classes_)}: fit one class against the "
            "rest (y == label), or two classes at a time."
        )
    return np.asarray(coef[0])


def _columns(columns: Any, support: Array, d: int) -> Array:
    if columns is None:
        return np.flatnonzero(support)
    asked = np.atleast_1d(np.asarray(columns))
    if asked.size == 0:
        return np.empty(0, dtype=np.int64)
    if asked.ndim != 1 or asked.dtype.kind not in "iu" or asked.min() < -d or asked.max() >= d:
        raise ValueError(f"columns must be indices of columns of X, below {d}, got {columns!r}.")
    return np.asarray(asked % d)


@dataclass(frozen=True)
class _Step:
    """One Newton step for one weight, every other column explained away."""

    design: Design
    w: Array  # (d,)
    r: Array  # (n,) weighted residual c (y - p)
    om: Array  # (n,)
    mean: Array  # (d,) of the columns, under om
    size: Array  # (d,) their deviations, root mean square per row of weight one
    total: float  # of the weights: how many rows there are
    fit_intercept: bool

    @classmethod
    def prepare(cls, model: Any, data: TrainingData, support: Array) -> _Step:
        design, likelihood = as_design(data.X), Multinomial(2)
        factors = check_factors(model.penalty_factors, data.X.shape[1])
        y, intercept = likelihood.encode(data.codes), bool(model.fit_intercept)
        problem = Problem(design, y, data.weight, likelihood, Laplace(1.0, factors), intercept)
        again = refit(problem, support[:, None], np.asarray(model.intercept_[-1:], dtype=np.float64))
        eta = design.forward(again.w) + again.b
        _, residual = problem.evaluate(eta)
        p = likelihood.predict(eta)[:, 1]
        c = np.ones(len(p)) if data.weight is None else data.weight
        om = c * np.maximum(p * (1.0 - p), _FLOOR)
        moments = design.moments(om)
        mean = moments.mean if intercept else 0.0 * moments.mean
        size = np.sqrt((moments.M2 if intercept else design.squares(om[:, None])[:, 0]) / c.sum())
        if not np.isfinite(size).all():
            raise ValueError("X has columns whose squares are beyond float64: scale the features.")
        return cls(design, again.w[:, 0], -residual[:, 0], om, mean, size, float(c.sum()), intercept)

    def take(self, j: int) -> tuple[float, float]:
        """Return the estimate for column ``j`` and its standard error."""
        if not self.size[j] > 0.0:
            return math.nan, math.nan
        x = self.design.forward(np.eye(1, len(self.w), j).T)[:, 0]
        z = self._unexplained(x, j)
        along = float(z @ (self.om * (x - self.mean[j])))
        if not abs(along) > 1e-10 * self.total * self.size[j] ** 2:
            return math.nan, math.nan
        error = math.sqrt(float(self.om @ z**2)) / abs(along)
        return float(self.w[j]) + float(z @ self.r) / along, error

    def _unexplained(self, x: Array, j: int) -> Array:
        """Return what a lasso on the other columns leaves of column ``j``; all columns count in units of their size."""
        size = np.where(self.size > 0.0, self.size, 1.0)
        strength = _STRENGTH * math.sqrt(2.0 * math.log(max(len(size), 2)) / self.total) * self.total * size[j]
        slope = strength * size
        slope[j] = 2.0 * self.total * size[j] ** 2  # twice the steepest gradient: column j stays out
        gaussian, prior = Gaussian(1.0), Laplace(1.0, slope[:, None])
        problem = Problem(self.design, gaussian.encode(x), self.om, gaussian, prior, self.fit_intercept)
        solution = solve(problem, tol=_TOL)
        return np.asarray(x - self.design.forward(solution.w)[:, 0] - (solution.b[0] if self.fit_intercept else 0.0))
