"""SMLRCV: the strength chosen by cross-validation along the path."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.utils.parallel import Parallel, delayed

from smaller.arrays import Array, log_partition
from smaller.bases import Basis
from smaller.designs import Design, blocks
from smaller.estimators.assembly import Assembly
from smaller.estimators.base import Fitted, KernelOrLinearClassifier, all_outputs, class_scores
from smaller.estimators.callbacks import with_callbacks
from smaller.estimators.feature_cap import affordable, check_max_features
from smaller.estimators.folds import SMALLEST_PROBABILITY, folds_of, part_of
from smaller.estimators.intervals import ProbabilityRanges
from smaller.estimators.regularization_path import as_path
from smaller.estimators.relaxed import Ended, forget_relaxed, relaxed
from smaller.estimators.smlr import SMLR
from smaller.estimators.solver_choice import check_solver
from smaller.estimators.strength import check_alpha_scale, grid_of
from smaller.priors import ElasticNet
from smaller.problem import Solution
from smaller.searches.path import PathPoint, trace_path
from smaller.solvers import make_stepper, solve
from smaller.solvers.driver import Progress
from smaller.threads import carried
from smaller.validation import (
    TrainingData,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_weight,
)

__all__ = ["SMLRCV"]


class SMLRCV(ProbabilityRanges, KernelOrLinearClassifier):
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

    def __init__(
        self,
        *,
        alphas: Any = 100,
        alpha_scale: str = "sum",
        eps: float | None = None,
        cv: Any = 5,
        scoring: Any = "neg_log_loss",
        rule: str = "min",
        max_features: int | None = None,
        relax: bool = False,
        posterior: bool = False,
        n_jobs: int | None = None,
        l1_ratio: Any = 1.0,
        kernel: Any = None,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: Any = None,
        n_centers: int | None = None,
        coding: str = "symmetric",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        penalty_factors: Any = None,
        penalty: str = "elementwise",
        feature_groups: Any = None,
        group_l1_ratio: float = 0.5,
        lower_limits: Any = None,
        upper_limits: Any = None,
        positive: bool = False,
        exclude: Any = None,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.alpha_scale = alpha_scale
        self.eps = eps
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.max_features = max_features
        self.relax = relax
        self.posterior = posterior
        self.n_jobs = n_jobs
        self.l1_ratio = l1_ratio
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_centers = n_centers
        self.coding = coding
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.penalty_factors = penalty_factors
        self.penalty = penalty
        self.feature_groups = feature_groups
        self.group_l1_ratio = group_l1_ratio
        self.lower_limits = lower_limits
        self.upper_limits = upper_limits
        self.positive = positive
        self.exclude = exclude
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit the path on all rows and on every fold, choose, and keep the chosen model.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`SMLR.fit`; held-out scores are weighted too.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter.

        Returns
        -------
        self : SMLRCV
            The fitted estimator, left as it was before if fitting fails.
        """
        return self._fit(X, y, sample_weight, partial(self._search, groups=groups, sample_weight=sample_weight))

    def _search(
        self,
        data: TrainingData,
        basis: Basis,
        centers: Array | None,
        progress: Progress | None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Fitted:
        check_choice("rule", self.rule, ("min", "1se"))
        most = check_max_features(self.max_features)
        relax = check_flag("relax", self.relax)
        forget_relaxed(self)
        ratios = [self.l1_ratio] if np.ndim(self.l1_ratio) == 0 else list(self.l1_ratio)
        ratios = [check_number("l1_ratio", ratio, least=0.0, most=1.0) for ratio in ratios]
        models = [self._model(ratio) for ratio in ratios]
        assemblies = [model._assemble(data, basis, centers, 1.0) for model in models]
        if relax and not isinstance(assemblies[0].problem.prior, ElasticNet):
            raise ValueError("relax=True refits single weights without limits: leave it out with groups and limits.")
        d = data.X.shape[1] if centers is None else len(centers)
        scale, shape = check_alpha_scale(self.alpha_scale), (data.X.shape[0], d)
        grids = [grid_of(a.problem.alpha_max, self.alphas, self.eps, scale, shape) for a in assemblies]
        options = self._options()
        walks: dict[int, list[PathPoint]] = {}
        allowed = None
        if most is not None:  # before the folds: what no strength allows is said at once
            walks = {i: trace_path(a.problem, grids[i], **options) for i, a in enumerate(assemblies)}
            allowed = affordable(list(walks.values()), assemblies, most)
        scoring_weight = check_weight(sample_weight, data.X.shape[0])
        folds = folds_of(self.cv, data, groups)
        tasks = [(i, train, test) for train, test in folds for i in range(len(ratios))]
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(carried(_score_fold))(models[i], data, scoring_weight, train, test, grids[i], self.scoring, options)
            for i, train, test in tasks
        )
        table = np.array(scores).reshape(len(folds), len(ratios), -1)
        best, chosen = _choose(table, self.rule, allowed)
        _warn_at_edge(chosen, grids[best])
        points = walks.get(best) or trace_path(assemblies[best].problem, grids[best], **options, progress=progress)
        path = as_path(assemblies[best], points, data.classes)
        self.l1_ratio_, self.alpha_ = ratios[best], float(grids[best][chosen])
        single = np.ndim(self.l1_ratio) == 0
        self.alphas_ = grids[0] if single else np.stack(grids)
        self.scores_ = table[:, 0] if single else table
        self.path_ = path
        (columns, values), b = path.used[chosen], path.intercepts[chosen]
        w = np.zeros((path.n_features, len(b)))
        w[columns] = values
        solution = Solution(
            w,
            b,
            float(path.objectives[chosen]),
            points[chosen].violation,
            float(path.gaps[chosen]),
            len(path.alphas),
            path.statuses[chosen],
            make_stepper(assemblies[best].problem, options["method"]).name,
            path.null_loss,
        )
        assembly = assemblies[best]
        fitted = Fitted(basis, centers, w, b, assembly.problem.likelihood, solution)
        ended = Ended(basis, assembly, *assembly.from_user(w, b))
        in_solvers_units = replace(solution, w=ended.w, b=ended.b)
        self._keep(basis, assembly.problem, assembly.origin(), in_solvers_units, strength=self.alpha_)
        if not relax:
            return fitted
        repeat = partial(_repeat, models[best], self.alpha_, options)
        return relaxed(self, fitted, ended, data, repeat, self.cv, groups)

    def _model(self, l1_ratio: float) -> SMLR:
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in SMLR().get_params()}
        model = SMLR(**(shared | {"l1_ratio": l1_ratio}))
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_  # which `exclude` may name
        return model

    def _options(self) -> dict[str, Any]:
        return {
            "method": check_solver(self.solver),
            "tol": check_number("tol", self.tol, least=0.0, open_left=True),
            "max_iter": check_integer("max_iter", self.max_iter, least=1),
        }


