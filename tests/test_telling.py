"""Warnings name the line of the user's code, however deep the library stands there."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import RVR, SMLR, SMLRCV, SparseProbit, smlr_path

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: SMLR(alpha=1e-3, max_iter=1, tol=1e-12).fit(X, y),
        lambda: make_pipeline(StandardScaler(), SMLR(alpha=1e-3, max_iter=1, tol=1e-12)).fit(X, y),
        lambda: smlr_path(X, y, alphas=3, max_iter=1, tol=1e-14),
        lambda: SMLRCV(alphas=[50.0, 20.0]).fit(X, y),
        lambda: SparseProbit(kernel="rbf", gamma=300.0).fit(X, y),
        lambda: RVR(kernel="rbf", gamma=1000.0).fit(X, np.random.default_rng(0).standard_normal(len(X))),
    ],
    ids=["fit", "pipeline", "path", "cv", "probit", "regression"],
)
def test_a_warning_points_to_the_line_that_called(call: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    assert {Path(one.filename).name for one in caught} == {Path(__file__).name}
