"""JCFO: joint classifier and feature optimisation (Krishnapuram, Hartemink, Carin, Figueiredo 2004)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.centers import balanced_centers, double_rows
from smaller.estimators.fields import checked, choice, flag, integer, number, with_fields
from smaller.estimators.intervals import NoProbabilityRanges
from smaller.estimators.screens import SCREENS, by_linear_model, by_pairs, by_separation, scores_of_pairs
from smaller.kernels import resolve_gamma
from smaller.likelihoods import Likelihood, Multinomial, Probit
from smaller.searches.scales import ScaledProblem, ScaledSolution, search_scales
from smaller.solvers.driver import Progress
from smaller.telling import tell
from smaller.validation import TrainingData

__all__ = ["JCFO", "ScaledKernels"]

_FEW = 10  # features of the screened start; with no more than these there is none
# Measured on rings and exclusive-or with 200 rows: good ends keep at most 7 scales. The share of the rows is a guess.
_MANY, _CROWDED, _CROWDED_SHARE = 20, 15, 0.05


@with_fields
class ScaledKernels(NoProbabilityRanges, KernelOrLinearClassifier):
    """Interface of JCFO with given or chosen strengths: the search for weights and scales together."""

    kernel: str = choice("rbf", "poly", "linear")
    gamma: Any = "auto"
    degree: int = 2
    n_centers: int | None = integer(None, least=1)
    centers: str = choice("random", "kmeans")
    preselect: str | None = choice(*SCREENS, optional=True)
    preselect_alpha: float = number(0.5, least=0.0, open_left=True)
    n_preselect: int = integer(50, least=1)
    likelihood: str = choice("auto", "probit", "multinomial")
    fit_intercept: bool = flag(True)
    penalize_intercept: bool = flag(False)
    starts: str = choice("screened", "equal")
    n_init: int = integer(1, least=1)
    em_iter: int = integer(30)
    max_iter: int = integer(100, least=1)

    @abstractmethod
    def _strengths(self) -> tuple[float, float]:
        """Return ``alpha`` and ``alpha_scales``."""

    def _centers(self, data: TrainingData, kernel: Any, rows: Array, count: int) -> Array:
        rng = check_random_state(self.random_state)
        X = double_rows(data.X)[rows]
        return rows[balanced_centers(X, data.codes[rows], count, checked(self, "centers"), rng)]

    def _found(
        self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None, *, warm: bool = False
    ) -> Fitted:
        """Return weights and scales at the strengths, from the last fit's if ``warm``."""
        assert isinstance(basis, KernelBasis)
        likelihood = self._chosen_likelihood(len(data.classes))
        X = double_rows(data.X)
        kept = self._preselected(data, likelihood)
        narrow = KernelBasis(basis.kernel, X[centers][:, kept])
        scaled = ScaledProblem(
            X[:, kept],
            narrow,
            likelihood.encode(data.codes),
            data.weight,
            likelihood,
            *self._strengths(),
            checked(self, "fit_intercept"),
            checked(self, "penalize_intercept"),
        )
        solution = search_scales(
            scaled,
            self._starts(X[:, kept], data.weight),
            rivals=self._rivals(replace(data, X=X[:, kept])),
            warm=self._warm(scaled, kept) if warm else None,
            em_iter=checked(self, "em_iter"),
            tol=checked(self, "tol"),
            max_iter=checked(self, "max_iter"),
            progress=progress,
        )
        self.preselected_ = kept
        self.scales_ = np.zeros(X.shape[1])
        self.scales_[kept] = solution.scales
        m = narrow.centers.shape[0]
        b = solution.w[m] if scaled.penalized else solution.b
        wide = KernelBasis(basis.kernel.rescale(self.scales_), X[centers])
        return Fitted(wide, centers, solution.w[:m], b, likelihood, solution)

    def _chosen_likelihood(self, n_classes: int) -> Likelihood:
        name = checked(self, "likelihood")
        if name == "probit" or (name == "auto" and n_classes == 2):
            return Probit(1 if n_classes == 2 else n_classes)
        return Multinomial(n_classes)

    def _starts(self, X: Any, weight: Array | None) -> Iterator[Array]:
        """Yield equal scales first, then random ones of the same mean."""
        gamma = resolve_gamma(self.gamma, X, weight)
        yield np.full(X.shape[1], gamma)
        rng = check_random_state(self.random_state)
        for _ in range(checked(self, "n_init") - 1):
            yield gamma * rng.exponential(size=X.shape[1])

    def _rivals(self, data: TrainingData) -> list[Array]:
        """Return what is judged against the first start: all scales on the features that seem to act."""
        p = data.X.shape[1]
        if checked(self, "starts") == "equal" or p <= _FEW or not self._curved:
            return []
        start = np.zeros(p)
        best = np.argsort(-scores_of_pairs(data), kind="stable")[:_FEW]
        start[best] = resolve_gamma(self.gamma, data.X, data.weight) * p / _FEW  # the same sum as that of all
        return [start]

    @property
    def _curved(self) -> bool:
        """Whether features may act together."""
        return bool(self.kernel == "rbf" or (self.kernel == "poly" and self.degree > 1))

    def _warm(self, scaled: ScaledProblem, kept: Array) -> ScaledSolution | None:
        """Return the last fit's solution if it has the shape of this problem."""
        last = getattr(self, "solution_", None)
        (m, p), q = scaled.shape, scaled.y.shape[1]
        if last is None or last.w.shape != (m + scaled.penalized, q) or last.scales.shape != (p,):
            return None
        return last if np.array_equal(kept, self.preselected_) else None

    def _preselected(self, data: TrainingData, likelihood: Likelihood) -> Array:
        how = "none" if self.preselect is None else checked(self, "preselect")
        if how == "none":
            return np.arange(data.X.shape[1])
        if how == "linear":
            strength = checked(self, "preselect_alpha")
            return by_linear_model(data, likelihood, strength)
        count = checked(self, "n_preselect")
        return by_separation(data, count) if how == "univariate" else by_pairs(data, count)

    def _store(self, data: TrainingData, fitted: Fitted) -> None:
        super()._store(data, fitted)
        self.active_features_ = np.flatnonzero(self.scales_)
        if len(self.support_) == 0:
            alpha, alpha_scales = self._strengths()
            standardise = "" if _standardised(data) else "standardise the features; "
            tell(
                f"JCFO kept no kernel at alpha={alpha:g}, alpha_scales={alpha_scales:g}: it predicts the shares of the "
                f"classes for every row. Lower alpha, then alpha_scales; {standardise}or try another gamma, the start "
                "value of the scales.",
            )
        elif self._curved:
            self._warn_crowded(data)

    def _warn_crowded(self, data: TrainingData) -> None:
        rows = len(data.codes) if data.weight is None else int(np.count_nonzero(data.weight))
        count, p = len(self.active_features_), len(self.preselected_)
        if p > _MANY and count > max(_CROWDED, _CROWDED_SHARE * rows):
            tell(
                f"JCFO keeps {count} of {p} scales: a poor local optimum, or too weak a strength. Try "
                "preselect='pairs', a larger alpha_scales, or JCFOCV.",
            )


