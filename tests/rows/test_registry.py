"""What is not in this process is never fetched silently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rows.fakes import Strict

from smaller import IVM, KLR, SMLR, SparseRegressor
from smaller.designs import as_design
from smaller.likelihoods import Gaussian, Multinomial
from smaller.rows import Blocks, HostRows
from smaller.rows.registry import rows_of

X, CODES = np.random.default_rng(0).standard_normal((12, 3)), np.arange(12) % 3


class Lazy:
    """Stands in for a dask array: NumPy would fetch it without asking."""

    __module__ = "dask.array.core"
    shape, ndim, dtype = X.shape, 2, X.dtype

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("fetched")


def rows() -> HostRows:
    likelihood = Multinomial(3)
    return HostRows(as_design(X), likelihood.encode(CODES), None, likelihood)


@pytest.mark.parametrize("estimator", [SMLR(), KLR(), SparseRegressor(prior="laplace")], ids=lambda e: type(e).__name__)
def test_lazy_collections_are_refused_not_fetched(estimator: Any) -> None:
    for data in ((X, Lazy()), (X, CODES, Lazy())):
        with pytest.raises(TypeError, match=r"\.compute\(\)"):
            estimator.fit(*data)


def test_estimators_that_need_the_matrix_refuse_lazy_collections() -> None:
    with pytest.raises(TypeError, match=r"\.compute\(\)"):
        IVM().fit(Lazy(), CODES)
    model = SparseRegressor(prior="laplace").fit(X, CODES)
    with pytest.raises(TypeError, match=r"\.compute\(\)"):
        model.predict(Lazy())


def test_rows_say_that_they_are_rows() -> None:
    for holder in (rows(), Blocks.cut(rows(), 2), Strict(rows())):
        found = rows_of(holder, None, None, Multinomial)
        assert type(found) is type(holder)
    assert rows_of(X, CODES, None, Multinomial) is None
    with pytest.raises(TypeError, match="leave y"):
        rows_of(rows(), CODES, None, Multinomial)
    with pytest.raises(ValueError, match="make them for it"):
        rows_of(rows(), None, None, lambda count: Multinomial(count, "reference"))
    with pytest.raises(ValueError, match="Gaussian"):
        rows_of(rows(), None, None, lambda count: Gaussian())
