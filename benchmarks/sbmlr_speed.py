"""Time of SBMLR beside the cross-validation it replaces: ``python -m benchmarks.sbmlr_speed [names]``.

One core, processor seconds, the least of several runs, both in the same process. SBMLR in path mode against 5-fold
SMLRCV over 50 strengths down to 1e-3 of the largest. Needs the papers' data (SMALLER_DATA).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from smaller import SBMLR, SMLRCV

COMPARED = ("iris", "wine", "fglass", "viruses", "satimage", "waveform")
LIMITS = {"isolet": 60.0, "satimage": 3.0}  # seconds


def best(action: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """Return the result and the least processor seconds of several runs."""
    least = np.inf
    for _ in range(runs):
        start = time.process_time()
        result = action()
        least = min(least, time.process_time() - start)
    return result, least


def training_part(name: str) -> tuple[Any, Any]:
    data = load(name)
    rows = slice(None) if data.split is None else data.split["train"]
    return StandardScaler().fit_transform(data.data[rows]), data.target[rows]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sbmlr_speed", description=__doc__)
    parser.add_argument("names", nargs="*", default=[*COMPARED, "isolet"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ratios = []
    for name in options.names:
        X, y = training_part(name)
        model, seconds = best(lambda X=X, y=y: SBMLR().fit(X, y), options.runs if name in COMPARED else 1)
        line = f"{name:9s} {X.shape[0]:5d} x {X.shape[1]:3d} x {len(model.classes_):2d}  SBMLR {seconds:7.3f} s"
        line += f"  {model.solution_.status.name}, {model.n_active_} weights"
        if name in LIMITS:
            line += f"  ({'within' if seconds <= LIMITS[name] else 'OVER'} {LIMITS[name]:g} s)"
        if name in COMPARED:
            cv = SMLRCV(alphas=50, eps=1e-3, cv=5)
            _, other = best(lambda X=X, y=y, cv=cv: cv.fit(X, y), options.runs)
            ratios.append(other / seconds)
            line += f"  SMLRCV {other:7.3f} s  {ratios[-1]:5.1f} times"
        print(line, flush=True)
    if ratios:
        print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.1f}, least {min(ratios):.1f}")


if __name__ == "__main__":
    main()
