"""The forest plot: odds ratios with their ranges and p-values, features told apart from no effect and those not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.inference import CoefIntervals, coef_interval
from smaller.plotting.display import MUTED, NEGATIVE, POSITIVE, Display, plain, shown_names

__all__ = ["ForestDisplay"]

_RARE = 0.05  # of corrected p-values
_FARTHEST = 300.0  # of log-odds: what exp takes


@dataclass
class ForestDisplay(Display):
    """Odds ratios ``exp(effect)`` with ranges, on a logarithmic axis, and p-values beside them.

    Filled marks: told apart from no effect after the correction for all columns. Hollow and grey ones: not. The ranges
    are nominal ones: docs/how-sure.md has their simulated coverage.

    Parameters
    ----------
    effect, low, high : ndarray of shape (m,)
        Log-odds ratios of ``classes_[1]`` and the ends of their ranges, per ``per`` of the feature.
    p_value, p_corrected : ndarray of shape (m,)
        Of no effect given the other columns; corrected for ``n_columns``.
    feature_names : ndarray of shape (m,)
        Names.
    n_columns : int
        Number of all columns, chosen or not.
    level : float
        Nominal level of the ranges.
    per : {"unit", "deviation"}
        Step of the feature whose odds ratio is drawn.

    See Also
    --------
    smaller.coef_interval : Its numbers.
    FeatureWeightsDisplay : The weights as fitted, without ranges.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from smaller import SBMLR
    >>> from smaller.plotting import ForestDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> display = ForestDisplay.from_estimator(SBMLR().fit(X, y), X, y, columns=[21, 27])
    >>> display.effect < 0
    array([ True,  True])
    """

    effect: Array
    low: Array
    high: Array
    p_value: Array
    p_corrected: Array
    feature_names: Array
    n_columns: int
    level: float = 0.9
    per: str = "unit"

    @classmethod
    def from_effects(cls, effects: CoefIntervals, *, deviations: Any = None, feature_names: Any = None) -> Self:
        """Make it from what :func:`smaller.coef_interval` returned.

        Parameters
        ----------
        effects : CoefIntervals
            Effects of single columns.
        deviations : array-like of shape (m,), optional
            Standard deviations of these columns: odds ratios are then per standard deviation, not per unit.
        feature_names : array-like of shape (n_columns,), optional
            Names of all columns.
        """
        names = effects.names if feature_names is None else np.asarray(feature_names, dtype=object)[effects.column]
        step = np.ones(len(effects.column)) if deviations is None else np.asarray(deviations, dtype=np.float64)
        if step.shape != effects.estimate.shape or not (step >= 0).all():
            raise ValueError(f"deviations must be {len(effects.column)} numbers of at least 0, one per effect.")
        return cls(
            step * effects.estimate,
            step * effects.low,
            step * effects.high,
            effects.p_value,
            effects.p_corrected,
            names,
            effects.n_columns,
            effects.level,
            "unit" if deviations is None else "deviation",
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        columns: Any = None,
        level: float = 0.9,
        per: str = "unit",
        sample_weight: Any = None,
        feature_names: Any = None,
    ) -> Self:
        """Make it from a fitted model of two classes and the rows it was fitted to.

        Parameters
        ----------
        estimator : SMLR, SMLRCV or SBMLR, or a pipeline that ends in one
            Without a kernel. With a pipeline, units are those of the columns that reach the model.
        X, y, columns, level, sample_weight
            As in :func:`smaller.coef_interval`.
        per : {"unit", "deviation"}, default="unit"
            Odds ratios per unit or per standard deviation of the column.
        feature_names : array-like, optional
            Names of all columns.
        """
        if per not in ("unit", "deviation"):
            raise ValueError(f"per must be 'unit' or 'deviation', got {per!r}.")
        check_is_fitted(estimator)
        if isinstance(estimator, Pipeline):
            X, estimator = estimator[:-1].transform(X), estimator[-1]
        effects = coef_interval(estimator, X, y, columns, level, sample_weight=sample_weight)
        deviations = None
        if per == "deviation":
            spread = StandardScaler(with_mean=False).fit(X, sample_weight=sample_weight).var_
            deviations = np.sqrt(spread[effects.column])
        names = shown_names(estimator, feature_names)
        return cls.from_effects(effects, deviations=deviations, feature_names=names)

    def plot(self, ax: Any = None, *, max_features: int = 20, **marker_kw: Any) -> Self:
        """Draw the effects with the smallest p-values, the smallest on top; what is not a number is left out."""
        ax = self._axes(ax)
        order = np.argsort(self.p_value, kind="stable")
        shown = order[np.isfinite(self.p_value[order])][:max_features]
        for place, j in enumerate(shown):
            self._draw(ax, place, j, marker_kw)
        ax.axvline(1.0, color="0.3", lw=0.8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(shown)), [plain(name) for name in self.feature_names[shown]])
        ax.set_ylim(max(len(shown), 1) - 0.5, -1.0)
        step = "standard deviation" if self.per == "deviation" else "unit"
        ax.set_xlabel(f"odds ratio per {step}, nominal {100 * self.level:g} % range")
        _beside(ax, -0.75, "p", f"corrected for {self.n_columns}")
        return self

    def _draw(self, ax: Any, place: int, j: int, marker_kw: dict[str, Any]) -> None:
        """Draw one effect: its range, its mark, its two p-values."""
        low, middle, high = np.exp(np.clip([self.low[j], self.effect[j], self.high[j]], -_FARTHEST, _FARTHEST))
        told = self.p_corrected[j] < _RARE
        color = (POSITIVE if self.effect[j] > 0 else NEGATIVE) if told else MUTED
        style = {"marker": "s", "ms": 6, "color": color, "mfc": color if told else "none"}
        ax.plot([low, high], [place, place], color=color, lw=1.6, solid_capstyle="butt")
        ax.plot([middle], [place], ls="none", **(style | marker_kw))
        _beside(ax, place, _p_text(self.p_value[j]), _p_text(self.p_corrected[j]), weight="bold" if told else "normal")


def _beside(ax: Any, height: float, first: str, second: str, *, weight: str = "normal") -> None:
    """Write two texts to the right of the axes."""
    for text, points, style in ((first, 6, "normal"), (second, 60, weight)):
        at = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
        ax.annotate(text, (1.0, height), (points, 0), weight=style, fontsize="small", **at)


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
