"""What a strength per block is worth, in log-loss on new rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special
from sklearn.metrics import log_loss

from benchmarks.papers.engine import Band
from smaller import SBMLR, SMLRCV
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.blocks import find_strengths

from .engine import Part, Row

_ROWS, _NEW = 150, 5000


def measure(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit one draw of independent normal columns with one strength, by cross-validation, and with one per block."""
    sizes, signal, weight = settings["sizes"], settings["signal"], settings["weight"]
    rng = np.random.default_rng([seed, *sizes, *signal])
    X = rng.normal(size=(_ROWS + _NEW, sum(sizes)))
    w = np.zeros(sum(sizes))
    for start, count, value in zip(np.cumsum([0, *sizes[:-1]]), signal, weight, strict=True):
        w[start : start + count] = value * rng.choice([-1.0, 1.0], count)
    y = (rng.random(len(X)) < special.expit(X @ w)).astype(int)
    train, new = slice(_ROWS), slice(_ROWS, None)
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [m.fit(X[train], y[train]) for m in (SBMLR(), SMLRCV(alphas=40), SBMLR(blocks=blocks))]
    one, cv, several = (log_loss(y[new], fit.predict_proba(X[new])) for fit in fits)
    likelihood = Multinomial(2)
    problem = Problem(as_design(X[train]), likelihood.encode(y[train]), None, likelihood, Laplace(1.0))
    starts = [None, *(np.where(np.arange(len(sizes)) == b, 1.0, np.inf) for b in range(len(sizes)))]
    found = [find_strengths(problem, blocks, start=start) for start in [*starts, np.full(len(sizes), np.inf)]]
    losses = [float(np.mean(np.logaddexp(0.0, (1 - 2 * y[new]) * _scores(fit, X[new])))) for fit in found]
    return {
        "one": one,
        "cv": cv,
        "several": several,
        "gain": several - one,
        "rounds": float(max(fit.n_rounds for fit in found)),
        "starts": float(np.ptp(losses)),
        "circles": float(np.mean([fit.n_rounds >= 12 for fit in found])),
    }


def _scores(fit: Any, X: Any) -> Any:
    return X @ fit.solution.w[:, 0] + fit.solution.b[0]


_ALWAYS = {"rounds": Band(high=5.0), "starts": Band(high=0.01)}


def _row(name: str, sizes: Any, signal: Any, weight: Any, bands: Mapping[str, Band]) -> Row:
    return Row(name, {"sizes": sizes, "signal": signal, "weight": weight}, 30, {**bands, **_ALWAYS})


PART = Part(
    "blocks",
    measure,
    {
        "one": "one strength",
        "cv": "SMLRCV",
        "several": "**one per block**",
        "gain": "difference",
        "rounds": "most rounds",
        "starts": "spread over starts",
    },
    (
        _row("6 of 10, weak 2 of 500", (10, 500), (6, 2), (1.0, 0.5), {"several": Band(high=0.48)}),
        _row("5 + 50 + 1000, 3 in each", (5, 50, 1000), (3, 3, 3), (1.0,) * 3, {"several": Band(high=0.56)}),
        _row("equal: 3 of 250, 3 of 250", (250, 250), (3, 3), (1.0, 1.0), {"gain": Band(high=0.02)}),
        _row("none of 10, 4 of 500", (10, 500), (0, 4), (1.0, 1.0), {}),
        _row("noise, 10 + 500", (10, 500), (0, 0), (1.0, 1.0), {"several": Band(high=0.715)}),
    ),
    heading="signal, 150 rows",
)
