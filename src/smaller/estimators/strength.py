"""The scale of ``alpha``: against the sum of log-losses, or as a share of the strength that zeroes every weight."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.searches.path import alpha_grid
from smaller.validation import check_integer, check_number

__all__ = ["grid_of", "largest_alpha", "unit_of_strength"]


def largest_alpha(find: Callable[[], float]) -> float:
    """Return the strength (in units of a problem's prior) that zeroes every penalised weight, which ``find`` finds."""
    largest = find()
    if not np.isfinite(largest):
        raise ValueError(
            "There is no largest alpha without an l1 part: l1_ratio must be > 0, or name the strengths on the scale of "
            "the sum (alphas as a list, alpha_scale='sum')."
        )
    return largest


def unit_of_strength(find: Callable[[], float], scale: str) -> float:
    """Return what an ``alpha`` of one stands for; ``find`` as in `largest_alpha`."""
    if scale == "sum":
        return 1.0
    # All gradients zero (constant features): any strength gives the null model.
    return largest_alpha(find) or 1.0


def grid_of(find: Callable[[], float], alphas: Any, eps: Any, scale: str, shape: tuple[int, int]) -> Array:
    """Return decreasing strengths: those given, or a number of log-spaced ones below that which zeroes every weight.

    ``find`` as in `largest_alpha`; ``shape`` is that of the user's data (with a kernel: rows and centres), which says
    how far a grid goes down.
    """
    if isinstance(alphas, Integral):
        count = check_integer("alphas", alphas, least=1)
        n, d = shape
        ratio = (
            (1e-2 if d > n else 1e-3) if eps is None else check_number("eps", eps, least=0.0, most=1.0, open_left=True)
        )
        return alpha_grid(unit_of_strength(find, "max"), count, ratio)
    values = np.asarray(alphas, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all() or (values <= 0).any():
        raise ValueError("alphas must be a number of strengths, or a one-dimensional list of finite values > 0.")
    return np.sort(values)[::-1] * unit_of_strength(find, scale)
