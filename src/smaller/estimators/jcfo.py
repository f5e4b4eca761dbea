"""JCFO: joint classifier and feature optimisation (Krishnapuram, Hartemink, Carin, Figueiredo 2004)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.bases import Kernel as KernelBasis
from smaller.designs import as_design
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.intervals import NoProbabilityRanges
from smaller.kernels import resolve_gamma
from smaller.likelihoods import Likelihood, Multinomial, Probit
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.scales import ScaledProblem, ScaledSolution, search_scales
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_choice, check_flag, check_integer, check_number

__all__ = ["JCFO"]


class JCFO(NoProbabilityRanges, KernelOrLinearClassifier):
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
    preselect : {"linear", "univariate"} or None, default=None
        First reduce many features to few, inside `fit` and so inside every fold: to those with a weight in an L1
        model on the features themselves (the paper's way for gene expressions; blind to features that act through
        curvature or interactions alone), or to those whose mean or spread differs most between the classes (blind to
        interactions such as XOR).
    preselect_alpha : float, default=0.5
        Strength of the linear model, at most half of the one that leaves nothing.
    n_preselect : int, default=50
        Number of features that the univariate screen keeps.
    likelihood : {"auto", "probit", "multinomial"}, default="auto"
        "auto": probit for two classes, multinomial for more. "probit" with more classes is one-versus-rest with one
        set of scales.
    fit_intercept : bool, default=True
        An intercept per output, unpenalised.
    penalize_intercept : bool, default=False
        Penalise the intercept like a weight, as the paper does.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    n_init : int, default=1
        Starts: the first with all scales equal, others with random scales; the lowest objective wins.
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
    verbose : int, default=0
        Log every iteration through the logger "smaller".

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

    kernel_params = None  # the interface's; a callable kernel has no scales

    def __init__(
        self,
        alpha: float = 1.0,
        alpha_scales: float = 1.0,
        *,
        kernel: str = "rbf",
        gamma: Any = "auto",
        degree: int = 2,
        coef0: float = 1.0,
        n_centers: int | None = None,
        centers: str = "random",
        preselect: str | None = None,
        preselect_alpha: float = 0.5,
        n_preselect: int = 50,
        likelihood: str = "auto",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        n_init: int = 1,
        em_iter: int = 30,
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.alpha_scales = alpha_scales
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_centers = n_centers
        self.centers = centers
        self.preselect = preselect
        self.preselect_alpha = preselect_alpha
        self.n_preselect = n_preselect
        self.likelihood = likelihood
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.n_init = n_init
        self.em_iter = em_iter
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _basis(self, data: TrainingData) -> tuple[Basis, Array | None]:
        check_choice("kernel", self.kernel, ("rbf", "poly", "linear"))
        how = check_choice("centers", self.centers, ("random", "kmeans"))
        if self.n_centers is None:
            return super()._basis(data)
        count = check_integer("n_centers", self.n_centers, least=1)
        basis, rows = clone(self).set_params(n_centers=None)._basis(data)
        if count >= len(rows):
            return basis, rows
        rng = check_random_state(self.random_state)
        chosen = _balanced_centers(_rows(data.X)[rows], data.codes[rows], count, how, rng)
        return basis.take(chosen), rows[chosen]

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assert isinstance(basis, KernelBasis)
        likelihood = self._chosen_likelihood(len(data.classes))
        X = _rows(data.X)
        kept = self._preselected(data, likelihood)
        narrow = KernelBasis(basis.kernel, X[centers][:, kept])
        scaled = ScaledProblem(
            X[:, kept],
            narrow,
            likelihood.encode(data.codes),
            data.weight,
            likelihood,
            *self._strengths(),
            check_flag("fit_intercept", self.fit_intercept),
            check_flag("penalize_intercept", self.penalize_intercept),
        )
        solution = search_scales(
            scaled,
            self._starts(X[:, kept], data.weight),
            warm=self._warm(scaled, kept) if check_flag("warm_start", self.warm_start) else None,
            em_iter=check_integer("em_iter", self.em_iter),
            tol=check_number("tol", self.tol, least=0.0, open_left=True),
            max_iter=check_integer("max_iter", self.max_iter, least=1),
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
        name = check_choice("likelihood", self.likelihood, ("auto", "probit", "multinomial"))
        if name == "probit" or (name == "auto" and n_classes == 2):
            return Probit(1 if n_classes == 2 else n_classes)
        return Multinomial(n_classes)

    def _starts(self, X: Any, weight: Array | None) -> Iterator[Array]:
        """Yield equal scales first, then random ones of the same mean."""
        gamma = resolve_gamma(self.gamma, X, weight)
        yield np.full(X.shape[1], gamma)
        rng = check_random_state(self.random_state)
        for _ in range(check_integer("n_init", self.n_init, least=1) - 1):
            yield gamma * rng.exponential(size=X.shape[1])

    def _warm(self, scaled: ScaledProblem, kept: Array) -> ScaledSolution | None:
        """Return the last fit's solution if it has the shape of this problem."""
        last = getattr(self, "solution_", None)
        (m, p), q = scaled.shape, scaled.y.shape[1]
        if last is None or last.w.shape != (m + scaled.penalized, q) or last.scales.shape != (p,):
            return None
        return last if np.array_equal(kept, self.preselected_) else None

    def _preselected(self, data: TrainingData, likelihood: Likelihood) -> Array:
        if self.preselect is None:
            return np.arange(data.X.shape[1])
        how = check_choice("preselect", self.preselect, ("linear", "univariate"))
        if how == "univariate":
            count = check_integer("n_preselect", self.n_preselect, least=1)
            separation = _class_separation(data)
            return np.sort(np.argsort(-separation, kind="stable")[:count])
        strength = check_number("preselect_alpha", self.preselect_alpha, least=0.0, open_left=True)
        problem = Problem(
            as_design(data.X), likelihood.encode(data.codes), data.weight, likelihood, Laplace(1.0), fit_intercept=True
        )
        largest = problem.alpha_max()
        solution = solve(problem.with_prior(Laplace(min(strength, 0.5 * largest) or 1.0)), tol=1e-4)
        kept = np.flatnonzero(solution.w.any(axis=1))
        return kept if len(kept) else np.arange(data.X.shape[1])

    def _store(self, data: TrainingData, fitted: Fitted) -> None:
        super()._store(data, fitted)
        self.active_features_ = np.flatnonzero(self.scales_)
        if len(self.support_) == 0:
            alpha, alpha_scales = self._strengths()
            warnings.warn(
                f"JCFO kept no kernel at alpha={alpha:g}, alpha_scales={alpha_scales:g}: it predicts the shares of the "
                "classes for every row. Lower alpha, then alpha_scales; standardise the features; or try another "
                "gamma, the start value of the scales.",
                stacklevel=4,
            )

    def _strengths(self) -> tuple[float, float]:
        return (
            check_number("alpha", self.alpha, least=0.0, open_left=True),
            check_number("alpha_scales", self.alpha_scales, least=0.0, open_left=True),
        )


