"""Tables with nothing to find: whoever finds something in them is fooling himself.

`make noise SEEDS=20:60` studies one table a seed and counts the claims.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from smaller.app.study import Data, Procedure, Question, prepare, run_study
from smaller.app.tables import Table

KINDS = ("rows", "copies", "groups", "wide", "classes")
SHAPES = ((10, 50), (40, 20), (60, 200), (100, 10), (120, 40), (200, 5_000))


def noise_table(seed: int, *, largest: int = 10**9) -> tuple[str, Table]:
    """Return a table of independent columns and random labels; its kind and shape follow from the seed."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    shapes = [(n, p) for n, p in SHAPES if n * p <= largest]
    n, p = shapes[int(rng.integers(len(shapes)))]
    if kind in ("copies", "groups"):
        n, p = max(n, 60), min(p, 20)
    classes = 3 if kind == "classes" and n >= 40 else 2
    X = rng.normal(size=(n, p))
    y = np.arange(n) % classes
    rng.shuffle(y)
    columns: dict[str, Any] = {}
    if kind == "copies":
        rows = np.repeat(np.arange(n), 3)
        X, y = X[rows], y[rows]
    elif kind == "groups":
        patients = np.repeat(np.arange(n // 3), 8)
        X = X[: n // 3][patients] + 0.05 * rng.normal(size=(len(patients), p))
        y = y[: n // 3][patients]
        columns["patient"] = np.array([f"P{i}" for i in patients], dtype=object)
    columns |= {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return kind, Table(columns | {"y": np.array([f"c{k}" for k in y], dtype=object)})


def data_of(kind: str, table: Table) -> Data:
    """Make a table ready; that rows belong to patients is said."""
    return prepare(table, Question("y", group="patient" if kind == "groups" else None))


def claims(seed: int, **size: Any) -> tuple[bool, str]:
    """Study one table of noise; tell whether more than guessing is claimed."""
    kind, table = noise_table(seed, **size)
    data = data_of(kind, table)
    verdict = run_study(data, Procedure()).facts["verdict"]
    return verdict["state"] == "better", f"seed {seed}: {kind} {data.X.shape}: {verdict['sentence']}"


def main(seeds: str) -> None:
    """Print one line a seed and the number of claims."""
    start, _, stop = seeds.partition(":")
    found = []
    for seed in range(int(start), int(stop or int(start) + 1)):
        claimed, line = claims(seed)
        found.append(claimed)
        print(line, flush=True)
    print(f"{sum(found)} of {len(found)} tables of noise claim more than guessing")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "0:20")
