"""What a model file may name: the list of types, and the rules for plain values that writing and reading share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

__all__ = ["CLASSES", "FORMAT", "MAX_DEPTH", "MAX_JSON_BYTES", "MAY_BE_UNKNOWN", "SCALARS", "SPARSE", "VERSION",
           "ModelFileError", "check_item", "check_keys", "check_size", "check_text", "check_values", "is_part",
           "type_name", "type_of"]  # fmt: skip

FORMAT, VERSION = "smaller-model", 1
MAX_JSON_BYTES = 64 << 20
MAX_CONTAINERS, MAX_VALUES = 1_000_000, 4_000_000  # in model.json: they take up to a hundred times their text in memory
MAX_DEPTH = 60  # of nested values

# Every class a file may name. All are plain data: their methods run only when the user calls them. A name stays as it
# was when files first held it, wherever the class lives today (`_MOVED`).
_TYPES: dict[str, tuple[str, ...]] = {
    "smaller.estimators.smlr": ("SMLR", "RMLR"),
    "smaller.estimators.cross_validated": ("SMLRCV",),
    "smaller.estimators.sbmlr": ("SBMLR",),
    "smaller.estimators.ordinal": ("OrdinalSMLR",),
    "smaller.estimators.kernel_logistic": ("KLR", "IVM"),
    "smaller.estimators.jcfo": ("JCFO",),
    "smaller.estimators.jcfo_cv": ("JCFOCV",),
    "smaller.estimators.adaptive": ("SparseProbit", "SparseRegressor"),
    "smaller.estimators.relevance": ("RVC", "RVR"),
    "smaller.estimators.decisions": ("PriorShiftClassifier", "MinimumRiskClassifier", "RejectOptionClassifier"),
    "smaller.estimators.stability": ("StabilitySelection",),
    "smaller.estimators.regularization_path": ("RegularizationPath",),
    "smaller.searches.forward": ("ImportPath",),
    "smaller.searches.scales": ("ScaledSolution",),
    "smaller.problem": ("Solution", "Status"),
    "smaller.papers": ("Block", "Componentwise"),
    "smaller.likelihoods": ("Multinomial", "Ordinal", "Probit", "Gaussian"),
    "smaller.inference.posterior": ("Chosen", "Posterior"),
    "smaller.inference.process": ("ProcessPosterior",),
    "smaller.bases": ("Linear", "Kernel", "Whitened"),
    "smaller.kernels": ("RBF", "Polynomial", "Linear", "Precomputed"),
    "smaller.columns": ("Column", "TableEncoder"),
    "smaller.study.answer": ("TableModel",),
    "smaller.app.regression.model": ("ResponseModel",),
    "smaller.app.features": ("TableFeatures",),
    "smaller.app.study.splits": ("GroupFolds", "PastFolds"),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.preprocessing": (
        "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "OneHotEncoder",
        "OrdinalEncoder", "LabelEncoder", "FunctionTransformer", "PolynomialFeatures",
    ),
    "sklearn.impute": ("SimpleImputer", "MissingIndicator"),
    "sklearn.feature_selection": ("SelectFromModel",),
    "sklearn.frozen": ("FrozenEstimator",),
    "sklearn.linear_model": ("LogisticRegression",),
    "sklearn.ensemble": ("VotingClassifier",),
    "sklearn.isotonic": ("IsotonicRegression",),
    "sklearn.calibration": (
        "CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration", "_TemperatureScaling",
    ),
    "sklearn.model_selection": (
        "KFold", "StratifiedKFold", "GroupKFold", "ShuffleSplit", "StratifiedShuffleSplit", "GridSearchCV",
        "RandomizedSearchCV", "FixedThresholdClassifier", "TunedThresholdClassifierCV",
    ),
}  # fmt: skip
_MOVED = {
    "smaller.columns": "smaller.app.columns",
    "smaller.study.answer": "smaller.app.study.answer",
}
# Fields in which NaN or infinity means "not known" or "missing"; anywhere else they are refused.
MAY_BE_UNKNOWN = {
    "alpha_", "alphas", "alphas_", "categories", "categories_", "encoded_missing_value", "error_score", "fill_value",
    "gap", "gaps", "history", "log_evidence_", "missing_values", "norm_order", "objective", "reach", "refit_strength_",
    "relevance_", "scores_", "statistics_", "unknown_value", "validation_error", "validation_errors_",
    "validation_losses_", "violation",
}  # fmt: skip
SCALARS = {name: getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")}
SCALARS |= {"uint64": np.uint64, "float32": np.float32, "float64": np.float64, "bool": np.bool_, "str": np.str_}
CLASSES: dict[str, type] = {**SCALARS, "number": np.number}  # that an argument such as dtype may be
CLASSES |= {f"builtins.{cls.__name__}": cls for cls in (bool, int, float, str, object)}
SPARSE = {cls.__name__: cls for cls in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix)}
_LARGEST_KEY = (
    2**61 - 1
)  # Python's hash of a whole number is its remainder by this, so larger ones can be made to collide


class ModelFileError(ValueError):
    """A model file cannot be read, or is not what it says."""


def type_name(cls: type, field: str) -> str:
    """Return the name under which a file holds a class."""
    for module, names in _TYPES.items():
        if cls.__name__ in names and getattr(_home(module), cls.__name__, None) is cls:
            return f"{module}.{cls.__name__}"
    raise ModelFileError(
        f"{field} is of type {cls.__module__}.{cls.__qualname__}, which a model file cannot hold: it stores data, "
        "no code. Use a named kernel, an integer random_state and the estimators listed in docs/cli.md."
    )


def type_of(name: Any) -> type:
    """Return the class of a name that a file holds."""
    module, _, cls = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if cls not in _TYPES.get(module, ()):
        raise ModelFileError(f"The model file holds the unknown type {str(name)[:80]!r}: upgrade smaller.")
    found: type = getattr(_home(module), cls)
    return found


def _home(module: str) -> ModuleType:
    """Return the module in which the classes of a file's ``module`` live today."""
    return import_module(_MOVED.get(module, module))


