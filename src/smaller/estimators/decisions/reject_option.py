"""Answers only where the expected loss of the best answer is small enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from smaller.decisions import ErrorRejectCurve, error_reject_curve
from smaller.estimators.decisions.wrapped import DecisionClassifier, codes_of
from smaller.estimators.fields import anything, with_fields

__all__ = ["RejectOptionClassifier"]


@with_fields
class RejectOptionClassifier(DecisionClassifier):
    r"""Answer only where the expected loss of the best answer is small enough (Chow's rule).

    .. math:: \text{reject row } i \text{ if } \min_a R_{ia} > t

    With the 0-1 loss that is `1 - max(predict_proba) > threshold`; around a `MinimumRiskClassifier` it is the
    expected loss under its matrix. Nothing is rejected until `threshold` is set.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Cloned and fitted by `fit`; wrap a fitted one in `sklearn.frozen.FrozenEstimator` to keep it.
    threshold : float, default=None
        Largest expected loss accepted. If a rejection has a cost, that cost is the best threshold. None never
        rejects. It may be changed by `set_params` without fitting anew.
    reject_label : object, default="auto"
        What `predict` returns for rejected rows; no class may have this label. "auto" is of the type of the classes:
        "rejected" among texts, else -1. A label that shares no type with them (-1 among texts) makes the predictions
        an object array.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Class labels; the reject label is not one of them.

    See Also
    --------
    MinimumRiskClassifier : Unequal losses, no row left open.
    smaller.plotting.ErrorRejectDisplay : The error of the rows that are answered.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smaller.estimators.decisions import RejectOptionClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> model = RejectOptionClassifier(LogisticRegression(), threshold=0.3).fit(X, y)
    >>> model.predict([[0.0], [1.5], [3.0]]).tolist()
    [0, -1, 1]
    """

    _rejects = True

    estimator: Any = anything(kw_only=False)
    threshold: float | None = None
    reject_label: Any = "auto"

    def _learn(self, inner: Any, y: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        if self.threshold is not None:
            self._label(np.asarray(inner.classes_))
        return {}

    def _label(self, classes: NDArray[Any]) -> Any:
        """Return what stands for a rejection among these classes."""
        label, labels = self.reject_label, classes.tolist()
        if isinstance(label, str) and label == "auto":
            label = "rejected" if all(isinstance(name, str) for name in labels) else -1
        if any(name == label for name in labels):
            raise ValueError(f"reject_label must differ from every class, but {label!r} is one: give another.")
        return label

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class (n_samples,) of least expected loss for every row, or `reject_label`."""
        decisions = self._decide(X, self.threshold)
        labels = np.asarray(self.classes_[decisions.decision])
        if self.threshold is None:
            return labels
        return _replace(labels, decisions.rejected, self._label(self.classes_))

    def rejected(self, X: Any) -> NDArray[np.bool_]:
        """Tell for every row (n_samples,) whether it is rejected: its least expected loss exceeds `threshold`."""
        return self._decide(X, self.threshold).rejected

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Fraction of all rows that are answered, and rightly; a rejected row is not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            The accuracy, if nothing is rejected. See `error_reject_curve` for the error among answered rows.
        """
        decision, _, rejected = self._decide(X, self.threshold)
        right = (self.classes_[decision] == column_or_1d(y)) & ~rejected
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def error_reject_curve(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> ErrorRejectCurve:
        """Mean loss among accepted rows against the fraction rejected, for every useful threshold.

        Parameters
        ----------
        X, y, sample_weight
            As in `score`; labelled rows, not those of training.

        Returns
        -------
        ErrorRejectCurve
            Named tuple `(thresholds, rejected, error)`; `error` is the error rate, or the mean loss under the
            matrix of a `MinimumRiskClassifier` within. The current `threshold` plays no part.
        """
        decision, risk, _ = self._decide(X)
        truth, loss = codes_of(y, self.classes_), self._loss()
        incurred = decision != truth if loss is None else loss[truth, decision]
        return error_reject_curve(risk, incurred, sample_weight=sample_weight)


def _replace(labels: NDArray[Any], where: NDArray[np.bool_], value: Any) -> NDArray[Any]:
    """Put a value among labels, in a type that holds both; NumPy alone would turn numbers into text."""
    kinds = {labels.dtype.kind, np.asarray(value).dtype.kind}
    if kinds <= set("biuf") or kinds == {"U"}:
        dtype = np.result_type(labels.dtype, np.asarray(value).dtype)
    else:
        dtype = np.dtype(object)
    mixed = labels.astype(dtype)
    mixed[where] = value
    return mixed
