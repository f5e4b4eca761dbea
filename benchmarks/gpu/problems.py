"""The problems of the device's table, at full size or a part of it. Dense, standardised; labels are codes 0..K-1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import default_rng

from benchmarks.compare.problems import SEEDED, Problem, data_folder, draw_labels, real, standardise


def mnist(scale: float) -> Problem:
    """20,000 handwritten digits; from an .npz (X, y) in the folder of data sets where there is one (no pyarrow)."""
    stored = data_folder() / "mnist20k.npz"
    if not stored.exists():
        return thinned(real("mnist20k"), scale)
    with np.load(stored) as f:
        return thinned(Problem(standardise(f["X"].astype(np.float64)), f["y"].astype(np.int64)), scale)


def noisy_mnist(scale: float) -> Problem:
    """Every digit three times, each with noise of its own: 60,000 rows of about the real set's size."""
    X, y = mnist(scale)
    noise = default_rng(0).standard_normal((3 * len(X), X.shape[1]))
    return Problem(standardise(np.tile(X, (3, 1)) + 0.3 * noise), np.tile(y, 3))


def million(scale: float) -> Problem:
    """1,000,000 x 200, 5 classes: independent columns, three quarters of the weights are zero."""
    rng, n, d, K = default_rng(1), int(1_000_000 * scale), 200, 5
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, K)) * (rng.random((d, K)) < 0.25) * 0.4
    return Problem(np.asfortranarray(X), draw_labels(rng, X @ W))


def wide(scale: float) -> Problem:
    """2,000 x 20,000, 10 classes, one factor common to all columns."""
    rng, n, d, K = default_rng(2), 2000, int(20_000 * scale), 10
    X = standardise(rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1)))
    W = np.zeros((d, K))
    for k in range(K):
        W[rng.choice(d, 15, replace=False), k] = rng.standard_normal(15)
    return Problem(X, draw_labels(rng, X @ W))


def thinned(problem: Problem, scale: float) -> Problem:
    """Return every 1/scale-th row."""
    step = max(1, round(1.0 / scale))
    X = problem.X[::step]
    return Problem(np.asfortranarray(X[:, X.std(axis=0) > 0]), problem.y[::step])


def seeded(name: str) -> Callable[[float], Problem]:
    """Return the maker of one of the problems on which solvers are compared."""
    return lambda scale: thinned(SEEDED[name](), scale)


PROBLEMS: dict[str, Callable[[float], Problem]] = {
    "mnist20k": mnist,
    "mnist60k": noisy_mnist,
    "million": million,
    "wide": wide,
    **{name: seeded(name) for name in "BCDF"},
}
