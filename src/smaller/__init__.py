"""Small, probabilistic classifiers: few features, few kernels, certified optima.

"SMLR, pronounced *smaller*."
"""

import importlib as _importlib

from smaller.decisions import adjust_priors
from smaller.estimators.adaptive import SparseProbit, SparseRegressor
from smaller.estimators.cross_validated import SMLRCV
from smaller.estimators.decisions import MinimumRiskClassifier, PriorShiftClassifier, RejectOptionClassifier
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.estimators.kernel_logistic import IVM, KLR
from smaller.estimators.regularization_path import alpha_max, smlr_path
from smaller.estimators.relevance import RVC, RVR
from smaller.estimators.sbmlr import SBMLR, select_by_evidence
from smaller.estimators.smlr import RMLR, SMLR
from smaller.estimators.stability import StabilitySelection
from smaller.inference import coef_interval

__all__ = [
    "IVM",
    "JCFO",
    "JCFOCV",
    "KLR",
    "RMLR",
    "RVC",
    "RVR",
    "SBMLR",
    "SMLR",
    "SMLRCV",
    "MinimumRiskClassifier",
    "PriorShiftClassifier",
    "RejectOptionClassifier",
    "SparseProbit",
    "SparseRegressor",
    "StabilitySelection",
    "adjust_priors",
    "alpha_max",
    "coef_interval",
    "load",
    "save",
    "select_by_evidence",
    "smlr_path",
]
__version__ = "0.2.0.dev0"


def __getattr__(name: str) -> object:
    """Model files are a leaf of the package: loaded when first used."""
    if name in ("load", "save"):
        return getattr(_importlib.import_module("smaller.persistence"), name)
    raise AttributeError(f"module 'smaller' has no attribute {name!r}")
