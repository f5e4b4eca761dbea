"""Meta-estimators that turn the probabilities of any classifier into decisions.

Each changes one thing and passes the rest through, so they nest: `PriorShiftClassifier` changes the
posteriors, `MinimumRiskClassifier` the loss, `RejectOptionClassifier` (the outermost) whether to answer.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from smaller.decisions import (
    Decisions,
    ErrorRejectCurve,
    FloatArray,
    adjust_priors,
    check_priors,
    decide,
    error_reject_curve,
    estimate_priors,
    expected_loss,
)

__all__ = ["MinimumRiskClassifier", "PriorShiftClassifier", "RejectOptionClassifier"]


def _wraps_adaptable(self: _DecisionClassifier) -> bool:
    """Tell whether `adapt` reaches a prior shift; a frozen one is shared between clones, so it stays."""
    inner = getattr(self, "estimator_", self.estimator)
    return hasattr(inner, "adapt") and not isinstance(inner, FrozenEstimator)


class _DecisionClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
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
        learned = self._learn(inner, y, _last_part(seen, "sample_weight"))
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
        """Posterior probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of `predict_proba`; -inf for an excluded class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def expected_loss(self, X: Any) -> FloatArray:
        """Return the expected loss of deciding for each class; `predict` takes the least.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            `predict_proba(X) @ loss`, or `1 - predict_proba(X)` for the 0-1 loss.
        """
        return expected_loss(self.predict_proba(X), self._loss())

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of least expected loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
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


