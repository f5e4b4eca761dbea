"""What a fitted model says about features: weights, scales, stability."""

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
    draw_bars,
    fitted_model,
    largest,
    plain,
    required,
    shown_names,
)

__all__ = ["FeatureWeightsDisplay", "ScalesDisplay", "StabilityDisplay"]


@dataclass
class FeatureWeightsDisplay(Display):
    """The chosen features and the direction in which each pulls, per class.

    Parameters
    ----------
    weights : ndarray of shape (q, d)
        One row for two classes, else one per class.
    feature_names : ndarray of shape (d,)
        Names.
    classes : ndarray
        Labels.

    See Also
    --------
    StabilityDisplay : Would other rows have given the same features?

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from smaller import SMLR
    >>> from smaller.plotting import FeatureWeightsDisplay
    >>> FeatureWeightsDisplay.from_estimator(SMLR().fit(X, y)).weights.shape
    (3, 4)
    """

    weights: Array
    feature_names: Array
    classes: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted linear classifier (or a Pipeline that ends in one)."""
        model = fitted_model(estimator)
        weights = np.atleast_2d(required(model, "coef_", "with a kernel there are no feature weights."))
        return cls(weights, shown_names(model, feature_names), np.asarray(model.classes_))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw bars for two classes, a signed table of colours for more."""
        ax = self._axes(ax)
        size = np.abs(self.weights).max(axis=0)
        chosen = largest(size, max_features)
        shown, names = self.weights[:, chosen], self.feature_names[chosen]
        if len(self.weights) == 1:
            colors = np.where(shown[0] > 0, POSITIVE, NEGATIVE)
            draw_bars(ax, shown[0], names, {"color": colors} | bar_kw)
            ax.axvline(0.0, color="0.3", lw=0.6)
            ax.set_xlabel(f"weight (right: towards {plain(self.classes[1])})")
            return self
        limit = np.abs(shown).max(initial=1e-300)
        image = ax.imshow(shown.T, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        ax.set_xticks(range(len(self.classes)), [plain(label) for label in self.classes])
        ax.set_yticks(range(len(names)), [plain(name) for name in names])
        ax.figure.colorbar(image, ax=ax, label="weight (blue: towards the class)")
        return self


@dataclass
class ScalesDisplay(Display):
    """Feature scales of :class:`smaller.JCFO`; zero means that a feature is not used.

    Parameters
    ----------
    scales : ndarray of shape (d,)
        Scales, >= 0.
    feature_names : ndarray of shape (d,)
        Names.

    See Also
    --------
    FeatureWeightsDisplay : Weights of linear models.

    Examples
    --------
    >>> from smaller import JCFO
    >>> from smaller.datasets import make_irrelevant
    >>> from smaller.plotting import ScalesDisplay
    >>> model = JCFO(kernel="linear", max_iter=20).fit(*make_irrelevant(60, n_features=4, random_state=0))
    >>> ScalesDisplay.from_estimator(model).scales.shape
    (4,)
    """

    scales: Array
    feature_names: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted :class:`smaller.JCFO` (or a Pipeline that ends in one)."""
        model = fitted_model(estimator)
        return cls(np.asarray(required(model, "scales_", "use JCFO.")), shown_names(model, feature_names))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw the largest scales as bars."""
        ax = self._axes(ax)
        chosen = largest(self.scales, max_features)
        draw_bars(ax, self.scales[chosen], self.feature_names[chosen], {"color": POSITIVE} | bar_kw)
        ax.set_xlabel(f"scale ({np.count_nonzero(self.scales)} of {len(self.scales)} features used)")
        return self


@dataclass
class StabilityDisplay(Display):
    """How often each feature is chosen on halves of the rows.

    Parameters
    ----------
    frequencies : ndarray of shape (d,)
        Selection frequencies.
    threshold : float
        Frequency from which a feature counts as stable.
    feature_names : ndarray of shape (d,)
        Names.

    See Also
    --------
    FeatureWeightsDisplay : The weights of one fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from smaller import StabilitySelection
    >>> from smaller.plotting import StabilityDisplay
    >>> display = StabilityDisplay.from_estimator(StabilitySelection(n_pairs=5, random_state=0).fit(X, y))
    >>> display.frequencies.shape
    (4,)
    """

    frequencies: Array
    threshold: float
    feature_names: Array

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None) -> Self:
        """Make it from a fitted :class:`smaller.estimators.stability.StabilitySelection`."""
        model = fitted_model(estimator)
        frequencies = required(model, "frequencies_", "use StabilitySelection.")
        return cls(frequencies, model.threshold_, shown_names(model, feature_names))

    def plot(self, ax: Any = None, *, max_features: int = 20, **bar_kw: Any) -> Self:
        """Draw the highest frequencies as bars; stable ones are coloured."""
        ax = self._axes(ax)
        highest = largest(self.frequencies, max_features)
        shown = self.frequencies[highest]
        colors = np.where(shown >= self.threshold - 1e-12, POSITIVE, MUTED)
        draw_bars(ax, shown, self.feature_names[highest], {"color": colors} | bar_kw)
        ax.axvline(self.threshold, color="0.3", ls="--", lw=1.0)
        ax.set(xlabel="selection frequency", xlim=(0, max(1.0, 1.02 * self.threshold)))
        return self
