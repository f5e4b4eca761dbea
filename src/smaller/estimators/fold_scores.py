"""How well the strengths of a path do on the rows that folds hold out, and the choice among them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer

from smaller.arrays import Array, log_partition
from smaller.designs import Design, blocks
from smaller.estimators.assembly import Assembly
from smaller.estimators.base import all_outputs, class_scores
from smaller.estimators.folds import SMALLEST_PROBABILITY, part_of
from smaller.estimators.smlr import SMLR
from smaller.searches.path import PathPoint, trace_path
from smaller.telling import tell
from smaller.validation import TrainingData

__all__ = ["choose", "judged", "score_fold", "warn_at_edge"]


def score_fold(
    model: SMLR,
    data: TrainingData,
    scoring_weight: Array | None,
    train: Array,
    test: Array,
    alphas: Array,
    scoring: Any,
    options: dict[str, Any],
) -> Array:
    """Return the held-out score of every strength; classes absent from the fold have probability zero.

    A fold whose held-out rows have no weight has nothing to say: NaN.
    """
    test_weight = None if scoring_weight is None else scoring_weight[test]
    if test_weight is not None and not test_weight.any():
        return np.full(len(alphas), np.nan)
    part, X_test, present = part_of(data, train, test, pairwise=model._precomputed)
    basis, centers = model._basis(part)
    assembly = model._assemble(part, basis, centers, 1.0)
    points = trace_path(assembly.problem, alphas, **options)
    held_out = basis.expand(X_test)
    parts = blocks(len(points), 8 * points[0].n_columns * points[0].values.shape[1])
    offset = None if data.offset is None else data.offset[np.ix_(test, present)]
    known = np.concatenate([_log_probabilities(assembly, held_out, points[part], offset) for part in parts], axis=1)
    log_proba = np.full((*known.shape[:2], len(data.classes)), np.log(SMALLEST_PROBABILITY))
    log_proba[:, :, present] = known
    codes = data.codes[test]
    if data.shares is not None:  # the same as every row once for each class, with the shares as weights
        shares = data.shares[test]
        test_weight = (shares if test_weight is None else test_weight[:, None] * shares).ravel()
        codes, log_proba = np.tile(np.arange(shares.shape[1]), len(test)), np.repeat(log_proba, shares.shape[1], axis=0)
    return judged(scoring, log_proba, codes, data.classes, test_weight)


def judged(scoring: Any, log_proba: Array, codes: Array, classes: Array, weight: Array | None) -> Array:
    """Return the score of every strength, from the log-probabilities (rows, strengths, classes) of rows with labels."""
    if scoring == "neg_log_loss":
        rows = np.maximum(log_proba[np.arange(len(codes)), :, codes], np.log(SMALLEST_PROBABILITY))
        return np.average(rows, axis=0, weights=weight)
    scorer = get_scorer(scoring)
    keywords = {} if weight is None else {"sample_weight": weight}
    rows = np.arange(len(codes))[:, None]
    fixed = [_Fixed(log_proba[:, i], classes) for i in range(log_proba.shape[1])]
    absent = np.setdiff1d(np.arange(len(classes)), codes if weight is None else codes[weight > 0])
    refusal: ValueError | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # the score itself says so: NaN
            scores = np.array([scorer(model, rows, classes[codes], **keywords) for model in fixed])
    except ValueError as error:
        if not len(absent):
            raise ValueError(
                f"scoring={scoring!r} cannot judge these labels: {error} Labels 0 and 1 may do, or another scoring."
            ) from error
        refusal = error
    if refusal or (len(absent) and np.isnan(scores).any()):
        raise ValueError(
            f"scoring={scoring!r} cannot judge a fold that holds out no row of class "
            f"{classes[absent[0]].item()!r}: use fewer folds (cv), or scoring='neg_log_loss'."
        ) from refusal
    return scores


def _log_probabilities(
    assembly: Assembly, held_out: Design, points: list[PathPoint], offset: Array | None = None
) -> Array:
    """Return them for (rows, strengths, classes), by one product with the design; ``offset`` is (n, K)."""
    columns, rows = np.unique(np.concatenate([point.columns for point in points]), return_inverse=True)
    w = np.zeros((len(columns), len(points), points[0].values.shape[1]))
    owner = np.repeat(np.arange(len(points)), [len(point.columns) for point in points])
    w[rows, owner] = np.concatenate([point.values for point in points])
    w = w.reshape(len(columns), len(points) * points[0].values.shape[1])
    b = np.concatenate([point.b for point in points])
    if assembly.plain:
        held_out = held_out.take(columns)
    else:
        everywhere = np.zeros((points[0].n_columns, w.shape[1]))
        everywhere[columns] = w
        w, b = assembly.to_user(everywhere, b)
    likelihood = assembly.problem.likelihood
    eta = all_outputs((held_out.forward(w) + b).reshape(-1, likelihood.n_outputs), likelihood)
    scores = class_scores(eta[:, 0] if eta.shape[1] == 1 else eta, likelihood)
    if offset is not None:
        scores = scores + np.repeat(offset, len(points), axis=0)
    log_proba = scores - log_partition(scores, pinned=False)[0][:, None]
    return log_proba.reshape(held_out.shape[0], len(points), -1)


class _Fixed(ClassifierMixin, BaseEstimator):
    """A classifier whose answers are known already, so that any scikit-learn scorer can judge them.

    Its "features" are the numbers of the rows.
    """

    def __init__(self, log_proba: Array, classes: Array) -> None:
        self.log_proba = log_proba
        self.classes_ = classes

    def decision_function(self, X: Any) -> Array:
        rows = self.predict_log_proba(X)
        return rows[:, 1] - rows[:, 0] if rows.shape[1] == 2 else rows

    def predict_log_proba(self, X: Any) -> Array:
        return self.log_proba[X[:, 0]]

    def predict_proba(self, X: Any) -> Array:
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]


def choose(scores: Array, rule: str, allowed: Array | None = None) -> tuple[int, int]:
    """Return the indices of the best mix and of the chosen strength; ties go to the larger alpha.

    ``scores`` is (n_folds, n_l1_ratios, n_alphas), alphas decreasing, larger is better. Only what is ``allowed``
    (n_l1_ratios, n_alphas) takes part.
    """
    scores = scores[~np.isnan(scores).all(axis=(1, 2))]  # without the folds that hold out no weight
    mean = scores.mean(axis=0) if len(scores) else np.full(scores.shape[1:], np.nan)
    if allowed is not None:
        mean = np.where(allowed, mean, np.nan)
    if np.isnan(mean).all():
        raise ValueError("scoring returned NaN for every alpha.")
    best, chosen = np.unravel_index(int(np.nanargmax(mean)), mean.shape)
    if rule == "1se" and len(scores) > 1:
        error = scores[:, best, chosen].std(ddof=1) / np.sqrt(len(scores))
        chosen = np.flatnonzero(mean[best] >= mean[best, chosen] - error)[0]
    return int(best), int(chosen)


def warn_at_edge(chosen: int, alphas: Array) -> None:
    """Warn where the end of the grid was chosen."""
    if len(alphas) > 1 and chosen == len(alphas) - 1:
        tell(
            f"The chosen alpha {alphas[-1]:.4g} is the smallest of the grid, so a smaller one may be better: "
            "lower eps, or give smaller alphas.",
            UserWarning,
        )
