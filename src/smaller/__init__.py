"""Small, probabilistic classifiers: few features, few kernels, certified optima.

"SMLR, pronounced *smaller*."
"""

import importlib as _importlib
import typing as _typing

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
    "TableFeatures",
    "adjust_priors",
    "alpha_max",
    "coef_interval",
    "load",
    "save",
    "select_by_evidence",
    "smlr_path",
    "study",
]
__version__ = "0.2.0.dev0"

# Each public name is loaded when first used: whoever wants one estimator, or the command line's help, waits for no
# other, and an interrupt meets no half-imported package. For type checkers the same names stand below once more.
_HOMES = {
    "smaller.app.asking": ("study",),
    "smaller.app.features": ("TableFeatures",),
    "smaller.decisions": ("adjust_priors",),
    "smaller.estimators.adaptive": ("SparseProbit", "SparseRegressor"),
    "smaller.estimators.cross_validated": ("SMLRCV",),
    "smaller.estimators.decisions": ("MinimumRiskClassifier", "PriorShiftClassifier", "RejectOptionClassifier"),
    "smaller.estimators.jcfo": ("JCFO",),
    "smaller.estimators.jcfo_cv": ("JCFOCV",),
    "smaller.estimators.kernel_logistic": ("IVM", "KLR"),
    "smaller.estimators.ordinal": ("OrdinalSMLR",),
    "smaller.estimators.regularization_path": ("alpha_max", "smlr_path"),
    "smaller.estimators.relevance": ("RVC", "RVR"),
    "smaller.estimators.sbmlr": ("SBMLR", "select_by_evidence"),
    "smaller.estimators.smlr": ("RMLR", "SMLR"),
    "smaller.estimators.stability": ("StabilitySelection",),
    "smaller.inference": ("coef_interval",),
    "smaller.persistence": ("load", "save"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

if _typing.TYPE_CHECKING:
    from smaller.app.asking import study
    from smaller.app.features import TableFeatures
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
    from smaller.estimators.stability import StabilitySelection
    from smaller.inference import coef_interval
    from smaller.persistence import load, save


def __getattr__(name: str) -> object:
    """Return a public name, loaded now."""
    if name not in _HOME:
        raise AttributeError(f"module 'smaller' has no attribute {name!r}")
    found = getattr(_importlib.import_module(_HOME[name]), name)
    globals()[name] = found  # asked for once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
