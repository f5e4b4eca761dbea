"""SparseProbit with a kernel too narrow says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from smaller import SparseProbit


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[::2], y[::2]


def test_a_narrow_kernel_is_named(data) -> None:
    X, y = data
    with pytest.warns(UserWarning, match=r"SparseProbit: at \d+ % of the training rows .* smaller gamma") as caught:
        model = SparseProbit(kernel="rbf", gamma=8 / 30).fit(X, y)
    nearest = cdist(X, X[model.support_], "sqeuclidean").min(axis=1)
    share = np.mean(np.exp(-8 / 30 * nearest) < 0.1)
    assert share > 0.5
    assert f"{100 * share:.0f} %" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="too narrow"):
        SparseProbit(kernel="rbf", gamma=8 / 30).fit(sparse.csr_array(X), y)


def test_a_fitting_one_is_not(data) -> None:
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseProbit(kernel="rbf", gamma=1 / 30).fit(X, y)
        SparseProbit().fit(X, y)
        SparseProbit(kernel="poly", degree=2, gamma=1.0).fit(X, y)


def test_rows_without_weight_do_not_count(data) -> None:
    X, y = data
    far = np.vstack([X, X + 100.0])
    weight = np.repeat([1.0, 0.0], len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseProbit(kernel="rbf", gamma=1 / 30).fit(far, np.tile(y, 2), sample_weight=weight)
