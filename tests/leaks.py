"""`python -m leaks`: the memory in use may grow by less than 1 MB over 500 fits of each public estimator."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
import warnings
from multiprocessing import get_context
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_regressor

import smaller

FITS, LARGEST = 500, 1 << 20
SMALL: dict[str, dict[str, Any]] = {
    "JCFO": {"em_iter": 1, "max_iter": 2, "n_centers": 5},
    "JCFOCV": {"alphas": [1.0], "alphas_scales": [1.0], "cv": 2, "em_iter": 1, "max_iter": 2, "n_centers": 5},
    "SMLRCV": {"alphas": 3, "cv": 2},
    "StabilitySelection": {"estimator": smaller.SMLR(alpha=3.0), "n_pairs": 2},
    "IVM": {"max_points": 5},
}
WRAPPERS = ("MinimumRiskClassifier", "PriorShiftClassifier", "RejectOptionClassifier")


def models() -> list[Any]:
    kinds = [getattr(smaller, name) for name in smaller.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseEstimator)]
    return [
        kind(smaller.SMLR()) if kind.__name__ in WRAPPERS else kind(**SMALL.get(kind.__name__, {})) for kind in kinds
    ]


def growth(model: Any, fits: int) -> int:
    """Return by how many bytes the memory in use grows over many fits, after some to warm up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    y = X[:, 0] + rng.standard_normal(20)
    target = y if is_regressor(model) else np.where(y > 0, 1, 0)
    in_use = []
    for count in (5, fits):
        for _ in range(count):
            clone(model).fit(X, target)
        gc.collect()
        in_use.append(tracemalloc.get_traced_memory()[0])
    return in_use[1] - in_use[0]


def watched(name: str, fits: int) -> int:
    """Return `growth` of one estimator, in a process of its own."""
    warnings.simplefilter("ignore")
    tracemalloc.start()
    start = time.monotonic()
    grown = growth(next(model for model in models() if type(model).__name__ == name), fits)
    print(f"{name}: {grown / 1024:+.0f} KiB in {fits} fits, {time.monotonic() - start:.1f} s", flush=True)
    return grown


def main() -> int:
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else FITS
    names = [type(model).__name__ for model in models()]
    with get_context("spawn").Pool(maxtasksperchild=1) as pool:
        return int(max(pool.starmap(watched, [(name, fits) for name in names], chunksize=1)) >= LARGEST)


if __name__ == "__main__":
    sys.exit(main())
