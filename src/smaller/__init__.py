"""Small, probabilistic classifiers: few features, few kernels, certified optima.

"SMLR, pronounced *smaller*."
"""

from smaller.decisions import adjust_priors
from smaller.estimators.cross_validated import SMLRCV
from smaller.estimators.decisions import MinimumRiskClassifier, PriorShiftClassifier, RejectOptionClassifier
from smaller.estimators.kernel_logistic import IVM, KLR
from smaller.estimators.regularization_path import alpha_max, smlr_path
from smaller.estimators.smlr import RMLR, SMLR

__all__ = [
    "IVM",
    "KLR",
    "RMLR",
    "SMLR",
    "SMLRCV",
    "MinimumRiskClassifier",
    "PriorShiftClassifier",
    "RejectOptionClassifier",
    "adjust_priors",
    "alpha_max",
    "smlr_path",
]
__version__ = "0.1.0"
