"""SparseRegressor and SparseProbit: adaptive sparseness, without a strength to choose (Figueiredo 2003)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.arguments import AdaptiveArguments
from smaller.estimators.assembly import Assembly, Features, basis_is_linear, survey
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.far_rows import warn_far_rows
from smaller.estimators.fields import checked, number, with_fields
from smaller.estimators.intervals import ProbabilityRanges
from smaller.estimators.regressor import KernelOrLinearRegressor
from smaller.estimators.widths import ChosenWidth
from smaller.likelihoods import Curvature, Gaussian, Likelihood, Probit
from smaller.priors import Jeffreys, Laplace, Prior
from smaller.problem import Problem
from smaller.searches.adaptive import Adapted, NoisePrior, Rules, adapt
from smaller.solvers.driver import Progress
from smaller.telling import tell
from smaller.validation import (
    Responses,
    TrainingData,
    check_rows,
)

__all__ = ["SparseProbit", "SparseRegressor"]


def _prior(model: Any, features: Features | None) -> Prior:
    if checked(model, "prior") == "jeffreys":
        return Jeffreys()
    alpha = checked(model, "alpha")
    return Laplace(alpha) if features is None else Laplace(alpha, features.scales[features.kept, None])


def _rules(model: Any) -> Rules:
    return Rules(
        tol=checked(model, "tol"),
        max_iter=checked(model, "max_iter"),
        prune=checked(model, "prune"),
        init_eps=checked(model, "init_eps"),
    )


def _assembly(model: Any, data: Any, basis: Basis, y: Array, likelihood: Likelihood) -> Assembly:
    """Put likelihood, prior and design together."""
    fit_intercept = checked(model, "fit_intercept")
    unpenalised = np.zeros((1, 1))  # by a ridge
    features = survey(data.X, data.weight, unpenalised, fit_intercept) if basis_is_linear(basis) else None
    design = basis.expand(data.X if features is None else features.columns(data.X))
    targets = likelihood.encode(y)
    return Assembly(Problem(design, targets, data.weight, likelihood, _prior(model, features), fit_intercept), features)


def _fitted(basis: Basis, centers: Array | None, assembly: Assembly, adapted: Adapted) -> Fitted:
    w, b = assembly.to_user(adapted.solution.w, adapted.solution.b)
    return Fitted(basis, centers, w, b, adapted.likelihood, replace(adapted.solution, w=w, b=b))


def _advice(model: Any) -> str:
    if model.prior == "laplace":
        return "Lower alpha, or standardise the features."
    wide = "try another gamma, or " if model.kernel is not None else ""
    return f"Standardise the features, {wide}a smaller init_eps, or use prior='laplace' with a small alpha."


@with_fields
class SparseRegressor(ChosenWidth, AdaptiveArguments, KernelOrLinearRegressor):
    """Sparse regression with nothing to tune: few features or few kernels, noise level estimated.

    Finds, by EM, a point where this sum is stationary in w, b and the noise variance v::

        sum_i c_i [(y_i - h(x_i)'w - b)^2 / (2 v) + log(v) / 2] + sum_j log|w_j|            (prior="jeffreys")
                                                              ... + alpha * |w|_1           (prior="laplace")

    where h(x) are the features, or kernels centred on the training rows. The Jeffreys prior has no parameter: large
    weights are hardly shrunk, small ones vanish. Standardise the features.

    Parameters
    ----------
    prior : {"jeffreys", "laplace"}, default="jeffreys"
        Laplace with a given ``noise`` is the lasso, ``alpha_lasso = alpha * noise / n_samples``, solved exactly.
    alpha : float, default=1.0
        Rate of the Laplace prior, against the **sum** of squares over twice the noise variance; not used by Jeffreys.
    noise : "estimate" or float, default="estimate"
        Variance of the noise, or that it is to be estimated.
    noise_shape, noise_scale : float, default=0.0
        Inverse-gamma prior of an estimated noise variance: ``v = (sum_i c_i e_i^2 / 2 + noise_scale) / (sum_i c_i / 2 +
        noise_shape)``, the mode in log v. A positive scale keeps a flexible basis from interpolating.
    kernel : {"rbf", "poly", "linear", "precomputed"}, callable or None, default=None
        None uses the features; otherwise every training row is the centre of a kernel column.
    gamma : float, "scale", "auto" or "cv", default="scale"
        Kernel coefficient. "cv": the likeliest for responses left out, as in :class:`RVR`.
    degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`. Time grows with the cube of the number of centres: beyond 5000 rows give ``n_centers``.
    fit_intercept : bool, default=True
        An intercept without a prior.
    init_eps : float, default=1e-6
        Ridge of the first fit, relative to the size of the columns.
    prune : float, default=1e-5
        Weights that contribute less than this times the largest contribution are set to zero.
    tol : float, default=1e-6
        Relative change of the weights at which EM stops. Exact Laplace fits have a duality gap of at most ``tol / 100``
        times the loss of the model without features.
    max_iter : int, default=1000
        Limit on iterations.
    random_state, verbose
        As in :class:`SMLR`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights; exactly zero for features that are not used. Not there with a kernel.
    active_features_ : ndarray
        Indices of the features with a non-zero weight. Not there with a kernel.
    support_, support_vectors_, dual_coef_ : ndarray
        With a kernel: indices, rows and weights of the centres that are used.
    intercept_ : float
        Intercept.
    n_active_ : int
        Number of features or kernels that are used.
    noise_variance_ : float
        Variance of the noise, as given or as estimated.
    gamma_, gammas_, gamma_scores_
        As in :class:`RVR`, with a kernel.
    solution_ : Solution
        Its status is CONVERGED, with a duality gap, for an exact Laplace fit with given noise; else STATIONARY, or
        INTERPOLATES where the Laplace prior is too weak to keep an estimated noise from vanishing.
    n_iter_ : int
        Iterations.

    See Also
    --------
    SparseProbit : The same prior for two classes.
    RVR : A strength for every weight, by evidence.

    References
    ----------
    Figueiredo (2003). Adaptive sparseness for supervised learning. IEEE PAMI 25(9).

    Examples
    --------
    >>> from smaller import SparseRegressor
    >>> from smaller.datasets import make_sinc
    >>> X, y = make_sinc(100, random_state=0)
    >>> model = SparseRegressor(kernel="rbf", gamma=0.125).fit(X, y)
    >>> model.n_active_
    6
    >>> mean, std = model.predict(X[:1], return_std=True)
    """

    noise: Any = number("estimate", least=0.0, open_left=True, words=("estimate",))
    noise_shape: float = number(0.0, least=0.0)
    noise_scale: float = number(0.0, least=0.0)

    def _search(self, data: Responses, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assembly = _assembly(self, data, basis, data.y, Gaussian(self._given_noise() or 1.0))
        noise, kernel = self._noise_prior(), centers is not None
        adapted = adapt(assembly.problem, noise=noise, kernel=kernel, rules=_rules(self), progress=progress)
        fitted = _fitted(basis, centers, assembly, adapted)
        used = np.flatnonzero(fitted.w.any(axis=1))
        self.n_active_ = len(used)
        assert isinstance(fitted.likelihood, Gaussian)
        self.noise_variance_ = fitted.likelihood.variance
        self._used = used if centers is None else np.arange(len(used))
        self._store_spread(assembly, adapted)
        self._advise(adapted, data)
        return fitted

    def _given_noise(self) -> float | None:
        noise = checked(self, "noise")
        return None if noise == "estimate" else noise

    def _noise_prior(self) -> NoisePrior | None:
        if self._given_noise() is not None:
            return None
        return NoisePrior(checked(self, "noise_shape"), checked(self, "noise_scale"))

    def _store_spread(self, assembly: Assembly, adapted: Adapted) -> None:
        """Keep what ``return_std`` needs: the factor of the posterior's precision, and the units it is in."""
        w = adapted.solution.w
        used = np.flatnonzero(w.any(axis=1))
        _, scale, shift = (part[used] for part in assembly.origin())
        self._units = (scale, shift)
        self._root = _posterior_root(replace(assembly.problem, likelihood=adapted.likelihood), w, used)

    def _advise(self, adapted: Adapted, data: Responses) -> None:
        if self.n_active_ == 0 and np.ptp(data.y if data.weight is None else data.y[data.weight > 0]) > 0:
            tell(
                f"SparseRegressor kept no {'feature' if self.kernel is None else 'kernel'}: it predicts the mean for "
                f"every row. {_advice(self)}",
            )
        elif adapted.interpolates and self.n_active_ and adapted.solution.converged:
            advice = "Give noise" if self.kernel is None else "Choose a wider kernel (smaller gamma), give noise"
            tell(
                "SparseRegressor interpolates the data: the noise variance fell to zero and nothing more was pruned. "
                f"{advice}, or a noise_scale > 0.",
            )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted means, and with ``return_std`` their standard deviations.

        ``variance = noise + h'(H'H/noise + diag(precision))^-1 h`` over the features or kernels in use (and the
        intercept): the noise, and what the data leave open about the weights once these are chosen. The choice
        itself is not in it: on simulated data 1.96 deviations held about 90 % of new observations, not 95 %.
        """
        mean = self._linear_predictor(X)[:, 0]
        if not return_std:
            return mean
        check_is_fitted(self)
        design: Any = self._basis_.expand(check_rows(self, X)).take(self._used).X  # type: ignore[attr-defined]
        h = design.toarray() if hasattr(design, "toarray") else np.asarray(design, dtype=np.float64)
        scale, shift = getattr(self, "_units", (1.0, 0.0))  # models of version 0.1 have none
        h = (h - shift) * scale
        if self._root.shape[0] > h.shape[1]:
            h = np.column_stack([h, np.ones(len(h))])
        spread = linalg.solve_triangular(self._root, h.T, lower=True)
        return mean, np.sqrt(self.noise_variance_ + (spread**2).sum(axis=0))


def _posterior_root(problem: Problem, w: Array, used: Array) -> Array:
    """Return L of ``L L' = H'CH/noise + diag(precision)`` over the columns in use and the intercept."""
    _, precision = problem.prior.take(used).linearise(w[used], "l2")
    # The square of a weight of 1e-200 is zero; any precision as large as this says the same.
    columns, precision = used, np.minimum(precision[:, 0], 1e200)
    if problem.fit_intercept:
        columns, precision = np.append(used, problem.n_columns), np.append(precision, 0.0)
    d = np.ones((len(problem.y), 1)) if problem.weight is None else problem.weight[:, None]
    curvature = Curvature(d / problem.likelihood.variance)  # type: ignore[attr-defined]
    H = problem.design.gram(curvature, (columns, np.zeros(len(columns), dtype=np.int64)))
    H[np.diag_indices_from(H)] += precision
    return _cholesky(H)


def _cholesky(H: Array) -> Array:
    """Factor ``H = L L'``; what rounding leaves of columns that depend on each other is lifted just above zero."""
    size = np.sqrt(np.diag(H))
    size = np.where(size > 0, size, 1.0)
    unit = H / (size[:, None] * size)
    for lift in (0.0, 1e-14, 1e-12, 1e-10):
        with suppress(linalg.LinAlgError):
            return linalg.cholesky(unit + lift * np.eye(len(H)), lower=True) * size[:, None] if H.size else H
    raise ValueError("X has columns that depend on each other to the last digit: remove copies, or standardise them.")


@with_fields
class SparseProbit(ChosenWidth, ProbabilityRanges, AdaptiveArguments, KernelOrLinearClassifier):
    """Sparse probit classifier with nothing to tune: few features or few kernels, probabilities ``Phi(f(x))``.

    Finds, by EM, a point where this sum is stationary::

        -sum_i c_i log Phi(l_i (h(x_i)'w + b)) + sum_j log|w_j|            (prior="jeffreys")
                                             ... + alpha * |w|_1           (prior="laplace": the exact optimum)

    with ``l_i = +-1`` and h(x) the features, or kernels centred on the training rows. More than two classes are one
    model per class against the rest; their probabilities are divided by their sum. A class whose model loses all its
    weights keeps its share in the training data as probability. Standardise the features.

    Parameters
    ----------
    prior : {"jeffreys", "laplace"}, default="jeffreys"
        Jeffreys has no parameter. Laplace is convex: the fit is exact and certified.
    alpha : float, default=1.0
        Rate of the Laplace prior, against the **sum** of log-losses; not used by Jeffreys.
    kernel, gamma, degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`; ``gamma="cv"`` and what it leaves in ``gamma_`` as in :class:`RVC`. Time grows with the
        cube of the number of centres: beyond 5000 rows give ``n_centers``.
    fit_intercept : bool, default=True
        An intercept without a prior.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    posterior : bool, default=False
        Keep what `probability_interval` needs: as many numbers as the square of the number of weights in use.
    init_eps, prune, tol, max_iter, random_state, verbose
        As in :class:`SparseRegressor`; exact Laplace fits violate no optimality condition by more than ``tol / 100``
        times the steepest slope of the model without features.

    Attributes
    ----------
    classes_, coef_, intercept_, active_features_, support_, support_vectors_, dual_coef_, n_iter_
        As in :class:`SMLR`.
    n_active_ : int
        Number of features or kernels that are used by any class.
    solution_ : Solution
        Its status is CONVERGED for the Laplace prior, STATIONARY for Jeffreys.

    See Also
    --------
    SparseRegressor : The same prior for regression.
    SBMLR : Several classes in one model, and a convex sum.

    References
    ----------
    Figueiredo (2003). Adaptive sparseness for supervised learning. IEEE PAMI 25(9).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from smaller import SparseProbit
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SparseProbit(kernel="rbf", gamma=1 / 288)).fit(X, y)
    >>> model[-1].n_active_
    4
    >>> model[-1].solution_.status.name
    'STATIONARY'
    """

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        K = len(data.classes)
        assembly = _assembly(self, data, basis, data.codes, Probit(1 if K == 2 else K))
        adapted = adapt(assembly.problem, kernel=centers is not None, rules=_rules(self), progress=progress)
        self._keep(basis, assembly.problem, assembly.origin(), adapted.solution, measured=False)
        return _fitted(basis, centers, assembly, adapted)

    def _store(self, data: TrainingData, fitted: Fitted) -> None:
        super()._store(data, fitted)
        self.n_active_ = int(np.count_nonzero(fitted.w.any(axis=1)))
        warn_far_rows(self, data)
        empty = ~fitted.w.any(axis=0)
        if empty.any():
            which = "" if len(empty) == 1 else f" for the class(es) {data.classes[empty].tolist()}"
            tell(
                f"SparseProbit kept no {'feature' if self.kernel is None else 'kernel'}{which}: the share in the "
                f"training data is predicted for every row. {_advice(self)}",
            )
