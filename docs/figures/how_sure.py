"""One data set seen six times: the pictures of docs/how-sure.md, written to docs/img/sure_*.png."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from smaller import SBMLR, SMLR, StabilitySelection, coef_interval
from smaller.bounds import pac_bayes_bound

IMAGES = Path(__file__).parents[1] / "img"
BLUE, ORANGE, GREY = "#1b4f72", "#e08214", "0.6"
N, D, WEIGHTS = 200, 30, np.array([2.0, -1.5, 1.2, -1.0, 0.8])


def rows(n: int, seed: int, d: int = D) -> tuple[Any, Any, Any]:
    """Return features, classes and the true log-odds."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    eta = X[:, : len(WEIGHTS)] @ WEIGHTS
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int), eta


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y, _ = rows(N, 0)
    new, _, truth = rows(40, 1)
    draw: dict[str, Any] = {
        "certificate": lambda axes: certificate(axes, X, y),
        "range": lambda axes: ranges(axes, X, y, new, truth),
        "effects": lambda axes: effects(axes, X, y),
        "calibration": lambda axes: calibration(axes),
        "stability": lambda axes: stability(axes, X, y),
        "bound": lambda axes: bound(axes),
    }
    for name, picture in draw.items():
        fig, axes = plt.subplots(figsize=(7.0, 2.9), layout="constrained")
        picture(axes)
        axes.spines[["top", "right"]].set_visible(False)
        fig.savefig(IMAGES / f"sure_{name}.png", dpi=130)
        plt.close(fig)


def certificate(axes: Any, X: Any, y: Any) -> None:
    best = SMLR(alpha=4.0, tol=1e-13).fit(X, y).solution_
    steps, gaps, above = list(range(1, 9)), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that few steps do not do is the point
        for count in steps:
            found = SMLR(alpha=4.0, solver="block", tol=1e-12, max_iter=count).fit(X, y).solution_
            gaps.append(found.gap / found.scale)
            above.append((found.objective - best.objective) / found.scale)
    axes.semilogy(steps, gaps, color=BLUE, label="duality gap: what the fit knows")
    axes.semilogy(steps, above, color=ORANGE, label="true distance from the minimum")
    axes.set(xlabel="steps of the 2005 paper's block update", ylabel="share of the null loss")
    axes.legend(frameon=False)


def ranges(axes: Any, X: Any, y: Any, new: Any, truth: Any) -> None:
    model = SBMLR(posterior=True).fit(X, y)
    low, high = (side[:, 1] for side in model.probability_interval(new))
    order = np.argsort(model.predict_proba(new)[:, 1])
    at = np.arange(len(new))
    axes.vlines(at, low[order], high[order], color=BLUE, lw=2.5, alpha=0.5, label="range at 90 %")
    axes.plot(at, model.predict_proba(new)[order, 1], "o", ms=3.5, color=BLUE, label="said")
    axes.plot(at, 1.0 / (1.0 + np.exp(-truth[order])), "x", ms=5, color=ORANGE, label="true")
    axes.set(xlabel=f"forty new patients (reach {model.reach_:.2f})", ylabel="probability", ylim=(0, 1))
    axes.legend(frameon=False, loc="upper left")


def effects(axes: Any, X: Any, y: Any) -> None:
    found = coef_interval(SBMLR().fit(X, y), X, y)
    at = np.arange(len(found.column))
    true = np.append(WEIGHTS, np.zeros(D - len(WEIGHTS)))[np.asarray(found.column)]
    axes.vlines(at, found.low, found.high, color=BLUE, lw=2.5, alpha=0.5, label="range at 90 %")
    axes.plot(at, found.estimate, "o", color=BLUE, ms=4, label="estimate")
    axes.plot(at, true, "x", color=ORANGE, ms=6, label="true")
    axes.axhline(0.0, color=GREY, lw=0.8)
    axes.set_xticks(at, [f"x{j}" for j in found.column])
    axes.set_ylabel("weight")
    axes.legend(frameon=False, ncols=3)


def calibration(axes: Any) -> None:
    """With many features the penalty shrinks much."""
    X, y, _ = rows(N, 0, 400)
    new, seen, _ = rows(4000, 1, 400)
    for relax, color in ((False, ORANGE), (True, BLUE)):
        said = SBMLR(relax=relax).fit(X, y).predict_proba(new)[:, 1]
        parts = np.array_split(np.argsort(said), 10)
        x, share = [said[p].mean() for p in parts], [seen[p].mean() for p in parts]
        axes.plot(x, share, "o-", color=color, ms=4, label="relaxed" if relax else "plain")
    axes.plot([0, 1], [0, 1], color=GREY, lw=0.8)
    axes.set(xlabel="said", ylabel="seen in 4000 new rows", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)


def stability(axes: Any, X: Any, y: Any) -> None:
    model = StabilitySelection(random_state=0).fit(X, y)
    colors = [BLUE if j < len(WEIGHTS) else GREY for j in range(D)]
    axes.bar(np.arange(D), model.frequencies_, color=colors)
    axes.axhline(model.threshold_, color=ORANGE, lw=1.0)
    axes.annotate("threshold", (D - 0.5, model.threshold_), ha="right", va="bottom", color=ORANGE)
    axes.set(xlabel="feature (the first five matter)", ylabel="share of halves", ylim=(0, 1.02))


def bound(axes: Any) -> None:
    """Error and bound against the number of rows: the latter needs many."""
    sizes, errors, tops = [200, 500, 1000, 2000, 5000, 10000], [], []
    new, seen, _ = rows(20000, 2)
    for n in sizes:
        X, y, _ = rows(n, 3)
        model = SMLR(alpha=3.0, fit_intercept=False).fit(X, y)
        errors.append(np.mean(model.predict(new) != seen))
        tops.append(pac_bayes_bound(model, X, y).value)
    axes.semilogx(sizes, tops, "s-", color=ORANGE, label="bound of the Gibbs classifier, from the training rows alone")
    axes.semilogx(sizes, errors, "o-", color=BLUE, label="errors on 20,000 new rows")
    axes.set(xlabel="training rows", ylabel="share of errors", ylim=(0, None))
    axes.legend(frameon=False)


if __name__ == "__main__":
    main()
