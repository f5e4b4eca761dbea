"""`probability_interval` and `reach_`: how far the rows leave open what a classifier says."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.fields import checked, flag, with_fields
from smaller.inference import approximate, range_notes
from smaller.problem import Problem, Solution
from smaller.validation import check_rows

__all__ = ["NoProbabilityRanges", "ProbabilityRanges", "kept_posterior", "notes_on_ranges", "refuse_ranges"]

_WITHOUT = (
    "JCFO estimates a scale for every feature, and a range that took the scales as known would be too narrow: JCFO "
    "offers no probability_interval. IVM and SparseProbit do."
)


def kept_posterior(estimator: Any) -> Any:
    """Return what a fit with ``posterior=True`` has kept; refuse a model that has kept nothing."""
    kept = vars(estimator).get("_posterior")
    if kept is None:
        check_is_fitted(estimator)
        raise AttributeError(
            f"This {type(estimator).__name__} has kept no posterior: fit it with posterior=True for ranges of its "
            "probabilities."
        )
    return kept


def notes_on_ranges(estimator: Any, level: float = 0.9, *, where: str = "above") -> tuple[str, ...]:
    """Return the sentences that must stand beside the ranges of a fitted model; ``where`` its error rate is told."""
    parts = "features" if getattr(estimator, "kernel", None) is None else "kernel centres"
    return range_notes(kept_posterior(estimator), level=level, parts=parts, where=where)


def refuse_ranges(estimator: Any) -> None:
    """Refuse to keep what ranges need where groups or limits hold the weights: neither is part of the approximation."""
    if checked(estimator, "posterior"):
        raise ValueError(
            "posterior=True takes the penalty as a sum over single weights without limits: leave penalty, "
            "lower_limits, upper_limits and positive as they are by default, or posterior=False."
        )


@with_fields
class ProbabilityRanges:
    """Mixin of the classifiers that say how far their rows leave a probability open."""

    posterior: bool = flag(False)

    def _keeps_posterior(self) -> bool:
        """Forget what an earlier fit has kept; return whether this one is to keep something."""
        self.__dict__.pop("_posterior", None)
        return bool(checked(self, "posterior"))

    def _keep(
        self,
        basis: Basis,
        problem: Problem,
        origin: tuple[Array, Array, Array],
        solution: Solution,
        *,
        strength: float | Array | None = None,
        measured: bool = True,
    ) -> None:
        """Keep what ranges need, if asked for: ``solution`` is the optimum of ``problem``, times ``strength``."""
        if self._keeps_posterior():
            if strength is not None:
                prior: Any = problem.prior
                problem = problem.with_prior(prior.times(strength))
            w, b, status = solution.w, solution.b, solution.status
            self._posterior: Any = approximate(problem, w, b, status, basis, origin, measured=measured)

    def probability_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Return a range for every class probability.

        Needs ``posterior=True`` when the model is fitted. The ranges take the choice of features (or centres), and
        their kernel, as given; docs/how-sure.md says when they hold and when not.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, as for ``predict_proba``.
        level : float, default=0.9
            Nominal level, between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n_samples, n_classes)
            Ends of the ranges, in the order of ``classes_``. 0 and 1, with one warning, where nothing can be said: if
            `reach_` is above 4, or no strength of the penalty is self-consistent.
        """
        kept = kept_posterior(self)
        shown = self._linear_predictor(X)  # type: ignore[attr-defined]
        X = check_rows(self, X)
        ends: tuple[Array, Array] = kept.interval(X.tocsr() if sparse.issparse(X) else X, shown, level)
        return ends

    @property
    def reach_(self) -> float:
        """How much wider log-odds would be if the features left out counted too (median over the training rows).

        Below 1.5 the ranges can be believed, from 4 on there are none. With ``posterior=True`` only; not there for
        kernel logistic regression, which leaves nothing out, and adaptive sparseness, whose prior gives what it leaves
        out no variance.
        """
        reach: float | None = kept_posterior(self).reach
        if reach is None:
            raise AttributeError(
                f"{type(self).__name__} has no reach_: nothing is left out, or the prior gives it no variance."
            )
        return reach


class NoProbabilityRanges:
    """Mixin of a classifier that offers no ranges and says why."""

    def probability_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Refuse: the scales of the features are estimated, not integrated over."""
        raise AttributeError(_WITHOUT)
