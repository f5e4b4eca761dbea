"""How labels arise from the linear predictor ``eta`` (n, q); a likelihood never sees X.

Symbols: ``eta`` (n, q) outputs, ``y`` (n, q) targets as made by ``encode``, ``weight`` (n,) observation weights
``c_i >= 0`` or None for ones, ``P`` probabilities. Every loss is a *sum* over rows.

A row's Hessian in its outputs is ``diag(d_i) - u_i u_i'`` for every likelihood here (:class:`Curvature`), which is
why one inner loop serves them all.
"""

from smaller.likelihoods.gaussian import Gaussian
from smaller.likelihoods.multinomial import Multinomial
from smaller.likelihoods.ordinal import Ordinal
from smaller.likelihoods.probit import Probit
from smaller.likelihoods.protocol import Curvature, Likelihood

__all__ = ["ALL_LIKELIHOODS", "Curvature", "Gaussian", "Likelihood", "Multinomial", "Ordinal", "Probit"]

# Those with a free number for every output; of `Ordinal`, whose thresholds share one, only `smaller.rows` know.
ALL_LIKELIHOODS: tuple[Likelihood, ...] = (
    Multinomial(2),
    Multinomial(3),
    Multinomial(4, coding="reference"),
    Probit(1),
    Probit(3),
    Gaussian(0.7),
)
