"""Laplace posteriors around a linear rule, and the search for the one with the tightest bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr

from .divergence import Floats, divergence_ceiling, laplace_divergence, optimal_eta
from .gibbs import dense_rows, positive_probabilities
from .rules import LinearRule

__all__ = ["LaplacePosterior", "choose_posterior"]

# (error probability of every row, divergence) -> bound and its derivatives with respect to both
Objective = Callable[[Floats, float], tuple[float, Floats, float]]

_SAMPLE_ELEMENTS = 2_000_000


@dataclass(frozen=True, eq=False)
class LaplacePosterior:
    """Independent Laplace densities around `center` with rates `eta`, and their divergence from the prior.

    See Also
    --------
    nearest_posterior : The one with the smallest divergence.
    gibbs_predict : Predictions by weights drawn from it.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.bounds import nearest_posterior
    >>> posterior = nearest_posterior(([1.0, 0.0], 2.0))
    >>> posterior.draw(np.random.default_rng(0), size=3).shape
    (3, 2)
    """

    center: Floats
    eta: Floats
    divergence: float

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Weight vectors, one per row of the result."""
        return np.asarray(self.center + rng.laplace(size=(size, self.center.size)) / self.eta)


def nearest(rule: LinearRule) -> LaplacePosterior:
    """Posterior around the rule's weights with the smallest divergence (24)."""
    eta = optimal_eta(rule.weights, rule.rates)
    return LaplacePosterior(rule.weights, eta, laplace_divergence(rule.weights, rule.rates, eta))


def choose_posterior(
    rule: LinearRule, widths: str, signed: Floats, objective: Objective
) -> tuple[float, LaplacePosterior]:
    """Bound on the sample at hand, and the posterior named by `widths` that has it.

    "optimal": lowering the bound, "divergence": (24), "prior": eta = lam with D <= lam*|w|_1.
    """
    if widths == "prior":
        candidates = [LaplacePosterior(rule.weights, rule.rates, divergence_ceiling(rule.weights, rule.rates))]
    elif widths == "divergence":
        candidates = [nearest(rule)]
    elif widths == "optimal":
        start = nearest(rule)
        candidates = [start, _tighten(start, rule.rates, signed, objective)]
    else:
        raise ValueError(f"widths must be 'optimal', 'divergence' or 'prior', got {widths!r}.")
    values = [_value(posterior, signed, objective) for posterior in candidates]
    best = int(np.argmin(values))
    return values[best], candidates[best]


def _value(posterior: LaplacePosterior, signed: Floats, objective: Objective) -> float:
    right, _ = positive_probabilities(signed, posterior.center, posterior.eta)
    return objective(1.0 - right, posterior.divergence)[0]


def signed_sample(X: Any, positive: NDArray[np.bool_], n_weights: int) -> Floats:
    """Every k-th row times its label: what the search looks at. All rows, unless they are many."""
    step = -(-X.shape[0] * n_weights // _SAMPLE_ELEMENTS)
    rows = np.arange(0, X.shape[0], step)
    return dense_rows(X, rows, n_weights) * np.where(positive[rows], 1.0, -1.0)[:, None]


def _tighten(start: LaplacePosterior, rates: Floats, signed: Floats, objective: Objective) -> LaplacePosterior:
    """Lower the bound over all rates and the length of the centre.

    The theorems hold for all posteriors at once, so any choice is allowed, and stretching the centre changes
    no decision of the point classifier. Rows enter by the Gaussian approximation, for its gradient: that
    decides which posterior is found, not what is certified about it.
    """
    margins, squares, size = signed @ start.center, 2.0 * signed**2, np.abs(start.center)

    def value(theta: Floats) -> tuple[float, Floats]:
        eta, length = start.eta * np.exp(theta[:-1]), np.exp(theta[-1])
        w = length * size
        deviation = np.sqrt(squares @ eta**-2.0) + 1e-300
        z = length * margins / deviation
        bound, by_error, by_divergence = objective(ndtr(-z), laplace_divergence(w, rates, eta))
        by_z = -by_error * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        by_log_eta = squares.T @ (by_z * z / deviation**2) * eta**-2.0
        by_log_eta += by_divergence * (1.0 - rates * np.exp(-eta * w) * (1.0 / eta + w))
        by_log_length = by_z @ z - by_divergence * np.sum(rates * w * np.expm1(-eta * w))
        return bound, np.append(by_log_eta, by_log_length)

    theta = minimize(
        value, np.zeros(size.size + 1), jac=True, method="L-BFGS-B", bounds=[(-12, 12)] * (size.size + 1)
    ).x
    center, eta = np.exp(theta[-1]) * start.center, start.eta * np.exp(theta[:-1])
    return LaplacePosterior(center, eta, laplace_divergence(center, rates, eta))
