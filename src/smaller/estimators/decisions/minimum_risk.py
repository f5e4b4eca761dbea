"""Decisions of least expected loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from smaller.decisions import FloatArray
from smaller.estimators.decisions.wrapped import DecisionClassifier
from smaller.estimators.fields import anything, with_fields

__all__ = ["MinimumRiskClassifier"]


@with_fields
class MinimumRiskClassifier(DecisionClassifier):
    r"""Decide for the class of least expected loss.

    .. math:: \hat y_i = \arg\min_a \sum_k p_{ik} L_{ka}

    `predict_proba` is untouched: the loss changes what is done, not what is believed.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Cloned and fitted by `fit`; wrap a fitted one in `sklearn.frozen.FrozenEstimator` to keep it.
    loss : array-like of shape (n_classes, n_classes), default=None
        `loss[k, a]` is the loss of deciding for class `a` when the truth is class `k`, both in the order of
        `classes_`. None is the 0-1 loss. It may be changed by `set_params` without fitting anew.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    See Also
    --------
    RejectOptionClassifier : Leaves doubtful rows open.
    PriorShiftClassifier : Other class frequencies than in training.
    smaller.decisions.expected_loss : The losses themselves.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smaller.estimators.decisions import MinimumRiskClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["healthy", "healthy", "ill", "ill"]
    >>> costly_miss = [[0, 1], [10, 0]]
    >>> MinimumRiskClassifier(LogisticRegression(), loss=costly_miss).fit(X, y).predict([[1.0]]).tolist()
    ['ill']
    """

    estimator: Any = anything(kw_only=False)
    loss: ArrayLike | None = None

    def _learn(self, inner: Any, y: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        self._check_loss(len(inner.classes_))
        return {}

    def _loss(self) -> FloatArray | None:
        return self._check_loss(len(self.classes_))

    def _check_loss(self, n_classes: int) -> FloatArray | None:
        if self.loss is None:
            return None
        L = np.asarray(self.loss, dtype=np.float64)
        if L.shape != (n_classes, n_classes) or not np.isfinite(L).all():
            raise ValueError(
                f"loss must be a finite matrix of shape ({n_classes}, {n_classes}), rows the true and "
                f"columns the decided classes; got shape {L.shape}."
            )
        return L
