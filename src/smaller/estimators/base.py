"""What all estimators share: a basis, the flow of one fit, and probabilities made in one place.

A final class gives its arguments and its search (``_search``), which puts the parts together.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array, log_normal_cdf, log_partition
from smaller.bases import Basis, Linear
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.block_answers import where_rows_are
from smaller.estimators.callbacks import CallbackSupportMixin, reported_progress, with_callbacks
from smaller.estimators.documentation import DocumentationLink
from smaller.estimators.equal_rows import first_of_equals
from smaller.estimators.fields import check_all, checked, integer, number, with_fields
from smaller.estimators.located import LocatedData, located
from smaller.kernels import make_kernel
from smaller.likelihoods import Likelihood, Multinomial, Probit
from smaller.problem import Solution
from smaller.solvers.driver import Progress
from smaller.telling import tell
from smaller.validation import (
    TrainingData,
    check_classification_data,
    check_rows,
    unchanged_on_failure,
)

__all__ = [
    "Fitted",
    "KernelOrLinear",
    "KernelOrLinearClassifier",
    "all_outputs",
    "class_scores",
    "feature_names",
    "warn_unless_converged",
]

_log = logging.getLogger("smaller")


@dataclass(frozen=True)
class Fitted:
    """What a search hands back: weights in the user's units, on a basis."""

    basis: Basis
    centers: Array | None  # row indices of the kernel centres, None for direct features
    w: Array  # (d, q)
    b: Array  # (q,)
    likelihood: Likelihood
    solution: Solution


def warn_unless_converged(estimator: Any, solution: Solution) -> None:
    """Warn once, with the status sentence and the certificate, when the tolerance was not met."""
    if not solution.converged:
        gap = "" if solution.gap is None else f" (gap {solution.gap:.3g} of a null loss of {solution.scale:.4g})"
        tell(
            f"{type(estimator).__name__} did not converge: {solution.status.value}{gap}",
            ConvergenceWarning,
        )


def feature_names(estimator: Any) -> Array:
    """Return the names seen in fit, or x0, x1, ..."""
    names = getattr(estimator, "feature_names_in_", None)
    return np.asarray([f"x{j}" for j in range(estimator.n_features_in_)], dtype=object) if names is None else names


@with_fields
class KernelOrLinear(DocumentationLink, CallbackSupportMixin, BaseEstimator):
    """Interface of the models that work on features or on kernels centred on training rows."""

    kernel: Any = None
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    tol: float = number(1e-6, least=0.0, open_left=True)
    max_iter: int = integer(1000, least=1)
    random_state: Any = None
    verbose: int = 0

    def _basis(self, data: Any) -> tuple[Basis, Array | None]:
        """Return the basis of the training rows ``data.X``, weighted by ``data.weight``, and which rows are centres."""
        return (Linear(), None) if self.kernel is None else self._centred(data, self._width(data))

    def _centred(self, data: Any, gamma: Any) -> tuple[KernelBasis, Array]:
        """Return the kernel basis of a given width."""
        params = vars(self).get("kernel_params")  # not every model takes a kernel of one's own
        if params is not None and not isinstance(params, Mapping):
            raise TypeError(f"kernel_params must be a dict of keyword arguments or None, got {params!r}.")
        kernel = make_kernel(
            self.kernel,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=params,
            X=data.X,
            weight=data.weight,
        )
        X = data.X.tocsr() if sparse.issparse(data.X) else data.X
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be a square kernel matrix when kernel='precomputed', got shape {X.shape}.")
        rows = np.arange(X.shape[0]) if data.weight is None else np.flatnonzero(data.weight > 0)
        # A repeated row makes the same kernel column: one centre stands for all, so that a weight equals a repetition.
        rows = rows[first_of_equals(X.T[rows] if self._precomputed else X[rows])]
        count = self._most_centers()
        if count is not None and count < len(rows):
            rows = self._centers(data, kernel, rows, count)
        return KernelBasis(kernel, rows if self._precomputed else X[rows]), rows

    def _most_centers(self) -> int | None:
        """Return how many rows may be centres; None: all."""
        return None if vars(self).get("n_centers") is None else int(checked(self, "n_centers"))

    def _centers(self, data: Any, kernel: Any, rows: Array, count: int) -> Array:
        """Return those ``count`` of the rows that become centres: drawn by lot."""
        return np.sort(check_random_state(self.random_state).choice(rows, count, replace=False))

    def _width(self, data: Any) -> Any:
        """Return what ``gamma`` means on these rows: a number, or a rule of `kernels.resolve_gamma`."""
        return self.gamma

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _logged(self, progress: Progress | None) -> Progress | None:
        if not self.verbose:
            return progress

        def log(iteration: int, certificate: Any) -> bool | None:
            _log.info(
                "%s: iteration %d, objective %.10g, violation %.3g, gap %s",
                type(self).__name__,
                iteration,
                certificate.objective,
                certificate.violation,
                certificate.gap,
            )
            return None if progress is None else progress(iteration, certificate)

        return log

    def _store_weights(self, fitted: Fitted) -> None:
        for name in ("coef_", "active_features_", "support_", "support_vectors_", "dual_coef_"):
            self.__dict__.pop(name, None)
        self.intercept_ = all_outputs(fitted.b[None, :], fitted.likelihood)[0]
        self.solution_ = fitted.solution
        self.n_iter_ = max(1, fitted.solution.n_iter)
        self._likelihood = fitted.likelihood
        used = np.flatnonzero(fitted.w.any(axis=1))
        if fitted.centers is None:
            self._basis_ = fitted.basis
            self.coef_ = np.ascontiguousarray(all_outputs(fitted.w, fitted.likelihood).T)
            self.active_features_ = used
            return
        self._basis_ = fitted.basis.take(used)
        self.support_ = fitted.centers[used]
        self.support_vectors_ = self._basis_.centers  # type: ignore[attr-defined]
        self.dual_coef_ = np.ascontiguousarray(all_outputs(fitted.w[used], fitted.likelihood).T)

    def _linear_predictor(self, X: Any) -> Array:
        """Return eta (n, q) of new rows."""
        check_is_fitted(self)
        X = check_rows(self, X)
        if hasattr(self, "coef_"):
            return np.asarray(X @ np.atleast_2d(self.coef_).T) + self.intercept_
        weights = np.atleast_2d(self.dual_coef_)
        return np.ascontiguousarray(self._basis_.expand(X).forward(weights.T)) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags


