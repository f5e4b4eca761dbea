"""The three classifiers of section 4.1: the point estimate, the vote over a posterior, one draw from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .divergence import Floats
from .gibbs import positive_probabilities, row_blocks
from .posterior import LaplacePosterior, nearest
from .rules import LinearRule, read_rows, read_rule

__all__ = ["gibbs_predict", "nearest_posterior", "point_predict", "vote_predict", "vote_probabilities"]


def nearest_posterior(model: Any, *, intercept_alpha: float | None = None) -> LaplacePosterior:
    """Laplace densities around the model's weights, nearest to the prior (24): the paper's choice.

    See Also
    --------
    optimal_eta : Its rates.

    Examples
    --------
    >>> nearest_posterior(([1.0, 0.0], 2.0)).eta.round(3).tolist()
    [1.273, 2.0]
    """
    return nearest(read_rule(model, intercept_alpha=intercept_alpha))


def point_predict(model: Any, X: Any, *, intercept_alpha: float | None = None) -> NDArray[Any]:
    """Labels by the model's own weights: `classes[1]` where x'w > 0.

    See Also
    --------
    vote_predict : Always agrees with it.
    gibbs_predict : By weights drawn anew for every row.

    Examples
    --------
    >>> point_predict(([1.0, -1.0], 2.0), [[2.0, 1.0], [0.0, 3.0]]).tolist()
    [1, -1]
    """
    rule = read_rule(model, intercept_alpha=intercept_alpha)
    X = read_rows(X, rule.weights.size)
    w, b = np.split(rule.weights, [X.shape[1]])
    return _label(rule, X @ w + b.sum() > 0.0)


def vote_probabilities(
    model: Any, X: Any, *, posterior: LaplacePosterior | None = None, intercept_alpha: float | None = None
) -> Floats:
    """Share of the posterior that votes for `classes[1]`, P(x'w > 0), to 1e-5.

    See Also
    --------
    vote_predict : The majority.

    Examples
    --------
    >>> vote_probabilities(([1.0], 2.0), [[3.0], [-3.0]]).round(4).tolist()
    [0.86, 0.14]
    """
    rule = read_rule(model, intercept_alpha=intercept_alpha)
    posterior = posterior or nearest(rule)
    X = read_rows(X, rule.weights.size)
    return positive_probabilities(X, posterior.center, posterior.eta, tol=1e-6)[0]


def vote_predict(
    model: Any, X: Any, *, posterior: LaplacePosterior | None = None, intercept_alpha: float | None = None
) -> NDArray[Any]:
    """Labels by majority of the posterior: the Bayes voting classifier (20).

    See Also
    --------
    vote_probabilities : The shares of the vote.
    point_predict : Always agrees with it.

    Examples
    --------
    >>> vote_predict(([1.0, -1.0], 2.0), [[2.0, 1.0], [0.0, 3.0]]).tolist()
    [1, -1]
    """
    rule = read_rule(model, intercept_alpha=intercept_alpha)
    votes = vote_probabilities(model, X, posterior=posterior, intercept_alpha=intercept_alpha)
    return _label(rule, votes > 0.5)


def gibbs_predict(
    model: Any,
    X: Any,
    *,
    posterior: LaplacePosterior | None = None,
    intercept_alpha: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[Any]:
    """Labels by weights drawn anew for every row: the classifier that `pac_bayes_bound` certifies.

    Parameters
    ----------
    model : fitted binary linear classifier, or pair (w, alpha)
        As in `pac_bayes_bound`.
    X : array-like or sparse matrix of shape (n, d)
        Rows.
    posterior : LaplacePosterior, optional
        For example `bound.posterior`; by default the paper's, see `nearest_posterior`.
    intercept_alpha : float, optional
        Rate of the prior of an unpenalised intercept.
    random_state : int, Generator or None
        Source of the draws.

    See Also
    --------
    vote_predict : The majority over all draws.
    point_predict : The model's own weights.
    pac_bayes_bound : Bounds its error.

    Examples
    --------
    >>> labels = gibbs_predict(([9.0], 1.0), [[1.0]] * 1000, random_state=0)
    >>> bool(np.mean(labels == 1) > 0.95)
    True
    """
    rule = read_rule(model, intercept_alpha=intercept_alpha)
    posterior = posterior or nearest(rule)
    rng = np.random.default_rng(random_state)
    X = read_rows(X, rule.weights.size)
    scores = [np.sum(block * posterior.draw(rng, len(block)), axis=1) for _, block in row_blocks(X, rule.weights.size)]
    return _label(rule, np.concatenate(scores) > 0.0)


def _label(rule: LinearRule, positive: NDArray[np.bool_]) -> NDArray[Any]:
    return np.asarray(rule.classes[positive.astype(int)])
