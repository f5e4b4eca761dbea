"""Small, probabilistic classifiers: few features, few kernels, certified optima.

"SMLR, pronounced *smaller*."
"""

import importlib as _importlib
import typing as _typing

from smaller.decisions import adjust_priors
from smaller.estimators.adaptive import SparseProbit, SparseRegressor
from smaller.estimators.cross_validated import SMLRCV
from smaller.estimators.decisions import MinimumRiskClassifier, PriorShiftClassifier, RejectOptionClassifier
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.estimators.kernel_logistic import IVM, KLR
from smaller.estimators.ordinal import OrdinalSMLR
from smaller.estimators.regularization_path import alpha_max, smlr_path
from smaller.estimators.relevance import RVC, RVR
from smaller.estimators.sbmlr import SBMLR, select_by_evidence
from smaller.estimators.smlr import RMLR, SMLR
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
    "OrdinalSMLR",
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


if _typing.TYPE_CHECKING:
    from smaller.estimators.stability import StabilitySelection

# Loaded when first used: model files are a leaf of the package; scikit-learn's selectors would double its import time.
_LAZY = {
    "StabilitySelection": "smaller.estimators.stability",
    "load": "smaller.persistence",
    "save": "smaller.persistence",
}


def __getattr__(name: str) -> object:
    """Return a name that is loaded when first used."""
    if name in _LAZY:
        return getattr(_importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'smaller' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
