"""Descent over variables with bounds: L-BFGS-B for many, for few Newton's method within an orthant.

The function need not be convex. Newton's variables keep their signs or become zero. The Hessian comes from differences
of gradients, and negative curvature counts with its absolute value, so that every step goes downhill.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from smaller.arrays import Array

__all__ = ["bounded", "projected_newton"]

_SHIFT = 1e-7  # of the differences, relative to the variable
_SMALLEST = 1e-3  # size below which a variable counts as this large
_FLAT = 1e-10  # least curvature, relative to the largest
_ARMIJO = 1e-4
_ROUNDING = 1e-13  # relative change that a function value does not resolve
_MEMORY = 20  # pairs that L-BFGS-B keeps
_PATIENCE = 8  # steps without halving the violation: this is no neighbourhood for Newton's method

Function = Callable[[Array], tuple[float, Array]]


def bounded(
    evaluate: Function,
    x: Array,
    least: Array,
    callback: Callable[..., None] | None = None,
    **options: float,
) -> Array:
    """Minimise over ``x >= least``; a line search may miss a bound by its rounding, and no scale is below zero."""
    options |= {"maxcor": _MEMORY}
    found = optimize.minimize(
        lambda x: evaluate(np.maximum(x, least)),
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(least),
        callback=callback,
        options=options,
    )
    return np.maximum(found.x, least)


def projected_newton(
    evaluate: Function, x: Array, signs: Array, units: Array, *, tol: float, max_iter: int = 50
) -> Array:
    """Return a point at which no derivative that a variable could follow exceeds ``tol * units``, or one on the way.

    ``evaluate`` gives value and gradient; ``signs`` says where every variable lives: above zero (1), below (-1) or
    anywhere (0).
    """
    value, g = evaluate(x)
    least, waited = np.inf, 0
    for _ in range(max_iter):
        free = np.flatnonzero((x != 0) | (signs == 0) | (signs * g < 0))
        left = float(np.abs(g / units)[free].max(initial=0.0))
        if left <= tol or waited >= _PATIENCE:
            break
        step = np.zeros_like(x)
        step[free] = _newton_step(evaluate, x, g, free, signs)
        moved = _search(evaluate, x, value, g, step, signs)
        if moved is None:
            break
        waited = 0 if left <= 0.5 * least else waited + 1
        least = min(least, left)
        x, value, g = moved
    return x


def _newton_step(evaluate: Function, x: Array, g: Array, free: Array, signs: Array) -> Array:
    """Return ``-|H|^-1 g`` over the free variables, H from forward differences into the orthant."""
    H = np.empty((len(free), len(free)))
    for row, i in enumerate(free):
        shifted = x.copy()
        shifted[i] += _SHIFT * (signs[i] or 1.0) * max(abs(x[i]), _SMALLEST)
        H[row] = ((evaluate(shifted)[1] - g) / (shifted[i] - x[i]))[free]
    diagonal = np.abs(np.diag(H))
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(0.5 * (H + H.T) * scale[:, None] * scale)
    bent = np.maximum(np.abs(values), _FLAT * np.abs(values).max())
    return -scale * (vectors @ ((vectors.T @ (scale * g[free])) / bent))


def _search(
    evaluate: Function, x: Array, value: float, g: Array, step: Array, signs: Array
) -> tuple[Array, float, Array] | None:
    """Halve the step until the function falls enough; what would change its sign stops at zero."""
    t = 1.0
    for _ in range(30):
        trial = x + t * step
        trial[signs * trial < 0] = 0.0
        promised = float(g @ (trial - x))
        found, slope = evaluate(trial)
        # A step that promises less than the value can resolve is taken on the model's word.
        unseen = t == 1.0 and -promised <= _ROUNDING * abs(value)
        if promised < 0 and (found <= value + _ARMIJO * promised or unseen):
            return trial, found, slope
        t /= 2.0
    return None
