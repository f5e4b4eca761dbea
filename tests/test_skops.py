"""skops, the other file format without code, gives every estimator back to the bit once our types are trusted."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from registry import ALL_ESTIMATORS
from smaller import (
    SMLR,
    SMLRCV,
    MinimumRiskClassifier,
    PriorShiftClassifier,
    RejectOptionClassifier,
    StabilitySelection,
)
from smaller.problem import Status

sio = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
TWO = (X[:, 0] + 0.5 * RNG.normal(size=40) > 0).astype(int)
MODELS = [
    *ALL_ESTIMATORS,
    SMLRCV(alphas=5, eps=0.1, cv=2),
    StabilitySelection(n_features=2, n_pairs=3, random_state=0),
    PriorShiftClassifier(SMLR()),
    RejectOptionClassifier(MinimumRiskClassifier(SMLR()), threshold=0.2),
    make_pipeline(StandardScaler(), SMLR()),
]


def said(model: Any, rows: Any) -> Any:
    method = next(name for name in ("predict_proba", "transform", "predict") if hasattr(model, name))
    return getattr(model, method)(rows)


@pytest.mark.filterwarnings("ignore::UserWarning")  # edges of grids and small samples are not what this is about
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_skops_gives_every_estimator_back_to_the_bit(model: Any) -> None:
    rows = X @ X.T if getattr(model, "kernel", None) == "precomputed" else X
    model.fit(rows, TWO)
    data = sio.dumps(model)
    ours = sio.get_untrusted_types(data=data)
    assert {name.split(".")[0] for name in ours} <= {"smaller"}
    same = sio.loads(data, trusted=ours)
    assert said(same, rows).tobytes() == said(model, rows).tobytes()
    if hasattr(model, "solution_"):
        assert same.solution_.status is model.solution_.status


@pytest.mark.parametrize("status", Status)
def test_a_status_is_stored_by_its_name(status: Status) -> None:
    """A sentence may be reworded; a pickle or a skops file must still load."""
    assert pickle.loads(pickle.dumps(status)) is status
    assert status.value.encode() not in pickle.dumps(status)
    assert Status(status.name) is status


def test_an_unknown_status_is_an_error() -> None:
    with pytest.raises(ValueError, match="NOPE"):
        Status("NOPE")
