"""Pictures of fitted models, as scikit-learn's Displays: made ``from_estimator``, drawn by ``plot``, kept as data.

matplotlib is imported when something is drawn, not before. Every ``plot`` takes ``ax`` (a new figure if None), stores
``ax_`` and ``figure_`` and returns the Display.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.decisions import decide, error_reject_curve
from smaller.estimators.base import feature_names

__all__ = [
    "CVDisplay",
    "ErrorRejectDisplay",
    "FeatureWeightsDisplay",
    "ImportPathDisplay",
    "PathDisplay",
    "ScalesDisplay",
    "StabilityDisplay",
]

_POSITIVE, _NEGATIVE, _MUTED = "#1f6f8b", "#c8553d", "#b8bcc2"


@dataclass
class _Display:
    """Interface: data in, ``plot`` draws on axes that are made when none are given."""

    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def _axes(self, ax: Any) -> Any:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError("Displays draw with matplotlib: install it with the extra 'plot'.") from error
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def _last(estimator: Any) -> Any:
    """Return the fitted model itself: the last step of a Pipeline, or the estimator."""
    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _need(model: Any, attribute: str, advice: str) -> Any:
    if not hasattr(model, attribute):
        raise TypeError(f"{type(model).__name__} has no {attribute}: {advice}")
    return getattr(model, attribute)


def _names(model: Any, given: Any) -> Array:
    return feature_names(model) if given is None else np.asarray(given, dtype=object)


@dataclass
class PathDisplay(_Display):
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
        model = _last(estimator)
        path = _need(model, "path_", "use SMLRCV, or PathDisplay.from_path(smlr_path(X, y)).")
        _need(model, "coef_", "with a kernel there are no feature weights.")
        return cls.from_path(path, feature_names=_names(model, feature_names), alpha=model.alpha_)

    def plot(self, ax: Any = None, *, max_labels: int = 8, **line_kw: Any) -> Self:
        """Draw one line per feature that is ever used, and name the largest."""
        ax = self._axes(ax)
        strongest = np.abs(self.coefs).max(axis=0).argmax(axis=0)  # class per feature: one line must not jump
        signed = self.coefs[:, strongest, np.arange(len(strongest))]
        used = np.flatnonzero(signed.any(axis=0))
        used = used[np.argsort(-np.abs(signed[:, used]).max(axis=0), kind="stable")]
        for rank, j in enumerate(used):
            named = rank < max_labels
            label = _plain(self.feature_names[j]) if named else None
            style = {"lw": 1.6, "label": label} if named else {"lw": 0.8, "color": _MUTED, "zorder": 1}
            ax.plot(self.alphas, signed[:, j], **(style | line_kw))
        ax.axhline(0.0, color="0.3", lw=0.6)
        if self.alpha is not None:
            ax.axvline(self.alpha, color="0.3", ls="--", lw=1.0)
        ax.set(xscale="log", xlabel="alpha", ylabel="weight")
        ax.invert_xaxis()
        if len(used):
            ax.legend(fontsize="small", frameon=False)
        return self


@dataclass
class CVDisplay(_Display):
    """Held-out score against the strength, with its standard error.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths, largest first.
    scores : ndarray of shape (n_folds, n_alphas)
        Held-out scores; larger is better.
    alpha : float
        The chosen strength.
    """

    alphas: Array
    scores: Array
    alpha: float

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Make it from a fitted :class:`smaller.SMLRCV` (or a Pipeline that ends in one)."""
        model = _last(estimator)
        scores, alphas = _need(model, "scores_", "use SMLRCV."), model.alphas_
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
        ax.fill_between(self.alphas, mean - error, mean + error, color=_POSITIVE, alpha=0.2, lw=0)
        ax.plot(self.alphas, mean, **({"color": _POSITIVE, "lw": 1.6} | line_kw))
        ax.axvline(self.alpha_min, color="0.3", ls=":", lw=1.2, label=f"best: {self.alpha_min:.3g}")
        ax.axvline(self.alpha_1se, color="0.3", ls="--", lw=1.0, label=f"one standard error: {self.alpha_1se:.3g}")
        ax.plot(
            [self.alpha], [np.interp(self.alpha, self.alphas[::-1], mean[::-1])], "o", color=_NEGATIVE, label="used"
        )
        ax.set(xscale="log", xlabel="alpha", ylabel="held-out score")
        ax.invert_xaxis()
        ax.legend(fontsize="small", frameon=False)
        return self


