"""RVC and RVR: the relevance vector machine (Tipping 2001), its strengths found by evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.arguments import AnyKernel
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.fields import anything, flag, number, with_fields
from smaller.estimators.regressor import KernelOrLinearRegressor
from smaller.estimators.relevant_columns import (
    candidates,
    double,
    find,
    inverse_root,
    moderated,
    solution_of,
    strengths,
    used_columns,
    warn_crowded,
)
from smaller.estimators.widths import ChosenWidth
from smaller.likelihoods import Gaussian, Likelihood, Multinomial
from smaller.searches.marginal import Classes, Columns, Fit, Regression, without_weight
from smaller.solvers.driver import Progress
from smaller.telling import tell
from smaller.validation import (
    Responses,
    TrainingData,
    check_rows,
)

__all__ = ["RVC", "RVR"]

_ROWS_AT_A_TIME = 4096


@with_fields
class RVR(ChosenWidth, AnyKernel, KernelOrLinearRegressor):
    """Relevance vector regression: few kernels or features, noise level and strengths found by evidence.

    Each weight has a prior ``w_j ~ Normal(0, 1/a_j)`` of its own. The strengths ``a`` and the noise variance v maximise
    the evidence of the responses, the weights integrated out::

        log p(y | a, v),      y_i = h(x_i)'w + b + e_i,     e_i ~ Normal(0, v / c_i)

    with h(x) the features or kernels centred on training rows, and a free intercept b. Most strengths end at infinity:
    their columns are out. Columns are added, changed and deleted one at a time, the one that gains most first. The
    evidence has several maxima; the end is one of them. Standardise the features.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "precomputed"}, callable or None, default="rbf"
        None uses the features themselves. A kernel need not be positive semi-definite.
    gamma : float, "scale", "auto" or "cv", default="scale"
        Kernel coefficient. "cv": the likeliest for rows left out, of seven from 2^-6 to 2^3 times "scale" (and one more
        beyond an end), in five folds, stratified by class, shuffled by ``random_state`` (0 if None).
    degree, coef0, kernel_params
        As in :class:`SMLR`.
    n_centers : int, default=None
        Number of rows that may become centres, drawn at random; None: all. All their kernel columns are held, so with
        more than a few thousand rows give some 2000.
    fit_intercept : bool, default=True
        An intercept without a prior.
    tol : float, default=1e-4
        The search ends when no single change gains that much log evidence.
    max_iter : int, default=1000
        Limit on rounds, each with one exact refit.
    random_state, verbose
        As in :class:`SMLR`; rounds are logged.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_ : ndarray
        With a kernel: indices, rows and weights of the relevance vectors.
    coef_, active_features_ : ndarray
        Without a kernel: weights of all features, and indices of those in use.
    gamma_, gammas_, gamma_scores_ : float, ndarray, ndarray
        The width used with kernels "rbf" and "poly"; with ``gamma="cv"`` all widths, and mean log-likelihoods of the
        rows left out (n_widths, n_folds).
    relevance_ : ndarray of shape (n_support,)
        The strength ``a`` of every column in use, in the order of ``support_`` or ``active_features_``.
    intercept_ : float
        Intercept.
    noise_variance_ : float
        Variance of the noise.
    log_evidence_ : float
        Logarithm of the evidence at the end. It ranks strengths and kernel widths on the same responses.
    n_active_ : int
        Number of columns in use.
    solution_ : Solution
        Status STATIONARY; ``objective`` is minus the log evidence, ``violation`` what one more change would gain.
    n_iter_, n_features_in_, feature_names_in_
        Rounds; as in scikit-learn.

    See Also
    --------
    RVC : Classification.
    SparseRegressor : No evidence and no strengths: Jeffreys' prior.

    References
    ----------
    Tipping (2001). Sparse Bayesian learning and the relevance vector machine. JMLR 1.
    Tipping, Faul (2003). Fast marginal likelihood maximisation for sparse Bayesian models. AISTATS.

    Examples
    --------
    >>> from smaller import RVR
    >>> from smaller.datasets import make_sinc
    >>> X, y = make_sinc(100, random_state=0)
    >>> model = RVR(gamma=0.2).fit(X, y)
    >>> model.n_active_ < 10
    True
    >>> mean, std = model.predict(X[:1], return_std=True)
    """

    kernel: Any = anything("rbf", kw_only=False)
    fit_intercept: bool = flag(True)
    tol: float = number(1e-4, least=0.0, open_left=True)

    def _basis(self, data: Responses) -> tuple[Basis, Array | None]:
        return super()._basis(double(data))

    def _search(self, data: Responses, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        data = double(data)
        columns, rows, weight = candidates(self, data, basis)
        n_columns = data.X.shape[1] if centers is None else len(centers)
        marginal = Regression(columns.P, data.y[rows], weight, fit_intercept=self.fit_intercept)
        if marginal.constant:
            columns = replace(columns, P=columns.P[:, :0], index=columns.index[:0])
            marginal = Regression(columns.P, data.y[rows], weight, fit_intercept=self.fit_intercept)
        found = find(self, marginal, progress)
        found = replace(found, fit=without_weight(found.fit))
        fit, unit = found.fit, marginal.scale
        solution = solution_of(found, columns, (n_columns, 1), marginal.evidence(fit), unit)
        solution = replace(solution, b=solution.b + marginal.mean)
        self.noise_variance_ = unit**2 / fit.precision if not marginal.constant else 0.0
        self._store_posterior(fit, columns, marginal)
        return Fitted(basis, centers, solution.w, solution.b, Gaussian(), solution)

    def _store_posterior(self, fit: Fit, columns: Columns, marginal: Regression) -> None:
        used = np.sort(columns.index[fit.pairs])
        order = np.argsort(columns.index[fit.pairs])
        self.relevance_ = strengths(fit, columns, used, 1, marginal.scale)[0]
        self.log_evidence_ = marginal.evidence(fit)
        self.n_active_ = len(used)
        # deviation of a mean: noise / n for the intercept, d' (H_AA)^-1 d for the weights, d the centred columns
        inverse = inverse_root(fit.root)
        self._moved = columns.mean[fit.pairs][order]
        self._spread = (marginal.scale * inverse / columns.scale[fit.pairs])[:, order]
        self._level = self.noise_variance_ / marginal.total if self.fit_intercept else 0.0

    def _warn(self, data: Responses) -> None:
        rows = slice(None) if data.weight is None else data.weight > 0
        y = data.y[rows]
        if self.n_active_ == 0 and np.ptp(y) > 0 and len(y) > 1:
            tell(
                f"RVR kept no {'feature' if self.kernel is None else 'kernel'}: it predicts the mean for every row. No "
                "change of the model gained any evidence.",
            )
        elif self.n_active_ and self.noise_variance_ <= 1.1e-12 * np.var(y):
            tell(
                "RVR interpolates the data: the noise variance fell to its floor, 1e-12 of the responses' variance, "
                "and the standard deviations are of no use. Unless the responses are free of noise, choose a wider "
                "kernel (smaller gamma) or fewer features.",
            )
        else:
            warn_crowded(self, len(y))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted means, and with ``return_std`` the standard deviations of *new observations*.

        ``variance = noise + noise / n + d' Sigma d``, d the centred columns in use and Sigma the covariance of their
        weights. It knows nothing of columns that are out: far from all centres it shrinks to the noise.
        """
        check_is_fitted(self)
        X = check_rows(self, X)
        h = self._columns(X)
        weights = self.coef_[self.active_features_] if hasattr(self, "coef_") else self.dual_coef_[0]
        mean = h @ weights + self.intercept_
        if not return_std:
            return mean
        spread = (h - self._moved) @ self._spread.T
        return mean, np.sqrt(self.noise_variance_ + self._level + np.einsum("ij,ij->i", spread, spread))

    def _columns(self, X: Any) -> Array:
        return used_columns(self, X)