@with_fields
class JCFO(ScaledKernels):
    """Kernel classifier that chooses its kernels and its features together.

    ``alpha`` and ``alpha_scales`` multiply their penalties against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, f(x_i)) + alpha * |w|_1 + alpha_scales * sum_k theta_k,        theta >= 0
        f(x) = b + sum_j w_j K_theta(x, x_j),      K_theta = exp(-sum_k theta_k (x_k - x_jk)^2)

    Two classes have the probit model ``P(y=1|x) = Phi(f(x))`` of the paper. A feature whose scale ``theta_k`` is zero
    is not used at all, a row whose weight ``w_j`` is zero is no centre; both kinds of zero are exact. The sum is not
    convex: EM looks for a good region, a direct descent and exact L1 solves end at a point where neither weights nor
    scales can move, and ``solution_`` says how far they are from that. Standardise the features first.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength on the weights, > 0; the paper's ``sqrt(gamma_1)``. Larger: fewer kernels.
    alpha_scales : float, default=1.0
        Strength on the scales, > 0; the paper's ``sqrt(gamma_2)``. Larger: fewer features.
    kernel : {"rbf", "poly", "linear"}, default="rbf"
        The paper's "linear kernel" is ``kernel="poly", degree=1``.
    gamma : float, "auto" or "scale", default="auto"
        Start value of every scale: ``1/p`` ("auto", for standardised features), or as in :class:`sklearn.svm.SVC`.
    degree, coef0 : int, float
        Of the polynomial kernel ``(coef0 + sum_k theta_k x_k x_jk)^degree``.
    n_centers : int, default=None
        Use that many training rows as centres, as many of every class as possible; all rows if None. Time and memory
        grow with rows times centres, so a few hundred are the choice beyond some two thousand rows.
    centers : {"random", "kmeans"}, default="random"
        How they are chosen: at random, or the rows nearest to k-means centres of each class.
    preselect : {"linear", "univariate", "pairs"} or None, default=None
        First reduce many features to few, inside `fit` and so inside every fold: to those with a weight in an L1
        model on the features themselves (the paper's way for gene expressions; blind to features that act through
        curvature or interactions alone), to those whose mean or spread differs most between the classes (blind to
        interactions such as XOR), or to those that differ most alone or as products of two (blind to interactions of
        three).
    preselect_alpha : float, default=0.5
        Strength of the linear model, at most half of the one that leaves nothing.
    n_preselect : int, default=50
        Number of features that the screens "univariate" and "pairs" keep.
    likelihood : {"auto", "probit", "multinomial"}, default="auto"
        "auto": probit for two classes, multinomial for more. "probit" with more classes is one-versus-rest with one
        set of scales.
    fit_intercept : bool, default=True
        An intercept per output, unpenalised.
    penalize_intercept : bool, default=False
        Penalise the intercept like a weight, as the paper does.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    starts : {"screened", "equal"}, default="screened"
        "equal": all scales start at ``gamma``. "screened": a second start, on the ten features that differ most between
        the classes alone or as products of two, runs beside it for a few rounds of EM, and the one with the lower
        objective goes on. There is no second start with ten features or fewer, a linear kernel, or ``em_iter=0``.
    n_init : int, default=1
        How many fits, the first from ``starts``, others from random scales; the lowest objective wins.
    em_iter : int, default=30
        Most EM iterations before the direct descent. 0 leaves EM out, which is enough, and faster, for a linear kernel.
    tol : float, default=1e-6
        At the end no weight and no scale violates its optimality condition by more than ``tol`` times its strength.
    max_iter : int, default=100
        Limit on the rounds of exact weights and scales at the end.
    warm_start : bool, default=False
        Start the next fit where the last one ended, if its shape fits: several times faster along a sequence of
        strengths. Let them grow; downwards, fits stay in the region of a first model that is too poor.
    random_state : int, RandomState or None, default=None
        For ``n_centers`` and ``n_init``.
    verbose
        As in :class:`SMLR`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    scales_ : ndarray of shape (n_features,)
        The scales; exactly zero for features that are not used.
    active_features_ : ndarray
        Indices of the features with a positive scale.
    support_, support_vectors_, dual_coef_ : ndarray
        Indices, rows and weights of the centres that are used.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercepts.
    preselected_ : ndarray
        Indices of the features that passed the preselection (all of them without one).
    solution_ : ScaledSolution
        Objective, ``weights_violation`` and ``scales_violation`` (relative to the strengths), status, and the objective
        after every step of every phase in ``phases``.
    n_iter_ : int
        Steps of all phases together.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    JCFOCV : Both strengths by cross-validation.
    IVM : Few centres, all features.
    smaller.plotting.ScalesDisplay : The features' scales as bars.

    Notes
    -----
    :class:`JCFOCV` chooses the strengths by held-out log-likelihood; errors are too coarse a measure.

    References
    ----------
    Krishnapuram, Hartemink, Carin, Figueiredo (2004). A Bayesian approach to joint feature selection and classifier
    design. IEEE PAMI 26(9).

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.estimators.jcfo import JCFO
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> y = X[:, 3] ** 2 + X[:, 7] ** 2 > 1.4
    >>> model = JCFO(alpha=1.0, alpha_scales=10.0).fit(X, y)
    >>> {3, 7} <= set(model.active_features_.tolist())
    True
    >>> model.solution_.status.name
    'STATIONARY'
    """

    alpha: float = number(1.0, least=0.0, open_left=True, kw_only=False)
    alpha_scales: float = number(1.0, least=0.0, open_left=True, kw_only=False)
    warm_start: bool = flag(False)

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        return self._found(data, basis, centers, progress, warm=checked(self, "warm_start"))

    def _strengths(self) -> tuple[float, float]:
        return checked(self, "alpha"), checked(self, "alpha_scales")


def _standardised(data: TrainingData) -> bool:
    """Whether the spread of every feature that varies is about one."""
    X = double_rows(data.X)
    c = np.ones(X.shape[0]) if data.weight is None else data.weight
    squares = X.power(2) if sparse.issparse(X) else X**2
    variance = (squares.T @ c) / c.sum() - ((X.T @ c) / c.sum()) ** 2
    spread = np.sqrt(variance[variance > 1e-12 * ((X.T @ c) / c.sum()) ** 2])
    return bool(np.all((spread > 0.5) & (spread < 2.0)))
