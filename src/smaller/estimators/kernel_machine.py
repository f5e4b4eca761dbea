"""What KLR and IVM share: the multinomial likelihood and a kernel's norm as penalty (Zhu and Hastie 2005)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.bases import Basis, Whitened
from smaller.designs import Dense
from smaller.estimators.base import KernelOrLinearClassifier
from smaller.estimators.centers import double_rows
from smaller.estimators.fields import checked, flag, integer, number, with_fields
from smaller.estimators.intervals import ProbabilityRanges, kept_posterior
from smaller.estimators.widths import ChosenWidth
from smaller.inference import approximate_process
from smaller.kernels import Kernel, Precomputed
from smaller.priors import Normal
from smaller.problem import Problem, Solution
from smaller.searches.submodel import Submodel
from smaller.solvers import solve
from smaller.solvers.driver import Progress
from smaller.validation import TrainingData, check_rows

__all__ = ["KernelLogistic", "center_rows", "generator"]


@with_fields
class KernelLogistic(ChosenWidth, ProbabilityRanges, KernelOrLinearClassifier):
    """Interface: the multinomial likelihood with the RKHS norm as penalty, in double precision."""

    alpha: Any = number(1.0, least=0.0, open_left=True, kw_only=False)
    kernel: Any = "rbf"
    max_iter: int = integer(100, least=1)
    fit_intercept: bool = flag(True)
    memory_limit: int = integer(1 << 30, least=1)

    def _basis(self, data: TrainingData) -> tuple[Basis, Array | None]:
        if self.kernel is None:
            raise ValueError(
                f"kernel must be 'rbf', 'poly', 'linear', 'precomputed' or a callable in {type(self).__name__}; "
                f"RMLR works on the features themselves."
            )
        return super()._basis(data)

    def _certified(self, data: TrainingData, model: Submodel, progress: Progress | None) -> Solution:
        """Certify a fitted model by its duality gap, after as many more Newton steps as it takes."""
        tol = checked(self, "tol")
        max_iter = checked(self, "max_iter")
        intercept = checked(self, "fit_intercept")
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
        limit = checked(self, "memory_limit")
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
        averaged: Array = kept.averaged(double_rows(check_rows(self, X)), eta)
        return averaged

    def _strength(self) -> float:
        return float(checked(self, "alpha"))


def generator(random_state: Any) -> np.random.Generator:
    """Return NumPy's generator for a ``random_state`` as scikit-learn takes it."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def center_rows(kernel: Kernel, X: Any, rows: Array) -> Any:
    """Return what stands for the rows as centres: with a precomputed kernel their indices."""
    return rows if isinstance(kernel, Precomputed) else X[rows]
