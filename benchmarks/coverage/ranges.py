"""How often ranges of log-odds hold the true ones, and how wide they are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.engine import Band
from smaller import SBMLR, SMLRCV
from smaller.inference.logits import logits
from smaller.inference.posterior import quantile
from smaller.problem import Status

from .draws import draw
from .engine import Part, Row

LEVEL = 0.9
_FIFTH = 0.8


def measure(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit one draw; ranges beyond their reach are looked at, too, though no user sees them."""
    settings = dict(settings)
    model = settings.pop("model")
    drawn = draw(seed, **settings)
    scaler = StandardScaler().fit(drawn.X)
    X_new = scaler.transform(drawn.X_new)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model().fit(scaler.transform(drawn.X), drawn.y)
    kept = model._posterior
    shown = model._linear_predictor(X_new)
    believed = replace(kept, reach=1.0, status=Status.CONVERGED)
    low, high = (special.logit(end) for end in believed.interval(X_new, shown, LEVEL))
    m = logits(kept.likelihood, kept.chosen.eta(kept.chosen.values(X_new), kept.theta, kept.likelihood.n_outputs))
    s = quantile(LEVEL) * believed.standard_errors(X_new)
    if low.shape[1] == 2:
        low, high, m, s, truth = low[:, 1:], high[:, 1:], m[:, 1:], s[:, 1:], drawn.log_odds[:, 1:]
    else:
        truth = drawn.log_odds
    held, narrow = (low <= truth) & (truth <= high), np.abs(m - truth) <= s
    far = np.abs(truth) >= np.quantile(np.abs(truth), _FIFTH)
    sure = (low > 0) | (high < 0)
    return {
        "reach": kept.reach,
        "refused": float(kept.beyond_reach),
        "s": narrow.mean(),
        "s_far": narrow[far].mean(),
        "hull": held.mean(),
        "hull_far": held[far].mean(),
        "width": (special.expit(high) - special.expit(low)).mean(),
        "wrong": np.mean(np.where(low > 0, truth < 0, truth > 0)[sure]) if sure.any() else np.nan,
    }


def sbmlr() -> Any:
    return SBMLR(posterior=True)


def smlrcv() -> Any:
    return SMLRCV(posterior=True, alphas=40)


def relaxed() -> Any:
    return SBMLR(posterior=True, relax=True)


_CLOSE = {"reach": Band(high=1.5), "hull": Band(low=0.9)}
_MIDDLE = {"hull": Band(low=0.78)}
_BEYOND = {"reach": Band(low=5.0)}
_DESIGNS: tuple[tuple[str, dict[str, Any], int, dict[str, Band]], ...] = (
    ("2000, 50, 5", {"n": 2000, "p": 50, "signal": 5}, 100, _CLOSE),
    ("400, 50, 5", {"n": 400, "p": 50, "signal": 5}, 150, _CLOSE),
    ("1000, 100, 5 (.7), rho .5", {"n": 1000, "p": 100, "signal": 5, "size": 0.7, "rho": 0.5}, 100, _CLOSE),
    ("100, 20, 4", {"n": 100, "p": 20, "signal": 4}, 200, _MIDDLE),
    ("200, 200, 4, rho .7", {"n": 200, "p": 200, "signal": 4, "rho": 0.7}, 150, _MIDDLE),
    ("100, 200, 4", {"n": 100, "p": 200, "signal": 4}, 200, _MIDDLE),
    ("400, 1000, 5", {"n": 400, "p": 1000, "signal": 5}, 100, _MIDDLE),
    ("60, 1000, 4 (3), groups of 20", {"n": 60, "p": 1000, "signal": 4, "size": 3.0, "group": 20}, 100, _BEYOND),
    ("60, 1000, 4", {"n": 60, "p": 1000, "signal": 4}, 100, _BEYOND),
)
_THREE = ((150, 10, 0.9), (400, 40, 0.9), (1500, 40, 0.9), (150, 200, 0.78))


def _rows() -> tuple[Row, ...]:
    rows = [Row(f"SBMLR: {name}", {"model": sbmlr, **of}, draws, bands) for name, of, draws, bands in _DESIGNS]
    for n, p, least in _THREE:
        of = {"model": sbmlr, "n": n, "p": p, "signal": 4, "classes": 3}
        rows.append(Row(f"SBMLR, 3 classes: {n}, {p}, 4", of, 100, {"hull": Band(low=least)}))
    rows += [Row(f"SMLRCV: {name}", {"model": smlrcv, **of}, 50, {}) for name, of, _, _ in _DESIGNS[:7]]
    rows += [
        Row(f"SBMLR, relaxed: {name}", {"model": relaxed, **of}, 60, {})
        for name, of, _, _ in (_DESIGNS[i] for i in (1, 3, 4, 5))
    ]
    return tuple(rows)


PART = Part(
    "ranges",
    measure,
    {
        "reach": "`reach_`",
        "s": "normal range alone: all",
        "s_far": "clear-cut fifth",
        "hull": "**range: all**",
        "hull_far": "**clear-cut fifth**",
        "width": "width of the probability",
        "wrong": "wrong side of 1/2",
        "refused": "shown as 0 to 1",
    },
    _rows(),
    heading="model: rows, columns, not zero",
)