class PriorShiftClassifier(_DecisionClassifier):
    r"""Correct the posteriors of a classifier for class priors that differ from those of training.

    .. math:: q_{ik} \propto p_{ik}\, \pi_k / \pi^t_k

    The new priors :math:`\pi` are given (`new_priors`), or estimated from unlabelled rows when, and only
    when, `adapt` is called. Right under label shift: class frequencies change, the features within
    a class do not.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        Cloned and fitted by `fit`; wrap a fitted one in `sklearn.frozen.FrozenEstimator` to keep it.
    train_priors : array-like of shape (n_classes,), default=None
        Class priors the posteriors of `estimator` stand for, in the order of its `classes_`. None takes the
        (weighted) frequencies of the `y` given to `fit`; for a frozen estimator that must be the `y` it was
        trained on. With `class_weight` in `estimator` give them: uniform for "balanced".
    new_priors : array-like of shape (n_classes,), default=None
        Class priors in operation. None leaves the posteriors as they are until `adapt` is called.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    train_priors_ : ndarray of shape (n_classes,)
        Class priors of training.
    priors_ : ndarray of shape (n_classes,)
        Class priors in use: given, estimated by `adapt`, or those of training.
    n_iter_ : int
        EM iterations of the last `adapt`; 0 before it.

    See Also
    --------
    smaller.decisions.adjust_priors : The same for an array of probabilities.

    Examples
    --------
    Trained on equal classes, used where one class in ten is positive:

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smaller.estimators.decisions import PriorShiftClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 1)) + 3 * y[:, None]
    >>> X_new = rng.normal(size=(1000, 1)) + 3 * np.repeat([0, 1], [900, 100])[:, None]
    >>> model = PriorShiftClassifier(LogisticRegression()).fit(X, y)
    >>> model.adapt(X_new).priors_.round(1).tolist()
    [0.9, 0.1]
    """

    def __init__(
        self, estimator: Any, *, train_priors: ArrayLike | None = None, new_priors: ArrayLike | None = None
    ) -> None:
        self.estimator = estimator
        self.train_priors = train_priors
        self.new_priors = new_priors

    def _learn(self, inner: Any, y: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        K = len(inner.classes_)
        if self.train_priors is None:
            _warn_of_class_weight(inner)
            train: ArrayLike = _frequencies(y, np.asarray(inner.classes_), sample_weight)
        else:
            train = self.train_priors
        old = check_priors(train, K, "train_priors")
        new = old if self.new_priors is None else check_priors(self.new_priors, K, "new_priors", seen=old > 0)
        return {"train_priors_": old, "priors_": new, "n_iter_": 0}

    def adapt(self, X: Any, *, sample_weight: ArrayLike | None = None, tol: float = 1e-8, max_iter: int = 2000) -> Self:
        """Estimate the class priors from unlabelled rows by Saerens' EM, and use them from now on.

        Replaces `priors_`, whether they were given or estimated before; `fit` resets them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Unlabelled rows drawn in operation.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of these rows.
        tol : float, default=1e-8
            Stop when no prior moves by more than this.
        max_iter : int, default=2000
            Most EM steps; a `ConvergenceWarning` says if they did not suffice.

        Returns
        -------
        self
            With `priors_` and `n_iter_` set.
        """
        proba = super().predict_proba(X)
        estimate = estimate_priors(proba, self.train_priors_, sample_weight=sample_weight, tol=tol, max_iter=max_iter)
        if not estimate.converged:
            warnings.warn(
                f"The class priors still moved after {estimate.n_iter} EM iterations. Raise max_iter or tol, "
                "or set new_priors if they are known.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.priors_, self.n_iter_ = estimate.priors, estimate.n_iter
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Posterior probabilities under `priors_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return adjust_priors(super().predict_proba(X), self.train_priors_, self.priors_)[0]


class MinimumRiskClassifier(_DecisionClassifier):
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

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smaller.estimators.decisions import MinimumRiskClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["healthy", "healthy", "ill", "ill"]
    >>> costly_miss = [[0, 1], [10, 0]]
    >>> MinimumRiskClassifier(LogisticRegression(), loss=costly_miss).fit(X, y).predict([[1.0]]).tolist()
    ['ill']
    """

    def __init__(self, estimator: Any, *, loss: ArrayLike | None = None) -> None:
        self.estimator = estimator
        self.loss = loss

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


class RejectOptionClassifier(_DecisionClassifier):
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
    reject_label : object, default=-1
        What `predict` returns for rejected rows; no class may have this label. A label that shares no type
        with the classes (-1 among strings) makes the predictions an object array.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Class labels; the reject label is not one of them.

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

    def __init__(self, estimator: Any, *, threshold: float | None = None, reject_label: Any = -1) -> None:
        self.estimator = estimator
        self.threshold = threshold
        self.reject_label = reject_label

    def _learn(self, inner: Any, y: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        self._check_reject_label(np.asarray(inner.classes_))
        return {}

    def _check_reject_label(self, classes: NDArray[Any]) -> None:
        if self.threshold is not None and any(label == self.reject_label for label in classes.tolist()):
            raise ValueError(f"reject_label must differ from every class, but {self.reject_label!r} is one.")

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of least expected loss, or `reject_label`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels and reject labels.
        """
        decisions = self._decide(X, self.threshold)
        labels = np.asarray(self.classes_[decisions.decision])
        if self.threshold is None:
            return labels
        self._check_reject_label(self.classes_)
        return _replace(labels, decisions.rejected, self.reject_label)

    def rejected(self, X: Any) -> NDArray[np.bool_]:
        """Tell which rows are rejected.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,)
            True where the least expected loss exceeds `threshold`.
        """
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
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Labelled rows, not those of training.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        ErrorRejectCurve
            Named tuple `(thresholds, rejected, error)`; `error` is the error rate, or the mean loss under the
            matrix of a `MinimumRiskClassifier` within. The current `threshold` plays no part.
        """
        decision, risk, _ = self._decide(X)
        truth, loss = _codes(y, self.classes_), self._loss()
        incurred = decision != truth if loss is None else loss[truth, decision]
        return error_reject_curve(risk, incurred, sample_weight=sample_weight)


def _codes(y: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the index of every label among the classes."""
    labels, order = column_or_1d(y), np.argsort(classes)
    codes = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
    if np.any(classes[codes] != labels):
        raise ValueError(f"y must hold only classes of the wrapped estimator, {classes.tolist()}.")
    return np.asarray(codes)


def _frequencies(y: Any, classes: NDArray[Any], sample_weight: ArrayLike | None) -> FloatArray:
    """Weighted class frequencies, in the order of the classes."""
    if y is None:
        raise ValueError("y must be given to fit, or else train_priors to the constructor.")
    codes = _codes(y, classes)
    weight = None if sample_weight is None else np.broadcast_to(np.asarray(sample_weight, float), codes.shape)
    counts = np.bincount(codes, weights=weight, minlength=len(classes))
    return np.asarray(counts / counts.sum())


def _warn_of_class_weight(fitted: Any) -> None:
    """Warn if class weights moved the priors the posteriors stand for away from the class frequencies."""
    inner = fitted.estimator if isinstance(fitted, FrozenEstimator) else fitted
    class_weight = _last_part(inner.get_params(deep=True), "class_weight")
    if class_weight is not None:
        warnings.warn(
            f"The wrapped estimator has class_weight={class_weight!r}, so its posteriors do not stand for "
            "the class frequencies of y. Set train_priors (uniform for 'balanced').",
            UserWarning,
            stacklevel=4,
        )


def _last_part(params: dict[str, Any], name: str) -> Any:
    """Return the parameter of this name, at any depth of a pipeline (`step__name`), or None."""
    found = (value for key, value in params.items() if key.split("__")[-1] == name and value is not None)
    return next(found, None)


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
