"""An offset: a part of the linear predictor that is known beforehand, and no weight can change."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array, log_partition
from smaller.estimators.base import Fitted, KernelOrLinearClassifier, class_scores
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.fields import checked
from smaller.rows.registry import elsewhere, is_rows
from smaller.soft_labels import check_offset, expected_accuracy, is_soft, training_data

__all__ = ["OffsetClassifier", "refuse_elsewhere", "refuse_offset"]


def refuse_offset(estimator: Any, *arguments: str) -> None:
    """Refuse arguments of which no part knows what an offset, or a soft label, would mean."""
    for name in arguments:
        if checked(estimator, name):
            raise ValueError(f"{name}=True goes with neither offsets nor rows of class probabilities: leave it out.")


def refuse_elsewhere(X: Any, offset: Any) -> None:
    """Refuse an offset beside rows that are elsewhere."""
    if offset is not None and (is_rows(X) or elsewhere(X) is not None):
        raise TypeError("offset belongs to arrays in memory: rows that are elsewhere hold their offsets themselves.")


class OffsetClassifier(KernelOrLinearClassifier):
    """Interface of the classifiers that take an offset, at fit and then wherever they answer."""

    _soft_labels: ClassVar[bool] = True

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows; with ``kernel="precomputed"`` the square kernel matrix. Rows may also be elsewhere: Dask
            arrays and dataframes, or what :func:`smaller.rows.from_files` returns.
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Class labels (left out where ``X`` knows them), or rows of class probabilities (not for :class:`SBMLR`):
            ``classes_`` are then the names of a table's columns, or their numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Observation weights >= 0; an integer weight equals repeating the row.
        offset : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            Added to the linear predictor: one number a row for two classes, else one for every class. Then needed
            wherever the model answers.

        Returns
        -------
        self : estimator
            The fitted estimator. If fitting fails or is interrupted, the estimator is left as it was before.
        """
        return self._fit(X, y, sample_weight, self._search, self._check(X, offset))

    def _check(self, X: Any, offset: Any) -> Any:
        """Return the check of training data with this offset."""
        refuse_elsewhere(X, offset)
        return partial(training_data, offset=offset, soft=self._soft_labels)

    def _store(self, data: Any, fitted: Fitted) -> None:
        super()._store(data, fitted)
        self.__dict__.pop("_offset", None)
        if getattr(data, "offset", None) is not None:
            self._offset = True

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the linear predictor, with the offset: (n,) for two classes, else (n, n_classes)."""
        eta = super().decision_function(X)
        return eta if self._without(offset) else eta + check_offset(offset, len(eta), len(self.classes_))

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Return class probabilities (n, n_classes), in the order of ``classes_``."""
        if self._without(offset):
            return super().predict_proba(X)
        return log_partition(self._scores(X, offset), pinned=False)[1]

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithms of the class probabilities, finite wherever the linear predictor is."""
        if self._without(offset):
            return super().predict_log_proba(X)
        scores = self._scores(X, offset)
        return scores - log_partition(scores, pinned=False)[0][:, None]

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the most probable class of every row."""
        if self._without(offset):
            return super().predict(X)
        return self.classes_[self._scores(X, offset).argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the share of right answers; of soft labels, the mean share of the class that is answered."""
        answers = self.predict(X, offset)
        if self._soft_labels and is_soft(y):
            return expected_accuracy(y, answers, sample_weight)
        return float(accuracy_score(y, answers, sample_weight=sample_weight))

    def _scores(self, X: Any, offset: Any) -> Array:
        return class_scores(self.decision_function(X, offset), self._likelihood)

    def _without(self, offset: Any) -> bool:
        """Return whether there is no offset, in the model as in the question; refuse one without the other."""
        check_is_fitted(self)
        fitted = vars(self).get("_offset", False)
        name = type(self).__name__
        if fitted and offset is None:
            raise ValueError(f"This {name} was fitted with an offset: pass offset= for these rows, too.")
        if not fitted and offset is not None:
            raise ValueError(f"This {name} was fitted without an offset: leave offset out, or fit with one.")
        return not fitted
