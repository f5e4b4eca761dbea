"""Time of SBMLR beside the cross-validation it replaces.

SBMLR in path mode against 5-fold SMLRCV over 50 strengths down to 1e-3 of the largest. Needs the papers' data
(SMALLER_DATA).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from benchmarks.speed.clock import Options, least
from smaller import SBMLR, SMLRCV

COMPARED = ("iris", "wine", "fglass", "viruses", "satimage", "waveform")
LIMITS = {"isolet": 60.0, "satimage": 3.0}  # seconds


def training_part(name: str) -> tuple[Any, Any]:
    data = load(name)
    rows = slice(None) if data.split is None else data.split["train"]
    return StandardScaler().fit_transform(data.data[rows]), data.target[rows]


def compare(name: str, options: Options) -> None:
    """Fit one data set."""
    warnings.simplefilter("ignore")
    X, y = training_part(name)
    runs = options.repeats(3) if name in COMPARED else 1
    fit = least(lambda: SBMLR().fit(X, y), runs)
    line = f"{name:9s} {X.shape[0]:5d} x {X.shape[1]:3d} x {len(fit.result.classes_):2d}  SBMLR {fit.cpu:7.3f} s"
    line += f"  {fit.result.solution_.status.name}, {fit.result.n_active_} weights"
    if name in LIMITS:
        line += f"  ({'within' if fit.cpu <= LIMITS[name] else 'OVER'} {LIMITS[name]:g} s)"
    if name in COMPARED:
        other = least(lambda: SMLRCV(alphas=50, eps=1e-3, cv=5).fit(X, y), runs)
        line += f"  SMLRCV {other.cpu:7.3f} s  {other.cpu / fit.cpu:5.1f} times"
    print(line, flush=True)


PARTS = {name: partial(compare, name) for name in (*COMPARED, "isolet")}
