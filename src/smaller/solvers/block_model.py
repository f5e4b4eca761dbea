"""The quadratic problem of a working set under penalties that tie weights together, or keep them within limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smaller.arrays import Array
from smaller.priors import Prior, Terms
from smaller.solvers import core

__all__ = ["BlockModel"]

_SHORT, _ROUNDS = 40, 25  # sweeps before a step on the whole support, and how often
_NO_CURVATURE = 1e-12  # of the largest in a block, or in H


@dataclass(frozen=True)
class BlockModel:
    """``gradient' dw + dw' H dw / 2`` plus a penalty, in all weights of some columns, column after column."""

    H: Array  # (m, m)
    prior: Prior  # of these columns
    terms: Terms  # the same, written out
    q: int

    def minimise(self, gradient: Array, w: Array, tol: float) -> None:
        """Minimise in place; ``gradient`` is kept up to date.

        Sweeps over the blocks find the support; where correlation makes them slow, Newton steps on the support help.
        """
        terms, (axes, values) = self.terms, self._axes()
        penalty = (terms.first, terms.norm, terms.slope, terms.ridge, terms.lower, terms.upper, axes, values)
        for _ in range(_ROUNDS):
            if core.descend_blocks(self.H, gradient, *penalty, w, _SHORT, tol) < _SHORT:
                return
            self._step_on_support(gradient, w)

    def _axes(self) -> tuple[Array, Array]:
        """Return for every block the axes of its curvature, ridge included, and the curvature along them."""
        first, sizes = self.terms.first[:-1], np.diff(self.terms.first)
        squares = np.cumsum(np.append(0, sizes**2))
        axes, values = np.ones(squares[-1]), self.H.diagonal() + self.terms.ridge
        for size in np.unique(sizes[sizes > 1]):
            which = np.flatnonzero(sizes == size)
            at = first[which, None] + np.arange(size)
            block = self.H[at[:, :, None], at[:, None, :]]
            block[:, np.arange(size), np.arange(size)] += self.terms.ridge[at]
            found, vectors = np.linalg.eigh(block)
            values[at] = np.maximum(found, _NO_CURVATURE * np.maximum(found[:, -1:], 0.0))
            axes[squares[which, None] + np.arange(size**2)] = vectors.transpose(0, 2, 1).reshape(len(which), -1)
        return axes, values

    def _step_on_support(self, gradient: Array, w: Array) -> None:
        """Take Newton's step in the weights that are neither zero nor at a limit, as far as signs and limits allow."""
        terms = self.terms
        block = np.repeat(np.arange(len(terms.norm)), np.diff(terms.first))
        with np.errstate(over="ignore"):  # weights of tiny columns: only a norm asks for their length
            length = np.sqrt(np.bincount(block, w * w, len(terms.norm)))
        s = np.flatnonzero((w != 0) & (w > terms.lower) & (w < terms.upper))
        if len(s) == 0:
            return
        over = terms.norm[block[s]] / length[block[s]]
        A = self.H[np.ix_(s, s)]
        unit = w[s] / length[block[s]]
        A -= np.where(block[s, None] == block[s], np.outer(over * unit, unit), 0.0)
        A[np.diag_indices_from(A)] += over + terms.ridge[s] + _NO_CURVATURE * max(float(A.diagonal().max()), 0.0)
        slope = gradient[s] + (over + terms.ridge[s]) * w[s] + terms.slope[s] * np.sign(w[s])
        try:
            np.linalg.cholesky(A)  # or there is no minimum
            step = np.linalg.solve(A, -slope)
        except np.linalg.LinAlgError:
            return
        lone = (np.diff(terms.first) == 1)[block[s]]
        kinked = (terms.slope[s] > 0) | (lone & (terms.norm[block[s]] > 0))
        end = np.where(step > 0, terms.upper[s], terms.lower[s])
        end = np.where(kinked & (step * w[s] < 0), 0.0, end)
        reach = np.divide(end - w[s], step, out=np.full(len(s), np.inf), where=step != 0)
        t = min(1.0, float(reach.min()))
        for _ in range(10):
            new = w.copy()
            new[s] += t * step
            stopped = s[reach <= t]
            new[stopped] = end[reach <= t]
            change = new - w
            along = self.H @ change
            value = float(gradient @ change + 0.5 * change @ along)
            if value + self.prior.change(w.reshape(-1, self.q), new.reshape(-1, self.q)) < 0.0:
                w[:] = new
                gradient += along
                return
            t /= 2.0
