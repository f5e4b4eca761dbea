"""Warnings that point to the line of the user's code which led to them, however deep the library stands there."""

from __future__ import annotations

import sys
import warnings

__all__ = ["tell"]

_INSIDE = ("smaller", "sklearn", "joblib")  # packages whose lines are not the user's


def tell(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn; the place that is named is the nearest caller outside the library and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
