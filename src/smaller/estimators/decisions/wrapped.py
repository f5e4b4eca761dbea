"""What the meta-estimators for decisions share: a classifier whose posteriors, loss and decisions pass through."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from smaller.decisions import Decisions, FloatArray, decide, expected_loss
from smaller.estimators.documentation import DocumentationLink

__all__ = ["DecisionClassifier", "codes_of", "last_part"]


def _wraps_adaptable(self: DecisionClassifier) -> bool:
    """Tell whether `adapt` reaches a prior shift; a frozen one is shared between clones, so it stays."""
    inner = getattr(self, "estimator_", self.estimator)
    return hasattr(inner, "adapt") and not isinstance(inner, FrozenEstimator)


class DecisionClassifier(DocumentationLink, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A wrapped classifier whose posteriors, loss and decisions pass through until a subclass changes one."""

    estimator: Any
    estimator_: Any
    _rejects = False

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit a clone of the wrapped estimator (a `FrozenEstimator` is used as it is).

        If anything fails, what an earlier `fit` left is unchanged.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, passed on to the wrapped estimator.
        **fit_params : dict
            Further arguments of the wrapped estimator's `fit`, routed if metadata routing is enabled.

        Returns
        -------
        self
            The fitted meta-estimator.
        """
        inner = clone(self.estimator)
        if not hasattr(inner, "predict_proba"):
            raise TypeError(
                f"estimator must have predict_proba, {type(inner).__name__} has not; "
                "wrap it in CalibratedClassifierCV first."
            )
        if getattr(inner, "_rejects", False):
            raise TypeError(
                "estimator must not be a RejectOptionClassifier, its rejections would be lost; "
                "make the RejectOptionClassifier the outermost one."
            )
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **fit_params).estimator.fit
        else:
            routed = fit_params
        if y is not None:  # one column only: the decisions below know no multi-output
            y = column_or_1d(y, warn=True)
        inner = inner.fit(X, y, **routed)
        # Posteriors stand for the weights the estimator saw; a frozen one saw them before.
        seen = fit_params if isinstance(inner, FrozenEstimator) else routed
        learned = self._learn(inner, y, last_part(seen, "sample_weight"))
        for name, value in {"estimator_": inner, **learned}.items():
            setattr(self, name, value)
        return self

    def _learn(self, inner: Any, y: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        """Check the constructor's arguments against the classes; return further fitted attributes."""
        raise NotImplementedError

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels, in the order of the columns of `predict_proba`."""
        return np.asarray(self.estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the wrapped estimator."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features seen by the wrapped estimator, if they had names."""
        return np.asarray(self.estimator_.feature_names_in_)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n_samples, n_classes) of the classes, in the order of `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of `predict_proba`; -inf for an excluded class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def expected_loss(self, X: Any) -> FloatArray:
        """Return the expected loss (n_samples, n_classes) of deciding for each class; `predict` takes the least.

        It is `predict_proba(X) @ loss`, or `1 - predict_proba(X)` for the 0-1 loss.
        """
        return expected_loss(self.predict_proba(X), self._loss())

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class (n_samples,) of least expected loss for every row."""
        decision = self._decide(X).decision
        return np.asarray(self.classes_[decision])

    def _decide(self, X: Any, threshold: float | None = None) -> Decisions:
        return decide(self.predict_proba(X), self._loss(), threshold)

    def _loss(self) -> FloatArray | None:
        """Loss matrix of the nearest `MinimumRiskClassifier` within, or None for the 0-1 loss."""
        inherited: FloatArray | None = getattr(self.estimator_, "_loss", lambda: None)()
        return inherited

    @available_if(_wraps_adaptable)
    def adapt(self, X: Any, **options: Any) -> Self:
        """Let the `PriorShiftClassifier` within estimate the class priors from unlabelled rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Unlabelled rows drawn in operation.
        **options : dict
            Passed to `PriorShiftClassifier.adapt`.

        Returns
        -------
        self
            With the priors of the wrapped estimator replaced.
        """
        check_is_fitted(self)
        self.estimator_.adapt(X, **options)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the metadata of `fit` to the wrapped estimator.

        Returns
        -------
        MetadataRouter
            The requests of this object and of the wrapped estimator.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags


def codes_of(y: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the index of every label among the classes."""
    labels, order = column_or_1d(y), np.argsort(classes)
    codes = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
    if np.any(classes[codes] != labels):
        raise ValueError(f"y must hold only classes of the wrapped estimator, {classes.tolist()}.")
    return np.asarray(codes)


def last_part(params: dict[str, Any], name: str) -> Any:
    """Return the parameter of this name, at any depth of a pipeline (`step__name`), or None."""
    found = (value for key, value in params.items() if key.split("__")[-1] == name and value is not None)
    return next(found, None)
