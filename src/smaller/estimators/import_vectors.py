"""IVM: kernel logistic regression on few import points (Zhu and Hastie 2005)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, check_cv

from smaller.arrays import Array
from smaller.bases import Basis, Whitened
from smaller.bases import Kernel as KernelBasis
from smaller.estimators.base import Fitted
from smaller.estimators.centers import double_rows
from smaller.estimators.fields import checked, choice, integer, number, with_fields
from smaller.estimators.kernel_machine import KernelLogistic, center_rows, generator
from smaller.kernels import Kernel
from smaller.likelihoods import Multinomial
from smaller.papers import SELECTIONS
from smaller.searches.forward import Forward, ImportPath, by_promise, drawn_rows, select
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_integer

__all__ = ["IVM"]


@with_fields
class IVM(KernelLogistic):
    """Import vector machine: kernel logistic regression on few rows, chosen one after the other.

    ``alpha`` multiplies the squared norm of the reproducing kernel Hilbert space against the **sum** of log-losses::

        sum_i c_i log-loss(y_i, f(x_i) + b) + alpha/2 * |f|_K^2,      f(x) = sum_{j in S} a_j K(x, x_j)

    Starting from the intercept alone, the row whose kernel column lowers this sum most joins S, until the sum has
    converged. Unlike support vectors, import points need not lie near the boundary, and the model gives probabilities.
    Their number depends on how intricate the probabilities are for this kernel, hardly on n. All classes share the
    points.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, > 0; the paper's lambda as tabulated, ``n`` times the lambda of its formula (3.1), and
        ``1/C`` of :class:`sklearn.svm.SVC`. Ignored when ``alphas`` is given.
    kernel, gamma, degree, coef0, kernel_params
        As in :class:`KLR`; ``gamma`` may be "cv". With ``alphas`` each of its fits chooses a strength of its own.
    eps, window : float, int
        Stop when the last ``window`` points (the paper's Delta k) lowered the sum by less than ``eps`` of it; also
        when no candidate promises ``eps / window``. A block of more points than that is held against as much more.
    max_points : int, default=500
        Largest number of import points.
    alphas : array-like of float, int or None, default=None
        Strengths for Algorithm 3: from the largest to the smallest, points are carried over and added. ``alpha_`` is
        the best by ``scoring`` on rows held back; the model is then fitted to all rows. An integer k takes k values
        from exp(10) down to exp(-10).
    scoring : {"neg_log_loss", "error"}, default="neg_log_loss"
        What chooses among ``alphas``: the smallest log-loss, or as in the paper the fewest errors (ties: smaller
        log-loss). Of equals the larger strength.
    validation_fraction : float, default=0.25
        Share of the rows, stratified, held back when ``alphas`` is given and ``cv`` is not.
    cv : int, splitter or None, default=None
        Cross-validation for ``alphas`` instead of one held-back part.
    selection : {"lazy", "onestep", "exact"}, default="lazy"
        "lazy": the largest decrease predicted by one Newton step, weights renewed every ``refresh`` additions;
        "onestep": the true sum after one step for every candidate (Algorithm 2); "exact": after full convergence for
        every candidate (Algorithm 1; slow, for study).
    block : int, default=16
        Points added at a time once there are four times as many: the candidates are looked at once, and the points are
        chosen one after the other from a shortlist. 1: always one by one. For "lazy" only.
    refresh : int, default=10
        See ``selection``; additions of a block count once.
    n_candidates : int, default=None
        Rows drawn at random as candidates, by ``random_state``; all rows count in the sum in any case. None: 4000, or
        as many as ``memory_limit`` has room for; all rows if there are no more. With a number whose kernel columns do
        not fit, they are recomputed at every addition.
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
        ``points``, ``alphas``, ``objective`` and ``validation_error`` after every addition (see :meth:`plot_path`);
        points added together share the last two.
        With ``alphas`` and one held-back part this is the path of Algorithm 3, otherwise that of the final fit.
    n_candidates_ : int
        Rows among which the points were chosen; less than there are if candidates were drawn at random.
    alpha_, gamma_ : float
        Strength and width used; ``gamma_`` with kernels "rbf" and "poly".
    gammas_, gamma_scores_ : ndarray
        With ``gamma="cv"``, as in :class:`KLR`.
    alphas_, validation_errors_, validation_losses_ : ndarray
        With ``alphas``: the strengths, and share of errors and mean log-loss on the rows held back.
    classes_, intercept_, solution_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`KLR`.

    See Also
    --------
    KLR : Every row a centre: the optimum that is approached.
    RVC : Fewer centres still, and no strength to choose.
    smaller.plotting.ImportPathDisplay : The objective along the additions.

    References
    ----------
    Zhu, Hastie (2005), as for :class:`KLR`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import IVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = IVM(alpha=0.1).fit(X, y)
    >>> len(model.support_), round(model.score(X, y), 2)
    (12, 0.98)
    """

    kernel_params: Any = None
    eps: float = number(1e-3, least=0.0)
    window: int = integer(5, least=1)
    max_points: int = integer(500, least=1)
    alphas: Any = None
    scoring: str = choice("neg_log_loss", "error")
    validation_fraction: float = number(0.25, least=0.0, most=0.9, open_left=True)
    cv: Any = None
    selection: str = choice("lazy", *SELECTIONS)
    block: int = integer(16, least=1)
    refresh: int = integer(10, least=1)
    n_candidates: int | None = None
    memory_limit: int = integer(1 << 28, least=1)

    def _search(self, data: TrainingData, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        assert isinstance(basis, KernelBasis)
        kernel, X, rng = basis.kernel, double_rows(data.X), generator(self.random_state)
        likelihood, settings = Multinomial(len(data.classes)), self._settings()
        y = likelihood.encode(data.codes)
        for name in ("alphas_", "validation_errors_", "validation_losses_"):
            self.__dict__.pop(name, None)
        path = None if self.alphas is None else self._choose_alpha(data, kernel, X, likelihood, y, settings, rng)
        if self.alphas is None:
            self.alpha_ = self._strength()
        candidates = drawn_rows(X.shape[0], data.weight, settings, rng)
        self.n_candidates_ = len(candidates)
        model, final, _ = select(
            kernel,
            X,
            likelihood,
            y,
            data.weight,
            [self.alpha_],
            settings,
            rows=candidates,
            fit_intercept=checked(self, "fit_intercept"),
        )
        self.import_path_ = final if path is None else path
        solution = self._certified(data, model, progress)
        whitened = Whitened(kernel, center_rows(kernel, X, final.points), np.tril(model.phi[final.points]))
        self._keep_process(whitened, model, solution)
        dual = whitened.dual_coef(solution.w) if len(final.points) else solution.w
        return Fitted(KernelBasis(kernel, whitened.centers), final.points, dual, solution.b, likelihood, solution)

    def _settings(self) -> Forward:
        count = self.n_candidates
        selection = checked(self, "selection")
        refresh = checked(self, "refresh")
        return Forward(
            eps=checked(self, "eps"),
            window=checked(self, "window"),
            max_points=checked(self, "max_points"),
            choose=SELECTIONS.get(selection, by_promise),
            block=checked(self, "block") if selection == "lazy" else 1,
            refresh=refresh if selection == "lazy" else 1,
            memory_limit=checked(self, "memory_limit"),
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
        by_errors = checked(self, "scoring") == "error"
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
                fit_intercept=checked(self, "fit_intercept"),
                rng=rng,
                watched=test,
                watched_weight=weight[test],
            )
            covered += weight[test].sum()
            totals += weight[test].sum() * np.array([[s.validation_error, s.validation_loss] for s in stages]).T
        self.alphas_ = alphas
        self.validation_errors_, self.validation_losses_ = totals / covered
        keys = (-alphas, self.validation_losses_, self.validation_errors_)
        self.alpha_ = float(alphas[np.lexsort(keys if by_errors else keys[:2])[0]])
        return path if self.cv is None else None

    def _splits(self, data: TrainingData, weight: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Yield which rows to learn from (n,), and the numbers of those to be tested."""
        rows = np.arange(len(weight))
        if self.cv is None:
            share = checked(self, "validation_fraction")
            splitter: Any = StratifiedShuffleSplit(1, test_size=share, random_state=int(rng.integers(2**31)))
            rows = np.flatnonzero(weight > 0)
            self._check_held_back(share, len(rows), len(data.classes))
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

    def _check_held_back(self, share: float, n_rows: int, n_classes: int) -> None:
        held = math.ceil(share * n_rows)
        if min(held, n_rows - held) < n_classes:
            raise ValueError(
                f"validation_fraction={share:g} holds back {held} of {n_rows} rows; there and in the rest must be as "
                f"many rows as classes, {n_classes}: change it, give cv, or more rows."
            )

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
