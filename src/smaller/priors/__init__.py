"""Which weights we expect; a prior never sees data.

Symbols: ``w`` (d, q), ``G`` (d, q) gradient of the loss in w. Penalties are ``-log p(w)`` with constants dropped.
Every prior can be replaced at a point ``w`` by ``sum slope |w| + ridge w^2 / 2`` lying above it and touching there
(``linearise``); solvers know nothing else about priors.
"""

from smaller.priors.elastic_net import ElasticNet, Laplace, Normal
from smaller.priors.group import GroupNorm
from smaller.priors.jeffreys import Jeffreys
from smaller.priors.limited import Limited
from smaller.priors.protocol import Prior
from smaller.priors.terms import Terms

__all__ = ["ALL_PRIORS", "ElasticNet", "GroupNorm", "Jeffreys", "Laplace", "Limited", "Normal", "Prior", "Terms"]

ALL_PRIORS: tuple[Prior, ...] = (Laplace(0.7), Normal(1.3), ElasticNet(0.5, 0.8), Jeffreys())
