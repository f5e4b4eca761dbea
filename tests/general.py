"""What holds for every estimator, for the tests over all of them and for one that is written for a test."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris

from smaller import load
from smaller.persistence import model_bytes

__all__ = ["pickles_and_clones", "survives_model_file", "survives_skops"]


def pickles_and_clones(estimator: Any) -> None:
    """A pickle predicts the same; a clone has the arguments, and is not fitted."""
    X, y = load_iris(return_X_y=True)
    rows = _rows(estimator, X)
    model = clone(estimator).fit(rows, y)
    restored = pickle.loads(pickle.dumps(model))
    assert_array_equal(_said(restored, rows), _said(model, rows))
    assert restored.solution_.status is model.solution_.status
    fresh = clone(model)
    assert fresh.get_params() == estimator.get_params()
    assert not hasattr(fresh, "classes_")


def survives_skops(model: Any) -> None:
    """A skops file holds types of ours alone, and predicts the same to the bit."""
    sio = pytest.importorskip("skops.io")
    model, rows = _fitted(model)
    data = sio.dumps(model)
    untrusted = sio.get_untrusted_types(data=data)
    assert {name.split(".")[0] for name in untrusted} <= {type(model).__module__.split(".")[0], "smaller"}
    same = sio.loads(data, trusted=untrusted)
    assert _said(same, rows).tobytes() == _said(model, rows).tobytes()
    if hasattr(model, "solution_"):
        assert same.solution_.status is model.solution_.status


def survives_model_file(model: Any) -> None:
    """A model file predicts the same to the bit, and is written again as the same bytes."""
    model, rows = _fitted(model)
    data = model_bytes(model)
    same = load(io.BytesIO(data))
    assert _said(same, rows).tobytes() == _said(model, rows).tobytes()
    assert model_bytes(same) == data


def _fitted(model: Any) -> tuple[Any, Any]:
    """Return the model fitted to a few rows of two classes, and the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    rows = _rows(model, X)
    return clone(model).fit(rows, (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)), rows


def _rows(model: Any, X: Any) -> Any:
    return X @ X.T if getattr(model, "kernel", None) == "precomputed" else X


def _said(model: Any, rows: Any) -> Any:
    method = next(name for name in ("predict_proba", "transform", "predict") if hasattr(model, name))
    return getattr(model, method)(rows)
