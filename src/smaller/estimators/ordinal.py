"""OrdinalSMLR: a sparse model of grades, one weight a feature and a threshold between every two grades."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.arguments import AnyKernel, FoldArguments
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.block_answers import where_rows_are
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.fields import checked, choice, number, with_fields
from smaller.estimators.grades import assemble_grades, cross_validated, graded_data
from smaller.estimators.strength import unit_of_strength
from smaller.likelihoods import Ordinal
from smaller.solvers.driver import Progress
from smaller.solvers.engine import alpha_max, solve_rows
from smaller.validation import TrainingData, check_factors, check_rows

__all__ = ["OrdinalSMLR"]


@with_fields
class OrdinalSMLR(FoldArguments, AnyKernel, KernelOrLinearClassifier):
    """Sparse proportional-odds regression for grades and stages: exact and certified.

    Every step up the grades has the odds of the same score ``x'w``, cut by its own threshold::

        P(y > k | x) = 1 / (1 + exp(-(x'w - t_k))),        t_1 < ... < t_(K-1)
        sum_i c_i log-loss(y_i | x_i)  +  alpha * (l1_ratio * |w|_1 + (1 - l1_ratio)/2 * |w|_2^2)

    A feature has one weight, however many grades there are: a unit more of it multiplies the odds of each step up by
    ``exp(w)``. With two grades this is :class:`SMLR`.

    Parameters
    ----------
    alpha : float or "cv", default=1.0
        Strength of the penalty against the sum of log-losses; "cv" chooses it by cross-validation along a path.
    order : list, default=None
        The grades from lowest to highest. None takes that of an ordered pandas Categorical, else of sorted labels
        (which for words is the alphabet).
    alpha_scale : {"sum", "max"}, default="sum"
        "max": ``alpha`` (or a list of ``alphas``) is a share of the smallest strength that zeroes every weight.
    l1_ratio : float in [0, 1], default=1.0
        1 is the Laplace prior; below 1 correlated features share their weight.
    kernel, gamma, degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`.
    penalty_factors : array-like of shape (n_features,), default=None
        Multiply the penalty of each feature; 0 keeps a feature unpenalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the grades.
    alphas, eps, cv, scoring, rule, n_jobs
        For ``alpha="cv"``, as in :class:`SMLRCV`.
    tol : float, default=1e-6
        The duality gap at the solution is at most ``tol`` times the negative log-likelihood of the thresholds alone.
    max_iter, random_state, verbose
        As in :class:`SMLR`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The grades, lowest first.
    alpha_ : float
        The strength on the scale of the sum.
    coef_ : ndarray of shape (1, n_features)
        Weights; exactly zero for features that are not used. Not there with a kernel.
    active_features_ : ndarray
        Indices of the features with a non-zero weight. Not there with a kernel.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Where the score ``x'w`` is cut, increasing.
    support_, support_vectors_, dual_coef_ : ndarray
        With a kernel: indices, rows and weights of the centres that are used.
    solution_ : Solution
        The certificate: objective, duality gap, violation of the optimality conditions, status.
    alphas_, scores_, path_
        With ``alpha="cv"``, as in :class:`SMLRCV`; the path's intercepts are minus the thresholds.
    n_iter_, n_features_in_, feature_names_in_
        As in :class:`SMLR`.

    See Also
    --------
    SMLR : For classes without an order.

    References
    ----------
    McCullagh (1980). Regression models for ordinal data. JRSS B 42. Convexity: Pratt (1981). JASA 76.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller import OrdinalSMLR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 20))
    >>> score = X[:, 0] - X[:, 1] + rng.logistic(size=200)
    >>> stage = np.array(["early", "late", "spread"])[np.digitize(score, [-0.5, 1.5])]
    >>> model = OrdinalSMLR(alpha=12, order=["early", "late", "spread"]).fit(X, stage)
    >>> model.active_features_, bool(np.all(np.diff(model.thresholds_) > 0))
    (array([0, 1]), True)
    """

    fit_intercept = True  # the thresholds

    alpha: float | str = number(1.0, least=0.0, words=("cv",), kw_only=False)
    order: Any = None
    alpha_scale: str = choice("sum", "max")
    l1_ratio: float = number(1.0, least=0.0, most=1.0)
    penalty_factors: Any = None
    alphas: Any = 50
    eps: float | None = None
    scoring: Any = "neg_log_loss"

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight
            As in :meth:`SMLR.fit`.
        y : array-like of shape (n_samples,)
            Grades.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter of ``alpha="cv"``.

        Returns
        -------
        self : OrdinalSMLR
            The fitted estimator, left as it was before if fitting fails.
        """
        search = partial(self._search, groups=groups, sample_weight=sample_weight)
        return self._fit(X, y, sample_weight, search, graded_data)

    def _search(
        self,
        data: TrainingData,
        basis: Basis,
        centers: Array | None,
        progress: Progress | None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Fitted:
        for name in ("alphas_", "scores_", "path_"):
            self.__dict__.pop(name, None)
        alpha = checked(self, "alpha")
        if alpha == "cv":
            found = cross_validated(self, data, basis, centers, groups, sample_weight, progress)
            self.alpha_, self.alphas_, self.scores_, self.path_ = found.alpha, found.alphas, found.scores, found.path
            solution = found.solution
        else:
            problem, units = assemble_grades(self, data, basis, centers)
            unit = unit_of_strength(partial(alpha_max, problem), checked(self, "alpha_scale"))
            self.alpha_ = alpha * unit
            problem = problem.with_prior(problem.prior.times(self.alpha_))
            solution = solve_rows(problem, **self._limits(), progress=progress)
            w, b = units.to_user(solution.w, solution.b)
            solution = replace(solution, w=w, b=b)
        return Fitted(basis, centers, solution.w, solution.b, Ordinal(len(data.classes)), solution)

    def _limits(self) -> dict[str, Any]:
        return {
            "tol": checked(self, "tol"),
            "max_iter": checked(self, "max_iter"),
        }

    def _l1_ratio(self) -> float:
        return float(checked(self, "l1_ratio"))

    def _factors(self, n_features: int, centers: Array | None) -> Array | None:
        if self.penalty_factors is not None and centers is not None:
            raise ValueError("penalty_factors belong to features: leave them out when a kernel is used.")
        return check_factors(self.penalty_factors, n_features)

    def _store(self, data: Any, fitted: Fitted) -> None:
        super()._store(data, fitted)
        self.thresholds_ = -self.__dict__.pop("intercept_")

    def position(self, X: Any) -> Array:
        """Return the score ``x'w`` (n,) of every row: where it stands on the scale that ``thresholds_`` cut."""
        check_is_fitted(self)
        X = check_rows(self, X)
        if hasattr(self, "coef_"):
            return np.asarray(X @ self.coef_[0])
        return np.asarray(self._basis_.expand(X).forward(np.ascontiguousarray(self.dual_coef_.T))[:, 0])

    def _eta(self, X: Any) -> Array:
        return self.position(X)[:, None] - self.thresholds_

    @property
    def _grading(self) -> Ordinal:
        likelihood: Any = self._likelihood
        return likelihood  # type: ignore[no-any-return]

    @where_rows_are
    def decision_function(self, X: Any) -> Array:
        """Return the score less the threshold (n,) for two grades, else the log-probabilities (n, n_classes)."""
        eta = self._eta(X)
        return eta[:, 0] if eta.shape[1] == 1 else self._grading.log_predict(eta)

    @where_rows_are
    def predict_proba(self, X: Any) -> Array:
        """Return the grades' probabilities (n, n_classes), in the order of ``classes_``."""
        eta = self._eta(X)
        return self._grading.predict(eta)

    @where_rows_are
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the grades' probabilities."""
        eta = self._eta(X)
        return self._grading.log_predict(eta)

    @where_rows_are
    def predict(self, X: Any) -> Array:
        """Return the most probable grade of every row."""
        eta = self._eta(X)
        return self.classes_[self._grading.log_predict(eta).argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.kernel is None  # of classes that lie along no line
        return tags