@dataclass
class ImportPathDisplay(_Display):
    """Objective (and error on rows held back) after each import point.

    Parameters
    ----------
    objective : ndarray of shape (m,)
        Objective after each addition.
    validation_error : ndarray of shape (m,)
        Error on rows held back; NaN without any.
    """

    objective: Array
    validation_error: Array

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Make it from a fitted :class:`smaller.IVM` (or a Pipeline that ends in one)."""
        path = _need(_last(estimator), "import_path_", "use IVM.")
        return cls(path.objective, path.validation_error)

    def plot(self, ax: Any = None, **line_kw: Any) -> Self:
        """Draw both against the number of points."""
        ax = self._axes(ax)
        count = np.arange(1, len(self.objective) + 1)
        ax.plot(count, self.objective, **({"color": _POSITIVE, "marker": ".", "label": "objective"} | line_kw))
        ax.set(xlabel="import points", ylabel="objective")
        ax.xaxis.get_major_locator().set_params(integer=True)
        if np.isfinite(self.validation_error).any():
            other = ax.twinx()
            other.plot(count, self.validation_error, ".-", color=_NEGATIVE)
            other.set_ylabel("error on rows held back", color=_NEGATIVE)
        return self


@dataclass
class ScalesDisplay(_Display):
    """Feature scales of :class:`smaller.JCFO`; zero means that a feature is not used.

    Parameters
    ----------
    scales : ndarray of shape (d,)
        Scales, >= 0.
    feature_names : ndarray of shape (d,)
        Names.
    """

    scales: Array
    feature_names: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted :class:`smaller.JCFO` (or a Pipeline that ends in one)."""
        model = _last(estimator)
        return cls(np.asarray(_need(model, "scales_", "use JCFO.")), _names(model, feature_names))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw the largest scales as bars."""
        ax = self._axes(ax)
        largest = _largest(self.scales, max_features)
        _bars(ax, self.scales[largest], self.feature_names[largest], {"color": _POSITIVE} | bar_kw)
        ax.set_xlabel(f"scale ({np.count_nonzero(self.scales)} of {len(self.scales)} features used)")
        return self


@dataclass
class ErrorRejectDisplay(_Display):
    """Error among the answered rows against the share of rows that are not answered.

    Parameters
    ----------
    rejected, error, thresholds : ndarray
        Points of the curve, as in :func:`smaller.decisions.error_reject_curve`.
    """

    rejected: Array
    error: Array
    thresholds: Array

    @classmethod
    def from_predictions(cls, y_true: Any, proba: Any, *, classes: Any) -> Self:
        """Make it from labels and class probabilities (columns in the order of ``classes``)."""
        decisions = decide(proba)
        wrong = np.asarray(classes)[decisions.decision] != np.asarray(y_true)
        curve = error_reject_curve(decisions.risk, wrong)
        return cls(curve.rejected, curve.error, curve.thresholds)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any) -> Self:
        """Make it from a fitted classifier and labelled rows it was not trained on."""
        check_is_fitted(estimator)
        return cls.from_predictions(y, estimator.predict_proba(X), classes=estimator.classes_)

    def plot(self, ax: Any = None, **line_kw: Any) -> Self:
        """Draw the curve."""
        ax = self._axes(ax)
        style = {"color": _POSITIVE, "lw": 1.6, "drawstyle": "steps-post"}
        ax.plot(self.rejected, self.error, **(style | line_kw))
        ax.set(xlabel="share of rows rejected", ylabel="error among the others", xlim=(0, 1))
        ax.set_ylim(bottom=0)
        return self


@dataclass
class FeatureWeightsDisplay(_Display):
    """The chosen features and the direction in which each pulls, per class.

    Parameters
    ----------
    weights : ndarray of shape (q, d)
        One row for two classes, else one per class.
    feature_names : ndarray of shape (d,)
        Names.
    classes : ndarray
        Labels.
    """

    weights: Array
    feature_names: Array
    classes: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted linear classifier (or a Pipeline that ends in one)."""
        model = _last(estimator)
        weights = np.atleast_2d(_need(model, "coef_", "with a kernel there are no feature weights."))
        return cls(weights, _names(model, feature_names), np.asarray(model.classes_))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw bars for two classes, a signed table of colours for more."""
        ax = self._axes(ax)
        size = np.abs(self.weights).max(axis=0)
        largest = _largest(size, max_features)
        shown, names = self.weights[:, largest], self.feature_names[largest]
        if len(self.weights) == 1:
            colors = np.where(shown[0] > 0, _POSITIVE, _NEGATIVE)
            _bars(ax, shown[0], names, {"color": colors} | bar_kw)
            ax.axvline(0.0, color="0.3", lw=0.6)
            ax.set_xlabel(f"weight (right: towards {_plain(self.classes[1])})")
            return self
        limit = np.abs(shown).max(initial=1e-300)
        image = ax.imshow(shown.T, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        ax.set_xticks(range(len(self.classes)), [_plain(label) for label in self.classes])
        ax.set_yticks(range(len(names)), [_plain(name) for name in names])
        ax.figure.colorbar(image, ax=ax, label="weight (blue: towards the class)")
        return self


@dataclass
class StabilityDisplay(_Display):
    """How often each feature is chosen on halves of the rows.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        Selection frequencies.
    threshold : float
        Frequency from which a feature counts as stable.
    feature_names : ndarray of shape (d,)
        Names.
    """

    frequencies: Array
    threshold: float
    feature_names: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted :class:`smaller.estimators.stability.StabilitySelection`."""
        model = _last(estimator)
        frequencies = _need(model, "frequencies_", "use StabilitySelection.")
        return cls(frequencies, model.threshold_, _names(model, feature_names))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw the highest frequencies as bars; stable ones are coloured."""
        ax = self._axes(ax)
        highest = _largest(self.frequencies, max_features)
        shown = self.frequencies[highest]
        colors = np.where(shown >= self.threshold - 1e-12, _POSITIVE, _MUTED)
        _bars(ax, shown, self.feature_names[highest], {"color": colors} | bar_kw)
        ax.axvline(self.threshold, color="0.3", ls="--", lw=1.0)
        ax.set(xlabel="selection frequency", xlim=(0, max(1.0, 1.02 * self.threshold)))
        return self


def _largest(size: Array, count: int) -> Array:
    """Return the indices of the largest values above zero, largest first."""
    order = np.argsort(-size, kind="stable")[:count]
    return order[size[order] > 0]


def _bars(ax: Any, values: Array, names: Array, style: dict[str, Any]) -> None:
    """Draw horizontal bars, the first on top."""
    ax.barh(np.arange(len(values)), values, **style)
    ax.set_yticks(np.arange(len(values)), [_plain(name) for name in names])
    ax.invert_yaxis()


def _plain(name: Any) -> str:
    """Return a name as text that matplotlib does not read as a formula, cut to a readable length."""
    text = str(name).replace("$", r"\$").replace("\n", " ")
    return text if len(text) <= 40 else text[:39] + "…"