def _repeat(model: SMLR, alpha: float, options: dict[str, Any], data: TrainingData) -> Ended:
    """Fit other rows at the chosen strength: the point of their path, reached directly."""
    basis, centers = model._basis(data)
    assembly = model._assemble(data, basis, centers, 1.0)
    problem = assembly.problem
    assert isinstance(problem.prior, ElasticNet)
    solution = solve(problem.with_prior(problem.prior.times(alpha)), **options)
    return Ended(basis, assembly, solution.w, solution.b)


def _choose(scores: Array, rule: str, allowed: Array | None = None) -> tuple[int, int]:
    """Return the indices of the best mix and of the chosen strength; ties go to the larger alpha.

    ``scores`` is (n_folds, n_l1_ratios, n_alphas), alphas decreasing, larger is better. Only what is ``allowed``
    (n_l1_ratios, n_alphas) takes part.
    """
    scores = scores[~np.isnan(scores).all(axis=(1, 2))]  # without the folds that hold out no weight
    mean = scores.mean(axis=0) if len(scores) else np.full(scores.shape[1:], np.nan)
    if allowed is not None:
        mean = np.where(allowed, mean, np.nan)
    if np.isnan(mean).all():
        raise ValueError("scoring returned NaN for every alpha.")
    best, chosen = np.unravel_index(int(np.nanargmax(mean)), mean.shape)
    if rule == "1se" and len(scores) > 1:
        error = scores[:, best, chosen].std(ddof=1) / np.sqrt(len(scores))
        chosen = np.flatnonzero(mean[best] >= mean[best, chosen] - error)[0]
    return int(best), int(chosen)


