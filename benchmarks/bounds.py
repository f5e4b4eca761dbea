"""How honest, how tight and how fast the bounds are: ``python -m benchmarks.bounds [parts] [--figure FILE]``.

Parts: ``coverage`` (a thousand fits against the true error), ``widths`` (what optimising buys), ``golub`` (the
paper's 26/34; needs SMALLER_DATA), ``speed`` (a million rows) and ``path`` (choosing alpha by the bound, as in
the paper's Figure 1; needs SMALLER_DATA for covtype).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.papers.datasets import load
from benchmarks.speed.clock import least
from smaller import SMLR
from smaller.bounds import binary_kl, pac_bayes_bound, pac_bayes_path, rademacher_bound
from smaller.bounds.gibbs import positive_probabilities

DELTA = 0.05
PATH_ALPHAS = np.geomspace(10.0, 3e3, 12)  # fixed before any data are seen, as the union bound asks
KRUMMHOLZ = 7

# Round units of the ten continuous covtype columns (metres, degrees, hillshade from 0 to 255), of the order the
# description of the data set gives; nothing is estimated on the training rows.
COVTYPE_OFFSET = np.array([3000, 180, 15, 250, 0, 2000, 200, 200, 200, 2000, *[0] * 44], dtype=float)
COVTYPE_UNIT = np.array([300, 100, 10, 200, 60, 1500, 50, 50, 50, 1500, *[1] * 44], dtype=float)


class Sample(NamedTuple):
    """Training rows and fresh rows of one distribution, labels -1/+1."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


def synthetic(n: int, d: int, active: int, n_new: int, rng: np.random.Generator) -> Sample:
    """Standard normal columns; labels by the logistic law with `active` weights +-1."""
    w = np.zeros(d)
    w[:active] = rng.choice([-1.0, 1.0], active)
    X = rng.normal(size=(n + n_new, d))
    y = np.where(rng.random(n + n_new) < 1.0 / (1.0 + np.exp(-X @ w)), 1, -1)
    return Sample(X[:n], y[:n], X[n:], y[n:])


def krummholz(n: int, rng: np.random.Generator) -> Sample:
    """Covtype, Krummholz (3.5 % of the rows) against the rest, in units fixed beforehand."""
    covtype = load("covtype")
    order = rng.permutation(len(covtype.target))
    X = (covtype.data[order] - COVTYPE_OFFSET) / COVTYPE_UNIT
    y = np.where(np.asarray(covtype.target_names)[covtype.target[order]].astype(int) == KRUMMHOLZ, 1, -1)
    return Sample(X[:n], y[:n], X[n:], y[n:])


def fit(X: np.ndarray, y: np.ndarray, alpha: float, **options: Any) -> SMLR:
    return SMLR(alpha=alpha, **({"fit_intercept": False} | options)).fit(X, y)


# ------------------------------------------------------------------------------------------------------- coverage


def coverage(console: Console) -> None:
    """Fits that violate a bound, per sample size; the true errors are measured on 20000 fresh rows."""
    table = Table(title=f"violations at delta = {DELTA}; mean bound in brackets")
    names = ("Gibbs", "Gibbs, paper's widths", "point (factor 2)", "point, Rademacher", "point, no factor 2")
    for name in ("n", "fits", *names):
        table.add_column(name)
    totals = np.zeros(len(names), dtype=int)
    fits = 0
    for n, repeats in ((50, 400), (200, 300), (1000, 200), (5000, 80), (20_000, 40)):
        outcomes = [_one_fit(n, (0.5, 2.0, 8.0, 32.0)[k % 4], seed=[n, k]) for k in range(repeats)]
        true, bound = (np.array(part) for part in zip(*outcomes, strict=True))
        violated = np.sum(true > bound, axis=0)
        cells = [f"{v} [{m:.3f}]" for v, m in zip(violated, bound.mean(axis=0), strict=True)]
        table.add_row(str(n), str(repeats), *cells)
        totals, fits = totals + violated, fits + repeats
    table.add_row("all", str(fits), *map(str, totals))
    console.print(table)
    _erratum(console)


