"""``gamma="cv"``: the width of a kernel chosen by the likelihood of rows left out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from smaller.arrays import Array
from smaller.designs import take_rows
from smaller.estimators.folds import SMALLEST_PROBABILITY
from smaller.kernels import resolve_gamma
from smaller.telling import tell
from smaller.validation import TrainingData

__all__ = ["ChosenWidth", "Widths", "choose_width", "log_likelihoods"]

_OCTAVES = np.linspace(-6.0, 3.0, 7)  # from gamma="scale": widths grow as gamma falls
_FOLDS = 5
_NOTICED = 1e-3  # mean log-likelihood that the end of the grid must gain to be worth a warning


@dataclass(frozen=True)
class Widths:
    """What was tried, and how it did."""

    gamma: float
    gammas: Array  # (k,), increasing
    scores: Array  # (k, folds) mean log-likelihood of the rows left out


class ChosenWidth:
    """Mixin of models with one kernel width: ``gamma`` may be "cv", and ``gamma_`` is the number used."""

    kernel: Any
    gamma: Any

    def _width(self, data: Any) -> Any:
        for name in ("gamma_", "gammas_", "gamma_scores_"):
            self.__dict__.pop(name, None)
        wanted = isinstance(self.gamma, str) and self.gamma == "cv"
        if not (isinstance(self.kernel, str) and self.kernel in ("rbf", "poly")):
            if wanted:
                raise ValueError("gamma='cv' chooses the width of a kernel: it needs kernel='rbf' or 'poly'.")
            return self.gamma
        if wanted:
            widths = choose_width(self, data)
            self.gammas_, self.gamma_scores_ = widths.gammas, widths.scores
        self.gamma_ = widths.gamma if wanted else resolve_gamma(self.gamma, data.X, data.weight)
        return self.gamma_


def choose_width(model: Any, data: Any) -> Widths:
    """Return the width under which rows left out are likeliest: five folds, seven widths, one more at an end.

    All else is as the model says. Of equal scores the widest kernel wins.
    """
    if getattr(data, "offset", None) is not None or getattr(data, "shares", None) is not None:
        raise ValueError("gamma='cv' takes one label a row and no offset: give gamma as a number.")
    unit = resolve_gamma("scale", data.X, data.weight)
    parts = _folds(data, model.random_state)
    scores: dict[float, Array] = {}

    def score(octave: float) -> None:
        scores[octave] = np.array([_score(model, data, unit * 2.0**octave, *part) for part in parts])

    for octave in _OCTAVES:
        score(float(octave))
    totals = np.array([_total(data.weight, test) for _, test in parts])
    step = _OCTAVES[1] - _OCTAVES[0]
    best = _best(scores, totals)
    if best in (_OCTAVES[0], _OCTAVES[-1]):
        further = float(best - step if best == _OCTAVES[0] else best + step)
        score(further)
        if _best(scores, totals) == further:
            _warn_end(model, float(np.average(scores[further] - scores[best], weights=totals)), further < best)
            best = further
    octaves = np.array(sorted(scores))
    return Widths(unit * 2.0**best, unit * 2.0**octaves, np.array([scores[octave] for octave in octaves]))


def _best(scores: dict[float, Array], totals: Array) -> float:
    return max(sorted(scores), key=lambda octave: float(np.average(scores[octave], weights=totals)))


def _warn_end(model: Any, gain: float, wide: bool) -> None:
    if gain > _NOTICED:
        advice = (
            "the boundary may be nearly linear: compare a model on the features themselves"
            if wide and hasattr(model, "predict_proba")
            else "give gamma as a number if the search should go on"
        )
        tell(
            f"{type(model).__name__} chose the {'widest' if wide else 'narrowest'} kernel that gamma='cv' tries; "
            f"{advice}.",
        )


def _folds(data: Any, random_state: Any) -> list[tuple[Array, Array]]:
    """Return (train, test) rows, shuffled in the same way for every width; rows without weight are left out."""
    n = data.X.shape[0]
    rows = np.arange(n) if data.weight is None else np.flatnonzero(data.weight > 0)
    seed = check_random_state(0 if random_state is None else random_state).randint(2**31 - 1)
    codes = getattr(data, "codes", None)
    least = len(rows) if codes is None else int(np.bincount(codes[rows])[np.unique(codes[rows])].min())
    if least < 2:
        raise ValueError(
            "gamma='cv' needs two rows of every class, or two responses: give gamma as a number, 'scale' or 'auto'."
        )
    splitter = (KFold if codes is None else StratifiedKFold)(min(_FOLDS, least), shuffle=True, random_state=seed)
    targets = None if codes is None else codes[rows]
    return [(rows[train], rows[test]) for train, test in splitter.split(np.zeros((len(rows), 1)), targets)]


def _score(model: Any, data: Any, gamma: float, train: Array, test: Array) -> float:
    """Return the mean log-likelihood of the test rows under the model of the others."""
    settings = model.get_params(deep=False) | {"gamma": gamma, "verbose": 0}
    part = type(model)(**(settings | {name: False for name in ("posterior", "relax") if name in settings}))
    X = data.X.tocsr() if sparse.issparse(data.X) else data.X
    weight = None if data.weight is None else data.weight[train]
    targets = data.codes if isinstance(data, TrainingData) else data.y
    if "class_weight" in settings:
        part.set_params(class_weight=None)  # it is in the weights already
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        part.fit(take_rows(X, train), targets[train], weight)
        found = log_likelihoods(part, take_rows(X, test), targets[test])
    return float(np.average(found, weights=None if data.weight is None else data.weight[test]))


def log_likelihoods(model: Any, X: Any, targets: Array) -> Array:
    """Return the log-likelihood of every row: of its class, or of its response under Normal noise."""
    if not hasattr(model, "predict_proba"):
        mean, deviation = model.predict(X, return_std=True)
        found: Array = norm.logpdf(targets, mean, np.maximum(deviation, 1e-300))
        return found
    found = targets[:, None] == model.classes_
    values = np.where(found, model.predict_log_proba(X), -np.inf).max(axis=1)
    return np.maximum(values, np.log(SMALLEST_PROBABILITY))


def _total(weight: Array | None, rows: Array) -> float:
    return float(len(rows) if weight is None else weight[rows].sum())
