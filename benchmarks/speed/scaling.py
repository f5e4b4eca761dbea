"""Memory and time against size.

``memory`` prints the peak that a fit allocates beyond the caller's own X, as a multiple of X and of what must be there:
an n x K and a d x K array of float64 count one unit each. ``time`` measures one pass (loss, residual and gradient) and
a whole fit while n, d or K grows, and draws both to docs/img/bench_scaling.png.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy import sparse

from benchmarks.speed.clock import Options, least
from smaller import SMLR, alpha_max
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.solvers import core

BASE = {"n": 20_000, "d": 50, "K": 5}
GRID = {"n": (10_000, 100_000, 1_000_000), "d": (50, 200, 800), "K": (3, 10, 30)}


def draw(n: int, d: int, K: int, density: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian features (or a sparse matrix of them) with labels from a sparse linear model."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((d, K)) * (rng.random((d, K)) < 0.2)
    X: Any = np.asfortranarray(rng.standard_normal((n, d)))
    if density < 1.0:
        X = sparse.random_array((n, d), density=density, format="csc", rng=rng)
    return X, np.argmax(X @ truth + rng.gumbel(size=(n, K)), axis=1)


def memory(options: Options) -> None:
    """Print the peak allocation of fits over several layouts."""
    print(f"{'X':34s} {'X, MB':>7s} {'peak, MB':>9s} {'peak / X':>9s} {'(peak - copies) / (nK + dK)':>28s}")
    for name, copies, make in (
        ("dense, column by column", 0, lambda: draw(100_000, 100, 5)),
        ("dense, row by row", 1, lambda: _by_row(*draw(100_000, 100, 5))),
        ("dense, float32", 0, lambda: _narrow(*draw(100_000, 100, 5))),
        ("sparse (CSC), 1 %", 0, lambda: draw(50_000, 5000, 5, density=0.01)),
        ("wide, 200 x 50000", 0, lambda: draw(200, 50_000, 3)),
    ):
        X, y = make()
        size = X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
        strength = 0.1 * alpha_max(X, y)
        tracemalloc.start()
        model = SMLR(alpha=strength).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        n, d = X.shape
        unit = 8 * (n + d) * len(model.classes_)
        print(
            f"{name:34s} {size / 1e6:7.1f} {peak / 1e6:9.1f} {peak / size:9.2f} {(peak - copies * size) / unit:28.1f}"
        )


def _by_row(X: Any, y: Any) -> tuple[Any, Any]:
    return np.ascontiguousarray(X), y


def _narrow(X: Any, y: Any) -> tuple[Any, Any]:
    return X.astype(np.float32), y


def measure(n: int, d: int, K: int, runs: int) -> tuple[float, float]:
    """Return seconds of one core for a pass over the data, and for a fit at a tenth of the largest strength."""
    X, y = draw(n, d, K)
    likelihood = Multinomial(K)
    problem = Problem(as_design(X), likelihood.encode(y), None, likelihood, Laplace(1.0))
    eta = problem.forward(np.full((d, likelihood.n_outputs), 0.01), np.zeros(likelihood.n_outputs))
    passes = least(lambda: core.evaluate(problem, eta, problem.design), runs).cpu
    model = SMLR(alpha=0.1 * problem.alpha_max())
    return passes, least(lambda: model.fit(X, y), 1).cpu


def growth(options: Options) -> None:
    """Print and draw seconds against n, d and K."""
    found = {}
    for name, values in GRID.items():
        for value in values:
            found[name, value] = measure(**(BASE | {name: value}), runs=options.repeats(3))
            print(
                f"{name} = {value:8d}: pass {found[name, value][0]:.4f} s, fit {found[name, value][1]:.2f} s",
                flush=True,
            )
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(8.0, 2.8), layout="constrained")
        for axes, (name, values) in zip(figure.subplots(1, 3, sharey=True), GRID.items(), strict=True):
            for k, (label, mark) in enumerate((("one pass", "o-"), ("a fit", "s-"))):
                times = [found[name, value][k] for value in values]
                (line,) = axes.loglog(values, times, mark, label=label)
                axes.loglog(values, [times[0] * v / values[0] for v in values], ":", color=line.get_color(), alpha=0.6)
            rest = ", ".join(f"{key} = {value}" for key, value in BASE.items() if key != name)
            axes.set_xticks(values, [f"{value:,}".replace(",", " ") for value in values])
            axes.set_xticks([], minor=True)
            axes.set(xlabel=f"{name}   ({rest})", title=f"against {name}")
        figure.axes[0].set_ylabel("seconds, one core")
        figure.axes[0].legend(frameon=False)
        figure.savefig(Path(__file__).parents[2] / "docs" / "img" / "bench_scaling.png", dpi=130)


PARTS = {"memory": memory, "time": growth}
