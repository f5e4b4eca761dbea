"""What rejecting the least certain rows would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.decisions import decide, error_reject_curve
from smaller.plotting.display import POSITIVE, Display

__all__ = ["ErrorRejectDisplay"]


@dataclass
class ErrorRejectDisplay(Display):
    """Error among the answered rows against the share of rows that are not answered.

    Parameters
    ----------
    rejected, error, thresholds : ndarray
        Points of the curve, as in :func:`smaller.decisions.error_reject_curve`.

    See Also
    --------
    smaller.decisions.error_reject_curve : Its numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> from smaller import SMLR
    >>> from smaller.plotting import ErrorRejectDisplay
    >>> display = ErrorRejectDisplay.from_estimator(SMLR().fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> float(display.rejected[0])
    0.0
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
        style = {"color": POSITIVE, "lw": 1.6, "drawstyle": "steps-post"}
        ax.plot(self.rejected, self.error, **(style | line_kw))
        ax.set(xlabel="share of rows rejected", ylabel="error among the others", xlim=(0, 1))
        ax.set_ylim(bottom=0)
        return self