@with_fields
class KernelOrLinearClassifier(ClassifierMixin, KernelOrLinear):
    """Interface of the classifiers among them: the flow of one fit, and probabilities made in one place."""

    _anywhere = False  # whether rows that are elsewhere are fitted, by `_search_located`

    class_weight: Any = None

    @abstractmethod
    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        """Find the weights."""

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows; with ``kernel="precomputed"`` the square kernel matrix. Some estimators also take rows that
            are elsewhere: Dask arrays and dataframes, or what :func:`smaller.rows.from_files` returns.
        y : array-like of shape (n_samples,)
            Class labels; left out where ``X`` knows them (files).
        sample_weight : array-like of shape (n_samples,), default=None
            Observation weights >= 0; an integer weight equals repeating the row.

        Returns
        -------
        self : estimator
            The fitted estimator. If fitting fails or is interrupted, the estimator is left as it was before.
        """
        return self._fit(X, y, sample_weight, self._search)

    def _fit(
        self,
        X: Any,
        y: Any,
        weight: Any,
        search: Callable[..., Fitted],
        check: Callable[..., TrainingData] = check_classification_data,
    ) -> Any:
        """Check, search, store: the flow of every fit."""
        with unchanged_on_failure(self), reported_progress(self, X, y) as progress:
            check_all(self)
            there = located(self, X, y, weight) if self._anywhere else None
            if there is not None:
                self._store(there, self._search_located(there, self._logged(progress)))
            else:
                data = check(self, X, y, weight, self.class_weight)
                basis, centers = self._basis(data)
                self._store(data, search(data, basis, centers, self._logged(progress)))
            warn_unless_converged(self, self.solution_)
        return self

    def _search_located(self, data: LocatedData, progress: Progress | None) -> Fitted:
        """Find the weights by questions to rows that are elsewhere, where the model can."""
        raise NotImplementedError

    def _store(self, data: Any, fitted: Fitted) -> None:
        self._store_weights(fitted)
        self.classes_ = data.classes

    @where_rows_are
    def decision_function(self, X: Any) -> Array:
        """Return the linear predictor: (n,) for two classes, else (n, n_classes)."""
        eta = self._linear_predictor(X)
        return eta[:, 0] if eta.shape[1] == 1 else eta

    @where_rows_are
    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities (n, n_classes), in the order of ``classes_``."""
        return log_partition(class_scores(self.decision_function(X), self._likelihood), pinned=False)[1]

    @where_rows_are
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the class probabilities, finite wherever the linear predictor is."""
        scores = class_scores(self.decision_function(X), self._likelihood)
        return scores - log_partition(scores, pinned=False)[0][:, None]

    @where_rows_are
    def predict(self, X: Any) -> Array:
        """Return the most probable class of every row."""
        eta = self.decision_function(X)
        return self.classes_[(eta > 0).astype(int) if eta.ndim == 1 else eta.argmax(axis=1)]


def all_outputs(w: Array, likelihood: Likelihood) -> Array:
    """Append the pinned class of reference coding, so that every class has its column."""
    pinned = isinstance(likelihood, Multinomial) and w.shape[1] > 1 and not likelihood.shift_invariant
    return np.column_stack([w, np.zeros(w.shape[0])]) if pinned else w


def class_scores(eta: Array, likelihood: Likelihood) -> Array:
    """Return scores (n, K) whose softmax is the class probabilities; ``eta`` is (n,) for two classes.

    One-versus-rest probit: the K probabilities ``Phi(eta_k)``, each right for its own question, divided by their sum.
    """
    if isinstance(likelihood, Probit):
        return log_normal_cdf(np.column_stack([-eta, eta]) if eta.ndim == 1 else eta)
    return np.column_stack([np.zeros_like(eta), eta]) if eta.ndim == 1 else eta
