"""Classes: signs of a Gaussian variable around the outputs."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special

from smaller.arrays import Array, array_namespace, from_host, log_normal_cdf, log_partition, mills, tilted, to_host
from smaller.likelihoods.multinomial import Multinomial
from smaller.likelihoods.protocol import Curvature, means, weighted

__all__ = ["Probit"]


@dataclass(frozen=True)
class Probit:
    """Gaussian link: ``-sum_i c_i log Phi(l_ik eta_ik)``, targets ``l`` in {-1, +1}; outputs are separable.

    With ``n_outputs = K > 2`` this is one-versus-rest in one model; `predict` normalises the K probabilities.
    """

    n_outputs: int = 1

    @property
    def n_free(self) -> int:
        return self.n_outputs

    @property
    def shift_invariant(self) -> bool:
        return False

    def encode(self, labels: Array) -> Array:
        return 2.0 * Multinomial(max(self.n_outputs, 2)).encode(labels) - 1.0

    def evaluate(self, eta: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
        xp = array_namespace(eta)
        margin = y * eta
        loss = -float(xp.sum(weighted(log_normal_cdf(margin), weight)))
        return loss, -weighted(y * mills(margin), weight)

    def curvature(self, eta: Array, y: Array, weight: Array | None, *, bound: bool = False) -> Curvature:
        xp = array_namespace(eta)
        if bound:  # the E-step of the probit EM is a gradient step with curvature 1
            return Curvature(weighted(xp.ones_like(eta), weight))
        margin = y * eta
        return Curvature(weighted(mills(margin) * tilted(margin), weight))

    def predict(self, eta: Array) -> Array:
        xp = array_namespace(eta)
        P = xp.exp(log_normal_cdf(eta))
        if self.n_outputs == 1:
            return xp.concat([xp.exp(log_normal_cdf(-eta)), P], axis=1)
        # Far in every tail all K probabilities underflow; their logarithms still say which is least unlikely.
        _, P = log_partition(log_normal_cdf(eta), pinned=False)
        return P

    def null(self, y: Array, weight: Array | None) -> Array:
        return from_host(special.ndtri(to_host((means(y, weight) + 1.0) / 2.0)), y)

    def dual(self, residual: Array, y: Array, weight: Array | None) -> float | None:
        return None

    def refresh(self, eta: Array, y: Array, weight: Array | None) -> Probit:
        return self
