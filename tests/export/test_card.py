"""The card of points: what is printed gives the probabilities, and the stated losses are those of the rows."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import IVM, SMLR, SparseProbit
from smaller.export import ExportError, to_card


@pytest.fixture(scope="module")
def tumours():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.where(y == 0, "malignant", "benign")
    model = make_pipeline(StandardScaler(), SMLR(alpha=20)).fit(X, y)
    return X, y, model, to_card(model, X, y)


def by_hand(text: str, row: pd.Series) -> int:
    """Add up the points of a row as a reader of the printed card would."""
    total, name = 0, None
    for line in text.split("\n\n")[1].splitlines():
        if not line.startswith("  "):
            name = line
            continue
        *words, points = line.split()
        limits = [float(word) for word in re.findall(r"[-\d.e]+", " ".join(words)) if word not in "-.e"]
        low = -np.inf if words[0] == "below" else limits[0]
        high = np.inf if words[-1] == "more" else limits[-1]
        total += int(points) * (low <= row[name] < high)
    return total


def best_loss(score: np.ndarray, positive: np.ndarray) -> float:
    """Mean log-loss of ``a + b score`` at the best a and b, by a general minimiser."""
    z = (score - score.mean()) / (score.std() or 1.0)
    sign = np.where(positive, -1.0, 1.0)
    return float(minimize(lambda t: np.logaddexp(0.0, sign * (t[0] + t[1] * z)).mean(), np.zeros(2), tol=1e-12).fun)


def test_the_printed_card_gives_totals_and_probabilities(tumours) -> None:
    X, _, _, card = tumours
    text = str(card)
    totals = np.array([by_hand(text, row) for _, row in X.iterrows()])
    assert totals.tolist() == card.totals(X).tolist()
    shown = dict(re.findall(r"^ +(-?\d+)  (\d+)%$", text, re.M))
    assert len(shown) > 3
    for total, percent in shown.items():
        p = card.predict_proba(X)[totals == int(total), 1]
        assert np.abs(p - int(percent) / 100).max(initial=0.0) <= 0.005 + 1e-12


def test_the_stated_losses_are_those_of_the_rows(tumours) -> None:
    X, y, model, card = tumours
    positive = y == "malignant"
    assert card.loss == pytest.approx(log_loss(positive, card.predict_proba(X)[:, 1]), abs=1e-9)
    assert card.loss == pytest.approx(best_loss(card.totals(X).astype(float), positive), abs=1e-6)
    assert card.model_loss == pytest.approx(best_loss(model.decision_function(X), positive), abs=1e-6)
    assert card.null_loss == pytest.approx(log_loss(positive, np.full(len(y), positive.mean())))
    assert card.model_loss < card.loss <= card.rounded_loss < card.null_loss
    assert f"card {card.loss:.4f}" in str(card)


def test_points_follow_the_weights(tumours) -> None:
    _, _, model, card = tumours
    weight = dict(zip(model.feature_names_in_, model[-1].coef_[0], strict=True))
    for entry in card.entries:
        assert (np.diff(entry.points) * np.sign(weight[entry.feature.name]) >= 0).all()
        assert min(entry.points) == 0
        assert max(entry.points) <= 5


@pytest.mark.parametrize("seed", range(4))
def test_two_answers_are_rounded_in_the_best_way(seed: int) -> None:
    """With two features of two answers the flips reach every rounding, so the search is exhaustive."""
    rng = np.random.default_rng(seed)
    X = (rng.random((400, 2)) < 0.5).astype(float)
    y = rng.random(400) < 1 / (1 + np.exp(-(X @ [1.9, -0.8] - 0.4)))
    model = SMLR(alpha=0.5).fit(X, y)
    card = to_card(model, X, y, largest=3)
    w = model.coef_[0]
    losses = []
    for top in np.arange(1, 9) * 3 / 8:
        exact = w * top / np.abs(w).max()
        roundings = [np.where(up, np.ceil(exact), np.floor(exact)) for up in product((0, 1), repeat=2)]
        losses += [best_loss(X @ points, y) for points in roundings]
    assert card.loss == pytest.approx(min(losses), abs=1e-7)
    assert card.loss <= card.rounded_loss + 1e-12


def test_weights_are_repetitions() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), SMLR(alpha=60)).fit(X, y)
    weight = np.where(np.arange(len(y)) % 3 == 0, 2, 1)
    weighted = to_card(model, X, y, sample_weight=weight)
    # Quantiles are those of the rows, so give both the same ones: compare losses at equal points.
    repeated = np.repeat(np.arange(len(y)), weight)
    p = weighted.predict_proba(X.iloc[repeated])[:, 1]
    assert weighted.loss == pytest.approx(log_loss(y.to_numpy()[repeated], p), abs=1e-9)


def test_gaps_count_as_what_the_model_fills_in() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.where(np.random.default_rng(0).random(X.shape) > 0.1)
    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), SMLR(alpha=40)).fit(X, y)
    card = to_card(model, X, y)
    filled = X.fillna(X.median())
    assert card.totals(X).tolist() == card.totals(filled).tolist()
    assert card.loss < card.null_loss


def test_a_gap_that_nothing_fills_is_refused() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), SMLR(alpha=40)).fit(X, y)
    X.iloc[0] = np.nan
    with pytest.raises(ExportError, match="missing"):
        to_card(model, X, y)


@pytest.mark.parametrize("model", [IVM(), SparseProbit()])
def test_only_linear_logistic_models_have_a_card(model) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    X = X + np.random.default_rng(0).normal(size=X.shape)
    with pytest.raises(ExportError, match="linear model of two classes"):
        to_card(model.fit(X, y), X, y)


def test_three_classes_and_foreign_labels_are_refused(tumours) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ExportError, match="two classes"):
        to_card(SMLR().fit(X, y), X, y)
    X, y, model, _ = tumours
    with pytest.raises(ExportError, match="labels other than"):
        to_card(model, X, np.arange(len(y)))
    with pytest.raises(ExportError, match="both classes"):
        to_card(model, X, np.full(len(y), "benign"))
