"""The figures of docs/adaptive.md: ``python -m docs.figures.adaptive`` writes docs/img/adaptive_*.png."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from benchmarks.papers.datasets import load
from matplotlib.figure import Figure
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from smaller.datasets import make_irrelevant, make_sinc
from smaller.estimators.adaptive import SparseProbit, SparseRegressor

IMAGES = Path(__file__).resolve().parents[1] / "img"
OURS, OTHER, THIRD, GREY = "#0b6e6e", "#c8553d", "#7d6b91", "#8a8a8a"


def figure(width: float = 6.0, height: float = 3.8, columns: int = 1) -> tuple[Figure, Any]:
    drawing = Figure(figsize=(width, height), layout="constrained")
    axes = drawing.subplots(1, columns)
    for ax in np.atleast_1d(axes):
        ax.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def save(drawing: Figure, name: str) -> None:
    drawing.savefig(IMAGES / f"adaptive_{name}.png", dpi=130)


def threshold() -> None:
    """Estimate against least squares on an orthogonal design: hard, soft, Jeffreys."""
    h = np.concatenate([np.linspace(0, 1.99, 40), np.linspace(2.01, 6, 60)])
    jeffreys = SparseRegressor(noise=1.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(np.eye(len(h)), h).coef_
    drawing, ax = figure()
    ax.plot(h, np.where(h > 2, h, 0), color=GREY, linestyle="--", label="hard threshold at 2 sigma")
    ax.plot(h, np.maximum(h - 2, 0), color=OTHER, linestyle="-.", label="soft threshold 2 sigma (Laplace)")
    ax.plot(h, jeffreys, color=OURS, linewidth=2.2, label="Jeffreys, as fitted")
    ax.set(xlabel="least-squares estimate / sigma", ylabel="estimate / sigma", xlim=(0, 6), ylim=(-0.1, 6))
    ax.legend(frameon=False)
    save(drawing, "threshold")


def nonzeros() -> None:
    """Non-zero weights found against true ones, n = 50, k = 20."""
    true = np.arange(0, 21, 2)
    found = np.array([[count_nonzeros(t, seed) for seed in range(30)] for t in true])
    drawing, ax = figure(5.0, 4.2)
    ax.plot([0, 20], [0, 20], color=GREY, linestyle="--", label="identity")
    ax.errorbar(true, found.mean(axis=1), found.std(axis=1), color=OURS, marker="o", capsize=3, label="Jeffreys")
    ax.set(xlabel="true non-zero weights of 20", ylabel="found (30 draws, ± deviation)", xticks=range(0, 21, 4))
    ax.legend(frameon=False)
    save(drawing, "nonzeros")


def count_nonzeros(true: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 20))
    y = X @ np.where(np.arange(20) < true, 3.0, 0.0) + rng.normal(size=50)
    return int(SparseRegressor(fit_intercept=False).fit(X, y).n_active_)


def sinc() -> None:
    """Kernel regression of sin(x)/x with its standard deviations and the kernels that are kept."""
    X, y = make_sinc(50, noise=0.1, random_state=3)
    model = SparseRegressor(kernel="rbf", gamma=0.125).fit(X, y)
    grid = np.linspace(-10, 10, 400)[:, None]
    mean, deviation = model.predict(grid, return_std=True)
    drawing, ax = figure(6.6)
    ax.fill_between(
        grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, color=OURS, alpha=0.15, label="± 2 deviations"
    )
    ax.plot(grid, np.sinc(grid / np.pi), color=GREY, linestyle="--", label="sin(x)/x")
    ax.plot(grid, mean, color=OURS, linewidth=2, label=f"fit, {model.n_active_} of 50 kernels")
    ax.plot(X, y, ".", color="black", markersize=5, label="data")
    ax.plot(
        X[model.support_], y[model.support_], "o", color=OTHER, markersize=11, fillstyle="none", label="kernels kept"
    )
    ax.set(xlabel="x", ylabel="y", ylim=(-0.6, 1.55))
    ax.legend(frameon=False, ncols=2, loc="upper left", fontsize=8)
    save(drawing, "sinc")


def dimension() -> None:
    """Test error against the number of features, of which two matter: linear and quadratic classifiers."""
    drawing, (left, right) = figure(9.0, 3.8, columns=2)
    linear = {"SparseProbit": SparseProbit(), "linear discriminant": LinearDiscriminantAnalysis()}
    error_curves(left, (2, 10, 20, 40, 60), 100, linear, "linear, 50 rows a class")
    square = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), SparseProbit())
    quadratic = {"SparseProbit on all products": square, "quadratic discriminant": QuadraticDiscriminantAnalysis()}
    error_curves(right, (2, 5, 10, 15, 20), 200, quadratic, "quadratic, 100 rows a class")
    save(drawing, "dimension")


def error_curves(ax: Any, dimensions: tuple[int, ...], n: int, models: dict[str, Any], title: str) -> None:
    for (name, model), color in zip(models.items(), (OURS, OTHER), strict=True):
        means = [np.mean([test_error(model, n, d, seed) for seed in range(10)]) for d in dimensions]
        ax.plot(dimensions, means, color=color, marker="o", label=name)
    ax.axhline(stats.norm.cdf(-1.0), color=GREY, linestyle="--", label="Bayes error")
    ax.set(title=title, xlabel="features (two matter)", ylabel="test error, 10 draws", ylim=(0.14, 0.36))
    ax.legend(frameon=False, loc="upper left")


def test_error(model: Any, n: int, d: int, seed: int) -> float:
    X, y = make_irrelevant(n, n_features=d, random_state=seed)
    X_test, y_test = make_irrelevant(2000, n_features=d, random_state=1000 + seed)
    return float(1.0 - model.fit(X, y).score(X_test, y_test))


def ripley() -> None:
    """The boundary on Ripley's data, with the kernels that are kept."""
    data = load("ripley_synth")
    train = np.random.default_rng(0).permutation(data.split["train"])[:100]
    X, y = data.data[train], (data.target[train] == np.unique(data.target)[1]).astype(int)
    model = SparseProbit(kernel="rbf", gamma=2.0).fit(X, y)
    xs, ys = np.meshgrid(np.linspace(-1.4, 1.1, 200), np.linspace(-0.4, 1.3, 200))
    P = model.predict_proba(np.column_stack([xs.ravel(), ys.ravel()]))[:, 1].reshape(xs.shape)
    drawing, ax = figure(5.6, 4.2)
    shading = ax.contourf(xs, ys, P, levels=np.linspace(0, 1, 11), cmap="BrBG", alpha=0.5)
    ax.contour(xs, ys, P, levels=[0.5], colors="black", linewidths=1.5)
    for label, marker, color in ((0, "v", "#8c510a"), (1, "^", "#01665e")):
        ax.plot(*X[y == label].T, marker, color=color, markersize=4, linestyle="none", label=f"class {label}")
    ax.plot(*model.support_vectors_.T, "o", color="black", markersize=13, fillstyle="none", label="kernels kept")
    drawing.colorbar(shading, label="P(class 1)")
    ax.set(xlabel="x", ylabel="y", xlim=(-1.4, 1.1), ylim=(-0.4, 1.3))
    ax.legend(frameon=False, loc="lower left", fontsize=8)
    save(drawing, "ripley")


def links() -> None:
    """Logistic against probit: the scaled curves can hardly be told apart."""
    u = np.linspace(-4, 4, 400)
    drawing, (left, right) = figure(9.0, 3.4, columns=2)
    logistic, probit = 1 / (1 + np.exp(-u)), stats.norm.cdf(u / 1.702)
    left.plot(u, logistic, color=OTHER, label="logistic 1/(1 + exp(-u))")
    left.plot(u, probit, color=OURS, linestyle="--", label="probit Φ(u / 1.702)")
    left.set(xlabel="u", ylabel="probability")
    left.legend(frameon=False)
    right.plot(u, probit - logistic, color=THIRD)
    right.axhline(0, color=GREY, linewidth=0.8)
    right.set(xlabel="u", ylabel="probit - logistic", ylim=(-0.012, 0.012))
    save(drawing, "links")


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* kept no ")  # no true weight, none found: a point of the second figure
        for draw in (threshold, nonzeros, sinc, dimension, ripley, links):
            draw()


if __name__ == "__main__":
    main()