def _one_fit(n: int, alpha: float, seed: list[int]) -> tuple[list[float], list[float]]:
    sample = synthetic(n, 10, 3, 20_000, np.random.default_rng(seed))
    model = fit(sample.X, sample.y, alpha)
    optimal = pac_bayes_bound(model, sample.X, sample.y, delta=DELTA)
    paper = pac_bayes_bound(model, sample.X, sample.y, delta=DELTA, widths="divergence")
    margin = rademacher_bound(model, sample.X, sample.y, delta=DELTA)
    point = float(np.mean(model.predict(sample.X_new) != sample.y_new))
    gibbs = [_gibbs_error(sample, bound.posterior) for bound in (optimal, paper)]
    bounds = [optimal.value, paper.value, optimal.point_value, margin.value, optimal.value]
    return [*gibbs, point, point, point], bounds


def _gibbs_error(sample: Sample, posterior: Any) -> float:
    rows = sample.y_new[:, None] * sample.X_new
    right, _ = positive_probabilities(rows, posterior.center, posterior.eta, tol=1e-3)
    return float(1.0 - right.mean())


def _erratum(console: Console, n: int = 20, true: float = 0.1, draws: int = 100_000) -> None:
    """Fixed rule, no divergence: how often either order of (25) puts the bound below the true error."""
    q = np.random.default_rng(0).binomial(n, true, draws) / n
    allowance = np.log((n + 1) / DELTA) / n
    for name, divergence in (
        ("kl(sample||true)", binary_kl(q, true)),
        ("kl(true||sample), as printed", binary_kl(true, q)),
    ):
        rate = np.mean((q < true) & (divergence > allowance))
        console.print(f"fixed rule, error {true}, n = {n}: {name} fails in {rate:.2%} of {draws} samples")


# ------------------------------------------------------------------------------------------ widths, golub, speed


def widths(console: Console) -> None:
    """Gibbs bound with the paper's widths and with optimised ones: n = 5000, d = 50, 5 weights +-1, alpha 2."""
    rows = []
    for seed in range(20):
        sample = synthetic(5000, 50, 5, 0, np.random.default_rng(seed))
        model = fit(sample.X, sample.y, 2.0)
        settings: list[dict[str, Any]] = [
            {"widths": "prior"},
            {"widths": "divergence"},
            {},
            {"factor": "exact"},
            {"risk": "monte_carlo", "random_state": 0},
        ]
        rows.append([pac_bayes_bound(model, sample.X, sample.y, **options).value for options in settings])
    table = Table(title="n = 5000, d = 50, alpha = 2, 20 samples: Gibbs bound")
    for name in ("", "prior (closed form)", "paper", "optimal", "optimal, exact factor", "optimal, Monte Carlo"):
        table.add_column(name)
    for name, statistic in (("median", np.median), ("min", np.min), ("max", np.max)):
        table.add_row(name, *(f"{value:.4f}" for value in statistic(rows, axis=0)))
    console.print(table)
    console.print(f"optimal <= .29 in {np.mean(np.array(rows)[:, 2] <= 0.29):.0%} of the samples")


def golub(console: Console) -> None:
    """Linear SMLR on the 38 training rows of AML/ALL; the columns are scaled on them, which is flagged."""
    data = load("golub")
    rows = data.split["train"]
    X, y = data.data[rows], np.where(data.target[rows] == 1, 1, -1)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    top = 0.5 * np.abs(X.T @ y).max()
    for fraction in (0.001, 0.01, 0.1, 0.3, 0.6, 0.9):
        model = fit(X, y, fraction * top)
        values = [
            pac_bayes_bound(model, X, y, widths=kind, assume=("fixed_scaling",)).value
            for kind in ("optimal", "divergence")
        ]
        console.print(
            f"golub, alpha = {fraction} alpha_max, {model.active_features_.size} genes: Gibbs bound "
            f"{values[0]:.4f} (paper's widths {values[1]:.4f}), of 34: {34 * values[0]:.1f} ({34 * values[1]:.1f})"
        )


