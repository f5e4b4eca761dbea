"""The problems on which solvers are timed: six seeded ones, A to F, and the real sets found through SMALLER_DATA.

Dense designs are standardised and Fortran ordered; sparse ones are CSC, scaled to unit deviation, not centred.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator, default_rng

Design = np.ndarray | sp.csc_matrix


class Problem(NamedTuple):
    """Design (n, d) and class codes 0..K-1."""

    X: Design
    y: np.ndarray

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def save(self, path: Path) -> None:
        parts = (
            {"data": self.X.data, "indices": self.X.indices, "indptr": self.X.indptr, "shape": self.X.shape}
            if sp.issparse(self.X)
            else {"X": self.X}
        )
        np.savez(path, y=self.y, **parts)

    @classmethod
    def load(cls, path: Path) -> "Problem":
        with np.load(path) as f:
            if "X" in f:
                return cls(f["X"], f["y"])
            return cls(sp.csc_matrix((f["data"], f["indices"], f["indptr"]), f["shape"]), f["y"])


def standardise(X: np.ndarray) -> np.ndarray:
    """Zero mean, unit deviation; constant columns are dropped."""
    X = X - X.mean(0)
    deviation = X.std(0)
    varies = deviation > 1e-12
    return np.asfortranarray(X[:, varies] / deviation[varies])


def scale_sparse(X: sp.spmatrix) -> sp.csc_matrix:
    """Unit deviation without centring, which would fill the matrix."""
    mean = np.asarray(X.mean(0)).ravel()
    deviation = np.sqrt(np.asarray(X.multiply(X).mean(0)).ravel() - mean**2)
    X = (X @ sp.diags(1 / np.where(deviation > 0, deviation, 1))).tocsc()
    X.sort_indices()
    return X


def draw_labels(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """One label a row from softmax(eta), by inversion of the cumulative probabilities."""
    p = np.exp(eta - eta.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    below = p.cumsum(1) < rng.random((len(p), 1))
    return below.sum(1).clip(0, eta.shape[1] - 1)


def correlated_blocks(rng: Generator, n: int, d: int, correlation: float, size: int) -> np.ndarray:
    """Gaussian columns, equally correlated inside consecutive blocks of `size`."""
    factor = np.repeat(rng.standard_normal((n, -(-d // size))), size, axis=1)[:, :d]
    return np.sqrt(correlation) * factor + np.sqrt(1 - correlation) * rng.standard_normal((n, d))


def relabel(rng: Generator, y: np.ndarray, rate: float, n_classes: int) -> np.ndarray:
    """Replace a share of the labels by random ones, in place."""
    flip = rng.random(len(y)) < rate
    y[flip] = rng.integers(0, n_classes, flip.sum())
    return y


def wide_binary() -> Problem:
    """A: 2 classes, 100 x 5000, blocks of 50 correlated columns, 20 informative."""
    rng, n, d = default_rng(0), 100, 5000
    X = standardise(correlated_blocks(rng, n, d, 0.5, 50))
    w = np.zeros(d)
    weights = rng.choice([-1, 1], 20) * rng.uniform(0.5, 1.5, 20)
    w[rng.choice(d, 20, replace=False)] = weights
    return Problem(X, (rng.random(n) < 1 / (1 + np.exp(-X @ w))).astype(int))


def wide_classes() -> Problem:
    """B: 10 classes, 500 x 5000, blocks and 5 common factors, 15 informative columns a class."""
    rng, n, d, K = default_rng(1), 500, 5000, 10
    blocks = correlated_blocks(rng, n, d, 0.5, 50)
    X = standardise(blocks + 0.5 * rng.standard_normal((n, 5)) @ rng.standard_normal((5, d)))
    W = np.zeros((d, K))
    for k in range(K):
        weights = rng.standard_normal(15)
        W[rng.choice(d, 15, replace=False), k] = weights
    return Problem(X, draw_labels(rng, X @ W))


def tall() -> Problem:
    """C: 5 classes, 100000 x 100, columns an AR(1) process."""
    rng, n, d, K = default_rng(2), 100_000, 100, 5
    noise = rng.standard_normal((n, d))
    X = noise.copy()
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * noise[:, j]
    X = standardise(X)
    W = rng.standard_normal((d, K)) * (rng.random((d, K)) < 0.5) * 0.35
    return Problem(X, draw_labels(rng, X @ W))


def many_classes() -> Problem:
    """D: 26 classes, 5000 x 600, 60 latent factors with class means."""
    rng, n, d, K, q = default_rng(3), 5000, 600, 26, 60
    factors, y = rng.standard_normal((n, q)), rng.integers(0, K, n)
    means = rng.standard_normal((K, q)) * 0.9
    mixed = (factors + means[y]) @ rng.standard_normal((q, d)) / 8
    X = standardise(mixed + 0.7 * rng.standard_normal((n, d)))
    return Problem(X, relabel(rng, y, 0.02, K))


def sparse_words() -> Problem:
    """E: 20 classes, 20000 x 50000, word counts of power-law frequency, 60 favoured words a class."""
    rng, n, d, K = default_rng(4), 20_000, 50_000, 20
    frequency = 1 / (np.arange(d) + 20.0) ** 1.05
    frequency /= frequency.sum()
    y, favour = rng.integers(0, K, n), np.ones((K, d))
    for k in range(K):
        boost = rng.uniform(2, 8, 60)
        favour[k, rng.choice(5000, 60, replace=False)] = boost
    topic = frequency * favour
    topic = (topic / topic.sum(1, keepdims=True)).cumsum(1)
    words = []
    for i in range(n):
        length = max(5, rng.poisson(85))
        words.append(np.searchsorted(topic[y[i]], rng.random(length)).clip(0, d - 1))
    lengths = [len(w) for w in words]
    rows, columns = np.repeat(np.arange(n), lengths), np.concatenate(words)
    X = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), (n, d))
    X.sum_duplicates()
    X.data = 1 + np.log(X.data)
    return Problem(scale_sparse(X), relabel(rng, y, 0.05, K))


def kernel_spirals() -> Problem:
    """F: 3 noisy spirals, the 2000 x 2000 RBF kernel of width 0.5 as columns."""
    rng, n = default_rng(5), 2000
    y, t = rng.integers(0, 3, n), rng.uniform(0, 4, n)
    angle = t * 1.4 + y * 2 * np.pi / 3
    Z = np.stack([t * np.cos(angle), t * np.sin(angle)], axis=1) + 0.25 * rng.standard_normal((n, 2))
    y = relabel(rng, y, 0.1, 3)
    squared = ((Z[:, None] - Z[None]) ** 2).sum(-1)
    return Problem(standardise(np.exp(-squared / (2 * 0.5**2))), y)


SEEDED: dict[str, Callable[[], Problem]] = {
    "A": wide_binary,
    "B": wide_classes,
    "C": tall,
    "D": many_classes,
    "E": sparse_words,
    "F": kernel_spirals,
}


def data_folder() -> Path:
    """Folder of the real sets, from the environment variable SMALLER_DATA."""
    folder = os.environ.get("SMALLER_DATA")
    if not folder:
        raise ValueError("SMALLER_DATA is not set: point it to the folder with the benchmark data sets")
    return Path(folder)


def real(name: str, every: int = 1) -> Problem:
    """A real set: all its rows, or every `every`-th, standardised."""
    import pyarrow.parquet as pq

    folder = data_folder()
    entry = json.loads((folder / "MANIFEST.json").read_text())[name]
    if name == "news20":
        labels = np.load(folder / entry["labels_file"], allow_pickle=True)["y"]
        return Problem(scale_sparse(sp.load_npz(folder / entry["file"]).astype(float)), labels.astype(int))
    table = pq.read_table(folder / entry["file"])
    y = np.unique(table["target"].to_numpy(), return_inverse=True)[1]
    features = set(table.column_names) - {"target", "split", *entry.get("extra_columns", ())}
    X = np.stack([table[c].to_numpy().astype(float) for c in table.column_names if c in features], axis=1)
    return Problem(standardise(X[::every]), y[::every])


def real_names() -> list[str]:
    """Every classification set of the folder, smallest design first."""
    manifest = json.loads((data_folder() / "MANIFEST.json").read_text())
    sets = {k: v for k, v in manifest.items() if isinstance(v, dict) and "classification" in v["task"]}
    return sorted(sets, key=lambda name: sets[name].get("nnz", sets[name]["n"] * sets[name]["p"]))


def make(name: str) -> Problem:
    """The problem called A..F, a real set's name, or `name/3`: every third row of a real set."""
    if name in SEEDED:
        return SEEDED[name]()
    name, _, every = name.partition("/")
    return real(name, int(every or 1))
