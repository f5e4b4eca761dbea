"""The regressions that a table can be given to, always behind filled gaps and scaled features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.pipeline import Pipeline

from smaller.app.columns import TableEncoder
from smaller.app.study.models import preparation
from smaller.app.tables import Table, TableError
from smaller.arrays import Array
from smaller.estimators.adaptive import SparseRegressor
from smaller.estimators.relevance import RVR

__all__ = ["MODELS", "ResponseModel", "make_regression"]

MOST_ROWS = 5_000

MODELS = {
    "sparse-regressor": (
        "linear regression on few features, without a parameter to tune",
        "Figueiredo (2003). Adaptive sparseness for supervised learning. IEEE PAMI 25(9).",
    ),
    "rvr": (
        "relevance vector regression: kernels on few rows, their width chosen by rows left out",
        "Tipping (2001). Sparse Bayesian learning and the relevance vector machine. JMLR 1.",
    ),
}


def make_regression(name: str, X: Any, seed: int) -> Pipeline:
    """Return an unfitted pipeline for features like these."""
    if X.shape[0] > MOST_ROWS:
        raise TableError(f"--task regression takes at most {MOST_ROWS} rows: take a sample.")
    model = SparseRegressor() if name == "sparse-regressor" else RVR(gamma="cv", random_state=seed)
    return Pipeline([*preparation(X), ("model", model)])


@dataclass(frozen=True)
class ResponseModel:
    """A regression of a table's rows: what `smaller fit --task regression` writes and `smaller predict` reads.

    Parameters
    ----------
    encoder : TableEncoder
        From columns to features.
    pipeline : Pipeline
        From features to a mean and a deviation.
    settings : dict
        How it was made.
    """

    encoder: TableEncoder
    pipeline: Any
    settings: dict[str, Any]

    def predict(self, table: Table, level: float = 0.9) -> tuple[Array, Array, Array]:
        """Return the expected response of every row, and the ends of its interval for new observations."""
        X = self.encoder.transform(table)
        if "fill" not in self.pipeline.named_steps and not sparse.issparse(X) and np.isnan(X.sum()):
            X = np.where(np.isnan(X), self.pipeline.named_steps["scale"].mean_, X)  # training had no gaps: the mean
        mean, deviation = self.pipeline.predict(X, return_std=True)
        reach = stats.norm.ppf(0.5 + level / 2.0) * deviation
        return mean, mean - reach, mean + reach