@with_fields
class RVC(ChosenWidth, AnyKernel, KernelOrLinearClassifier):
    """Relevance vector classifier: few kernels or features and a strength for each weight, found by evidence.

    Each weight has a prior ``w_jk ~ Normal(0, 1/a_jk)`` of its own. The strengths ``a`` maximise the evidence of the
    labels, Laplace's approximation at the weights w(a) that minimise::

        sum_i c_i log-loss(y_i, f(x_i)) + 1/2 sum_jk a_jk w_jk^2,      f_k(x) = h(x)'w_k + b_k

    with h(x) kernels centred on the training rows, or the features, and free intercepts. Most strengths end at
    infinity: their columns are out. Columns are added, changed and deleted one at a time, the one that gains most
    first. The evidence has several maxima and is itself approximate: the end is the best state seen. Standardise the
    features. Do not choose a kernel's width by ``log_evidence_``: it prefers kernels that are too narrow.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, n_centers, fit_intercept
        As in :class:`RVR`.
    moderate : bool, default=True
        Probabilities are averaged over what the data leave open about the weights, which draws them towards equal
        shares where that is much: ``f / sqrt(1 + pi/8 var(f))`` takes the place of f, and of every difference
        ``f_k - f_l`` with several classes. False: the most probable weights count as certain.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    tol : float, default=1e-3
        The search ends when no single change gains that much log evidence.
    max_iter : int, default=1000
        Limit on rounds, each with one exact refit.
    random_state, verbose
        As in :class:`RVR`.

    Attributes
    ----------
    classes_, coef_, intercept_, active_features_, support_, support_vectors_, dual_coef_, n_iter_
        As in :class:`SMLR`.
    gamma_, gammas_, gamma_scores_
        As in :class:`RVR`.
    relevance_ : ndarray of shape (1 or n_classes, n_support)
        The strength ``a`` of every weight, in the order of ``support_`` or ``active_features_``; infinite where a
        column has no weight in an output.
    log_evidence_ : float
        Logarithm of the evidence at the end.
    n_active_ : int
        Number of columns in use.
    solution_ : Solution
        Status STATIONARY; ``objective`` is minus the log evidence, ``violation`` what one more change would gain.

    See Also
    --------
    RVR : Regression.
    SBMLR : One strength for all weights.
    IVM : Centres chosen by the likelihood.

    References
    ----------
    Tipping (2001) and Tipping, Faul (2003), as for :class:`RVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import RVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RVC().fit(X, y)
    >>> len(model.support_), round(model.score(X, y), 2)
    (3, 0.99)
    """

    kernel: Any = anything("rbf", kw_only=False)
    fit_intercept: bool = flag(True)
    moderate: bool = flag(True)
    tol: float = number(1e-3, least=0.0, open_left=True)

    def _basis(self, data: TrainingData) -> tuple[Basis, Array | None]:
        return super()._basis(double(data))

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        likelihood = Multinomial(len(data.classes))
        columns, rows, weight = candidates(self, double(data), basis)
        y = likelihood.encode(data.codes[rows])
        marginal = Classes(columns.P, likelihood, y, weight, fit_intercept=self.fit_intercept)
        found = find(self, marginal, progress)
        found = replace(found, fit=without_weight(found.fit))
        fit, q = found.fit, marginal.n_outputs
        n_columns = data.X.shape[1] if centers is None else len(centers)
        solution = solution_of(found, columns, (n_columns, q), fit.log_evidence, 1.0)
        used = np.unique(columns.index[fit.pairs // q])
        self.relevance_ = strengths(fit, columns, used, q, 1.0)
        self.log_evidence_ = fit.log_evidence
        self.n_active_ = len(used)
        self._store_posterior(fit, columns, used, likelihood)
        return Fitted(basis, centers, solution.w, solution.b, likelihood, solution)

    def _store_posterior(self, fit: Fit, columns: Columns, used: Array, likelihood: Likelihood) -> None:
        """Keep the inverse factor of the Hessian; a coordinate is a column of those in use, or 1, in one output."""
        q, j = likelihood.n_outputs, fit.pairs // likelihood.n_outputs
        n_free = len(fit.root) - len(fit.pairs)
        self._coordinates = np.append(np.searchsorted(used, columns.index[j]), np.full(n_free, len(used)))
        self._outputs = np.append(fit.pairs % q, np.arange(n_free))
        self._moved = np.append(columns.mean[j], np.zeros(n_free))
        self._spread = inverse_root(fit.root) / np.append(columns.scale[j], np.ones(n_free))

    def _store(self, data: TrainingData, fitted: Fitted) -> None:
        super()._store(data, fitted)
        rows = len(data.codes) if data.weight is None else int(np.count_nonzero(data.weight))
        if self.n_active_ == 0:
            tell(
                f"RVC kept no {'feature' if self.kernel is None else 'kernel'}: the shares of the classes in the "
                "training data are predicted for every row. No change of the model gained any evidence.",
            )
        warn_crowded(self, rows)

    def decision_function(self, X: Any) -> Array:
        """Return scores whose logistic function, or softmax, the probabilities are: moderated unless told otherwise."""
        if not self.moderate:
            return super().decision_function(X)
        check_is_fitted(self)
        eta = self._linear_predictor(X)
        X = check_rows(self, X)
        X = X.tocsr() if sparse.issparse(X) else X
        for start in range(0, len(eta), _ROWS_AT_A_TIME):
            rows = slice(start, start + _ROWS_AT_A_TIME)
            eta[rows] = moderated(eta[rows], self._deviations(X[rows]))
        return eta[:, 0] if eta.shape[1] == 1 else eta

    def _deviations(self, X: Any) -> Array:
        """Return ``L^-1 d`` for every output (q, n, k), so that covariances of outputs are sums of products."""
        h = np.column_stack([used_columns(self, X), np.ones(X.shape[0])])
        D = h[:, self._coordinates] - self._moved
        parts = [(D * (self._outputs == r)) @ self._spread.T for r in range(self._likelihood.n_outputs)]
        return np.array(parts)
