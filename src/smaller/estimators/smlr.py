"""SMLR and RMLR: multinomial logistic regression with a Laplace or a Normal prior (Krishnapuram et al. 2005)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.bases import Basis, Linear
from smaller.estimators.arguments import MultinomialArguments, StructureArguments
from smaller.estimators.assembly import Assembly, basis_is_linear, survey
from smaller.estimators.base import Fitted, feature_names
from smaller.estimators.equal_rows import row_keys
from smaller.estimators.fields import checked, flag, number, with_fields
from smaller.estimators.intervals import ProbabilityRanges, refuse_ranges
from smaller.estimators.located import LocatedData, assemble_rows
from smaller.estimators.located_kernels import drawn_centers
from smaller.estimators.offsets import OffsetClassifier, refuse_offset
from smaller.estimators.solver_choice import check_solver
from smaller.estimators.strength import unit_of_strength
from smaller.estimators.structure import Structure, structure_of, without
from smaller.likelihoods import Multinomial
from smaller.problem import Problem, Solution
from smaller.row_problem import RowProblem
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.solvers.engine import alpha_max, solve_rows
from smaller.validation import (
    TrainingData,
    check_factors,
)

__all__ = ["RMLR", "SMLR", "assemble"]


def assemble(
    data: TrainingData,
    basis: Basis,
    *,
    alpha: float,
    l1_ratio: float,
    coding: str,
    fit_intercept: bool,
    penalize_intercept: bool,
    factors: Array | None,
    structure: Structure | None = None,
) -> Assembly:
    """Put likelihood, prior and design together."""
    penalized = fit_intercept and penalize_intercept
    r: Any = np.asarray(1.0) if factors is None else factors
    slope, ridge = alpha * l1_ratio * r, alpha * (1.0 - l1_ratio) * r
    free = fit_intercept and not penalized
    features = survey(data.X, data.weight, ridge, free) if basis_is_linear(basis) else None
    structure = structure or Structure()
    features = without(features, structure.excluded)
    design: Any = basis.expand(data.X if features is None else features.columns(data.X))
    if features is not None:
        column = features.scales[:, None]
        with np.errstate(over="ignore", under="ignore"):
            slope, ridge = ((slope * column)[features.kept], (ridge * column * column)[features.kept])
    if penalized:
        d = design.shape[1]
        design = design.with_ones()
        slope = np.vstack([np.broadcast_to(slope, (d, 1)), [[alpha * l1_ratio]]])
        ridge = np.vstack([np.broadcast_to(ridge, (d, 1)), [[alpha * (1.0 - l1_ratio)]]])
    prior = structure.prior(slope, ridge, features, penalized)
    likelihood = Multinomial(len(data.classes), coding)
    y = likelihood.encode(data.labels)
    offset = None if data.offset is None else likelihood.contrasts(data.offset)
    problem = Problem(design, y, data.weight, likelihood, prior, free, offset, data.shares is not None)
    return Assembly(problem, features, penalized)


@with_fields
class _MultinomialClassifier(MultinomialArguments, OffsetClassifier):
    """Interface: the multinomial likelihood with an elastic-net prior of fixed strength."""

    _anywhere = True

    alpha: float = number(1.0, least=0.0, kw_only=False)
    solver: Any = "auto"
    warm_start: bool = flag(False)

    def _l1_ratio(self) -> float:
        raise NotImplementedError

    def _assemble(self, data: TrainingData, basis: Basis, centers: Array | None, alpha: float) -> Assembly:
        if self.penalty_factors is not None and centers is not None:
            raise ValueError("penalty_factors belong to features: leave them out when a kernel is used.")
        return assemble(
            data,
            basis,
            alpha=alpha,
            l1_ratio=self._l1_ratio(),
            coding=checked(self, "coding"),
            fit_intercept=checked(self, "fit_intercept"),
            penalize_intercept=checked(self, "penalize_intercept"),
            factors=check_factors(self.penalty_factors, data.X.shape[1]) if centers is None else None,
            structure=self._structure(data, centers),
        )

    def _structure(self, data: TrainingData, centers: Array | None) -> Structure | None:
        """Return what is asked of the weights beyond strength and factors."""
        return None

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        alpha = self._strength(data, basis, centers)
        tol = checked(self, "tol")
        max_iter = checked(self, "max_iter")
        method = check_solver(self.solver)
        assembly = self._assemble(data, basis, centers, alpha)
        start = self._warm(data, basis, assembly) if checked(self, "warm_start") else None
        solution = solve(assembly.problem, method, start=start, tol=tol, max_iter=max_iter, progress=progress)
        self._ended(basis, assembly, solution)
        self.alpha_ = alpha
        w, b = assembly.to_user(solution.w, solution.b)
        return Fitted(basis, centers, w, b, assembly.problem.likelihood, replace(solution, w=w, b=b))

    def _search_located(self, data: LocatedData, progress: Progress | None) -> Fitted:
        basis: Basis = Linear()
        centers = None
        if self.kernel is not None:
            basis, centers = drawn_centers(self, data)
            data = data.expanded(basis)
        kernel = centers is not None
        problem, units = assemble_rows(self, data, alpha=1.0, l1_ratio=self._l1_ratio(), kernel=kernel)
        alpha = checked(self, "alpha") * self._located_unit(problem)
        tol = checked(self, "tol")
        max_iter = checked(self, "max_iter")
        start = None
        if checked(self, "warm_start") and not kernel and _same_columns(self, data):
            q = problem.rows.likelihood.n_outputs
            start = units.from_user(self.coef_[:q].T, self.intercept_[:q])
        problem = problem.with_prior(problem.prior.times(alpha))
        solution = solve_rows(problem, start=start, tol=tol, max_iter=max_iter, progress=progress)
        self.alpha_ = alpha
        w, b = units.to_user(solution.w, solution.b)
        return Fitted(basis, centers, w, b, units.likelihood, replace(solution, w=w, b=b))

    def _located_unit(self, problem: RowProblem) -> float:
        """Return what an ``alpha`` of one stands for."""
        return 1.0

    def _strength(self, data: TrainingData, basis: Basis, centers: Array | None) -> float:
        """Return the strength on the scale of the sum."""
        return float(checked(self, "alpha"))

    def _ended(self, basis: Basis, assembly: Assembly, solution: Solution) -> None:
        """Keep what only the solver's units tell."""

    def _warm(self, data: TrainingData, basis: Basis, assembly: Assembly) -> Any:
        """Return the earlier weights as a start, where they still apply (footnote 7: common centres keep theirs)."""
        q = assembly.problem.likelihood.n_outputs
        if not hasattr(self, "classes_") or not np.array_equal(self.classes_, data.classes):
            return None
        b = self.intercept_[:q]
        if basis_is_linear(basis):
            if not hasattr(self, "coef_") or self.coef_.shape[1] != data.X.shape[1]:
                return None
            w = self.coef_[:q].T.copy()
        elif hasattr(self, "dual_coef_") and type(self.support_vectors_) is type(basis.centers):  # type: ignore[attr-defined]
            w = _carry_over(self.support_vectors_, self.dual_coef_[:q].T, basis.centers)  # type: ignore[attr-defined]
        else:
            return None
        w, b = assembly.from_user(w, b)
        return assembly.problem.at(np.asarray(w, dtype=np.float64), np.asarray(b, dtype=np.float64))

    def to_frame(self) -> Any:
        """Return the chosen features with their weight for every class as a pandas DataFrame, largest first.

        Two classes have one column, the weight in favour of ``classes_[1]``.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: install it, or read coef_ and active_features_.") from error
        check_is_fitted(self)
        coef = self.coef_[:, self.active_features_]
        order = np.argsort(-np.abs(coef).max(axis=0), kind="stable") if coef.size else np.arange(0)
        classes = self.classes_[1:] if len(coef) == 1 else self.classes_
        names = feature_names(self)[self.active_features_][order]
        return pd.DataFrame(coef[:, order].T, index=pd.Index(names, name="feature"), columns=classes)


def _same_columns(model: Any, data: LocatedData) -> bool:
    """Whether an earlier fit had the same classes and number of features, without a kernel."""
    known = hasattr(model, "coef_") and model.coef_.shape[1] == data.shape[1]
    return known and np.array_equal(model.classes_, data.classes)


def _carry_over(old_centers: Any, old_weights: Array, centers: Any) -> Array:
    """Give every centre the weight it had before; new ones start at zero."""
    w = np.zeros((centers.shape[0], old_weights.shape[1]))
    known = {key: i for i, key in enumerate(row_keys(old_centers))}
    for j, key in enumerate(row_keys(centers)):
        if key in known:
            w[j] = old_weights[known[key]]
    return w


@with_fields
class SMLR(StructureArguments, ProbabilityRanges, _MultinomialClassifier):
    """Sparse multinomial logistic regression: few features or few kernels, exact and certified.

    ``alpha`` multiplies the penalty against the **sum** of log-losses (not the mean, as in Lasso)::

        sum_i c_i log-loss(y_i, X_i w + b) + alpha * (l1_ratio * |w|_1 + (1 - l1_ratio)/2 * |w|_2^2)

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, the papers' lambda; ``C = 1/alpha`` in scikit-learn, ``alpha/n`` in glmnet.
    alpha_scale : {"sum", "max"}, default="sum"
        "max": ``alpha`` is a share of the smallest strength that zeroes every weight on the rows of this fit. It means
        the same for every subsample and for weights of any sum, which ensembles need; 0.05 is a sensible beginning.
    l1_ratio : float in [0, 1], default=1.0
        1 is the Laplace prior of the paper; below 1 correlated features share their weight.
    kernel : {"rbf", "poly", "linear", "precomputed"}, callable or None, default=None
        None uses the features; otherwise every training row is the centre of a kernel column.
    gamma : float, "scale" or "auto", default="scale"
        Kernel coefficient, as in :class:`sklearn.svm.SVC` ("scale" uses the weighted variance).
    degree, coef0 : int, float
        Of the polynomial kernel.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.
    n_centers : int, default=None
        Use a random subset of the training rows as centres.
    coding : {"symmetric", "reference"}, default="symmetric"
        With more than two classes: one weight vector per class, or the last class pinned to zero (the 2005 paper; the
        optimum then depends on which class is last).
    fit_intercept : bool, default=True
        An intercept per class, unpenalised.
    penalize_intercept : bool, default=False
        Penalise the intercept like a weight, as the papers' column of ones.
    penalty_factors : array-like of shape (n_features,), default=None
        Multiply the penalty of each feature; 0 keeps a feature (age, batch) unpenalised.
    penalty : {"elementwise", "grouped", "sparse-grouped"}, default="elementwise"
        "grouped": the norm of all weights of a feature, or of a group of features, takes the place of their absolute
        values, so that it is in or out as a whole, for all classes. "sparse-grouped": a mix of both.
    feature_groups : array-like of shape (n_features,) or list of lists, default=None
        The group of every feature, or the columns of every group; None is a group for each feature. A group weighs
        the square root of its number of features, times their common ``penalty_factors``.
    group_l1_ratio : float in [0, 1], default=0.5
        The share of absolute values in "sparse-grouped".
    lower_limits, upper_limits : float or array-like of shape (n_features,), default=None
        The weights' limits, in their units: at most 0 and at least 0. With two classes a weight speaks for
        ``classes_[1]``.
    positive : bool, default=False
        No negative weights: ``lower_limits=0``.
    exclude : array-like, default=None
        Names, indices or a mask of features that get no weight.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    solver : str or object, default="auto"
        How the optimum is found: "coordinate", "newton", "blockwise", "proximal", "block" or "componentwise". "auto"
        takes the first that suits: "newton" needs a smooth penalty (``l1_ratio=0`` or ``alpha=0``). The last two are
        the 2005 paper's own updates, kept for study.
    tol : float, default=1e-6
        The duality gap at the solution is at most ``tol`` times the negative log-likelihood of the model without
        features.
    max_iter : int, default=1000
        Limit on outer iterations.
    warm_start : bool, default=False
        Start from the previous solution; with a kernel, centres that are still there keep their weights.
    posterior : bool, default=False
        Keep what `probability_interval` needs: as many numbers as the square of the number of weights in use.
    random_state : int, RandomState or None, default=None
        For the choice of ``n_centers``.
    verbose : int, default=0
        Log every iteration through the logger "smaller".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    alpha_ : float
        The strength on the scale of the sum.
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Weights; exactly zero for features that are not used. Not there with a kernel.
    active_features_ : ndarray
        Indices of the features with a non-zero weight. Not there with a kernel.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts.
    support_, support_vectors_, dual_coef_ : ndarray
        With a kernel: indices, rows and weights of the centres that are used.
    solution_ : Solution
        The certificate: objective, duality gap, violation of the optimality conditions, status, solver.
    n_iter_ : int
        Outer iterations.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray
        Their names, where X had any.

    See Also
    --------
    SMLRCV : The strength chosen by cross-validation.
    SBMLR : Nothing to tune: the strength integrated out.
    RMLR : The same model with squares for a penalty: every feature stays.
    smlr_path : All strengths at once.

    References
    ----------
    Krishnapuram, Carin, Figueiredo, Hartemink (2005). Sparse multinomial logistic regression: fast algorithms and
    generalization bounds. IEEE PAMI 27(6).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from smaller import SMLR
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SMLR(alpha=10)).fit(X, y)
    >>> len(model[-1].active_features_)
    8
    >>> model[-1].solution_.status.name
    'CONVERGED'
    """

    l1_ratio: float = number(1.0, least=0.0, most=1.0)

    def _l1_ratio(self) -> float:
        return float(checked(self, "l1_ratio"))

    def _strength(self, data: TrainingData, basis: Basis, centers: Array | None) -> float:
        alpha: float = checked(self, "alpha")
        scale = checked(self, "alpha_scale")
        if scale == "sum":
            return alpha
        return alpha * unit_of_strength(self._assemble(data, basis, centers, 1.0).problem.alpha_max, scale)

    def _located_unit(self, problem: RowProblem) -> float:
        return unit_of_strength(partial(alpha_max, problem), checked(self, "alpha_scale"))

    def _structure(self, data: TrainingData, centers: Array | None) -> Structure | None:
        columns = data.X.shape[1] if centers is None else len(centers)
        structure = structure_of(self, columns, kernel=centers is not None)
        if structure is not None and not structure.elementwise:
            refuse_ranges(self)
        if data.offset is not None:
            refuse_offset(self, "posterior")
        return structure

    def _ended(self, basis: Basis, assembly: Assembly, solution: Solution) -> None:
        self._keep(basis, assembly.problem, assembly.origin(), solution)


@with_fields
class RMLR(_MultinomialClassifier):
    """Ridge multinomial logistic regression: the Normal prior of the 2005 paper, all features kept.

    ``alpha`` multiplies the penalty against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, X_i w + b) + alpha/2 * |w|_2^2

    Two classes have one weight vector; symmetric coding of the same two classes would need twice this ``alpha``.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty; ``C = 1/alpha`` in scikit-learn.
    kernel, gamma, degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`.
    coding, fit_intercept, penalize_intercept, penalty_factors, class_weight
        As in :class:`SMLR`.
    solver, tol, max_iter, warm_start, random_state, verbose
        As in :class:`SMLR`; "auto" is Newton's method.

    Attributes
    ----------
    classes_, alpha_, coef_, intercept_, active_features_, support_, support_vectors_, dual_coef_, solution_, n_iter_
        As in :class:`SMLR`.

    See Also
    --------
    SMLR : The same model with few features.
    KLR : A kernel with the norm of its functions for a penalty.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import RMLR
    >>> X, y = load_iris(return_X_y=True)
    >>> RMLR(alpha=1.0).fit(X, y).solution_.status.name
    'CONVERGED'
    """

    def _l1_ratio(self) -> float:
        return 0.0
