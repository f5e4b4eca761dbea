"""Posteriors corrected for class priors that differ from those of training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from smaller.decisions import FloatArray, adjust_priors, check_priors, estimate_priors
from smaller.estimators.decisions.wrapped import DecisionClassifier, codes_of, last_part
from smaller.estimators.fields import anything, with_fields
from smaller.telling import tell

__all__ = ["PriorShiftClassifier"]


@with_fields
class PriorShiftClassifier(DecisionClassifier):
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
    estimator_, classes_
        As in :class:`MinimumRiskClassifier`.
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

    estimator: Any = anything(kw_only=False)
    train_priors: ArrayLike | None = None
    new_priors: ArrayLike | None = None

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
            tell(
                f"The class priors still moved after {estimate.n_iter} EM iterations. Raise max_iter or tol, "
                "or set new_priors if they are known.",
                ConvergenceWarning,
            )
        self.priors_, self.n_iter_ = estimate.priors, estimate.n_iter
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities (n_samples, n_classes) of the classes under `priors_`."""
        return adjust_priors(super().predict_proba(X), self.train_priors_, self.priors_)[0]


def _frequencies(y: Any, classes: NDArray[Any], sample_weight: ArrayLike | None) -> FloatArray:
    """Weighted class frequencies, in the order of the classes."""
    if y is None:
        raise ValueError("y must be given to fit, or else train_priors to the constructor.")
    labels = np.asarray(y)
    weight = np.ones(len(labels)) if sample_weight is None else np.broadcast_to(np.asarray(sample_weight), labels.shape)
    there = weight > 0  # a class of nothing but weightless rows is none of the estimator's
    counts = np.bincount(codes_of(labels[there], classes), weights=weight[there], minlength=len(classes))
    return np.asarray(counts / counts.sum())


def _warn_of_class_weight(fitted: Any) -> None:
    """Warn if class weights moved the priors the posteriors stand for away from the class frequencies."""
    inner = fitted.estimator if isinstance(fitted, FrozenEstimator) else fitted
    class_weight = last_part(inner.get_params(deep=True), "class_weight")
    if class_weight is not None:
        tell(
            f"The wrapped estimator has class_weight={class_weight!r}, so its posteriors do not stand for "
            "the class frequencies of y. Set train_priors (uniform for 'balanced').",
            UserWarning,
        )
