"""Draw the figures of docs/ivm.md, after those of Zhu and Hastie (2005): ``python -m docs.figures.ivm``.

1 the two losses; 2 boundaries of SVM and IVM on the mixture; 3 the choice of the strength (Algorithm 3);
4 the objective along the additions; 5 the same for growing n; 6 three classes; and centres chosen in other ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from sklearn.svm import SVC

from smaller.datasets import make_mixture
from smaller.estimators.kernel_logistic import IVM, KLR

FOLDER = Path(__file__).parents[1] / "img"
GAMMA = 1.0 / 1.4  # sigma^2 = .7
SEED = 4
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
ORANGE, BLUE, GREEN, DARK = "#d95f02", "#1f78b4", "#2ca25f", "0.15"


def save(figure: Any, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"ivm_{name}.png", dpi=130)
    plt.close(figure)


def losses() -> None:
    margin = np.linspace(-3.0, 3.0, 301)
    figure, ax = plt.subplots(figsize=(4.2, 3.0))
    ax.plot(margin, np.log1p(np.exp(-margin)), color=BLUE, label="binomial log-likelihood")
    ax.plot(margin, np.maximum(1.0 - margin, 0.0), color=ORANGE, linestyle="--", label="hinge (SVM)")
    ax.set(xlabel="margin  y f(x)", ylabel="loss")
    ax.legend()
    save(figure, "losses")


def grid_of(X: Any) -> tuple[Any, Any, Any]:
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    a, b = np.meshgrid(np.linspace(low[0], high[0], 220), np.linspace(low[1], high[1], 220))
    return a, b, np.column_stack([a.ravel(), b.ravel()])


def log_density(X: Any, centers: Any) -> Any:
    squared = ((X[:, None, :] - centers[None]) ** 2).sum(axis=2)
    return np.log(np.exp(-squared / 0.4).mean(axis=1) + 1e-300)


def scatter(ax: Any, X: Any, y: Any) -> None:
    for label, color in ((0, BLUE), (1, ORANGE), (2, GREEN)):
        ax.plot(*X[y == label].T, "o", color=color, markersize=2.5, alpha=0.55)
    ax.set(xticks=[], yticks=[])


def boundaries() -> None:
    X, y, centers = make_mixture(200, random_state=SEED)
    X_test, y_test, _ = make_mixture(20_000, centers=centers, random_state=SEED + 1)
    a, b, points = grid_of(X)
    bayes = (log_density(points, centers[1]) - log_density(points, centers[0])).reshape(a.shape)
    svm = SVC(gamma=GAMMA).fit(X, y)
    ivm = IVM(1.0, gamma=GAMMA, window=3).fit(X, y)
    panels = [
        ("SVM", svm, svm.decision_function(points), (-1.0, 1.0), "support vectors"),
        ("IVM", ivm, ivm.decision_function(points), (-np.log(3.0), np.log(3.0)), "import points"),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.4))
    for ax, (name, model, scores, levels, kind) in zip(axes, panels, strict=True):
        scatter(ax, X, y)
        scores = scores.reshape(a.shape)
        ax.contour(a, b, bayes, [0.0], colors="#7b3294", linestyles="--", linewidths=1.2)
        ax.contour(a, b, scores, [0.0], colors=DARK, linewidths=1.6)
        ax.contour(a, b, scores, levels, colors=DARK, linestyles=":", linewidths=1.0)
        chosen = X[model.support_]
        if name == "SVM":  # as in the paper: those on the edges of the margin
            chosen = chosen[np.abs(model.dual_coef_[0]) < 1.0 - 1e-6]
        ax.plot(*chosen.T, "o", color="black", markersize=4.5)
        error = 100.0 * np.mean(model.predict(X_test) != y_test)
        ax.set_title(f"{name}: {len(model.support_)} {kind}, test error {error:.1f} %")
    lines = [
        axes[0].plot([], [], color=DARK, label="boundary")[0],
        axes[0].plot([], [], color=DARK, linestyle=":", label="SVM: margin; IVM: p = .25, .75")[0],
        axes[0].plot([], [], color="#7b3294", linestyle="--", label="Bayes boundary")[0],
        axes[0].plot([], [], "o", color="black", label="SVM: on the margin's edge; IVM: import points")[0],
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=2)
    save(figure, "boundaries")


def strength() -> None:
    X, y, _ = make_mixture(400, random_state=SEED)
    model = IVM(alphas=np.exp(np.arange(10.0, -10.5, -1.0)), gamma=GAMMA, validation_fraction=0.5, random_state=0)
    model.fit(X, y)
    path = model.import_path_
    count = np.arange(1, len(path.points) + 1)
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.2))
    axes[0].plot(count, path.validation_error, ".-", color=BLUE)
    axes[0].set(xlabel="import points so far", ylabel="error on rows held back", title="along the additions")
    axes[1].plot(np.log(model.alphas_), model.validation_errors_, ".-", color=BLUE, label="error")
    axes[1].axvline(np.log(model.alpha_), color=DARK, linestyle=":", label=f"chosen: {model.alpha_:.3g}")
    axes[1].invert_xaxis()
    axes[1].set(xlabel="log alpha", ylabel="error on rows held back", title="at the end of every strength")
    axes[1].legend()
    save(figure, "strength")


def additions() -> None:
    X, y, _ = make_mixture(200, random_state=SEED)
    ivm = IVM(1.0, gamma=GAMMA, window=3).fit(X, y)
    full = KLR(1.0, gamma=GAMMA).fit(X, y)
    figure, ax = plt.subplots(figsize=(4.6, 3.2))
    ivm.plot_path(ax)
    ax.axhline(full.solution_.objective, color=DARK, linestyle=":")
    ax.annotate("KLR, all 200 rows", (1, full.solution_.objective), (0, 4), textcoords="offset points")
    ax.set_title(f"stops at {len(ivm.support_)} points")
    save(figure, "additions")


def growing() -> None:
    figure, ax = plt.subplots(figsize=(4.6, 3.2))
    centers = make_mixture(2, random_state=SEED)[2]
    for n, shade in ((200, 0.35), (400, 0.5), (600, 0.65), (800, 0.8), (5000, 1.0)):
        X, y, _ = make_mixture(n, centers=centers, random_state=SEED)
        model = IVM(1.0, gamma=GAMMA, window=3).fit(X, y)
        objective = model.import_path_.objective / n
        label = f"n = {n}: {len(objective)} points"
        ax.plot(np.arange(1, len(objective) + 1), objective, ".-", color=plt.cm.Blues(shade), label=label)
    ax.set(xlabel="import points", ylabel="objective / n")
    ax.legend()
    save(figure, "growing")


def three_classes() -> None:
    rng = np.random.default_rng(SEED)
    means = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    centers = means[:, None, :] + rng.normal(size=(3, 10, 2))
    y = np.arange(300) % 3
    X = centers[y, rng.integers(10, size=300)] + rng.normal(scale=np.sqrt(0.2), size=(300, 2))
    model = IVM(0.368, gamma=GAMMA, window=3).fit(X, y)
    a, b, points = grid_of(X)
    bayes = np.column_stack([log_density(points, part) for part in centers])
    figure, ax = plt.subplots(figsize=(4.8, 4.2))
    scatter(ax, X, y)
    for scores, color in ((bayes, "#c2a5cf"), (model.decision_function(points), DARK)):
        for c in range(3):
            lead = scores[:, c] - np.delete(scores, c, axis=1).max(axis=1)
            ax.contour(a, b, lead.reshape(a.shape), [0.0], colors=color, linewidths=1.6)
    ax.plot(*model.support_vectors_.T, "o", color="black", markersize=4.5)
    ax.set_title(f"three classes share {len(model.support_)} import points")
    lines = [
        ax.plot([], [], color=DARK, label="IVM")[0],
        ax.plot([], [], color="#c2a5cf", label="Bayes")[0],
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=2)
    save(figure, "three_classes")


def baselines() -> None:
    """Objective against the number of centres, for centres chosen with and without the labels."""
    X, y, _ = make_mixture(400, random_state=SEED)
    alpha = 0.1
    ivm = IVM(alpha, gamma=GAMMA, eps=1e-5).fit(X, y)
    full = KLR(alpha, gamma=GAMMA).fit(X, y).solution_.objective
    sizes = np.array([2, 4, 6, 8, 12, 16, 24, 32, 48])
    figure, ax = plt.subplots(figsize=(5.0, 3.4))
    objective = ivm.import_path_.objective
    ax.plot(np.arange(1, len(objective) + 1), objective / full - 1.0, color=DARK, label="import points")
    ways = (
        ("random", "random (Nystroem)", BLUE),
        ("kmeans", "k-means", ORANGE),
        ("pivoted", "pivoted Cholesky", GREEN),
    )
    for centers, label, color in ways:
        draws = range(1 if centers == "pivoted" else 5)
        values = [
            [
                KLR(alpha, gamma=GAMMA, n_centers=m, centers=centers, random_state=draw).fit(X, y).solution_.objective
                for draw in draws
            ]
            for m in sizes
        ]
        ax.plot(sizes, np.mean(values, axis=1) / full - 1.0, ".-", color=color, label=label)
    ax.set(xlabel="centres", ylabel="objective above KLR's, relative", yscale="log", xlim=(0, 50), ylim=(1e-5, 3.0))
    ax.legend()
    save(figure, "baselines")


if __name__ == "__main__":
    mpl.use("agg")
    with mpl.rc_context(STYLE):
        for draw in (losses, boundaries, strength, additions, growing, three_classes, baselines):
            draw()
