"""KLR: kernel logistic regression on all rows (Zhu and Hastie 2005)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis, Whitened
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.arguments import AnyKernel
from smaller.estimators.base import Fitted
from smaller.estimators.centers import double_rows, short_indices
from smaller.estimators.fields import checked, choice, number, with_fields
from smaller.estimators.import_vectors import IVM
from smaller.estimators.kernel_machine import KernelLogistic, center_rows, generator
from smaller.estimators.located import LocatedData, refuse_unusual
from smaller.estimators.located_kernels import drawn_centers, width_of
from smaller.factors import pivoted_cholesky
from smaller.kernels import Kernel, Precomputed, resolve_gamma
from smaller.likelihoods import Multinomial
from smaller.priors import Normal
from smaller.row_problem import RowProblem
from smaller.searches.function_evidence import climb, log_evidence
from smaller.searches.submodel import Submodel
from smaller.solvers.driver import Progress
from smaller.solvers.engine import solve_rows
from smaller.validation import TrainingData

__all__ = ["IVM", "KLR"]  # IVM lived here when the first model files were written

_ALPHA_STEP, _GAMMA_STEP = 10.0**0.5, 2.0  # of the walk uphill in the evidence
_FARTHEST = 10  # steps: beyond, the labels tell nothing
_MOST_PAIRS = 39  # strengths and widths that it may visit


@with_fields
class KLR(AnyKernel, KernelLogistic):
    """Kernel logistic regression: probabilities from a kernel, certified by its duality gap.

    ``alpha`` multiplies the squared norm of the reproducing kernel Hilbert space against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, f(x_i) + b) + alpha/2 * |f|_K^2,      f(x) = sum_j a_j K(x, x_j)

    The kernel matrix is factored (pivoted Cholesky), which turns the norm into a plain ridge; Newton's method solves
    that. At the optimum of two classes ``alpha * a = y - p``. Every row is a centre, so time grows like n^3 and memory
    like n^2: beyond a few thousand rows use ``n_centers``, or :class:`IVM`, which chooses few rows well.

    Parameters
    ----------
    alpha : float or "evidence", default=1.0
        Strength of the penalty, > 0; the paper's lambda as tabulated, ``n`` times the lambda of its formula (2.3), and
        ``1/C`` of :class:`sklearn.svm.SVC`. "evidence": where Laplace's approximation of the evidence is largest, found
        by a walk in steps of ``sqrt(10)``, at most 39 fits. With K > 2 classes that takes matrices of K
        times as many rows as there are centres.
    kernel : {"rbf", "poly", "linear", "precomputed"} or callable, default="rbf"
        Symmetric and positive semi-definite.
    gamma : float, "scale", "auto", "cv" or "evidence", default="scale"
        Kernel coefficient; ``1/(2 sigma^2)`` for the paper's sigma. "cv": the likeliest for rows left out, of seven
        from 2^-6 to 2^3 times "scale" (and one more beyond an end), in five stratified folds shuffled by
        ``random_state`` (0 if None). "evidence", with ``alpha="evidence"``: both walk uphill together, this one in
        steps of 2, from the best of three widths.
    degree, coef0 : int, float
        Of the polynomial kernel.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.
    n_centers : int, default=None
        Number of rows that serve as centres; None: all.
    centers : {"random", "kmeans", "pivoted"}, default="random"
        How ``n_centers`` rows are chosen without looking at the labels: at random (Nystroem), the rows nearest to
        k-means centres, or the pivots of the Cholesky factorisation (greedy, needs the whole kernel matrix).
    fit_intercept : bool, default=True
        An intercept per class, unpenalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    tol : float, default=1e-6
        The duality gap is at most ``tol`` times the negative log-likelihood of the model without a kernel.
    max_iter : int, default=100
        Limit on Newton steps.
    memory_limit : int, default=2**30
        Largest kernel matrix in bytes; a larger one is refused with advice.
    posterior : bool, default=False
        Keep what `probability_interval` and `averaged_proba` need: as many numbers as the square of the number of
        centres, with more than two classes times that of the number of classes.
    random_state : int, RandomState or None, default=None
        For the choice of centres.
    verbose : int, default=0
        Log every iteration through the logger "smaller".

    Attributes
    ----------
    classes_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`~smaller.SMLR`.
    support_, support_vectors_, dual_coef_ : ndarray
        Rows that carry the model, and their weights (1 or n_classes, n_support). Rows whose kernel column is a
        combination of others (duplicates) are left out.
    alpha_, gamma_ : float
        Strength and width used; ``gamma_`` with kernels "rbf" and "poly".
    gammas_, gamma_scores_ : ndarray of shape (n_widths,), (n_widths, n_folds)
        With ``gamma="cv"``: the widths, and mean log-likelihoods of the rows left out.
    log_evidence_ : float
        With ``alpha="evidence"``: its logarithm at the end.
    solution_ : Solution
        The certificate, on the whitened basis.

    See Also
    --------
    IVM : Nearly the same probabilities from few rows.
    SMLR : With ``kernel=``: few centres, by a penalty on their weights.

    References
    ----------
    Zhu, Hastie (2005). Kernel logistic regression and the import vector machine. JCGS 14(1).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller.estimators.kernel_logistic import KLR
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KLR(alpha=0.1).fit(X, y)
    >>> model.solution_.status.name, round(model.score(X, y), 2)
    ('CONVERGED', 0.98)
    """

    _anywhere = True

    alpha: Any = number(1.0, least=0.0, open_left=True, words=("evidence",), kw_only=False)
    centers: str = choice("random", "kmeans", "pivoted")

    def _centers(self, data: TrainingData, kernel: Kernel, rows: Array, count: int) -> Array:
        how = checked(self, "centers")
        if how == "random":
            return super()._centers(data, kernel, rows, count)
        # Pivots are chosen when the kernel matrix is factored.
        return rows if how == "pivoted" else _nearest_to_means(data, kernel, rows, count, self.random_state)

    def _width(self, data: TrainingData) -> Any:
        """Return the width; strength and width may come from the evidence, and both are kept."""
        self.__dict__.pop("log_evidence_", None)
        by_evidence = _is_evidence(self.alpha), _is_evidence(self.gamma)
        if by_evidence == (False, True):
            raise ValueError("gamma='evidence' needs alpha='evidence': for a given alpha the evidence misleads.")
        if by_evidence[1]:
            if not (isinstance(self.kernel, str) and self.kernel in ("rbf", "poly")):
                raise ValueError("gamma='evidence' chooses the width of a kernel: it needs kernel='rbf' or 'poly'.")
            for name in ("gammas_", "gamma_scores_"):
                self.__dict__.pop(name, None)
            gamma = resolve_gamma("scale", data.X, data.weight)
        else:
            gamma = super()._width(data)
        self.alpha_ = 1.0 if by_evidence[0] else super()._strength()
        if by_evidence[0]:
            self.alpha_, gamma, self.log_evidence_ = self._by_evidence(data, gamma, moving=by_evidence[1])
        if by_evidence[1]:
            self.gamma_ = gamma
        return gamma

    def _by_evidence(self, data: TrainingData, gamma: Any, *, moving: bool) -> tuple[float, Any, float]:
        """Return strength, width and log evidence where the last is largest among neighbours, from ``(1, gamma)``."""

        def settings(place: tuple[int, int]) -> tuple[float, Any]:
            return _ALPHA_STEP ** place[0], gamma * _GAMMA_STEP ** place[1] if moving else gamma

        bases: dict[Any, tuple[Whitened, Array, Array]] = {}

        def value(place: tuple[int, int]) -> float:
            alpha, width = settings(place)
            if max(map(abs, place)) > _FARTHEST:
                return -math.inf
            if width not in bases:
                bases.clear()  # one kernel matrix at a time
                bases[width] = self._whitened(data, *self._centred(data, width))
            return log_evidence(self._fitted(data, bases[width][2], alpha))

        moves = ((-1, 0), (1, 0), (0, 1), (0, -1)) if moving else ((-1, 0), (1, 0))
        starts = tuple((i, j) for j in ((-3, 0, 3) if moving else (0,)) for i in (0, -2))
        seen = climb(value, starts=starts, moves=moves, most=_MOST_PAIRS)
        best = max(seen, key=lambda place: seen[place])
        return *settings(best), seen[best]

    def _strength(self) -> float:
        return self.alpha_

    def _whitened(self, data: TrainingData, basis: KernelBasis, centers: Array) -> tuple[Whitened, Array, Array]:
        """Return the whitened basis, the rows of its centres, and its columns on the training rows."""
        X = double_rows(data.X)
        rank = self.n_centers if self.n_centers is not None and self.centers == "pivoted" else None
        self._check_memory(len(centers))
        order, L = pivoted_cholesky(_columns(basis.kernel, X, centers), max_rank=rank)
        support = centers[order[: L.shape[1]]]
        whitened = Whitened(basis.kernel, center_rows(basis.kernel, X, support), L[: L.shape[1]])
        if len(centers) < X.shape[0]:
            return whitened, support, whitened.expand(X).X
        phi = np.empty_like(L, order="F")
        phi[order] = L
        return whitened, support, phi

    def _fitted(self, data: TrainingData, phi: Array, alpha: float) -> Submodel:
        likelihood = Multinomial(len(data.classes))
        intercept = checked(self, "fit_intercept")
        y = likelihood.encode(data.codes)
        model = Submodel(likelihood, y, data.weight, alpha, fit_intercept=intercept, phi=phi)
        model.refit(1e-20, checked(self, "max_iter"), renewing=True)
        return model

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assert isinstance(basis, KernelBasis)
        assert centers is not None
        whitened, support, phi = self._whitened(data, basis, centers)
        model = self._fitted(data, phi, self._strength())
        solution = self._certified(data, model, progress)
        self._keep_process(whitened, model, solution)
        kernel_basis = KernelBasis(basis.kernel, whitened.centers)
        dual = whitened.dual_coef(solution.w)
        return Fitted(kernel_basis, support, dual, solution.b, model.likelihood, solution)

    def _search_located(self, data: LocatedData, progress: Progress | None) -> Fitted:
        refuse_unusual(self, "centers", "random")
        for name, value in (("alpha", self.alpha), ("gamma", self.gamma)):
            if value in ("evidence", "cv"):
                raise ValueError(f"KLR({name}={value!r}) needs arrays in memory: give {name} as a number.")
        for name in ("log_evidence_", "gammas_", "gamma_scores_", "gamma_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        alpha = float(checked(self, "alpha"))
        basis, numbers = drawn_centers(self, data)
        if self.kernel in ("rbf", "poly"):
            self.gamma_ = resolve_gamma(width_of(self.gamma, data.totals), basis.centers)
        self._check_memory(len(numbers))
        drawn = np.arange(len(numbers))
        order, L = pivoted_cholesky(_columns(basis.kernel, basis.centers, drawn))
        whitened = Whitened(basis.kernel, basis.centers[order[: L.shape[1]]], L[: L.shape[1]])
        problem = RowProblem(data.rows.expanded(whitened), Normal(alpha), checked(self, "fit_intercept"))
        solution = solve_rows(problem, tol=checked(self, "tol"), max_iter=checked(self, "max_iter"), progress=progress)
        self.alpha_ = alpha
        dual = whitened.dual_coef(solution.w)
        kernel_basis = KernelBasis(basis.kernel, whitened.centers)
        likelihood = problem.rows.likelihood
        return Fitted(kernel_basis, numbers[order[: L.shape[1]]], dual, solution.b, likelihood, solution)

    def _check_memory(self, m: int) -> None:
        limit = checked(self, "memory_limit")
        if 8 * m * m > limit:
            raise ValueError(
                f"The kernel matrix of {m} centres needs {8 * m * m / 2**20:.0f} MiB, more than memory_limit: set "
                f"n_centers to a few thousand at most, use IVM, which needs few centres, or raise memory_limit."
            )


def _columns(kernel: Kernel, X: Any, rows: Array) -> Array:
    """Return the kernel matrix of some rows."""
    return np.asarray(kernel(X[rows], center_rows(kernel, X, rows)), dtype=np.float64)


def _nearest_to_means(data: TrainingData, kernel: Kernel, rows: Array, count: int, random_state: Any) -> Array:
    """Return the rows nearest to k-means centres."""
    from sklearn.cluster import KMeans  # slow to import, and seldom used

    if isinstance(kernel, Precomputed):
        raise ValueError("centers='kmeans' needs features: use 'random' or 'pivoted' with kernel='precomputed'.")
    seed = int(generator(random_state).integers(2**31))
    X = short_indices(double_rows(data.X))
    largest = max(float(abs(X).max()), 1.0)
    if largest > 1e150:
        raise ValueError(
            f"centers='kmeans' needs distances, and the squares of entries as large as {largest:.2g} are more than "
            "float64 can hold: scale the features, or use centers='random' or 'pivoted'."
        )
    means = KMeans(count, n_init=1, random_state=seed).fit(X, sample_weight=data.weight)
    return rows[np.unique(means.transform(X[rows]).argmin(axis=0))]


def _is_evidence(value: Any) -> bool:
    return isinstance(value, str) and value == "evidence"
