"""Import vectors: few kernel columns, chosen one after the other (Zhu and Hastie 2005, Algorithms 1-3).

The model lives on the whitened basis: with chosen rows S and ``K_SS = L L'``, ``phi(x) = L^-1 k_S(x)``, so a new point
appends one column ``psi = (k_l - Phi phi_l) / sqrt(rho_l)``, ``rho_l = K_ll - |phi_l|^2``, and changes nothing else.
`submodel` fits the chosen columns, `candidates` says what each row would bring, `shortlist` chooses several at a time;
here are the stopping rule and the walk along decreasing strengths.
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
from smaller.searches.shortlist import by_joint_promise, promises
from smaller.searches.submodel import Submodel

__all__ = ["Choice", "Forward", "ImportPath", "Stage", "drawn_rows", "select"]

_log = logging.getLogger("smaller")

DRAWN = 4000  # candidates: more of them hardly find better points, and cost in proportion
SEPARATED = 1e-7  # of n log 2: an objective below this means separable data and almost no penalty
_BLOCKS_FROM = 4  # blocks' worth of points that are chosen one by one: each of the first changes what the others bring


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
    decrease, _ = promises(model, candidates, g)
    best = int(np.argmax(decrease))
    return (best, float(decrease[best])) if decrease[best] > 0.0 else (-1, 0.0)


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
    block
        Points added at a time once there are four times as many. The published choices need 1.
    refresh
        Additions, of a point or of a block, between two renewals of the weights W. `by_promise` can do with old ones;
        the published choices need 1.
    memory_limit
        Bytes of candidate columns that may be held.
    n_candidates
        Rows drawn at random as candidates. None: `DRAWN`, or as many as fit ``memory_limit``. A number whose columns do
        not fit has them computed anew, in blocks, at every addition.
    """

    eps: float = 1e-3
    window: int = 5
    max_points: int = 500
    choose: Choice = by_promise
    block: int = 16
    refresh: int = 10
    memory_limit: int = 1 << 28
    n_candidates: int | None = None


def drawn_rows(n: int, weight: Array | None, settings: Forward, rng: np.random.Generator | None = None) -> Array:
    """Return the rows among which points are chosen: all of positive weight, or as many of them as the settings say."""
    rows = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
    count = settings.n_candidates
    if count is None:
        count = max(1, min(DRAWN, settings.memory_limit // (4 * n)))
    if count >= len(rows):
        return rows
    _log.info("import points are chosen among %d rows drawn from %d", count, len(rows))
    return np.sort((rng or np.random.default_rng()).choice(rows, count, replace=False))


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

    ``rows`` may be chosen; None: `drawn_rows`. ``watched`` rows must have weight zero: they are predicted but
    not learnt from, and never chosen. Their error, with weights ``watched_weight``, is recorded after every addition.
    """
    rows = drawn_rows(X.shape[0], weight, settings, rng) if rows is None else rows
    candidates = Candidates(kernel, X, rows, settings.memory_limit)
    if candidates.rho.min() < 0.0:
        raise ValueError("kernel must be positive semi-definite for import vectors: K(x, x) < 0 was found.")
    model = Submodel(likelihood, y, weight, float(alphas[0]), fit_intercept=fit_intercept)
    watch = _Watch(model, watched, watched_weight)
    points: list[int] = []
    records: list[tuple[float, float, float]] = []
    stages = []
    for alpha in alphas:
        model.alpha = float(alpha)
        for added in _additions(model, candidates, settings, len(points)):
            points.extend(added.tolist())
            records.extend([(model.alpha, model.objective, watch.error())] * len(added))
        stages.append(watch.stage())
    table = np.asarray(records).reshape(-1, 3)
    path = ImportPath(np.asarray(points, dtype=np.int64), table[:, 0], table[:, 1], table[:, 2])
    return model, path, stages


def _additions(model: Submodel, candidates: Candidates, settings: Forward, m: int) -> Iterator[Array]:
    """Add points at one strength until the stopping rule holds; yield the new rows after every refit."""
    accuracy = max(1e-2 * settings.eps / settings.window, 1e-12)
    g = model.refit(accuracy)
    history = [(m, model.objective)]
    age, at = _renewed(model, candidates), model.objective  # additions since W was renewed, and H then
    while m < settings.max_points:
        # A bound's promise is only a lower bound on the decrease: there the decrease itself decides.
        least = 0.0 if model.shared else settings.eps * model.objective / settings.window
        chosen, promise = _choice(model, candidates, g, settings, m, least)
        poor = promise < least
        if poor and age and len(chosen):
            # Never stop on old weights: on separable data they may be wrong by orders of magnitude.
            age, at = _renewed(model, candidates), model.objective
            continue
        if poor or not len(chosen):
            return
        psi = candidates.whitened(model, chosen)
        couplings, corners = model.append(psi)
        candidates.forget(psi)
        g = model.refit(accuracy)
        m += len(chosen)
        history.append((m, model.objective))
        _log.debug("%d import points: rows %s, objective %.10g", m, candidates.rows[chosen], model.objective)
        yield candidates.rows[chosen]
        if _converged(history, settings, model):
            return
        if not model.shared and (age + 1 >= settings.refresh or model.objective < 0.5 * at):
            age, at = _renewed(model, candidates), model.objective
        else:
            candidates.extend(model, couplings, corners)
            age += 1


def _choice(
    model: Submodel, candidates: Candidates, g: Array, settings: Forward, m: int, least: float
) -> tuple[Array, float]:
    """Return the next points, and what the best of them promises: one while there are few, later a block."""
    count = min(settings.block, settings.max_points - m)
    if settings.block > 1 and m >= _BLOCKS_FROM * settings.block:
        return by_joint_promise(model, candidates, g, count, least)
    best, promise = settings.choose(model, candidates, g)
    return np.array([best] if best >= 0 else [], dtype=np.int64), promise


def _renewed(model: Submodel, candidates: Candidates) -> int:
    model.renew()
    candidates.renew(model)
    return 0


def _converged(history: list[tuple[int, float]], settings: Forward, model: Submodel) -> bool:
    """Whether the last ``window`` points or more brought too little (section 3.3), or the classes are separated."""
    m, H = history[-1]
    total = float(model.n if model.weight is None else model.weight.sum())
    if SEPARATED * total * math.log(2.0) > H:
        return True
    earlier = next(((k, old) for k, old in reversed(history) if m - k >= settings.window), None)
    if earlier is None:
        return False
    k, old = earlier
    return abs(old - H) * settings.window < settings.eps * abs(H) * (m - k)


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
