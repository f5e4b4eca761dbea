"""Three fits in whichever build runs them: `.venv` has the core's loops once per level of x86-64, `.venv-nosimd` once.

``make nosimd``, then ``.venv-nosimd/bin/python -m benchmarks.speed loops`` beside ``.venv/bin/python -m ...``, with
OMP_NUM_THREADS=1: the quotients are what one plain copy costs, as platforms without GCC and glibc have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.speed.clock import Options, least, show
from smaller import SMLR, smlr_path

Fit = Callable[[Any, Any], Any]
FITS: dict[str, tuple[int, int, int, int, Fit]] = {  # rows, columns, classes, columns that matter
    "tall": (50000, 60, 5, 10, SMLR(alpha=20.0).fit),
    "wide": (200, 5000, 2, 10, partial(smlr_path, alphas=40)),
    "classes": (4000, 100, 20, 20, SMLR(alpha=3.0).fit),
}


def timed(name: str, options: Options) -> None:
    """Time one fit."""
    n, d, K, matter, fit = FITS[name]
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(n, d)), np.zeros((d, K))
    W[:matter] = rng.normal(size=(matter, K))
    y = (X @ W + rng.gumbel(size=(n, K))).argmax(axis=1)
    show(f"{name}: {n} x {d}, {K} classes", least(lambda: fit(X, y), options.repeats(7)))


PARTS = {name: partial(timed, name) for name in FITS}
