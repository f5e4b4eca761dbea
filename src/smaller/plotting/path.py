"""Walks along a strength: weights, cross-validated scores, import points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from smaller.arrays import Array
from smaller.plotting.display import (
    MUTED,
    NEGATIVE,
    POSITIVE,
    Display,
    fitted_model,
    plain,
    required,
    shown_names,
)

__all__ = ["CVDisplay", "ImportPathDisplay", "PathDisplay"]


@dataclass
class CVDisplay(Display):
    """Held-out score against the strength, with its standard error.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths, largest first.
    scores : ndarray of shape (n_folds, n_alphas)
        Held-out scores; larger is better.
    alpha : float
        The chosen strength.

    See Also
    --------
    PathDisplay : The weights along the same strengths.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from smaller import SMLRCV
    >>> from smaller.plotting import CVDisplay
    >>> display = CVDisplay.from_estimator(SMLRCV(alphas=10, eps=1e-5).fit(X, y))
    >>> display.alpha_min <= display.alpha_1se
    True
    """

    alphas: Array
    scores: Array
    alpha: float

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Make it from a fitted :class:`smaller.SMLRCV` (or a Pipeline that ends in one)."""
        model = fitted_model(estimator)
        scores, alphas = required(model, "scores_", "use SMLRCV."), model.alphas_
        if scores.ndim == 3:
            chosen = int(np.flatnonzero(np.atleast_1d(model.l1_ratio) == model.l1_ratio_)[0])
            scores, alphas = scores[:, chosen], alphas[chosen]
        return cls(alphas, scores, model.alpha_)

    @property
    def alpha_min(self) -> float:
        """The strength with the best mean score."""
        return float(self.alphas[int(np.nanargmax(self.scores.mean(axis=0)))])

    @property
    def alpha_1se(self) -> float:
        """The largest strength within one standard error of the best."""
        mean, error = self.scores.mean(axis=0), self._error()
        best = int(np.nanargmax(mean))
        return float(self.alphas[np.flatnonzero(mean >= mean[best] - error[best])[0]])

    def _error(self) -> Array:
        folds = len(self.scores)
        return self.scores.std(axis=0, ddof=1) / np.sqrt(folds) if folds > 1 else np.zeros(self.scores.shape[1])

    def plot(self, ax: Any = None, **line_kw: Any) -> Self:
        """Draw the mean score and its standard error; best and one-standard-error strengths are marked."""
        ax = self._axes(ax)
        mean, error = self.scores.mean(axis=0), self._error()
        ax.fill_between(self.alphas, mean - error, mean + error, color=POSITIVE, alpha=0.2, lw=0)
        ax.plot(self.alphas, mean, **({"color": POSITIVE, "lw": 1.6} | line_kw))
        ax.axvline(self.alpha_min, color="0.3", ls=":", lw=1.2, label=f"best: {self.alpha_min:.3g}")
        ax.axvline(self.alpha_1se, color="0.3", ls="--", lw=1.0, label=f"one standard error: {self.alpha_1se:.3g}")
        ax.plot([self.alpha], [np.interp(self.alpha, self.alphas[::-1], mean[::-1])], "o", color=NEGATIVE, label="used")
        ax.set(xscale="log", xlabel="alpha", ylabel="held-out score")
        ax.invert_xaxis()
        ax.legend(fontsize="small", frameon=False)
        return self


@dataclass
class ImportPathDisplay(Display):
    """Objective (and error on rows held back) after each import point.

    Parameters
    ----------
    objective : ndarray of shape (m,)
        Objective after each addition.
    validation_error : ndarray of shape (m,)
        Error on rows held back; NaN without any.

    See Also
    --------
    smaller.IVM : What it shows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from smaller import IVM
    >>> from smaller.plotting import ImportPathDisplay
    >>> display = ImportPathDisplay.from_estimator(IVM(max_points=5).fit(X, y))
    >>> len(display.objective) <= 5
    True
    """

    objective: Array
    validation_error: Array

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Make it from a fitted :class:`smaller.IVM` (or a Pipeline that ends in one)."""
        path = required(fitted_model(estimator), "import_path_", "use IVM.")
        return cls(path.objective, path.validation_error)

    def plot(self, ax: Any = None, **line_kw: Any) -> Self:
        """Draw both against the number of points."""
        ax = self._axes(ax)
        count = np.arange(1, len(self.objective) + 1)
        ax.plot(count, self.objective, **({"color": POSITIVE, "marker": ".", "label": "objective"} | line_kw))
        ax.set(xlabel="import points", ylabel="objective")
        ax.xaxis.get_major_locator().set_params(integer=True)
        if np.isfinite(self.validation_error).any():
            other = ax.twinx()
            other.plot(count, self.validation_error, ".-", color=NEGATIVE)
            other.set_ylabel("error on rows held back", color=NEGATIVE)
        return self


@dataclass
class PathDisplay(Display):
    """Weights against the strength of the penalty.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths, largest first.
    coefs : ndarray of shape (n_alphas, q, d)
        Weights; of several classes the one where a feature's weight grows largest is drawn.
    feature_names : ndarray of shape (d,)
        Names.
    alpha : float, default=None
        Chosen strength, marked by a line.

    See Also
    --------
    CVDisplay : The held-out score along the same strengths.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import smlr_path
    >>> from smaller.plotting import PathDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> PathDisplay.from_path(smlr_path(X, y, alphas=10)).coefs.shape
    (10, 3, 4)
    """

    alphas: Array
    coefs: Array
    feature_names: Array
    alpha: float | None = None

    @classmethod
    def from_path(cls, path: Any, *, feature_names: Any = None, alpha: float | None = None) -> Self:
        """Make it from the result of :func:`smaller.smlr_path`."""
        names = [f"x{j}" for j in range(path.n_features)] if feature_names is None else feature_names
        return cls(path.alphas, path.coefs, np.asarray(names, dtype=object), alpha)

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted :class:`smaller.SMLRCV` (or a Pipeline that ends in one)."""
        model = fitted_model(estimator)
        path = required(model, "path_", "use SMLRCV, or PathDisplay.from_path(smlr_path(X, y)).")
        required(model, "coef_", "with a kernel there are no feature weights.")
        return cls.from_path(path, feature_names=shown_names(model, feature_names), alpha=model.alpha_)

    def plot(self, ax: Any = None, *, max_labels: int = 8, **line_kw: Any) -> Self:
        """Draw one line per feature that is ever used, and name the largest."""
        ax = self._axes(ax)
        strongest = np.abs(self.coefs).max(axis=0).argmax(axis=0)  # class per feature: one line must not jump
        signed = self.coefs[:, strongest, np.arange(len(strongest))]
        used = np.flatnonzero(signed.any(axis=0))
        used = used[np.argsort(-np.abs(signed[:, used]).max(axis=0), kind="stable")]
        for rank, j in enumerate(used):
            named = rank < max_labels
            label = plain(self.feature_names[j]) if named else None
            style = {"lw": 1.6, "label": label} if named else {"lw": 0.8, "color": MUTED, "zorder": 1}
            ax.plot(self.alphas, signed[:, j], **(style | line_kw))
        ax.axhline(0.0, color="0.3", lw=0.6)
        if self.alpha is not None:
            ax.axvline(self.alpha, color="0.3", ls="--", lw=1.0)
        ax.set(xscale="log", xlabel="alpha", ylabel="weight")
        ax.invert_xaxis()
        if len(used):
            ax.legend(fontsize="small", frameon=False)
        return self
