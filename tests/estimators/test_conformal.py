"""Conformal sets are MAPIE's: its wrappers take our classifiers, relaxed ones and pipelines, as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import IVM, SBMLR, SMLR, SMLRCV

Array = Any
mapie = pytest.importorskip("mapie.classification", reason="MAPIE is not installed")
X, Y = load_wine(return_X_y=True)
LEVEL = 0.9


@pytest.fixture(scope="module")
def rows() -> tuple[Array, ...]:
    train, other, y_train, y_other = train_test_split(X, Y, train_size=60, stratify=Y, random_state=0)
    return train, y_train, *train_test_split(other, y_other, train_size=60, stratify=y_other, random_state=0)


@pytest.mark.parametrize(
    "model",
    [SMLR(alpha=2.0), SBMLR(), SBMLR(relax=True), SMLRCV(alphas=15, relax=True), IVM(gamma=0.05)],
    ids=lambda model: str(model),
)
def test_the_sets_are_those_of_the_split_conformal_rule(model: Any, rows: tuple[Array, ...]) -> None:
    train, y_train, calibration, new, y_calibration, _ = rows
    fitted = make_pipeline(StandardScaler(), model).fit(train, y_train)
    conformal = mapie.SplitConformalClassifier(fitted, confidence_level=LEVEL, prefit=True)
    labels, sets = conformal.conformalize(calibration, y_calibration).predict_set(new)
    assert_array_equal(labels, fitted.predict(new))
    # The rule by hand: all labels whose 1 - p is at most the ceil((n + 1) level)-th smallest of the calibration rows.
    P = fitted.predict_proba(calibration)
    scores = np.sort(1.0 - P[np.arange(len(P)), y_calibration])
    limit = scores[int(np.ceil((len(P) + 1) * LEVEL)) - 1]
    assert_array_equal(sets[:, :, 0], 1.0 - fitted.predict_proba(new) <= limit + 1e-12)


def test_cross_conformal_sets_refit_the_whole_pipeline(rows: tuple[Array, ...]) -> None:
    train, y_train, _, new, _, y_new = rows
    model = make_pipeline(StandardScaler(), SBMLR(relax=True))
    conformal = mapie.CrossConformalClassifier(model, confidence_level=LEVEL, cv=5).fit_conformalize(train, y_train)
    sets = conformal.predict_set(new)[1][:, :, 0]
    assert sets.shape == (len(new), 3)
    assert sets[np.arange(len(new)), y_new].mean() > 0.8
