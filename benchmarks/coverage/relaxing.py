"""What relaxing does to probabilities: on data sets, and against the true ones."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from benchmarks.papers.engine import Band
from smaller import SBMLR, SMLRCV
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import Laplace
from smaller.problem import Problem
from smaller.searches.refit import refit

from .draws import draw
from .engine import Part, Row

Array = Any


def on_data(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Split a set at random, and score the penalised fit and the blend on the rows left out."""
    names = settings["sets"]
    name, n_train = names[seed % len(names)]
    data = load(name)
    X, X_new, y, y_new = train_test_split(
        data.data, data.target, train_size=n_train, stratify=data.target, random_state=seed // len(names)
    )
    scaler = StandardScaler().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = settings["model"]().fit(scaler.transform(X), y)
    A = scaler.transform(X_new)
    blend = model.predict_proba(A)
    eta = A @ model.penalized_coef_.T + model.penalized_intercept_
    plain = special.softmax(np.column_stack([0.0 * eta, eta]) if eta.shape[1] == 1 else eta, axis=1)
    losses = [log_loss(y_new, P, labels=model.classes_) for P in (plain, blend)]
    errors = [np.mean(model.classes_[P.argmax(axis=1)] != y_new) for P in (plain, blend)]
    return {
        "plain": losses[0],
        "relaxed": losses[1],
        "gain": losses[0] - losses[1],
        "error": errors[0],
        "error_relaxed": errors[1],
    }


def sbmlr() -> Any:
    return SBMLR(relax=True)


def smlrcv() -> Any:
    return SMLRCV(relax=True, alphas=40)


_SETS = (
    ("golub and colon, 2/3 of the rows", (("golub", 48), ("colon", 41)), 32, 0.03),
    ("wine, 118", (("wine", 118),), 10, 0.02),
    ("digits8x8, 400", (("digits8x8", 400),), 3, 0.05),
    ("fglass, 143", (("fglass", 143),), 8, -0.03),
    ("wdbc, 380", (("wdbc", 380),), 6, -0.03),
    ("pima, 200", (("pima", 200),), 6, -0.03),
    ("satimage, 600", (("satimage", 600),), 3, -0.03),
    ("waveform, 300", (("waveform", 300),), 5, -0.03),
)
DATA = Part(
    "relaxing",
    on_data,
    {
        "plain": "log-loss",
        "relaxed": "**relaxed**",
        "gain": "gain",
        "error": "error rate",
        "error_relaxed": "relaxed",
    },
    tuple(
        Row(f"{make.__name__.upper()}: {name}", {"model": make, "sets": sets}, draws, {"gain": Band(low=least)})
        for make in (sbmlr, smlrcv)
        for name, sets, draws, gain in _SETS
        for least in [gain if make is sbmlr else -0.01]
    ),
    heading="model: set, training rows",
    needs_data=True,
)


def simulated(settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Measure how far probabilities are from the true ones: Kullback-Leibler divergence, mean per new row."""
    drawn = draw(seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SBMLR(relax=True).fit(drawn.X, drawn.y)
    likelihood = Multinomial(2)
    problem = Problem(as_design(drawn.X), likelihood.encode(drawn.y), None, likelihood, Laplace(1.0))
    again = refit(problem, model.penalized_coef_.T, model.penalized_intercept_)
    scores = {
        "plain": drawn.X_new @ model.penalized_coef_[0] + model.penalized_intercept_[0],
        "refit": drawn.X_new @ again.w[:, 0] + again.b[0],
        "blend": model.decision_function(drawn.X_new),
    }
    found = {name: divergence(drawn.log_odds[:, 1], eta) for name, eta in scores.items()}
    return found | {"ratio": found["blend"] / found["plain"]}


def divergence(truth: Array, eta: Array) -> float:
    p = special.expit(truth)
    return float(np.mean(p * truth - np.logaddexp(0.0, truth) - p * eta + np.logaddexp(0.0, eta)))


TRUTH = Part(
    "divergence",
    simulated,
    {"plain": "SBMLR", "refit": "refit alone", "blend": "**relaxed**", "ratio": "relaxed / SBMLR"},
    tuple(
        Row(f"{n}, {p}, {signal}{', rho .7' if rho else ''}", of, 40, {"ratio": Band(high=1.2)})
        for n, p, signal, rho in (
            (100, 20, 4, 0.0),
            (100, 200, 4, 0.0),
            (400, 50, 5, 0.0),
            (200, 200, 4, 0.7),
            (400, 1000, 5, 0.0),
        )
        for of in [{"n": n, "p": p, "signal": signal, "rho": rho}]
    ),
)
