"""Estimators on a device: the answer of the host, predictions where the data are, sentences for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_compat
import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.rows.test_device import AWAY, needs_torch, strict, torch

import smaller.devices
from smaller import KLR, RMLR, SBMLR, SMLR, SMLRCV, alpha_max, smlr_path
from smaller.arrays import to_host

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
MOVES = [strict, pytest.param(torch, marks=needs_torch)]


@pytest.fixture
def dispatch(monkeypatch: Any) -> None:
    """As if scikit-learn's dispatch were on; switching it on asks for an environment variable before SciPy's import."""
    monkeypatch.setattr(smaller.devices, "get_config", lambda: {"array_api_dispatch": True})


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    ("estimator", "labels"),
    [
        (SMLR(alpha=2.0, tol=1e-10), Y),
        (SMLR(alpha=2.0, tol=1e-10, coding="reference", class_weight="balanced"), Y),
        (SMLR(alpha=0.1, alpha_scale="max", tol=1e-10), (Y > 0).astype(int)),
        (RMLR(alpha=1.0, tol=1e-10), Y),
    ],
    ids=["symmetric", "reference", "two", "ridge"],
)
def test_a_model_from_a_device_is_the_model_of_the_host(move: Any, estimator: Any, labels: Any) -> None:
    weight = np.linspace(0.5, 2.0, len(Y))
    here = estimator.fit(X, labels, weight)
    known = here.coef_.copy(), {m: getattr(here, m)(X) for m in ("decision_function", "predict_proba", "predict")}
    there = move(X)
    found = estimator.fit(there, move(labels), move(weight))
    np.testing.assert_allclose(found.coef_, known[0], atol=1e-6)
    assert np.array_equal(found.classes_, np.unique(labels))
    assert found.n_features_in_ == 4
    for method, expected in known[1].items():
        answer = getattr(found, method)(there)
        assert array_api_compat.device(answer) == array_api_compat.device(there)
        np.testing.assert_allclose(to_host(answer), expected, atol=1e-6)
    logs = to_host(found.predict_log_proba(there))
    np.testing.assert_allclose(np.exp(logs), known[1]["predict_proba"], atol=1e-6)
    assert estimator.fit(move(X.astype(np.float32)), labels).predict(there).shape == (150,)


@pytest.mark.usefixtures("dispatch")
def test_paths_and_cross_validation_stay_there() -> None:
    there, y = strict(X), strict(Y)
    path, same = smlr_path(there, y, alphas=10), smlr_path(X, Y, alphas=10)
    np.testing.assert_allclose(path.objectives, same.objectives, rtol=1e-5)
    assert alpha_max(there, y) == pytest.approx(alpha_max(X, Y), rel=1e-8)
    found = SMLRCV(alphas=np.geomspace(30.0, 0.01, 8), cv=3).fit(there, y)
    assert found.scores_.shape[0] == 3
    assert found.score(X, Y) > 0.9
    assert SBMLR().fit(there, y).score(X, Y) > 0.9


@pytest.mark.usefixtures("dispatch")
def test_labels_that_are_texts_stay_on_the_host() -> None:
    names = np.array(["a", "b", "c"])[Y]
    found = SMLR(alpha=1.0).fit(strict(X), names)
    assert set(found.predict(strict(X))) <= {"a", "b", "c"}


def sentences() -> Iterator[Any]:
    other = array_api_strict.Device("device2")
    broken = X.copy()
    broken[3, 2] = np.nan
    yield strict(X.astype(np.int64)), strict(Y), None, TypeError, "converted to float32 or float64"
    yield strict(X), array_api_strict.asarray(Y, device=other), None, ValueError, "move both to one device"
    yield X, strict(Y), None, TypeError, "move all of them to one place"
    yield strict(broken), strict(Y), None, ValueError, "column 2"
    yield strict(X[:, 0]), strict(Y), None, ValueError, "two dimensions"
    yield strict(X), strict(Y[:10]), None, ValueError, "one entry for each"
    yield strict(X), strict(0 * Y), None, ValueError, "one class only"
    yield strict(X), strict(Y), strict(-np.ones(150)), ValueError, "sample_weight must hold finite"
    yield strict(X), None, None, ValueError, "y must be given"


@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize(("there", "y", "weight", "error", "sentence"), list(sentences()))
def test_what_cannot_be_is_a_sentence_and_nothing_is_half_fitted(
    there: Any, y: Any, weight: Any, error: Any, sentence: str
) -> None:
    model = SMLR()
    with pytest.raises(error, match=sentence):
        model.fit(there, y, weight)
    assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


@pytest.mark.usefixtures("dispatch")
def test_kernel_machines_are_fitted_in_memory() -> None:
    with pytest.raises(TypeError, match=r"\.cpu\(\) on a tensor"):
        KLR().fit(strict(X), strict(Y))
    with pytest.raises(TypeError, match=r"\.cpu\(\) on a tensor"):
        SMLR(kernel="rbf", n_centers=5).fit(strict(X), strict(Y))


def test_without_dispatch_a_sentence_says_how_to_switch_it_on() -> None:
    assert strict(X).device == AWAY
    with pytest.raises(TypeError, match=r"sklearn\.set_config\(array_api_dispatch=True\)"):
        SMLR().fit(strict(X), strict(Y))


@needs_torch
def test_without_dispatch_tensors_on_the_host_are_host_arrays() -> None:
    found = SMLR(alpha=2.0).fit(torch(X), torch(Y))
    assert isinstance(found.predict(torch(X)), np.ndarray)
