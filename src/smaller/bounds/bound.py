"""What every bound states: a limit on an error rate, for whom, how surely, and from which posterior."""

from __future__ import annotations

from dataclasses import dataclass

from .posterior import LaplacePosterior

__all__ = ["Bound"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bound:
    """An upper bound ``value`` on the error rate of ``classifier`` that fails with probability ``delta`` at most."""

    value: float
    classifier: str
    delta: float  # over the draw of the sample
    divergence: float  # of the posterior from the prior, in nats
    n_samples: int
    alpha: float  # rate of the prior (of the first column, if they differ)
    posterior: LaplacePosterior
    certified: bool  # False if something was approximated
    assumptions: tuple[str, ...]  # for which the caller vouched

    @property
    def confidence(self) -> float:
        """Probability, over the draw of the sample, that the bound holds."""
        return 1.0 - self.delta
