"""How often ranges of effects hold the true weights, and how often corrected p-values are wrong or find something."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.papers.engine import Band
from smaller import SBMLR, coef_interval

from .draws import draw
from .engine import Part, Row

_FAR = 12  # columns that touch none that counts
_SIGNIFICANT = 0.05


def measure(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Compute the effects of the columns that count, of their neighbours and of some others."""
    settings = dict(settings)
    level = settings.pop("level", 0.9)
    drawn = draw(seed, **settings, n_new=1)
    p = len(drawn.weights)
    signal = np.flatnonzero(drawn.weights)
    near = np.setdiff1d(np.r_[signal - 1, signal + 1], signal)
    near = near[(near >= 0) & (near < p)]
    rest = np.setdiff1d(np.arange(p), np.r_[signal, near])
    far = np.random.default_rng(seed).choice(rest, min(_FAR, len(rest)), replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SBMLR().fit(drawn.X, drawn.y)
        found = coef_interval(model, drawn.X, drawn.y, columns=np.r_[signal, near, far], level=level)
    truth = drawn.weights[found.column]
    held = (found.low <= truth) & (truth <= found.high)
    parts = np.repeat(np.arange(3), [len(signal), len(near), len(far)])
    discovered = found.p_corrected < _SIGNIFICANT
    return {
        "signal": held[parts == 0].mean(),
        "near": held[parts == 1].mean(),
        "far": held[parts == 2].mean(),
        "power": discovered[parts == 0].mean(),
        "false": discovered[parts > 0].mean(),
    }


_ZEROS = {"near": Band(low=0.87), "far": Band(low=0.87), "false": Band(high=0.01)}
_BANDS = {"signal": Band(low=0.73), **_ZEROS}
_WIDE = {"n": 400, "p": 1000, "signal": 5, "size": 0.7, "rho": 0.5}
PART = Part(
    "effects",
    measure,
    {
        "signal": "not zero",
        "near": "zeros beside them",
        "far": "other zeros",
        "power": "found at .05, corrected",
        "false": "false findings",
    },
    (
        Row("200, 400, rho .6", {"n": 200, "p": 400, "signal": 5, "rho": 0.6}, 100, _BANDS),
        Row("400, 1000, rho .5 (weights .7)", _WIDE, 60, _BANDS),
        Row("150, 50, rho .5", {"n": 150, "p": 50, "signal": 5, "rho": 0.5}, 120, _BANDS),
        Row(
            "100, 1000, rho .3 (weights 1.5)",
            {"n": 100, "p": 1000, "signal": 5, "size": 1.5, "rho": 0.3},
            100,
            _ZEROS,
        ),
        Row("400, 20, at 95 %", {"n": 400, "p": 20, "signal": 5, "level": 0.95}, 100),
        Row("400, 400, rho .6, at 95 %", {"n": 400, "p": 400, "signal": 5, "rho": 0.6, "level": 0.95}, 60),
    ),
    heading="rows, columns",
)
