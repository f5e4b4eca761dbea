"""The Rademacher-complexity bound on the error of the voting, hence of the point classifier (Theorem 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .bound import Bound
from .divergence import Floats
from .gibbs import error_probabilities, gaussian_probabilities, positive_probabilities
from .posterior import LaplacePosterior, Objective, choose_posterior, signed_sample
from .rules import LinearRule, check_assumptions, read_problem

__all__ = ["RademacherBound", "rademacher_bound"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RademacherBound(Bound):
    """What is certified about the point classifier, and from which parts.

    Attributes
    ----------
    value : float
        Upper bound on the error rate, at most 1.
    classifier : str
        "point": the model's own predictions, which agree with the vote over the posterior (Lemma 1).
    delta : float
        Probability, over the draw of the sample, that the bound fails.
    empirical_loss, complexity, deviation : float
        The three terms whose sum is `value`, if that is below 1.
    divergence : float
        Divergence of the posterior from the prior, in nats.
    margin : float
        Width s of the margin loss that was used.
    n_samples, n_tried : int
        Number of rows; number of pairs (rate, margin) in the union bound.
    alpha : float
        Rate of the prior that was used (of the first column, if they differ).
    posterior : LaplacePosterior
        The distribution over which is voted.
    certified : bool
        False if votes were counted under a Gaussian approximation.
    assumptions : tuple of str
        Conditions the caller vouched for.

    See Also
    --------
    rademacher_bound : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from smaller import SMLR
    >>> from smaller.bounds import rademacher_bound
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SMLR(alpha=2.0, penalize_intercept=True).fit(scale(X), y)
    >>> bound = rademacher_bound(model, scale(X), y, assume=["fixed_alpha", "fixed_scaling"])
    >>> bound.value == min(1.0, bound.empirical_loss + bound.complexity + bound.deviation)
    True
    """

    empirical_loss: float
    complexity: float
    deviation: float
    margin: float
    n_tried: int


def rademacher_bound(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    delta: float = 0.05,
    margin: float | Iterable[float] = 0.5,
    g: float = 1.0,
    r: float = 2.0,
    widths: str = "optimal",
    risk: str = "exact",
    alphas: Iterable[float] | None = None,
    intercept_alpha: float | None = None,
    assume: Sequence[str] = (),
) -> RademacherBound:
    r"""Margin bound on the error rate of a sparse linear classifier, from its own training rows.

    .. math:: R_s + \frac{2}{s} \sqrt{\frac{2 \tilde g}{n}}
              + \sqrt{\frac{\ln \log_r (r \tilde g / g) + \frac12 \ln(1/\delta)}{n}},
              \qquad \tilde g = r \max(D(q\|p), g)

    where R_s is the mean of min(1, max(0, 1 - a/s)) over the rows' margins a = y E_q[sign(x'w)]. It holds
    for the vote over q and, as q is symmetric about a multiple of the model's weights, for the model's
    predictions without a factor 2. It beats `PacBayesBound.point_value` on large samples only.

    Parameters
    ----------
    model, X, y, delta, alphas, intercept_alpha, assume
        As in `pac_bayes_bound`.
    margin : float or iterable of float
        Width s of the margin loss, in (0, 1]; several share `delta` and the best is returned.
    g : float
        Positive; divergences below it are not told apart.
    r : float
        Above 1 (the paper's r > 0 is not enough); ratio of the levels of divergence.
    widths : {"optimal", "divergence", "prior"}
        As in `pac_bayes_bound`.
    risk : {"exact", "gaussian"}
        How votes are counted. The Gaussian approximation marks the result as not certified.

    Returns
    -------
    RademacherBound
        With `value` and all its parts. `margin`, `g`, `r` must have been fixed before seeing the data.

    See Also
    --------
    pac_bayes_bound : Usually the smaller one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> rademacher_bound(([5.0, 0.0], 1.0), X, y).value < 0.4
    True
    """
    margins = [float(s) for s in (margin if isinstance(margin, Iterable) else (margin,))]
    _check_options(delta=delta, margins=margins, g=g, r=r, risk=risk)
    rules, X, positive = read_problem(model, X, y, alphas=alphas, intercept_alpha=intercept_alpha, assume=assume)
    n, tried = X.shape[0], len(rules) * len(margins)
    signed = signed_sample(X, positive, rules[0].weights.size)
    choices: list[tuple[float, LinearRule, float, LaplacePosterior]] = []
    for rule in rules:
        for s in margins:
            objective = _objective(n, s, g, r, delta / tried)
            value, posterior = choose_posterior(rule, widths, signed, objective)
            choices.append((value, rule, s, posterior))
    _, rule, s, posterior = min(choices, key=lambda choice: choice[0])
    if risk == "exact":
        probability, slack = positive_probabilities(X, posterior.center, posterior.eta)
    else:
        probability = gaussian_probabilities(X, posterior.center, posterior.eta)
        slack = np.zeros(n)
    errors = np.minimum(error_probabilities(probability, positive) + slack, 1.0)
    loss = float(np.mean(_margin_loss(errors, s)))
    complexity, deviation = _terms(n, posterior.divergence, s, g, r, delta / tried)
    return RademacherBound(
        value=min(1.0, loss + complexity + deviation),
        classifier="point",
        delta=delta,
        empirical_loss=loss,
        complexity=complexity,
        deviation=deviation,
        divergence=posterior.divergence,
        margin=s,
        n_samples=n,
        n_tried=tried,
        alpha=float(rule.rates[0]),
        posterior=posterior,
        certified=risk == "exact",
        assumptions=check_assumptions(assume),
    )


def _margin_loss(errors: Floats, s: float) -> Floats:
    return np.clip(1.0 - (1.0 - 2.0 * errors) / s, 0.0, 1.0)  # the soft vote's margin is 1 - 2 P(error)


def _terms(n: int, divergence: float, s: float, g: float, r: float, delta: float) -> tuple[float, float]:
    level = r * max(divergence, g)
    complexity = 2.0 / s * np.sqrt(2.0 * level / n)
    deviation = np.sqrt((np.log(np.log(r * level / g) / np.log(r)) + 0.5 * np.log(1.0 / delta)) / n)
    return float(complexity), float(deviation)


def _objective(n: int, s: float, g: float, r: float, delta: float) -> Objective:
    def objective(errors: Floats, divergence: float) -> tuple[float, Floats, float]:
        loss = _margin_loss(errors, s)
        complexity, deviation = _terms(n, divergence, s, g, r, delta)
        inside = (loss > 0.0) & (loss < 1.0)
        by_divergence = 0.0
        if divergence > g:
            by_divergence = complexity / (2.0 * divergence)
            by_divergence += 1.0 / (2.0 * n * deviation * divergence * np.log(r * r * divergence / g))
        value = float(np.mean(loss)) + complexity + deviation
        return value, 2.0 / s * inside / errors.size, by_divergence

    return objective


def _check_options(*, delta: float, margins: list[float], g: float, r: float, risk: str) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie between 0 and 1, got {delta}.")
    if not margins or not all(0.0 < s <= 1.0 for s in margins):
        raise ValueError("margin must lie in (0, 1].")
    if not g > 0.0:
        raise ValueError(f"g must be positive, got {g}.")
    if not r > 1.0:
        raise ValueError(f"r must be above 1, got {r}: it is the ratio of successive levels.")
    if risk not in ("exact", "gaussian"):
        raise ValueError(f"risk must be 'exact' or 'gaussian', got {risk!r}.")
