"""Loss, residual and gradient in one look at the data, by the core where it knows the likelihood."""

from __future__ import annotations

import numpy as np

import smaller._core as _core
from smaller import threads
from smaller.arrays import Array, is_numpy_array
from smaller.designs import Dense, Design
from smaller.likelihoods import Likelihood, Multinomial

__all__ = ["fused", "pass_over"]

_THIN = 32  # outputs up to which the core's own products beat those of BLAS
_PART, _PARTS = 1 << 22, 8  # multiplications that are worth a thread of their own; more threads wait for memory


def fused(likelihood: Likelihood, design: Design, y: Array) -> bool:
    """Whether the core makes the whole pass: a softmax of few outputs, and NumPy arrays stored column by column."""
    if not (isinstance(likelihood, Multinomial) and isinstance(design, Dense) and likelihood.n_outputs <= _THIN):
        return False
    return all(is_numpy_array(a) and a.strides[0] == a.itemsize for a in (y, design.X))


def pass_over(
    likelihood: Likelihood,
    design: Design,
    y: Array,
    weight: Array | None,
    eta: Array,
    change: Array | None = None,
    n_threads: int | None = None,
) -> tuple[float, Array, Array]:
    """Return the loss, its gradient in ``eta``, and in the weights of ``design``.

    With ``change`` (of these weights) ``eta`` first moves along, in place.
    """
    if fused(likelihood, design, y) and eta.strides[0] == eta.itemsize:
        X = design.X  # type: ignore[attr-defined]
        residual, G = np.empty_like(eta), np.empty((design.shape[1], eta.shape[1]))
        parts = min(X.size * eta.shape[1] // _PART + 1, _PARTS)
        arguments = (
            y,
            weight,
            residual,
            G,
            not likelihood.shift_invariant,
            parts,
            min(parts, n_threads or threads.count()),
        )
        return _core.pass_over(X, change, eta, *arguments), residual, G
    if change is not None:
        eta += design.forward(change)
    loss, residual = likelihood.evaluate(eta, y, weight)
    return loss, residual, design.adjoint(residual)
