"""Meta-estimators that turn the probabilities of any classifier into decisions.

Each changes one thing and passes the rest through, so they nest: `PriorShiftClassifier` changes the
posteriors, `MinimumRiskClassifier` the loss, `RejectOptionClassifier` (the outermost) whether to answer.
"""

from smaller.estimators.decisions.minimum_risk import MinimumRiskClassifier
from smaller.estimators.decisions.prior_shift import PriorShiftClassifier
from smaller.estimators.decisions.reject_option import RejectOptionClassifier

__all__ = ["MinimumRiskClassifier", "PriorShiftClassifier", "RejectOptionClassifier"]

# Pickles and model files name the classes by this place, as they did when it was one file.
for _class in (MinimumRiskClassifier, PriorShiftClassifier, RejectOptionClassifier):
    _class.__module__ = __name__
