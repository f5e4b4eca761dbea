"""Pictures of fitted models, as scikit-learn's Displays: made ``from_estimator``, drawn by ``plot``, kept as data.

matplotlib is imported when something is drawn, not before. Every ``plot`` takes ``ax`` (a new figure if None), stores
``ax_`` and ``figure_`` and returns the Display.
"""

from smaller.plotting.answers import ErrorRejectDisplay
from smaller.plotting.effects import ForestDisplay
from smaller.plotting.features import FeatureWeightsDisplay, ScalesDisplay, StabilityDisplay
from smaller.plotting.path import CVDisplay, ImportPathDisplay, PathDisplay

__all__ = [
    "CVDisplay",
    "ErrorRejectDisplay",
    "FeatureWeightsDisplay",
    "ForestDisplay",
    "ImportPathDisplay",
    "PathDisplay",
    "ScalesDisplay",
    "StabilityDisplay",
]
