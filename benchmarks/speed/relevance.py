"""Bands and speed of RVC and RVR; with ``--python`` naming an interpreter that has sklearn-rvm, beside its machines."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from benchmarks.speed.adaptive import boston, error, ripley, rvm
from benchmarks.speed.clock import Options, least, show
from smaller import RVC, RVR
from smaller.datasets import make_sinc, make_waveform

Task = dict[str, Any]


def sinc(n: int, seed: int = 0) -> Task:
    X, y = make_sinc(n, random_state=seed)
    grid = np.random.RandomState(1000 + seed).uniform(-10, 10, (1000, 1))
    return {"X": X, "y": y, "X_test": grid, "y_test": np.sinc(grid[:, 0] / np.pi), "gamma": 1 / (2 * 1.6**2)}


def split(name: str, seed: int, *, n_train: int | None = None, factor: float = 1.0) -> Task:
    """Draw a stratified split (three fifths unless told) of standardised data; gamma is ``factor / p``."""
    if name == "waveform":
        X, y = make_waveform(1300, random_state=seed)
        n_train = 300
    elif name in ("iris", "wine"):
        X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    else:
        data = load(name)
        X, y = data.data, np.unique(data.target, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    share = 0.6 if n_train is None else n_train / len(y)
    train = np.zeros(len(y), dtype=bool)
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        train[rows[: max(2, round(share * len(rows)))]] = True
    scaler = StandardScaler().fit(X[train])
    X = scaler.transform(X)
    return {"X": X[train], "y": y[train], "X_test": X[~train], "y_test": y[~train], "gamma": factor / X.shape[1]}


def banana(seed: int) -> Task:
    data = load("ida_banana")
    y = (data.target == np.unique(data.target)[1]).astype(int)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:400], order[400:]
    return {"X": data.data[train], "y": y[train], "X_test": data.data[test], "y_test": y[test], "gamma": 0.5}


def pima() -> Task:
    data = load("pima")
    y = (data.target == np.unique(data.target)[1]).astype(int)
    train, test = data.split["train"], data.split["test"]
    scaler = StandardScaler().fit(data.data[train])
    X, X_test = scaler.transform(data.data[train]), scaler.transform(data.data[test])
    return {"X": X, "y": y[train], "X_test": X_test, "y_test": y[test], "gamma": 1 / X.shape[1]}


def machine(task: Task) -> Any:
    kind = RVR if task["y"].dtype.kind == "f" else RVC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kind(gamma=task["gamma"]).fit(task["X"], task["y"])


def measured(task: Task) -> tuple[float, float]:
    """Return the error (rate, or mean square) on the test rows and the number of centres."""
    model = machine(task)
    answer = model.predict(task["X_test"])
    wrong = (answer - task["y_test"]) ** 2 if task["y"].dtype.kind == "f" else answer != task["y_test"]
    return float(np.mean(wrong)), float(model.n_active_)


# What is asked: title, draws, largest error, fewest and most centres. Widths were fixed beforehand.
BANDS: list[tuple[str, list[Any], float, float, float]] = [
    ("sinc 50, rmse", [partial(sinc, 50, s) for s in range(20)], 0.060, 4, 7),
    ("sinc 100, rmse", [partial(sinc, 100, s) for s in range(20)], 0.042, 4, 7),
    ("boston h=3, 8 splits, mse", [], 10.5, 25, 45),
    ("ripley_synth h=.5", [partial(ripley, 250)], 0.105, 3, 7),
    ("pima 1/p", [pima], 0.24, 0, np.inf),
    ("crabs 1/p, 5 splits", [partial(split, "crabs", s) for s in range(5)], 0.12, 0, np.inf),
    ("ida_banana 1/p, 3 splits", [partial(banana, s) for s in range(3)], 0.125, 8, 14),
    ("iris 1/p, 4 splits", [partial(split, "iris", s) for s in range(4)], 0.107, 0, np.inf),
    ("wine 1/p, 4 splits", [partial(split, "wine", s) for s in range(4)], 0.082, 0, np.inf),
    ("glass 1/p, 4 splits", [partial(split, "fglass", s) for s in range(4)], 0.332, 0, np.inf),
    ("waveform 300 1/p, 4 splits", [partial(split, "waveform", s) for s in range(4)], 0.211, 0, np.inf),
]


def boston_split(seed: int) -> Task:
    data = load("boston")
    order = np.random.default_rng(seed).permutation(len(data.target))
    train, test = order[:481], order[481:]
    scaler = StandardScaler().fit(data.data[train])
    X, X_test = scaler.transform(data.data[train]), scaler.transform(data.data[test])
    return {"X": X, "y": data.target[train], "X_test": X_test, "y_test": data.target[test], "gamma": 1 / 18}


def bands(options: Options) -> None:
    """Print error and centres of every task beside what is asked."""
    for title, draws, most, few, many in BANDS:
        makers = draws or [partial(boston_split, s) for s in range(8)]
        found = np.array([measured(make()) for make in makers])
        wrong = float(np.mean(np.sqrt(found[:, 0]) if "rmse" in title else found[:, 0]))
        kept = float(found[:, 1].mean())
        verdict = "inside" if wrong <= most and few <= kept <= many else "OUTSIDE"
        print(f"{title:28s} {wrong:.4f} (<= {most:g}), {kept:.1f} centres ({few:g} to {many:g}): {verdict}")


SPEED = {"sinc": partial(sinc, 100), "boston": boston, "ripley": partial(ripley, 250), "banana": partial(banana, 0)}


def compare(name: str, options: Options) -> None:
    """Fit one task, and beside it the rival."""
    task, repeats = SPEED[name](), options.repeats(5)
    own = least(lambda: machine(task), repeats)
    answer = own.result.predict(task["X_test"])
    show(f"{name}: smaller", own, f"{error(task, answer)}, {own.result.n_active_} kept")
    if options.python:
        result, other = rvm(options.python, task, min(repeats, 2))
        show(f"{name}: sklearn-rvm", other, f"{result}; {other.cpu / own.cpu:.0f} times ours")


PARTS = {"bands": bands} | {name: partial(compare, name) for name in SPEED}
