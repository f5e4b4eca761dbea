r"""Log-odds of every class against the rest, and how they change with the outputs.

    m_k = log p_k - log(1 - p_k),       d m_k / d eta_k = t_k,     d m_k / d eta_l = -t_l p_l / (1 - p_k)

t is 1 for the softmax. The one-versus-rest probit normalises K probabilities: there t_l = phi(eta_l) / Phi(eta_l). A
probit of one output stays on its own scale, on which its probability is Phi(eta).
"""

from __future__ import annotations

import numpy as np
from scipy import special

from smaller.arrays import Array, log_normal_cdf, mills
from smaller.likelihoods import Likelihood, Probit

__all__ = ["gradients", "logits", "probabilities"]


def probabilities(likelihood: Likelihood, m: Array) -> Array:
    """Return the probabilities that belong to values on the scale of `logits`."""
    one_probit = isinstance(likelihood, Probit) and likelihood.n_outputs == 1
    return np.asarray(special.ndtr(m) if one_probit else special.expit(m))


def logits(likelihood: Likelihood, eta: Array) -> Array:
    """Return m (n, K) for outputs ``eta``: (n, q), or (n, K) with the pinned class of reference coding appended."""
    if eta.shape[1] == 1:
        return np.column_stack([-eta, eta])
    scores = _scores(likelihood, eta)
    return scores - _others(scores)


def gradients(likelihood: Likelihood, eta: Array) -> Array:
    """Return the derivatives of m (n, K) in the outputs (n, q): an array (n, K, q)."""
    if eta.shape[1] == 1:
        return np.broadcast_to(np.array([[-1.0], [1.0]]), (len(eta), 2, 1))
    scores = _scores(likelihood, eta)
    # No score exceeds the sum that it is part of; the diagonal, which may, is set below.
    g = -np.exp(np.minimum(scores[:, None, :] - _others(scores)[:, :, None], 0.0))
    k = np.arange(scores.shape[1])
    g[:, k, k] = 1.0
    if isinstance(likelihood, Probit):
        g = g * mills(eta)[:, None, :]
    return g[:, :, : likelihood.n_outputs]


def _scores(likelihood: Likelihood, eta: Array) -> Array:
    """Return scores (n, K) whose softmax is the probabilities."""
    if isinstance(likelihood, Probit):
        return log_normal_cdf(eta)
    pinned = not likelihood.shift_invariant and eta.shape[1] == likelihood.n_outputs
    return np.column_stack([eta, np.zeros(len(eta))]) if pinned else eta


def _others(scores: Array) -> Array:
    """Return ``log sum_{l != k} exp score_l`` (n, K); the largest score is left out of its own sum, not subtracted."""
    rows, top = np.arange(len(scores)), scores.argmax(axis=1)
    largest = scores[rows, top][:, None]
    E = np.exp(scores - largest)
    with np.errstate(divide="ignore"):  # only where the next lines put another value
        others = largest + np.log(E.sum(axis=1, keepdims=True) - E)
    rest = scores.copy()
    rest[rows, top] = -np.inf
    others[rows, top] = special.logsumexp(rest, axis=1)
    return others