def _rows(X: Any) -> Any:
    """Return the data ready to be cut by rows and columns, in double precision: descent on F needs it."""
    return sparse.csr_array(X).astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def _balanced_centers(X: Any, codes: Array, count: int, how: str, rng: Any) -> Array:
    """Return ``count`` row indices, equally many of every class as far as its rows go."""
    sizes = np.bincount(codes)
    chosen, left = [], count
    for i, k in enumerate(np.argsort(sizes, kind="stable")):  # what small classes cannot use goes to the larger
        rows = np.flatnonzero(codes == k)
        share = min(len(rows), left // (len(sizes) - i))
        left -= share
        if share == 0:
            continue
        if how == "kmeans" and share < len(rows):
            means = KMeans(share, n_init=1, random_state=rng.randint(2**31 - 1)).fit(X[rows])
            chosen.append(rows[np.unique(means.transform(X[rows]).argmin(axis=0))])
        else:
            chosen.append(rng.choice(rows, share, replace=False))
    return np.sort(np.concatenate(chosen))


def _class_separation(data: TrainingData) -> Array:
    """Return for every feature the share of its variance between the classes; of its squares' variance if larger."""
    X, weight = _rows(data.X), np.ones(len(data.codes)) if data.weight is None else data.weight
    members = (data.codes[:, None] == np.arange(len(data.classes))) * weight[:, None]
    totals = members.sum(axis=0)

    def share(Z: Any) -> Array:
        means = (Z.T @ members) / totals  # (p, K)
        mean = (means @ totals) / totals.sum()
        between = (means - mean[:, None]) ** 2 @ totals
        spread = np.asarray((Z.power(2) if sparse.issparse(Z) else Z**2).T @ weight) - totals.sum() * mean**2
        constant = spread <= 1e-12 * totals.sum() * mean**2
        return np.where(constant, 0.0, between / np.where(constant, 1.0, spread))

    if sparse.issparse(X):
        return np.maximum(share(X), share(X.power(2)))
    centred = X - (weight @ X) / weight.sum()
    return np.maximum(share(centred), share(centred**2))
