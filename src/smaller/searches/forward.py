"""Import vectors: few kernel columns, chosen one after the other (Zhu and Hastie 2005, Algorithms 1-3).

The model lives on the whitened basis: with chosen rows S and ``K_SS = L L'``, ``phi(x) = L^-1 k_S(x)``, so a new point
appends one column ``psi = (k_l - Phi phi_l) / sqrt(rho_l)``, ``rho_l = K_ll - |phi_l|^2``, and changes nothing else.
`submodel` fits the chosen columns, `candidates` says what each row would bring; here are the choice, the stopping rule
and the walk along decreasing strengths.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.kernels import Kernel
from smaller.likelihoods import Multinomial
from smaller.searches.candidates import Candidates
from smaller.searches.submodel import Submodel

__all__ = ["Choice", "Forward", "ImportPath", "Stage", "select"]

_log = logging.getLogger("smaller")

SEPARATED = 1e-7  # of n log 2: an objective below this means separable data and almost no penalty


@dataclass(frozen=True)
class ImportPath:
    """What happened at each addition."""

    points: Array  # (m,) row chosen
    alphas: Array  # (m,) strength at that time
    objective: Array  # (m,) H after the addition
    validation_error: Array  # (m,) misclassified share of the watched rows; NaN without any


@dataclass(frozen=True)
class Stage:
    """The model at the end of one strength."""

    alpha: float
    n_points: int
    objective: float
    validation_error: float
    validation_loss: float  # mean log-loss


Choice = Callable[[Submodel, Candidates, Array], tuple[int, float]]  # gradient g in; row (-1: none) and decrease out


def by_promise(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate of the largest predicted decrease, and this decrease."""
    open_to, s = candidates.admissible(), candidates.curvatures(model)
    scores = np.full(len(open_to), -1.0)
    scores[open_to] = np.sum(candidates.numerators(model, g)[open_to].T ** 2 / s[:, open_to], axis=0)
    best = int(np.argmax(scores))
    return (best, 0.5 * float(scores[best])) if scores[best] > 0.0 else (-1, 0.0)


@dataclass(frozen=True)
class Forward:
    """Settings of a forward selection.

    Attributes
    ----------
    eps, window
        Stop when the last ``window`` points lowered H by less than ``eps H``.
    max_points
        Stop at this number of points.
    choose
        How the next point is chosen: `by_promise`, or a choice as published (`smaller.papers`).
    refresh
        Additions between two renewals of the weights W. `by_promise` can do with old ones; the published choices
        need 1.
    memory_limit
        Bytes of candidate columns that may be held.
    n_candidates
        Rows drawn at random as candidates. None: all rows if their columns fit ``memory_limit``, else as many as fit.
        A number whose columns do not fit has them computed anew, in blocks, at every addition.
    """

    eps: float = 1e-3
    window: int = 1
    max_points: int = 500
    choose: Choice = by_promise
    refresh: int = 10
    memory_limit: int = 1 << 28
    n_candidates: int | None = None


def select(
    kernel: Kernel,
    X: Any,
    likelihood: Multinomial,
    y: Array,
    weight: Array | None,
    alphas: Sequence[float],
    settings: Forward,
    *,
    rows: Array | None = None,
    fit_intercept: bool = True,
    rng: np.random.Generator | None = None,
    watched: Array | None = None,
    watched_weight: Array | None = None,
) -> tuple[Submodel, ImportPath, list[Stage]]:
    """Run Algorithm 2 for one strength, Algorithm 3 for several (decreasing): points and weights are carried over.

    ``rows`` may be chosen; None: all of positive weight. ``watched`` rows must have weight zero: they are predicted but
    not learnt from, and never chosen. Their error, with weights ``watched_weight``, is recorded after every addition.
    """
    if rows is None:
        rows = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight > 0)
    candidates = Candidates(kernel, X, _sampled(rows, X.shape[0], settings, rng), settings.memory_limit)
    if candidates.rho.min() < 0.0:
        raise ValueError("kernel must be positive semi-definite for import vectors: K(x, x) < 0 was found.")
    model = Submodel(likelihood, y, weight, float(alphas[0]), fit_intercept=fit_intercept)
    watch = _Watch(model, watched, watched_weight)
    points: list[int] = []
    records: list[tuple[float, float, float]] = []
    stages = []
    for alpha in alphas:
        model.alpha = float(alpha)
        for point in _additions(model, candidates, settings, len(points)):
            points.append(point)
            records.append((model.alpha, model.objective, watch.error()))
        stages.append(watch.stage())
    table = np.asarray(records).reshape(-1, 3)
    path = ImportPath(np.asarray(points, dtype=np.int64), table[:, 0], table[:, 1], table[:, 2])
    return model, path, stages


