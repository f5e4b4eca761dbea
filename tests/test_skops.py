"""skops, the other file format without code, gives every estimator back to the bit once our types are trusted."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import general
from registry import ALL_ESTIMATORS, WRAPPERS
from smaller import SMLR, RejectOptionClassifier
from smaller.problem import Status

sio = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
TWO = (X[:, 0] + 0.5 * RNG.normal(size=40) > 0).astype(int)
MODELS = [
    *ALL_ESTIMATORS,
    *WRAPPERS,
    RejectOptionClassifier(SMLR(), threshold=0.2),
    make_pipeline(StandardScaler(), SMLR()),
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # edges of grids and small samples are not what this is about
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_skops_gives_every_estimator_back_to_the_bit(model: Any) -> None:
    general.survives_skops(model)


@pytest.mark.parametrize("status", Status)
def test_a_status_is_stored_by_its_name(status: Status) -> None:
    """A sentence may be reworded; a pickle or a skops file must still load."""
    assert pickle.loads(pickle.dumps(status)) is status
    assert status.value.encode() not in pickle.dumps(status)
    assert Status(status.name) is status


def test_an_unknown_status_is_an_error() -> None:
    with pytest.raises(ValueError, match="NOPE"):
        Status("NOPE")
