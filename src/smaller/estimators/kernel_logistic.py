"""KLR: kernel logistic regression on all rows (Zhu and Hastie 2005)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from smaller.arrays import Array
from smaller.bases import Basis, Whitened
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.base import Fitted
from smaller.estimators.centers import double_rows
from smaller.estimators.import_vectors import IVM
from smaller.estimators.kernel_machine import KernelLogistic, center_rows, generator
from smaller.factors import pivoted_cholesky
from smaller.kernels import Kernel, Precomputed
from smaller.likelihoods import Multinomial
from smaller.searches.submodel import Submodel
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_choice, check_flag, check_integer

__all__ = ["IVM", "KLR"]  # IVM lived here when the first model files were written


class KLR(KernelLogistic):
    """Kernel logistic regression: probabilities from a kernel, certified by its duality gap.

    ``alpha`` multiplies the squared norm of the reproducing kernel Hilbert space against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, f(x_i) + b) + alpha/2 * |f|_K^2,      f(x) = sum_j a_j K(x, x_j)

    The kernel matrix is factored (pivoted Cholesky), which turns the norm into a plain ridge; Newton's method solves
    that. At the optimum of two classes ``alpha * a = y - p``. Every row is a centre, so time grows like n^3 and memory
    like n^2: beyond a few thousand rows use ``n_centers``, or :class:`IVM`, which chooses few rows well.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, > 0; the paper's lambda as tabulated, ``n`` times the lambda of its formula (2.3), and
        ``1/C`` of :class:`sklearn.svm.SVC`.
    kernel : {"rbf", "poly", "linear", "precomputed"} or callable, default="rbf"
        Symmetric and positive semi-definite.
    gamma : float, "scale" or "auto", default="scale"
        Kernel coefficient; ``1/(2 sigma^2)`` for the paper's sigma.
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
    solution_ : Solution
        The certificate, on the whitened basis.

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

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: Any = None,
        n_centers: int | None = None,
        centers: str = "random",
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        memory_limit: int = 1 << 30,
        posterior: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_centers = n_centers
        self.centers = centers
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.memory_limit = memory_limit
        self.posterior = posterior
        self.random_state = random_state
        self.verbose = verbose

    def _basis(self, data: TrainingData) -> tuple[Basis, Array | None]:
        how = check_choice("centers", self.centers, ("random", "kmeans", "pivoted"))
        if self.n_centers is None or how == "random":
            return super()._basis(data)
        basis, rows = clone(self).set_params(n_centers=None)._basis(data)
        if how == "kmeans":
            rows = _nearest_to_means(data, basis.kernel, rows, self.n_centers, self.random_state)
        return basis, rows

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assert isinstance(basis, KernelBasis)
        assert centers is not None
        alpha, X = self._strength(), double_rows(data.X)
        rank = self.n_centers if self.n_centers is not None and self.centers == "pivoted" else None
        self._check_memory(len(centers))
        order, L = pivoted_cholesky(_columns(basis.kernel, X, centers), max_rank=rank)
        support = centers[order[: L.shape[1]]]
        whitened = Whitened(basis.kernel, center_rows(basis.kernel, X, support), L[: L.shape[1]])
        if len(centers) == X.shape[0]:
            phi = np.empty_like(L, order="F")
            phi[order] = L
        else:
            phi = whitened.expand(X).X
        likelihood = Multinomial(len(data.classes))
        model = Submodel(
            likelihood,
            likelihood.encode(data.codes),
            data.weight,
            alpha,
            fit_intercept=check_flag("fit_intercept", self.fit_intercept),
            phi=phi,
        )
        model.refit(1e-20, check_integer("max_iter", self.max_iter, least=1), renewing=True)
        solution = self._certified(data, model, progress)
        self._keep_process(whitened, model, solution)
        kernel_basis = KernelBasis(basis.kernel, whitened.centers)
        return Fitted(kernel_basis, support, whitened.dual_coef(solution.w), solution.b, likelihood, solution)

    def _check_memory(self, m: int) -> None:
        limit = check_integer("memory_limit", self.memory_limit, least=1)
        if 8 * m * m > limit:
            raise ValueError(
                f"The kernel matrix of {m} centres needs {8 * m * m / 2**20:.0f} MiB, more than memory_limit: set "
                f"n_centers to a few thousand at most, use IVM, which needs few centres, or raise memory_limit."
            )


def _columns(kernel: Kernel, X: Any, rows: Array) -> Array:
    """Return the kernel matrix of some rows."""
    return np.asarray(kernel(X[rows], center_rows(kernel, X, rows)), dtype=np.float64)


def _nearest_to_means(data: TrainingData, kernel: Kernel, rows: Array, count: Any, random_state: Any) -> Array:
    """Return the rows nearest to k-means centres."""
    if isinstance(kernel, Precomputed):
        raise ValueError("centers='kmeans' needs features: use 'random' or 'pivoted' with kernel='precomputed'.")
    count = min(check_integer("n_centers", count, least=1), len(rows))
    seed = int(generator(random_state).integers(2**31))
    X = double_rows(data.X)
    means = KMeans(count, n_init=1, random_state=seed).fit(X, sample_weight=data.weight)
    return rows[np.unique(means.transform(X[rows]).argmin(axis=0))]