def _warn_at_edge(chosen: int, alphas: Array) -> None:
    if len(alphas) > 1 and chosen == len(alphas) - 1:
        warnings.warn(
            f"The chosen alpha {alphas[-1]:.4g} is the smallest of the grid, so a smaller one may be better: "
            "lower eps, or give smaller alphas.",
            UserWarning,
            stacklevel=4,
        )


def _score_fold(
    model: SMLR,
    data: TrainingData,
    scoring_weight: Array | None,
    train: Array,
    test: Array,
    alphas: Array,
    scoring: Any,
    options: dict[str, Any],
) -> Array:
    """Return the held-out score of every strength; classes absent from the fold have probability zero.

    A fold whose held-out rows have no weight has nothing to say: NaN.
    """
    test_weight = None if scoring_weight is None else scoring_weight[test]
    if test_weight is not None and not test_weight.any():
        return np.full(len(alphas), np.nan)
    part, X_test, present = part_of(data, train, test, pairwise=model._precomputed)
    basis, centers = model._basis(part)
    assembly = model._assemble(part, basis, centers, 1.0)
    points = trace_path(assembly.problem, alphas, **options)
    held_out = basis.expand(X_test)
    parts = blocks(len(points), 8 * points[0].n_columns * points[0].values.shape[1])
    known = np.concatenate([_log_probabilities(assembly, held_out, points[part]) for part in parts], axis=1)
    log_proba = np.full((*known.shape[:2], len(data.classes)), np.log(SMALLEST_PROBABILITY))
    log_proba[:, :, present] = known
    codes = data.codes[test]
    if scoring == "neg_log_loss":
        rows = np.maximum(log_proba[np.arange(len(test)), :, codes], np.log(SMALLEST_PROBABILITY))
        return np.average(rows, axis=0, weights=test_weight)
    scorer = get_scorer(scoring)
    keywords = {} if test_weight is None else {"sample_weight": test_weight}
    rows = np.arange(len(test))[:, None]
    fixed = [_Fixed(log_proba[:, i], data.classes) for i in range(len(points))]
    try:
        return np.array([scorer(model, rows, data.classes[codes], **keywords) for model in fixed])
    except ValueError as error:
        absent = np.setdiff1d(np.arange(len(data.classes)), codes)
        if not len(absent):
            raise
        raise ValueError(
            f"scoring={scoring!r} cannot judge a fold that holds out no row of class "
            f"{data.classes[absent[0]].item()!r}: use fewer folds (cv), or scoring='neg_log_loss'."
        ) from error


def _log_probabilities(assembly: Assembly, held_out: Design, points: list[PathPoint]) -> Array:
    """Return them for (rows, strengths, classes), by one product with the design."""
    columns, rows = np.unique(np.concatenate([point.columns for point in points]), return_inverse=True)
    w = np.zeros((len(columns), len(points), points[0].values.shape[1]))
    owner = np.repeat(np.arange(len(points)), [len(point.columns) for point in points])
    w[rows, owner] = np.concatenate([point.values for point in points])
    w = w.reshape(len(columns), len(points) * points[0].values.shape[1])
    b = np.concatenate([point.b for point in points])
    if assembly.plain:
        held_out = held_out.take(columns)
    else:
        everywhere = np.zeros((points[0].n_columns, w.shape[1]))
        everywhere[columns] = w
        w, b = assembly.to_user(everywhere, b)
    likelihood = assembly.problem.likelihood
    eta = all_outputs((held_out.forward(w) + b).reshape(-1, likelihood.n_outputs), likelihood)
    scores = class_scores(eta[:, 0] if eta.shape[1] == 1 else eta, likelihood)
    log_proba = scores - log_partition(scores, pinned=False)[0][:, None]
    return log_proba.reshape(held_out.shape[0], len(points), -1)


class _Fixed(ClassifierMixin, BaseEstimator):
    """A classifier whose answers are known already, so that any scikit-learn scorer can judge them.

    Its "features" are the numbers of the rows.
    """

    def __init__(self, log_proba: Array, classes: Array) -> None:
        self.log_proba = log_proba
        self.classes_ = classes

    def decision_function(self, X: Any) -> Array:
        rows = self.predict_log_proba(X)
        return rows[:, 1] - rows[:, 0] if rows.shape[1] == 2 else rows

    def predict_log_proba(self, X: Any) -> Array:
        return self.log_proba[X[:, 0]]

    def predict_proba(self, X: Any) -> Array:
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]
