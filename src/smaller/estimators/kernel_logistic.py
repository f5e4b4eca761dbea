"""KLR and IVM: kernel logistic regression, on all rows or on few import points (Zhu and Hastie 2005)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.bases import Basis, Whitened
from smaller.bases import Kernel as KernelBasis
from smaller.designs import Dense
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.intervals import ProbabilityRanges, kept_posterior
from smaller.inference import approximate_process
from smaller.kernels import Kernel, Precomputed
from smaller.likelihoods import Multinomial
from smaller.papers import SELECTIONS
from smaller.priors import Normal
from smaller.problem import Problem, Solution
from smaller.searches.forward import Forward, ImportPath, by_promise, select
from smaller.searches.submodel import Submodel
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_choice, check_flag, check_integer, check_number, check_rows

__all__ = ["IVM", "KLR", "pivoted_cholesky"]


def pivoted_cholesky(K: Array, *, max_rank: int | None = None) -> tuple[Array, Array]:
    """Factor ``K[order][:, order] = L L'``, largest remaining diagonal first, until rounding is left.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semi-definite; anything else is an error.
    max_rank : int, default=None
        Stop at this rank.

    Returns
    -------
    order : ndarray of shape (n,)
        Rows in the order of their choice; the first ``r`` are the pivots.
    L : ndarray of shape (n, r)
        Lower trapezoidal.

    Examples
    --------
    >>> import numpy as np
    >>> order, L = pivoted_cholesky(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]))
    >>> int(order[0]), L.shape
    (2, (3, 2))
    """
    n = len(K)
    scale = float(np.abs(K).max(initial=0.0))
    factor, order, rank, _ = linalg.lapack.dpstrf(K, lower=1, tol=n * np.finfo(np.float64).eps * scale)
    order = order.astype(np.int64) - 1
    L = np.tril(factor)[:, :rank]
    # One probe sees a matrix that is not symmetric, or not semi-definite: LL' then differs from it.
    probe = np.cos(np.arange(1.0, n + 1.0))
    error = K[np.ix_(order, order)] @ probe - L @ (L.T @ probe)
    skew = K @ probe - K.T @ probe
    if max(np.abs(error).max(initial=0.0), np.abs(skew).max(initial=0.0)) > 1e-6 * scale * math.sqrt(n):
        raise ValueError(
            "kernel must be symmetric and positive semi-definite, and this one is not: choose another kernel, or SMLR, "
            "which takes any."
        )
    return order, L[:, :max_rank]


class _KernelLogistic(ProbabilityRanges, KernelOrLinearClassifier):
    """Interface: the multinomial likelihood with the RKHS norm as penalty, in double precision."""

    alpha: Any
    fit_intercept: Any
    tol: Any
    max_iter: Any
    memory_limit: Any

    def _basis(self, data: TrainingData) -> tuple[Basis, Array | None]:
        if self.kernel is None:
            raise ValueError(
                f"kernel must be 'rbf', 'poly', 'linear', 'precomputed' or a callable in {type(self).__name__}; "
                f"RMLR works on the features themselves."
            )
        return super()._basis(data)

    def _certified(self, data: TrainingData, model: Submodel, progress: Progress | None) -> Solution:
        """Certify a fitted model by its duality gap, after as many more Newton steps as it takes."""
        tol = check_number("tol", self.tol, least=0.0, open_left=True)
        max_iter = check_integer("max_iter", self.max_iter, least=1)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        design = Dense(np.asfortranarray(model.phi))
        problem = Problem(design, model.y, data.weight, model.likelihood, Normal(model.alpha), intercept)
        start = problem.at(model.w.copy(), model.b.copy(), model.eta)
        solution = solve(problem, start=start, tol=tol, max_iter=max_iter, progress=progress)
        return replace(solution, n_iter=solution.n_iter + model.n_steps)

    def _keep_process(self, whitened: Whitened, model: Submodel, solution: Solution) -> None:
        """Keep what ranges need, if asked for."""
        if not self._keeps_posterior():
            return
        if self._precomputed:
            raise ValueError(
                "posterior=True needs K(x, x) of new rows, which kernel='precomputed' does not give: pass the kernel "
                "as a name or a callable."
            )
        size = model.phi.shape[1] * model.likelihood.n_outputs
        limit = check_integer("memory_limit", self.memory_limit, least=1)
        if 8 * size * size > limit:
            raise ValueError(
                f"posterior=True needs a matrix of {size} rows and columns (centres times classes), "
                f"{8 * size * size / 2**20:.0f} MiB, more than memory_limit: use fewer centres, or raise memory_limit."
            )
        self._posterior = approximate_process(
            whitened,
            model.phi,
            model.likelihood,
            model.y,
            model.weight,
            model.phi @ solution.w + solution.b,
            model.alpha,
            fit_intercept=bool(self.fit_intercept),
        )

    def averaged_proba(self, X: Any) -> Array:
        """Return class probabilities averaged over what the rows leave open about the function (n, n_classes).

        They are closer to one half than those of `predict_proba` where training rows are far. Needs
        ``posterior=True`` when the model is fitted. Two classes: MacKay's formula, right to about .004; more: an
        average over 128 points.
        """
        kept = kept_posterior(self)
        eta = self._linear_predictor(X)
        averaged: Array = kept.averaged(_rows(check_rows(self, X)), eta)
        return averaged

    def _strength(self) -> float:
        return check_number("alpha", self.alpha, least=0.0, open_left=True)


class KLR(_KernelLogistic):
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
        alpha, X = self._strength(), _rows(data.X)
        rank = self.n_centers if self.n_centers is not None and self.centers == "pivoted" else None
        self._check_memory(len(centers))
        order, L = pivoted_cholesky(_columns(basis.kernel, X, centers, centers), max_rank=rank)
        support = centers[order[: L.shape[1]]]
        whitened = Whitened(basis.kernel, _centers(basis.kernel, X, support), L[: L.shape[1]])
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


class IVM(_KernelLogistic):
    """Import vector machine: kernel logistic regression on few rows, chosen one after the other.

    ``alpha`` multiplies the squared norm of the reproducing kernel Hilbert space against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, f(x_i) + b) + alpha/2 * |f|_K^2,      f(x) = sum_{j in S} a_j K(x, x_j)

    Starting from the intercept alone, the row whose kernel column lowers this sum most joins S, until the sum has
    converged. Unlike support vectors, import points need not lie near the boundary, their number does not grow with
    n, and the model gives probabilities. All classes share the points.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, > 0; the paper's lambda as tabulated, ``n`` times the lambda of its formula (3.1), and
        ``1/C`` of :class:`sklearn.svm.SVC`. Ignored when ``alphas`` is given.
    kernel, gamma, degree, coef0, kernel_params
        As in :class:`KLR`.
    eps, window : float, int
        Stop when the last ``window`` points (the paper's Delta k) lowered the sum by less than ``eps`` of it; also
        when no candidate promises ``eps / window``.
    max_points : int, default=500
        Largest number of import points.
    alphas : array-like of float, int or None, default=None
        Strengths for Algorithm 3: from the largest to the smallest, points are carried over and added. ``alpha_`` is
        the one with the fewest errors on rows held back (ties: smaller log-loss, then larger strength); the model is
        then fitted to all rows. An integer k takes k values from exp(10) down to exp(-10).
    validation_fraction : float, default=0.25
        Share of the rows, stratified, held back when ``alphas`` is given and ``cv`` is not.
    cv : int, splitter or None, default=None
        Cross-validation for ``alphas`` instead of one held-back part.
    selection : {"lazy", "onestep", "exact"}, default="lazy"
        "lazy": the largest decrease predicted by one Newton step, weights renewed every ``refresh`` points; "onestep":
        the true sum after one step for every candidate (Algorithm 2); "exact": after full convergence for every
        candidate (Algorithm 1; slow, for study).
    refresh : int, default=10
        See ``selection``.
    n_candidates : int, default=None
        Rows drawn at random as candidates; None: all as long as their kernel columns fit ``memory_limit``, otherwise
        as many as fit. With a number whose columns do not fit, they are recomputed at every addition.
    memory_limit : int, default=2**28
        Bytes of kernel columns that may be held; the n x n matrix never is unless it fits.
    posterior, fit_intercept, class_weight, tol, max_iter, random_state, verbose
        As in :class:`KLR`; the certificate is that of the model on the chosen points.

    Attributes
    ----------
    support_, support_vectors_ : ndarray
        The import points, in the order of their choice.
    dual_coef_ : ndarray of shape (1 or n_classes, n_support)
        Their weights.
    import_path_ : ImportPath
        ``points``, ``alphas``, ``objective`` and ``validation_error`` after every addition (see :meth:`plot_path`).
        With ``alphas`` and one held-back part this is the path of Algorithm 3, otherwise that of the final fit.
    alpha_ : float
        Strength used.
    alphas_, validation_errors_, validation_losses_ : ndarray
        With ``alphas``: the strengths, and share of errors and mean log-loss on the rows held back.
    classes_, intercept_, solution_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`KLR`.

    References
    ----------
    Zhu, Hastie (2005). Kernel logistic regression and the import vector machine. JCGS 14(1).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller.estimators.kernel_logistic import IVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = IVM(alpha=0.1).fit(X, y)
    >>> len(model.support_), round(model.score(X, y), 2)
    (10, 0.98)
    """

    n_centers = None  # the interface's random subset: import points are chosen instead

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: Any = None,
        eps: float = 1e-3,
        window: int = 1,
        max_points: int = 500,
        alphas: Any = None,
        validation_fraction: float = 0.25,
        cv: Any = None,
        selection: str = "lazy",
        refresh: int = 10,
        n_candidates: int | None = None,
        memory_limit: int = 1 << 28,
        posterior: bool = False,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.eps = eps
        self.window = window
        self.max_points = max_points
        self.alphas = alphas
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.selection = selection
        self.refresh = refresh
        self.n_candidates = n_candidates
        self.memory_limit = memory_limit
        self.posterior = posterior
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assert isinstance(basis, KernelBasis)
        kernel, X, rng = basis.kernel, _rows(data.X), _generator(self.random_state)
        likelihood, settings = Multinomial(len(data.classes)), self._settings()
        y = likelihood.encode(data.codes)
        for name in ("alphas_", "validation_errors_", "validation_losses_"):
            self.__dict__.pop(name, None)
        path = None if self.alphas is None else self._choose_alpha(data, kernel, X, likelihood, y, settings, rng)
        if self.alphas is None:
            self.alpha_ = self._strength()
        model, final, _ = select(
            kernel,
            X,
            likelihood,
            y,
            data.weight,
            [self.alpha_],
            settings,
            fit_intercept=check_flag("fit_intercept", self.fit_intercept),
            rng=rng,
        )
        self.import_path_ = final if path is None else path
        solution = self._certified(data, model, progress)
        whitened = Whitened(kernel, _centers(kernel, X, final.points), np.tril(model.phi[final.points]))
        self._keep_process(whitened, model, solution)
        dual = whitened.dual_coef(solution.w) if len(final.points) else solution.w
        return Fitted(KernelBasis(kernel, whitened.centers), final.points, dual, solution.b, likelihood, solution)

    def _settings(self) -> Forward:
        count = self.n_candidates
        selection = check_choice("selection", self.selection, ("lazy", *SELECTIONS))
        refresh = check_integer("refresh", self.refresh, least=1)
        return Forward(
            eps=check_number("eps", self.eps, least=0.0),
            window=check_integer("window", self.window, least=1),
            max_points=check_integer("max_points", self.max_points, least=1),
            choose=SELECTIONS.get(selection, by_promise),
            refresh=refresh if selection == "lazy" else 1,
            memory_limit=check_integer("memory_limit", self.memory_limit, least=1),
            n_candidates=None if count is None else check_integer("n_candidates", count, least=1),
        )

    def _choose_alpha(
        self,
        data: TrainingData,
        kernel: Kernel,
        X: Any,
        likelihood: Multinomial,
        y: Array,
        settings: Forward,
        rng: np.random.Generator,
    ) -> ImportPath | None:
        """Run Algorithm 3 on every split and set ``alpha_``; return its path where there is one split."""
        alphas = _grid(self.alphas)
        weight = np.ones(len(data.codes)) if data.weight is None else data.weight
        totals, covered = np.zeros((2, len(alphas))), 0.0
        path = None
        for train, test in self._splits(data, weight, rng):
            _, path, stages = select(
                kernel,
                X,
                likelihood,
                y,
                np.where(train, weight, 0.0),
                list(alphas),
                settings,
                fit_intercept=check_flag("fit_intercept", self.fit_intercept),
                rng=rng,
                watched=test,
                watched_weight=weight[test],
            )
            covered += weight[test].sum()
            totals += weight[test].sum() * np.array([[s.validation_error, s.validation_loss] for s in stages]).T
        self.alphas_ = alphas
        self.validation_errors_, self.validation_losses_ = totals / covered
        self.alpha_ = float(alphas[np.lexsort((-alphas, self.validation_losses_, self.validation_errors_))[0]])
        return path if self.cv is None else None

    def _splits(self, data: TrainingData, weight: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield which rows to learn from (n,), and the numbers of those to be tested."""
        rows = np.arange(len(weight))
        if self.cv is None:
            share = check_number("validation_fraction", self.validation_fraction, least=0.0, most=0.9, open_left=True)
            splitter: Any = StratifiedShuffleSplit(1, test_size=share, random_state=int(rng.integers(2**31)))
            rows = np.flatnonzero(weight > 0)
        else:
            splitter = check_cv(self.cv, data.codes, classifier=True)
        for train, test in splitter.split(np.zeros((len(rows), 1)), data.codes[rows]):
            learnt = np.isin(np.arange(len(weight)), rows[train]) & (weight > 0)
            tested = rows[test][weight[rows[test]] > 0]
            if len(np.unique(data.codes[learnt])) < len(data.classes) or len(tested) == 0:
                raise ValueError(
                    "cv must leave rows of every class to learn from, and some to test: use fewer folds, or stratify."
                )
            yield learnt, tested

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the objective, and the error on rows held back if there are any, after every addition.

        Returns
        -------
        ax : matplotlib Axes
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot_path needs matplotlib: install it, or read import_path_.") from error
        ax = plt.subplots()[1] if ax is None else ax
        path = self.import_path_
        count = np.arange(1, len(path.points) + 1)
        ax.plot(count, path.objective, ".-", color="C0", label="objective")
        ax.set(xlabel="import points", ylabel="objective")
        ax.xaxis.get_major_locator().set_params(integer=True)
        if np.isfinite(path.validation_error).any():
            other = ax.twinx()
            other.plot(count, path.validation_error, ".-", color="C1", label="error on rows held back")
            other.set_ylabel("error on rows held back")
        return ax


def _grid(alphas: Any) -> Array:
    """Return the strengths, largest first."""
    if isinstance(alphas, int | np.integer) and not isinstance(alphas, bool):
        return np.exp(np.linspace(10.0, -10.0, check_integer("alphas", alphas, least=2)))
    values = np.unique(np.asarray(alphas, dtype=np.float64))[::-1]
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values[-1] <= 0.0:
        raise ValueError(
            "alphas must hold finite numbers > 0, or be an integer: how many values from exp(10) to exp(-10)."
        )
    return values


def _generator(random_state: Any) -> np.random.Generator:
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def _rows(X: Any) -> Any:
    """Return the data ready to be cut by rows, in double precision: a factorisation needs it."""
    return sparse.csr_array(X).astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def _centers(kernel: Kernel, X: Any, rows: Array) -> Any:
    return rows if isinstance(kernel, Precomputed) else X[rows]


def _columns(kernel: Kernel, X: Any, rows: Array, centers: Array) -> Array:
    return np.asarray(kernel(X[rows], _centers(kernel, X, centers)), dtype=np.float64)


def _nearest_to_means(data: TrainingData, kernel: Kernel, rows: Array, count: Any, random_state: Any) -> Array:
    """Return the rows nearest to k-means centres."""
    if isinstance(kernel, Precomputed):
        raise ValueError("centers='kmeans' needs features: use 'random' or 'pivoted' with kernel='precomputed'.")
    count = min(check_integer("n_centers", count, least=1), len(rows))
    seed = int(_generator(random_state).integers(2**31))
    X = _rows(data.X)
    means = KMeans(count, n_init=1, random_state=seed).fit(X, sample_weight=data.weight)
    return rows[np.unique(means.transform(X[rows]).argmin(axis=0))]
