"""The figures of docs/jcfo.md: ``python -m docs.figures.jcfo [names]`` writes docs/img/jcfo_*.png."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from smaller import datasets
from smaller.bases import Kernel
from smaller.estimators.adaptive import SparseProbit
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.kernels import make_kernel
from smaller.likelihoods import Probit
from smaller.searches.scales import ScaledProblem, search_scales

IMAGES = Path(__file__).resolve().parents[1] / "img"
OURS, OTHER, THIRD, GREY = "#0b6e6e", "#c8553d", "#7d6b91", "#8a8a8a"


def figure(width: float = 6.0, height: float = 3.8, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    drawing = Figure(figsize=(width, height), layout="constrained")
    axes = drawing.subplots(1, columns, **options)
    for ax in np.atleast_1d(axes):
        ax.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def save(drawing: Figure, name: str) -> None:
    drawing.savefig(IMAGES / f"jcfo_{name}.png", dpi=130)


def ring(n: int, p: int, seed: int) -> tuple[Any, Any]:
    """Class 1 outside a circle through the middle of the first two of p normal features."""
    X = np.random.default_rng(seed).normal(size=(n, p))
    return X, ((X[:, :2] ** 2).sum(axis=1) > 2 * np.log(2)).astype(int)


def irrelevant(draws: int = 5) -> None:
    """Test error against the number of features, two of which matter (the paper's figure 1)."""
    counts = (2, 10, 20, 50, 100)
    linear = {"kernel": "poly", "degree": 1}
    models: dict[str, tuple[Any, str, str]] = {
        # With a linear kernel only the product of the strengths matters.
        "JCFO, strengths by likelihood": (JCFOCV([12.0], [40.0, 21.0, 12.0, 6.75, 3.0], **linear), OURS, "o-"),
        "sparse probit, linear kernel": (SparseProbit(gamma="auto", **linear), THIRD, "^--"),
        "SVM, linear, cost by cross-validation": (
            GridSearchCV(SVC(kernel="linear"), {"C": [1e-3, 1e-2, 0.1, 1.0]}),
            OTHER,
            "s-.",
        ),
    }
    with suppress(ImportError):  # sklearn-rvm is no dependency: the line is left out without it
        from sklearn_rvm import EMRVC

        models["RVM, linear kernel"] = (EMRVC(kernel="linear"), GREY, "v:")
    wrong = {name: np.zeros((len(counts), draws, 1000), dtype=bool) for name in models}
    for i, p in enumerate(counts):
        for seed in range(draws):
            X, y = datasets.make_irrelevant(200, n_features=p, random_state=seed)
            X_test, y_test = datasets.make_irrelevant(1000, n_features=p, random_state=1000 + seed)
            for name, (model, _, _) in models.items():
                wrong[name][i, seed] = model.fit(X, y).predict(X_test) != y_test
    drawing, ax = figure(6.4, 4.0)
    for name, (_, color, style) in models.items():
        error = wrong[name].mean(axis=2)
        mean, spread = 100 * error.mean(axis=1), 100 * error.std(axis=1, ddof=1) / np.sqrt(draws)
        ax.errorbar(counts, mean, spread, fmt=style, color=color, label=name, capsize=2, markersize=5)
    ours = next(iter(wrong.values()))
    for name, (_, color, _) in list(models.items())[1:]:
        for i, p in enumerate(counts):
            better, worse = (wrong[name][i] & ~ours[i]).sum(), (ours[i] & ~wrong[name][i]).sum()
            if better > worse and binomtest(int(better), int(better + worse)).pvalue < 0.05:
                ax.annotate("*", (p, 100 * wrong[name][i].mean()), (0, 4), textcoords="offset points", color=color)
    ax.axhline(15.87, color=GREY, linewidth=0.8, linestyle=":")
    ax.text(counts[-1], 15.6, "Bayes", color=GREY, va="top", ha="right")
    ax.set(xlabel="features, of which two matter", ylabel="test error, per cent", ylim=(14, 38))
    ax.set_title("* JCFO better in McNemar's paired test, p < .05", loc="left", fontsize=9, color="0.3")
    ax.legend(frameon=False, loc="upper left")
    save(drawing, "irrelevant")


def scales() -> None:
    """Learned scales of 30 features, and the boundary in the two that matter."""
    X, y = ring(200, 30, 3)
    model = JCFO(alpha=1.0, alpha_scales=10.0).fit(X, y)
    drawing, (bars, plane) = figure(9.0, 3.8, 2, width_ratios=(1.5, 1))
    bars.bar(np.arange(30), model.scales_, color=[OURS if k < 2 else OTHER for k in range(30)])
    zeros = np.flatnonzero(model.scales_ == 0)
    bars.plot(zeros, np.zeros(len(zeros)), "x", color=GREY, markersize=4, clip_on=False)
    bars.set(xlabel="feature (0 and 1 matter)", ylabel="scale", xlim=(-1, 30))
    bars.set_title(f"{len(zeros)} of 30 scales are exactly zero (x)", loc="left", fontsize=9, color="0.3")
    grid = np.linspace(-3, 3, 121)
    points = np.zeros((grid.size**2, 30))
    points[:, 0], points[:, 1] = (axis.ravel() for axis in np.meshgrid(grid, grid))
    P = model.predict_proba(points)[:, 1].reshape(grid.size, grid.size)
    plane.contourf(grid, grid, P, np.linspace(0, 1, 11), cmap="BrBG", alpha=0.6)
    plane.contour(grid, grid, P, [0.5], colors=[OURS], linewidths=1.6)
    for label, color in ((0, OTHER), (1, "0.25")):
        plane.plot(*X[y == label, :2].T, ".", color=color, markersize=3)
    plane.plot(*model.support_vectors_[:, :2].T, "o", color="k", fillstyle="none", markersize=9)
    plane.set(xlabel="feature 0", ylabel="feature 1", xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
    plane.set_title(f"P(outside), {len(model.support_)} centres (circles)", loc="left", fontsize=9, color="0.3")
    save(drawing, "scales")


def phases() -> None:
    """Objective after every step of the three phases."""
    X, y = ring(200, 50, 1)
    solution = JCFO(alpha=1.0, alpha_scales=10.0).fit(X, y).solution_
    drawing, ax = figure(6.0, 3.4)
    begin = 0
    for (name, values), color in zip(solution.phases.items(), (THIRD, OTHER, OURS), strict=True):
        steps = np.arange(begin, begin + len(values))
        ax.plot(steps, np.array(values) - solution.objective + 1e-12, color=color, label=name, linewidth=1.8)
        begin += len(values)
    ax.set(xlabel="step", ylabel="objective above its last value", yscale="log", ylim=(1e-8, None))
    ax.legend(frameon=False)
    save(drawing, "phases")


def problems() -> dict[str, tuple[Any, Any, JCFO]]:
    X, y = load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:150]
    return {
        "ring, p = 60": (*ring(150, 60, 0), JCFO(1.0, 3.0)),
        "XOR, p = 10": (*datasets.make_xor(150, 10, random_state=0), JCFO(0.3, 1.0)),
        "linear, p = 20": (
            *datasets.make_irrelevant(150, 20, random_state=0),
            JCFO(9.0, 9.0, kernel="poly", degree=1),
        ),
        "breast cancer": (scale(X[some]), y[some], JCFO(0.3, 1.0)),
    }


def starts(count: int = 12) -> None:
    """How far stationary points from random starts end above the best one: are there many local optima?"""
    drawing, ax = figure(6.4, 3.4)
    names = []
    for line, (name, (X, y, model)) in enumerate(problems().items()):
        ends = {}
        for em_iter in (30, 0):
            model.set_params(em_iter=em_iter)
            rng = np.random.RandomState(0)
            ends[em_iter] = [_end(model, X, y, factor) for factor in _factors(rng, X.shape[1], count)]
        best = min(min(values) for values in ends.values())
        for em_iter, color, offset in ((30, OURS, -0.13), (0, OTHER, 0.13)):
            excess = 100 * (np.array(ends[em_iter]) / best - 1) + 1e-4
            label = ("with EM", "without EM")[em_iter == 0] if line == 0 else None
            ax.plot(excess, np.full(count, line + offset), "o", color=color, alpha=0.4, markersize=5, label=label)
            ax.plot(excess[0], line + offset, "D", color=color, fillstyle="none", markersize=9)
            share = np.mean(excess < 0.1)
            print(f"{name}, em_iter={em_iter}: {100 * share:.0f} % within .1 %, first start {excess[0]:.3f} % above")
        names.append(name)
    ax.set(yticks=range(len(names)), yticklabels=names, xscale="log", ylim=(len(names) - 0.5, -0.5))
    ax.set_xlabel("objective above the best, per cent (10^-4: the best)")
    ax.set_title("diamond: all scales equal, the default start", loc="left", fontsize=9, color="0.3")
    ax.legend(frameon=False, loc="center")
    save(drawing, "starts")


def _factors(rng: Any, p: int, count: int) -> list[Any]:
    return [np.ones(p), *rng.exponential(size=(count - 1, p))]


def _end(model: JCFO, X: Any, y: Any, factor: Any) -> float:
    """Objective reached from scales of ``factor`` over p."""
    kernel = make_kernel(model.kernel, gamma="auto", degree=model.degree, coef0=1.0, kernel_params=None, X=X)
    targets = Probit().encode(y)
    problem = ScaledProblem(X, Kernel(kernel, X), targets, None, Probit(), model.alpha, model.alpha_scales)
    return search_scales(problem, [factor / X.shape[1]], em_iter=model.em_iter).objective


if __name__ == "__main__":
    figures = {"irrelevant": irrelevant, "scales": scales, "phases": phases, "starts": starts}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* kept no ")
        for name in sys.argv[1:] or figures:
            figures[name]()
