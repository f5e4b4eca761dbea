"""What the regressors share: the flow of one fit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sklearn.base import RegressorMixin

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.estimators.base import Fitted, KernelOrLinear, warn_unless_converged
from smaller.estimators.callbacks import reported_progress, with_callbacks
from smaller.estimators.fields import check_all, with_fields
from smaller.solvers.driver import Progress
from smaller.validation import Responses, check_regression_data, unchanged_on_failure

__all__ = ["KernelOrLinearRegressor"]


@with_fields
class KernelOrLinearRegressor(RegressorMixin, KernelOrLinear):
    """Interface of the regressors: one response, a mean that is linear in features or kernels."""

    @abstractmethod
    def _search(self, data: Responses, basis: Basis, centers: Array | None, progress: Progress | None) -> Fitted:
        """Find the weights, and keep what else has been learnt."""

    def _warn(self, data: Responses) -> None:
        """Say what one should know of a fit that is done."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight
            As in :meth:`SMLR.fit`.
        y : array-like of shape (n_samples,)
            Responses.

        Returns
        -------
        self : estimator
            The fitted estimator, left as it was before if fitting fails.
        """
        with unchanged_on_failure(self), reported_progress(self, X, y) as progress:
            check_all(self)
            data = check_regression_data(self, X, y, sample_weight)
            basis, centers = self._basis(data)
            self._store_weights(self._search(data, basis, centers, self._logged(progress)))
            self.intercept_ = float(self.intercept_[0])
            if centers is None:
                self.coef_ = self.coef_[0]
            warn_unless_converged(self, self.solution_)
            self._warn(data)
        return self