def check_text(value: str) -> str:
    """Return text that is valid Unicode: lone surrogates would fail later, wherever the name is shown."""
    value.encode("utf-8")
    return value


def is_part(cls: type) -> bool:
    """Whether objects of a class are their fields and nothing else, as a model's parts are; estimators learn more."""
    return dataclasses.is_dataclass(cls) and not issubclass(cls, BaseEstimator)


def check_keys(keys: list[Any], field: str) -> None:
    """Refuse keys of a dictionary that are not plain, or whose hashes could have been made to collide."""
    for key in keys:
        plain = key is None or isinstance(key, str | bool | int | float | np.generic)
        if not plain or (isinstance(key, int) and abs(key) >= _LARGEST_KEY):
            raise ModelFileError(f"{field} has a key that a model file cannot hold: use text or numbers below 2^61.")


def check_item(item: Any, field: str) -> None:
    """Refuse what is no category: text, a number, a truth value, or missing."""
    if isinstance(item, str):
        check_text(item)
    elif not (item is None or type(item) in (bool, float) or (type(item) is int and abs(item) < _LARGEST_KEY)):
        raise ModelFileError(
            f"{field} holds Python objects, which cannot be stored: use labels that are all text or all numbers."
        )


def check_size(text: bytes) -> None:
    """Refuse JSON that would take far more memory than its text."""
    if (
        len(text) > MAX_JSON_BYTES
        or text.count(b"[") + text.count(b"{") > MAX_CONTAINERS
        or text.count(b",") > MAX_VALUES
    ):
        raise ModelFileError("The model holds too many names or values for a model file: use fewer features.")


def check_values(value: np.ndarray, field: str) -> None:
    """Refuse what is not plain data: other kinds, invalid characters, numbers that are not finite."""
    kind = value.dtype.kind
    if kind not in "biufU" or value.dtype.name in ("float128", "longdouble"):
        raise ModelFileError(f"{field} has dtype {value.dtype}, which a model file cannot hold.")
    if kind == "f" and field not in MAY_BE_UNKNOWN and not np.isfinite(value).all():
        raise ModelFileError(f"{field} holds NaN or infinity.")
    if kind in _BROKEN and value.nbytes:
        broken, what = _BROKEN[kind]
        if broken(np.ascontiguousarray(value)):
            raise ModelFileError(f"{field} holds invalid {what}.")


def _broken_text(value: np.ndarray) -> bool:
    codes = value.view(np.uint32)
    return bool(codes.max() > 0x10FFFF or ((codes >= 0xD800) & (codes < 0xE000)).any())


_BROKEN: dict[str, tuple[Callable[[np.ndarray], bool], str]] = {  # bytes that no value of the kind has
    "b": (lambda value: bool(value.view(np.uint8).max() > 1), "truth values"),
    "U": (_broken_text, "characters"),
}
