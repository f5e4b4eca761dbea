"""The choice of import points as published: Algorithm 2 after one Newton step, Algorithm 1 after full convergence."""

from __future__ import annotations

import numpy as np

from smaller.arrays import Array
from smaller.searches.candidates import Candidates
from smaller.searches.submodel import Submodel

__all__ = ["by_one_step", "exactly"]


def by_one_step(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate whose model after one Newton step has the smallest H (3.13), and the decrease."""
    num, s = candidates.numerators(model, g), candidates.curvatures(model)
    coefficient = -num / (s.T if not model.shared else s[0][:, None])
    own = model.precondition(g)
    H = np.full(len(candidates.rows), np.inf)
    allowed = candidates.admissible()
    for part, block in candidates.blocks():
        for column, index in zip(block, range(part.start, part.stop), strict=True):
            if allowed[index]:
                H[index] = _after_one_step(model, candidates, index, coefficient[index], own, column)
    best = int(np.argmin(H))
    return (best, model.objective - float(H[best])) if np.isfinite(H[best]) else (-1, 0.0)


def _after_one_step(model: Submodel, candidates: Candidates, index: int, c: Array, own: Array, column: Array) -> float:
    """Return H after the Newton step with candidate ``index``, whose new coefficient is ``c`` (q,)."""
    V = candidates.V[:, : model.d, index].astype(np.float64)
    moved = np.column_stack([model.factors[h].T @ V[h] for h in range(len(V))]) * c
    x = -own - moved
    Dx = model.D @ x + column.astype(np.float64)[:, None] * c
    phi, diagonal = model.phi[candidates.rows[index]], candidates.diagonal[candidates.rows[index]]
    values = []
    # With several outputs the step treats them one by one and may be too long by a factor of at most two.
    for t in (1.0,) if model.q == 1 else (1.0, 0.5):
        w, a = model.w + t * x[model.first :], t * c
        norm = float(np.vdot(w, w) + 2.0 * phi @ w @ a + diagonal * a @ a)
        loss, _ = model.likelihood.evaluate(model.eta + t * Dx, model.y, model.weight)
        values.append(loss + 0.5 * model.alpha * norm)
    return min(values)


def exactly(model: Submodel, candidates: Candidates, g: Array) -> tuple[int, float]:
    """Return the candidate whose converged model has the smallest H (3.12), and the decrease."""
    H = np.full(len(candidates.rows), np.inf)
    for index in np.flatnonzero(candidates.admissible()):
        H[index] = model.try_column(candidates.whitened(model, np.array([index])), 1e-8)
    best = int(np.argmin(H))
    return (best, model.objective - float(H[best])) if np.isfinite(H[best]) else (-1, 0.0)
