"""What a file holds in place of an estimator that searched: what it has found, since the search itself holds code."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier

from smaller.persistence.registry import ModelFileError
from smaller.telling import tell

__all__ = ["stand_in"]


def stand_in(model: Any, field: str) -> Any:
    """Return what is stored for a model: itself, or for a fitted search what it has found; a warning says so.

    * a search over parameters (GridSearchCV and its kin): its best estimator;
    * TunedThresholdClassifierCV: the same classifier with the threshold found, a FixedThresholdClassifier.
    """
    if hasattr(model, "best_threshold_"):
        return _fixed(model)
    if not hasattr(model, "best_params_"):
        return model
    if not hasattr(model, "best_estimator_"):
        raise ModelFileError(f"{field} is a search with refit=False, which has no model to store: use refit=True.")
    _say(model, "its best estimator")
    return model.best_estimator_


def _fixed(model: Any) -> Any:
    curve = model._curve_scorer
    settings = {"response_method": model.response_method, "pos_label": curve._get_pos_label()}
    fixed = FixedThresholdClassifier(FrozenEstimator(model.estimator_), threshold=model.best_threshold_, **settings)
    fixed.estimator_ = fixed.estimator
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(fixed, name, getattr(model, name))
    _say(model, "a FixedThresholdClassifier with the threshold found")
    return fixed


def _say(model: Any, what: str) -> None:
    tell(f"A model file does not hold a {type(model).__name__} but {what}: how it was searched is left out.")
