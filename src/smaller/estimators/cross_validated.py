"""SMLRCV: the strength chosen by cross-validation along the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from smaller.arrays import Array
from smaller.bases import Basis, Linear
from smaller.estimators.arguments import FoldArguments, MultinomialArguments, StructureArguments
from smaller.estimators.base import Fitted
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.cv_elsewhere import cross_paths
from smaller.estimators.feature_cap import affordable, check_max_features
from smaller.estimators.fields import checked, flag, with_fields
from smaller.estimators.fold_scores import choose, score_fold, warn_at_edge
from smaller.estimators.folds import folds_of
from smaller.estimators.intervals import ProbabilityRanges
from smaller.estimators.located import LocatedData, refuse_unusual
from smaller.estimators.offsets import OffsetClassifier, refuse_offset
from smaller.estimators.regularization_path import RegularizationPath, as_path
from smaller.estimators.relaxed import Ended, forget_relaxed, relaxed
from smaller.estimators.smlr import SMLR
from smaller.estimators.solver_choice import check_solver
from smaller.estimators.strength import grid_of
from smaller.priors import ElasticNet
from smaller.problem import Problem, Solution
from smaller.searches.path import PathPoint, trace_path
from smaller.solvers import make_stepper, solve
from smaller.solvers.driver import Progress
from smaller.threads import carried
from smaller.validation import (
    TrainingData,
    check_number,
    check_weight,
)

__all__ = ["SMLRCV"]


@with_fields
class SMLRCV(FoldArguments, StructureArguments, ProbabilityRanges, MultinomialArguments, OffsetClassifier):
    """Sparse multinomial logistic regression with the strength chosen by cross-validation.

    One path on all rows and one per fold, all on the same grid; see :class:`SMLR` for the model. Scaling belongs in a
    pipeline *around* this estimator only if it does not look at y; to keep every fold honest put the scaler and
    ``SMLRCV`` into a pipeline and cross-validate that.

    Parameters
    ----------
    alphas : int or array-like, default=100
        Number of log-spaced strengths below the one that zeroes every weight, or the strengths themselves.
    alpha_scale : {"sum", "max"}, default="sum"
        What a list of ``alphas`` holds: strengths, or shares of the one that zeroes every weight on all rows. Folds use
        the same strengths.
    eps : float, default=None
        Smallest strength as a fraction of the largest: 1e-2 if there are more columns than rows, else 1e-3.
    cv : int, splitter or iterable, default=5
        Folds; an integer means stratified folds.
    scoring : str or callable, default="neg_log_loss"
        What is maximised on the held-out rows.
    rule : {"min", "1se"}, default="min"
        The best mean score, or the *largest* alpha within one standard error of it (a sparser model).
    max_features : int, default=None
        Choose among the strengths that keep at most so many features (with a kernel: centres) on all rows; ``scores_``
        still holds all strengths, so what the cap costs can be read there.
    relax : bool, default=False
        Take the shrinkage out of the probabilities, as far as rows left out confirm it: ``coef_`` becomes ``a``
        times the penalised weights plus ``c`` times a refit of their support, a ridge whose strength is its own
        evidence. The folds are those of ``cv``, at the chosen ``alpha``.
    posterior : bool, default=False
        Keep what `probability_interval` needs: as many numbers as the square of the number of weights in use.
    n_jobs : int, default=None
        Folds fitted in parallel.
    l1_ratio : float or list of floats, default=1.0
        Mix of the penalties; of several values the best is chosen.
    kernel, gamma, degree, coef0, kernel_params, n_centers
        As in :class:`SMLR`.
    coding, fit_intercept, penalize_intercept, penalty_factors, class_weight
        As in :class:`SMLR`.
    penalty, feature_groups, group_l1_ratio, lower_limits, upper_limits, positive, exclude
        As in :class:`SMLR`; groups and limits go without ``relax`` and ``posterior``.
    solver, tol, max_iter, random_state, verbose
        As in :class:`SMLR`.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        The chosen strength, on the scale of the sum, and mix.
    alphas_ : ndarray of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        The grid, largest first.
    scores_ : ndarray of shape (n_folds, n_alphas) or (n_folds, n_l1_ratios, n_alphas)
        Held-out scores; NaN for a fold that holds out no weight.
    path_ : RegularizationPath
        The path on all rows, for the chosen mix; always without ``relax``.
    relax_, penalized_coef_, penalized_intercept_, penalized_dual_coef_, refit_strength_
        With ``relax``, as in :class:`SBMLR`; what ``solution_`` certifies are the penalised weights.
    classes_, coef_, intercept_, active_features_, support_, support_vectors_, dual_coef_, solution_, n_iter_
        As in :class:`SMLR`, at the chosen strength.

    See Also
    --------
    SMLR : A strength that you know.
    SBMLR : Several times faster, and no folds: the strength integrated out.
    StabilitySelection : Which of the chosen features other rows would choose as well.
    smaller.plotting.CVDisplay : The held-out score along the strengths.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from smaller import SMLRCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SMLRCV(alphas=30, rule="1se").fit(scale(X), y)
    >>> model.scores_.shape
    (5, 30)
    """

    _anywhere = True

    alphas: Any = 100
    eps: float | None = None
    scoring: Any = "neg_log_loss"
    max_features: int | None = None
    relax: bool = flag(False)
    l1_ratio: Any = 1.0
    solver: str = "auto"

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None) -> Any:
        """Fit the path on all rows and on every fold, choose, and keep the chosen model.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`SMLR.fit`; held-out scores are weighted too.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter; for rows that are elsewhere there is none.
        offset : array-like of shape (n_samples,) or (n_samples, n_classes), default=None
            As in :meth:`SMLR.fit`.

        Returns
        -------
        self : SMLRCV
            The fitted estimator, left as it was before if fitting fails.
        """
        search = partial(self._search, groups=groups, sample_weight=sample_weight)
        return self._fit(X, y, sample_weight, search, self._check(X, offset))

    def _search_located(self, data: LocatedData, progress: Progress | None) -> Fitted:
        for argument, usual in (("kernel", None), ("scoring", "neg_log_loss"), ("relax", False)):
            refuse_unusual(self, argument, usual)
        forget_relaxed(self)
        models = [self._model(ratio) for ratio in self._ratios()]
        found = cross_paths(
            models,
            data,
            alphas=self.alphas,
            eps=self.eps,
            scale=checked(self, "alpha_scale"),
            cv=self.cv,
            seed=self.random_state,
            most=check_max_features(self.max_features),
            progress=progress,
            **{name: value for name, value in self._options().items() if name != "method"},
        )
        best, chosen = choose(found.scores, self.rule, found.allowed)
        path = found.path(best, data.classes)
        solution = self._keep_choice(found.grids, found.scores, best, chosen, path, found.paths[best].points, "engine")
        return Fitted(Linear(), None, solution.w, solution.b, found.units[best].likelihood, solution)

    def _ratios(self) -> list[float]:
        given = [self.l1_ratio] if np.ndim(self.l1_ratio) == 0 else list(self.l1_ratio)
        return [check_number("l1_ratio", ratio, least=0.0, most=1.0) for ratio in given]

    def _keep_choice(
        self,
        grids: list[Array],
        table: Array,
        best: int,
        chosen: int,
        path: RegularizationPath,
        points: Sequence[PathPoint],
        solver: str,
    ) -> Solution:
        """Keep the grid, the scores and the path; return the chosen point of it."""
        warn_at_edge(chosen, grids[best])
        self.l1_ratio_, self.alpha_ = self._ratios()[best], float(grids[best][chosen])
        single = np.ndim(self.l1_ratio) == 0
        self.alphas_ = grids[0] if single else np.stack(grids)
        self.scores_ = table[:, 0] if single else table
        self.path_ = path
        (columns, values), b = path.used[chosen], path.intercepts[chosen]
        w = np.zeros((path.n_features, len(b)))
        w[columns] = values
        gap = points[chosen].gap
        return Solution(
            w,
            b,
            float(path.objectives[chosen]),
            points[chosen].violation,
            None if gap is None else float(gap),
            len(path.alphas),
            path.statuses[chosen],
            solver,
            path.null_loss,
        )

    def _search(
        self,
        data: TrainingData,
        basis: Basis,
        centers: Array | None,
        progress: Progress | None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Fitted:
        most = check_max_features(self.max_features)
        relax = checked(self, "relax")
        forget_relaxed(self)
        if data.offset is not None or data.shares is not None:
            refuse_offset(self, "relax")
        ratios = self._ratios()
        models = [self._model(ratio) for ratio in ratios]
        assemblies = [model._assemble(data, basis, centers, 1.0) for model in models]
        if relax:
            _refuse_structure(assemblies[0].problem)
        d = data.X.shape[1] if centers is None else len(centers)
        scale, shape = checked(self, "alpha_scale"), (data.X.shape[0], d)
        grids = [grid_of(a.problem.alpha_max, self.alphas, self.eps, scale, shape) for a in assemblies]
        options = self._options()
        walks: dict[int, list[PathPoint]] = {}
        allowed = None
        if most is not None:  # before the folds: what no strength allows is said at once
            walks = {i: trace_path(a.problem, grids[i], **options) for i, a in enumerate(assemblies)}
            allowed = affordable(list(walks.values()), assemblies, most)
        scoring_weight = check_weight(sample_weight, data.X.shape[0])
        table = self._held_out_scores(models, data, scoring_weight, grids, options, groups)
        best, chosen = choose(table, self.rule, allowed)
        points = walks.get(best) or trace_path(assemblies[best].problem, grids[best], **options, progress=progress)
        assembly = assemblies[best]
        null = assembly.problem.null()
        path = as_path(assembly, points, data.classes, null.loss)
        name = make_stepper(assembly.problem, options["method"]).name
        solution = self._keep_choice(grids, table, best, chosen, path, points, name)
        solution = replace(solution, scale=assembly.problem.scale(null))
        fitted = Fitted(basis, centers, solution.w, solution.b, assembly.problem.likelihood, solution)
        ended = Ended(basis, assembly, *assembly.from_user(solution.w, solution.b))
        in_solvers_units = replace(solution, w=ended.w, b=ended.b)
        self._keep(basis, assembly.problem, assembly.origin(), in_solvers_units, strength=self.alpha_)
        if not relax:
            return fitted
        repeat = partial(_repeat, models[best], self.alpha_, options)
        return relaxed(self, fitted, ended, data, repeat, self.cv, groups)

    def _held_out_scores(
        self,
        models: list[SMLR],
        data: TrainingData,
        weight: Array | None,
        grids: list[Array],
        options: dict[str, Any],
        groups: Any,
    ) -> Array:
        """Return the scores (folds, mixes, strengths) on the rows left out."""
        folds = folds_of(self.cv, data, groups)
        tasks = [(i, train, test) for train, test in folds for i in range(len(models))]
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(carried(score_fold))(models[i], data, weight, train, test, grids[i], self.scoring, options)
            for i, train, test in tasks
        )
        return np.array(scores).reshape(len(folds), len(models), -1)

    def _model(self, l1_ratio: float) -> SMLR:
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in SMLR().get_params()}
        model = SMLR(**(shared | {"l1_ratio": l1_ratio}))
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_  # which `exclude` may name
        return model

    def _options(self) -> dict[str, Any]:
        return {
            "method": check_solver(self.solver),
            "tol": checked(self, "tol"),
            "max_iter": checked(self, "max_iter"),
        }


def _refuse_structure(problem: Problem) -> None:
    if not isinstance(problem.prior, ElasticNet):
        raise ValueError("relax=True refits single weights without limits: leave it out with groups and limits.")


def _repeat(model: SMLR, alpha: float, options: dict[str, Any], data: TrainingData) -> Ended:
    """Fit other rows at the chosen strength: the point of their path, reached directly."""
    basis, centers = model._basis(data)
    assembly = model._assemble(data, basis, centers, 1.0)
    problem = assembly.problem
    assert isinstance(problem.prior, ElasticNet)
    solution = solve(problem.with_prior(problem.prior.times(alpha)), **options)
    return Ended(basis, assembly, solution.w, solution.b)