def _sampled(rows: Array, n: int, settings: Forward, rng: np.random.Generator | None) -> Array:
    count = settings.n_candidates
    if count is None:
        count = max(1, settings.memory_limit // (4 * n))
    if count >= len(rows):
        return rows
    return np.sort((rng or np.random.default_rng()).choice(rows, count, replace=False))


def _additions(model: Submodel, candidates: Candidates, settings: Forward, m: int) -> Iterator[int]:
    """Add points at one strength until the stopping rule holds; yield each row after the model was refitted."""
    accuracy = max(1e-2 * settings.eps / settings.window, 1e-12)
    g = model.refit(accuracy)
    history = [model.objective]
    age, at = _renewed(model, candidates), history[0]  # additions since W was renewed, and H then
    while m < settings.max_points:
        index, promise = settings.choose(model, candidates, g)
        # A bound's promise is only a lower bound on the decrease: there the decrease itself decides.
        poor = not model.shared and promise < settings.eps * history[-1] / settings.window
        if poor and age and index >= 0:
            # Never stop on old weights: on separable data they may be wrong by orders of magnitude.
            age, at = _renewed(model, candidates), history[-1]
            continue
        if poor or index < 0:
            return
        psi = candidates.whitened(model, index)
        rows, diagonal = model.append(psi)
        candidates.forget(psi)
        g = model.refit(accuracy)
        m += 1
        history.append(model.objective)
        _log.debug("import point %d: row %d, objective %.10g", m, candidates.rows[index], history[-1])
        yield int(candidates.rows[index])
        if _converged(history, settings, model):
            return
        if not model.shared and (age + 1 >= settings.refresh or history[-1] < 0.5 * at):
            age, at = _renewed(model, candidates), history[-1]
        else:
            candidates.extend(model, rows, diagonal)
            age += 1


def _renewed(model: Submodel, candidates: Candidates) -> int:
    model.renew()
    candidates.renew(model)
    return 0


def _converged(history: list[float], settings: Forward, model: Submodel) -> bool:
    """Whether the last ``window`` points brought too little (section 3.3), or the classes are separated."""
    total = float(model.n if model.weight is None else model.weight.sum())
    if history[-1] < SEPARATED * total * math.log(2.0):
        return True
    if len(history) <= settings.window:
        return False
    return abs(history[-1 - settings.window] - history[-1]) < settings.eps * abs(history[-1])


class _Watch:
    """Errors on rows of weight zero, which the model predicts without learning from them."""

    def __init__(self, model: Submodel, rows: Array | None, weight: Array | None) -> None:
        self.model, self.rows = model, rows
        if rows is None:
            return
        self.y, self.weight = model.y[rows], weight
        # Targets of one output say whether it is class 1, those of several which class it is.
        self.labels = self.y[:, 0] if model.q == 1 else self.y.argmax(axis=1)

    def error(self) -> float:
        if self.rows is None:
            return math.nan
        wrong = self.model.likelihood.predict(self.model.eta[self.rows]).argmax(axis=1) != self.labels
        return float(np.average(wrong, weights=self.weight))

    def stage(self) -> Stage:
        model, loss = self.model, math.nan
        if self.rows is not None:
            total = len(self.rows) if self.weight is None else float(self.weight.sum())
            loss = model.likelihood.evaluate(model.eta[self.rows], self.y, self.weight)[0] / total
        return Stage(model.alpha, len(model.w), model.objective, self.error(), loss)