def speed(console: Console) -> None:
    """A million rows x 50 columns."""
    sample = synthetic(1_000_000, 50, 5, 0, np.random.default_rng(0))
    w = np.zeros(50)
    w[:5] = np.sign(sample.X[:10_000, :5].T @ sample.y[:10_000])
    calls: dict[str, Callable[[], Any]] = {
        "pac_bayes_bound, exact": lambda: pac_bayes_bound((w, 2.0), sample.X, sample.y),
        "pac_bayes_bound, Monte Carlo": lambda: pac_bayes_bound(
            (w, 2.0), sample.X, sample.y, risk="monte_carlo", random_state=0
        ),
        "rademacher_bound": lambda: rademacher_bound((w, 2.0), sample.X, sample.y),
    }
    for name, call in calls.items():
        run = least(call, 1)
        console.print(f"1000000 x 50, {name}: {run.result.value:.4f} in {run.wall:.1f} s ({run.cpu:.1f} s of CPU)")


# ----------------------------------------------------------------------------------------------------------- path


def path(console: Console, figure: Path) -> None:
    """Test error and bounds along a grid of strengths, and the strength the smallest bound would choose."""
    rng = np.random.default_rng(0)
    problems = {
        "synthetic: 20000 rows, 50 columns, 5 matter": (synthetic(20_000, 50, 5, 200_000, rng), {}),
        "covtype: Krummholz against the rest, 100000 rows": (
            krummholz(100_000, rng),
            {"fit_intercept": True, "penalize_intercept": True, "tol": 1e-4},
        ),
    }
    curves = {name: _curves(sample, options) for name, (sample, options) in problems.items()}
    for name, lines in curves.items():
        for kind, line in lines.items():
            k = int(np.argmin(line))
            console.print(
                f"{name}: {kind} {line[k]:.4f} at alpha = {PATH_ALPHAS[k]:.3g}, test error there "
                f"{lines['test error'][k]:.4f}"
            )
    _draw(curves, figure)
    console.print(f"figure: {figure}")


def _curves(sample: Sample, options: dict[str, Any]) -> dict[str, list[float]]:
    models = [fit(sample.X, sample.y, alpha, **options) for alpha in PATH_ALPHAS]
    curves = {
        f"Gibbs bound, {name}": [b.value for b in pac_bayes_path(models, sample.X, sample.y, widths=kind)]
        for kind, name in (("divergence", "paper's widths"), ("optimal", "optimised"))
    }
    error = [float(np.mean(model.predict(sample.X_new) != sample.y_new)) for model in models]
    return curves | {"test error": error, "always the larger class": [float(np.mean(sample.y_new > 0))] * len(models)}


def _draw(curves: dict[str, dict[str, list[float]]], figure: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    styles = {
        "Gibbs bound, paper's widths": {"color": "#c46a1b", "ls": "--", "marker": "s", "ms": 4},
        "Gibbs bound, optimised": {"color": "#c46a1b", "marker": "o", "ms": 4},
        "test error": {"color": "#1f5a99", "marker": "o", "ms": 4},
        "always the larger class": {"color": "0.6", "ls": ":"},
    }
    picture, panels = plt.subplots(1, len(curves), figsize=(10.5, 4.2), layout="constrained")
    for panel, (title, lines) in zip(panels, curves.items(), strict=True):
        for name, line in lines.items():
            panel.plot(PATH_ALPHAS, line, label=name, **styles[name])
        panel.set(title=title, xlabel="alpha", xscale="log", yscale="log")
        low, high = (extreme(map(extreme, lines.values())) for extreme in (min, max))
        ticks = [t for t in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5) if 0.8 * low < t < 1.2 * high]
        panel.set_yticks(ticks, [f"{t:g}" for t in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("error rate")
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(figure, dpi=130)


def main() -> None:
    parts = {"coverage": coverage, "widths": widths, "golub": golub, "speed": speed, "path": path}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=list(parts))
    parser.add_argument("--figure", type=Path, default=Path("docs/img/bounds_path.png"))
    options = parser.parse_args()
    console = Console()
    for name in options.parts:
        if name == "path":
            path(console, options.figure)
        else:
            parts[name](console)


if __name__ == "__main__":
    main()
