"""Every Display: data kept, axes made or taken, what is drawn is what was computed."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import RMLR, SMLR, coef_interval, smlr_path
from smaller.estimators.import_vectors import IVM
from smaller.estimators.stability import StabilitySelection
from smaller.plotting import (
    CVDisplay,
    ErrorRejectDisplay,
    FeatureWeightsDisplay,
    ForestDisplay,
    ImportPathDisplay,
    PathDisplay,
    ScalesDisplay,
    StabilityDisplay,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

IRIS = load_iris(return_X_y=True)
X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
NAMES = np.array(["a $x^2", "<b>", "ü", *(f"column number {i} with a very long name indeed" for i in range(10))])


class FittedScales(RMLR):
    """Stands for JCFO: a fitted model with scales."""

    scales_ = np.r_[0.0, 2.0, 0.5, np.zeros(10)]


def displays() -> list[Any]:
    two = Y < 2
    linear = SMLR(5.0).fit(X, Y)
    cv = CVDisplay(np.geomspace(10, 0.1, 5), -np.array([[3.0, 2, 1, 1.1, 2], [3.2, 2, 1.2, 1.3, 2]]), 1.0)
    return [
        PathDisplay.from_path(smlr_path(X, Y, alphas=12), feature_names=NAMES, alpha=3.0),
        cv,
        ImportPathDisplay.from_estimator(IVM(0.5).fit(*IRIS)),
        ScalesDisplay.from_estimator(FittedScales().fit(X, Y), feature_names=NAMES),
        ErrorRejectDisplay.from_estimator(linear, X, Y),
        FeatureWeightsDisplay.from_estimator(make_pipeline(StandardScaler(), SMLR(3.0)).fit(X, Y), feature_names=NAMES),
        FeatureWeightsDisplay.from_estimator(SMLR(1.0).fit(X[two], Y[two]), feature_names=NAMES),
        ForestDisplay.from_estimator(SMLR(1.0).fit(X[two], Y[two]), X[two], Y[two], feature_names=NAMES),
        StabilityDisplay.from_estimator(StabilitySelection(n_pairs=2, random_state=0).fit(X, Y), feature_names=NAMES),
    ]


@pytest.fixture(autouse=True)
def _close_figures() -> Any:
    yield
    plt.close("all")


@pytest.mark.parametrize("display", displays(), ids=lambda d: type(d).__name__)
def test_a_display_draws_on_new_or_given_axes(display: Any) -> None:
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()  # names with $, < and long ones are drawn without an error
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax
    assert ax.has_data()
    assert ax.get_xlabel() or ax.get_images()


def test_the_path_shows_every_used_feature_and_the_chosen_strength() -> None:
    path = smlr_path(X, Y, alphas=12)
    display = PathDisplay.from_path(path, alpha=3.0).plot(max_labels=2)
    used = int(path.coefs.any(axis=(0, 1)).sum())
    assert len(display.ax_.lines) == used + 2
    assert len(display.ax_.get_legend().get_texts()) == 2


def test_the_one_standard_error_rule_is_the_largest_alpha_within_reach() -> None:
    display = CVDisplay(np.array([4.0, 2.0, 1.0]), np.array([[-1.0, -0.55, -0.5], [-1.0, -0.65, -0.9]]), 2.0)
    assert display.alpha_min == 2.0
    assert display.alpha_1se == 2.0
    wide = CVDisplay(np.array([4.0, 2.0, 1.0]), np.array([[-0.7, -0.2, -0.5], [-0.7, -1.0, -0.9]]), 2.0)
    assert wide.alpha_1se == 4.0


def test_cv_display_reads_a_cross_validated_model() -> None:
    model = FittedScales().fit(X, Y)
    model.scores_, model.alphas_, model.alpha_ = np.zeros((3, 2, 4)), np.ones((2, 4)), 1.0
    model.l1_ratio, model.l1_ratio_ = [0.5, 1.0], 1.0
    assert CVDisplay.from_estimator(model).scores.shape == (3, 4)


def test_error_reject_starts_at_the_error_of_the_classifier() -> None:
    model = SMLR(5.0).fit(X, Y)
    display = ErrorRejectDisplay.from_estimator(model, X, Y)
    assert display.rejected[0] == 0.0
    assert display.error[0] == pytest.approx(1.0 - model.score(X, Y))


def test_the_largest_bar_is_on_top() -> None:
    display = ScalesDisplay(np.array([0.1, 3.0, 0.0]), np.array(["a", "b", "c"], dtype=object)).plot()
    assert display.ax_.patches[0].get_width() == 3.0
    assert display.ax_.yaxis_inverted()


@pytest.mark.parametrize(
    ("cls", "model"),
    [
        (PathDisplay, SMLR()),
        (CVDisplay, SMLR()),
        (ImportPathDisplay, SMLR()),
        (ScalesDisplay, SMLR()),
        (StabilityDisplay, SMLR()),
        (FeatureWeightsDisplay, SMLR(kernel="rbf")),
    ],
)
def test_the_wrong_estimator_is_refused_with_advice(cls: Any, model: Any) -> None:
    with pytest.raises(TypeError, match=r"use |kernel"):
        cls.from_estimator(model.fit(*IRIS))
    with pytest.raises(NotFittedError):
        cls.from_estimator(SMLR())


def forest(rows: Any, **how: Any) -> ForestDisplay:
    two = Y < 2
    return ForestDisplay.from_estimator(SMLR(1.0).fit(rows[two], Y[two]), rows[two], Y[two], columns=[0, 3, 9], **how)


def test_a_forest_is_drawn_at_the_odds_ratios_of_its_effects() -> None:
    two = Y < 2
    effects = coef_interval(SMLR(1.0).fit(X[two], Y[two]), X[two], Y[two], columns=[0, 3, 9])
    ax = forest(X, feature_names=NAMES).plot().ax_
    order = np.argsort(effects.p_value)
    ranges, marks = ax.lines[0:6:2], ax.lines[1:6:2]
    assert [mark.get_xdata()[0] for mark in marks] == pytest.approx(effects.odds_ratio[order, 0])
    assert [list(line.get_xdata()) for line in ranges] == pytest.approx(effects.odds_ratio[order, 1:])
    assert ax.get_xscale() == "log"
    shown = [tick.get_text()[:15].replace("\\$", "$") for tick in ax.get_yticklabels()]
    assert shown == [name[:15] for name in NAMES[[0, 3, 9]][order]]
    told = [mark.get_markerfacecolor() != "none" for mark in marks]
    assert told == (effects.p_corrected[order] < 0.05).tolist()


def test_odds_ratios_per_deviation_do_not_depend_on_the_unit() -> None:
    two, tenfold = Y < 2, StandardScaler().fit(X[Y < 2]).transform(X)
    deviations = X[two].std(axis=0)[[0, 3, 9]]
    raw = forest(X, per="deviation")
    assert raw.effect == pytest.approx(forest(X).effect * deviations, rel=1e-12)
    assert forest(tenfold).effect == pytest.approx(forest(tenfold, per="deviation").effect, rel=1e-12)
    pipe = make_pipeline(StandardScaler(), SMLR(1.0)).fit(X[two], Y[two])
    piped = ForestDisplay.from_estimator(pipe, X[two], Y[two], columns=[0, 3, 9])
    assert piped.low == pytest.approx(forest(tenfold).low)


def test_a_forest_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match="per must be"):
        forest(X, per="sd")
    with pytest.raises(ValueError, match="two classes"):
        ForestDisplay.from_estimator(SMLR().fit(X, Y), X, Y)
    effects = coef_interval(SMLR(1.0).fit(X[Y < 2], Y[Y < 2]), X[Y < 2], Y[Y < 2], columns=[0, 3])
    with pytest.raises(ValueError, match="2 numbers"):
        ForestDisplay.from_effects(effects, deviations=[1.0])


def test_a_kernel_path_has_no_feature_weights() -> None:
    model = SMLR(kernel="rbf").fit(*IRIS)
    model.path_, model.alpha_ = SimpleNamespace(), 1.0
    with pytest.raises(TypeError, match="kernel"):
        PathDisplay.from_estimator(model)


def test_matplotlib_is_imported_only_when_something_is_drawn() -> None:
    script = "import sys, smaller.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
