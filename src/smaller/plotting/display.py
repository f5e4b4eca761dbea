"""What every picture shares: axes, colours, names, bars."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from smaller.arrays import Array
from smaller.estimators.base import feature_names

__all__ = [
    "MUTED",
    "NEGATIVE",
    "POSITIVE",
    "Display",
    "draw_bars",
    "fitted_model",
    "largest",
    "plain",
    "required",
    "shown_names",
]

POSITIVE, NEGATIVE, MUTED = "#1f6f8b", "#c8553d", "#b8bcc2"


@dataclass
class Display:
    """Interface: data in, ``plot`` draws on axes that are made when none are given."""

    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def _axes(self, ax: Any) -> Any:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError("Displays draw with matplotlib: install it with the extra 'plot'.") from error
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def fitted_model(estimator: Any) -> Any:
    """Return the fitted model itself: the last step of a Pipeline, or the estimator."""
    check_is_fitted(estimator)
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def required(model: Any, attribute: str, advice: str) -> Any:
    """Return a fitted attribute; a model without it is refused with the advice."""
    if not hasattr(model, attribute):
        raise TypeError(f"{type(model).__name__} has no {attribute}: {advice}")
    return getattr(model, attribute)


def shown_names(model: Any, given: Any) -> Array:
    """Return the names to draw: those given, else those the model was fitted with."""
    return feature_names(model) if given is None else np.asarray(given, dtype=object)


def largest(size: Array, count: int) -> Array:
    """Return the indices of the largest values above zero, largest first."""
    order = np.argsort(-size, kind="stable")[:count]
    return order[size[order] > 0]


def draw_bars(ax: Any, values: Array, names: Array, style: dict[str, Any]) -> None:
    """Draw horizontal bars, the first on top."""
    ax.barh(np.arange(len(values)), values, **style)
    ax.set_yticks(np.arange(len(values)), [plain(name) for name in names])
    ax.invert_yaxis()


def plain(name: Any) -> str:
    """Return a name as text that matplotlib does not read as a formula, cut to a readable length."""
    text = str(name).replace("$", r"\$").replace("\n", " ")
    return text if len(text) <= 40 else text[:39] + "…"
