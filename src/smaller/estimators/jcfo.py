"""JCFO: joint classifier and feature optimisation (Krishnapuram, Hartemink, Carin, Figueiredo 2004)."""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.base import Fitted
from smaller.estimators.fields import checked, flag, number, with_fields
from smaller.estimators.scaled_kernels import Ready, ScaledKernels
from smaller.searches.scales import ScaledSolution
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData

__all__ = ["JCFO"]


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
    n_centers : int, "auto" or None, default="auto"
        Use that many training rows as centres, as many of every class as possible; all rows if None. "auto", with more
        than 200 rows: the search runs with 200 centres; then all rows, at most 2000, may become centres, and the fit
        goes on to a point that is stationary for these. Features that act only through centres that the first stage
        lacks enter at the end, or are missed.
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
        For ``n_centers`` (0 with "auto", if None) and ``n_init``.
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
        ready = self._ready(data, basis, centers)
        warm = self._warm(ready) if checked(self, "warm_start") else None
        return self._found(data, ready, warm, progress)

    def _strengths(self) -> tuple[float, float]:
        return checked(self, "alpha"), checked(self, "alpha_scales")

    def _warm(self, ready: Ready) -> ScaledSolution | None:
        """Return the last fit's solution if it has the shape of this problem."""
        last = getattr(self, "solution_", None)
        (m, p), q = ready.scaled.shape, ready.scaled.y.shape[1]
        if last is None or last.w.shape != (m + ready.scaled.penalized, q) or last.scales.shape != (p,):
            return None
        return last if np.array_equal(ready.kept, self.preselected_) else None
