"""What JCFO with given and with chosen strengths share: kernels with a scale for every feature, and their search."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
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

__all__ = ["Ready", "ScaledKernels"]

_FEW = 10  # features of the screened start; with no more than these there is none
_FIRST_CENTERS, _MOST_CENTERS = 200, 2000  # of the two stages with n_centers="auto"
# Measured on rings and exclusive-or with 200 rows: good ends keep at most 7 scales. The share of the rows is a guess.
_MANY, _CROWDED, _CROWDED_SHARE = 20, 15, 0.05


@dataclass(frozen=True)
class Ready:
    """Some rows' problem, of which only the strengths are missing, and how to start."""

    scaled: ScaledProblem
    kept: Array  # features left by the screen
    centers: Array  # rows
    few: Array | None  # positions of those centres with which a search in two stages begins
    starts: list[Array]
    rivals: list[Array]

    def narrowed(self, few: Array) -> Ready:
        """Return the problem of some of the centres, for one stage."""
        scaled = self.scaled.restrict(few, np.arange(self.scaled.shape[1]))
        return replace(self, scaled=scaled, centers=self.centers[few], few=None)

    def weights(self, solution: ScaledSolution) -> tuple[Array, Array]:
        """Return weights of the centres and intercepts; a penalised intercept was a weight."""
        m = self.scaled.shape[0]
        return solution.w[:m], solution.w[m] if self.scaled.penalized else solution.b

    def outputs(self, solution: ScaledSolution, X: Any) -> Array:
        """Return eta (n, q) of other rows."""
        w, b = self.weights(solution)
        used = self.scaled.used(solution.w)
        basis = self.scaled.basis.take(used).rescale(solution.scales)
        eta: Array = basis.expand(X[:, self.kept]).forward(w[used]) + b
        return eta


@with_fields
class ScaledKernels(NoProbabilityRanges, KernelOrLinearClassifier):
    """Interface of JCFO with given or chosen strengths: the search for weights and scales together."""

    kernel: str = choice("rbf", "poly", "linear")
    gamma: Any = "auto"
    degree: int = 2
    n_centers: Any = integer("auto", least=1, words=("auto",), optional=True)
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

    def _most_centers(self) -> int | None:
        count = checked(self, "n_centers")
        return _MOST_CENTERS if count == "auto" else count

    def _centers(self, data: TrainingData, kernel: Any, rows: Array, count: int) -> Array:
        return rows[self._balanced(data, rows, count)]

    def _balanced(self, data: TrainingData, rows: Array, count: int) -> Array:
        """Return the positions of ``count`` of the rows, equally many of every class as far as they go."""
        unseeded = self.random_state is None and self.n_centers == "auto"
        rng = check_random_state(0 if unseeded else self.random_state)
        X = double_rows(data.X)[rows]
        return balanced_centers(X, data.codes[rows], count, checked(self, "centers"), rng)

    def _ready(self, data: TrainingData, basis: Basis, centers: Array | None) -> Ready:
        """Return the problem of these rows, under whatever strengths, and the starts of the search."""
        assert isinstance(basis, KernelBasis)
        assert centers is not None
        likelihood = self._chosen_likelihood(len(data.classes))
        X = double_rows(data.X)
        kept = self._preselected(data, likelihood)
        narrow = X[:, kept]
        scaled = ScaledProblem(
            narrow,
            KernelBasis(basis.kernel, narrow[centers]),
            likelihood.encode(data.codes),
            data.weight,
            likelihood,
            1.0,
            1.0,
            checked(self, "fit_intercept"),
            checked(self, "penalize_intercept"),
        )
        staged = self.n_centers == "auto" and len(centers) > _FIRST_CENTERS
        few = self._balanced(data, centers, _FIRST_CENTERS) if staged else None
        rivals = self._rivals(replace(data, X=narrow))
        return Ready(scaled, kept, centers, few, list(self._starts(narrow, data.weight)), rivals)

    def _solved(
        self,
        ready: Ready,
        strengths: tuple[float, float],
        warm: ScaledSolution | None = None,
        progress: Progress | None = None,
    ) -> ScaledSolution:
        """Return weights and scales at some strengths."""
        return search_scales(
            replace(ready.scaled, alpha=strengths[0], rate=strengths[1]),
            ready.starts,
            rivals=ready.rivals,
            warm=warm,
            few=ready.few,
            em_iter=checked(self, "em_iter"),
            tol=checked(self, "tol"),
            max_iter=checked(self, "max_iter"),
            progress=progress,
        )

    def _found(
        self, data: TrainingData, ready: Ready, warm: ScaledSolution | None, progress: Progress | None
    ) -> Fitted:
        """Return weights and scales at the strengths, in the user's features."""
        solution = self._solved(ready, self._strengths(), warm, progress)
        X, scaled = double_rows(data.X), ready.scaled
        self.preselected_ = ready.kept
        self.scales_ = np.zeros(X.shape[1])
        self.scales_[ready.kept] = solution.scales
        w, b = ready.weights(solution)
        wide = KernelBasis(scaled.basis.kernel.rescale(self.scales_), X[ready.centers])
        return Fitted(wide, ready.centers, w, b, scaled.likelihood, solution)

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


def _standardised(data: TrainingData) -> bool:
    """Whether the spread of every feature that varies is about one."""
    X = double_rows(data.X)
    c = np.ones(X.shape[0]) if data.weight is None else data.weight
    squares = X.power(2) if sparse.issparse(X) else X**2
    variance = (squares.T @ c) / c.sum() - ((X.T @ c) / c.sum()) ** 2
    spread = np.sqrt(variance[variance > 1e-12 * ((X.T @ c) / c.sum()) ** 2])
    return bool(np.all((spread > 0.5) & (spread < 2.0)))
