"""Model files: `save` and `load`, without code and safe to open from strangers.

A model file is one zip with three kinds of members, all stored without compression::

    model.json    what the model is: a tree of plain values, named types and references to arrays
    0.npy ...     the arrays, in NumPy's format, never pickled
    sha256        the digest of model.json, which in turn holds the digest of every array

Nothing in a file is executed or imported: a type is looked up in the list below, which holds only classes made of
plain data. Because members are not compressed, opening a file never takes more than a few times its size in memory.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import inspect
import io
import json
import math
import os
import re
import secrets
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.lib import format as npy
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

__all__ = ["ModelFileError", "atomic_write", "load", "save"]

FORMAT, VERSION = "smaller-model", 1
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
MAX_BYTES = 2 << 30  # of a file that `load` opens unless told otherwise
MAX_JSON_BYTES = 64 << 20
MAX_MEMBERS = 100_000
MAX_DEPTH = 60  # of nested values

# Every class a file may name. All are plain data: their methods run only when the user calls them. A name stays as it
# was when files first held it, wherever the class lives today (`_MOVED`).
_TYPES: dict[str, tuple[str, ...]] = {
    "smaller.estimators.smlr": ("SMLR", "RMLR"),
    "smaller.estimators.cross_validated": ("SMLRCV",),
    "smaller.estimators.sbmlr": ("SBMLR",),
    "smaller.estimators.kernel_logistic": ("KLR", "IVM"),
    "smaller.estimators.jcfo": ("JCFO",),
    "smaller.estimators.jcfo_cv": ("JCFOCV",),
    "smaller.estimators.adaptive": ("SparseProbit", "SparseRegressor"),
    "smaller.estimators.decisions": ("PriorShiftClassifier", "MinimumRiskClassifier", "RejectOptionClassifier"),
    "smaller.estimators.stability": ("StabilitySelection",),
    "smaller.estimators.regularization_path": ("RegularizationPath",),
    "smaller.searches.forward": ("ImportPath",),
    "smaller.searches.scales": ("ScaledSolution",),
    "smaller.problem": ("Solution", "Status"),
    "smaller.likelihoods": ("Multinomial", "Probit", "Gaussian"),
    "smaller.bases": ("Linear", "Kernel", "Whitened"),
    "smaller.kernels": ("RBF", "Polynomial", "Linear", "Precomputed"),
    "smaller.columns": ("Column", "TableEncoder"),
    "smaller.study.answer": ("TableModel",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer"),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.frozen": ("FrozenEstimator",),
    "sklearn.linear_model": ("LogisticRegression",),
    "sklearn.model_selection": ("KFold", "StratifiedKFold", "GroupKFold", "ShuffleSplit", "StratifiedShuffleSplit"),
}
_MOVED = {
    "smaller.columns": "smaller.app.columns",
    "smaller.study.answer": "smaller.app.study.answer",
}
# Arguments that came after the first files: a file without one means its default, which changes nothing.
_ADDED = {"SBMLR": ("cv", "relax"), "SMLRCV": ("relax",)}
# Fields in which NaN or infinity means "not known" or "missing"; anywhere else they are refused.
_MAY_BE_UNKNOWN = {
    "alphas", "gap", "gaps", "history", "log_evidence_", "missing_values", "objective", "refit_strength_", "scores_",
    "validation_error", "validation_errors_", "validation_losses_", "violation",
}  # fmt: skip
_SCALARS = {name: getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")}
_SCALARS |= {"uint64": np.uint64, "float32": np.float32, "float64": np.float64, "bool": np.bool_, "str": np.str_}
_SPARSE = {cls.__name__: cls for cls in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix)}
_TRANSIENT = ("_skl_callbacks", "_callback", "_metadata_request")  # belongs to a running fit, not to the model
# Exactly what NumPy writes for plain data. Its own reader would parse the header as Python source.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|][biufU][0-9]{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,15},? ?){0,8})\), \} *\n",
    re.DOTALL,
)
_MEMBER = re.compile(r"model\.json|sha256|(0|[1-9][0-9]{0,5})\.npy")


class ModelFileError(ValueError):
    """A model file cannot be read, or is not what it says."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file that `load` opens without running any code.

    The file appears complete or not at all: it is written beside its place, flushed to disk, then renamed.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package, alone or within a scikit-learn `Pipeline`. Callables (a kernel of your
        own) and random-number generators cannot be stored and are refused.
    path : str or path
        Where to write; the usual ending is ``.smaller``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> from smaller.persistence import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SMLR().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "iris.smaller")
    ...     same = load(Path(folder) / "iris.smaller")
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    writer = _Writer()
    tree = writer.encode(model, type(model).__name__, 0)
    made_with = {name: version(name) for name in ("smaller", "scikit-learn", "numpy")}
    head = {"format": FORMAT, "version": VERSION, "made_with": made_with}
    head |= {"arrays": [hashlib.sha256(data).hexdigest() for data in writer.arrays], "model": tree}
    text = json.dumps(head, allow_nan=False, ensure_ascii=True, separators=(",", ":")).encode()
    if len(text) > MAX_JSON_BYTES:
        raise ModelFileError("The model has too many names to be stored: use fewer or shorter feature names.")
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        members = [("model.json", text), ("sha256", hashlib.sha256(text).hexdigest().encode())]
        for name, data in [*members, *((f"{i}.npy", data) for i, data in enumerate(writer.arrays))]:
            archive.writestr(zipfile.ZipInfo(name), data)  # ZipInfo: no time stamp, so equal models give equal files


def load(path: str | os.PathLike[str] | BinaryIO, *, max_bytes: int = MAX_BYTES) -> Any:
    """Read a model that `save` wrote. Safe for files from strangers: no code is run, no path is followed.

    Parameters
    ----------
    path : str, path or binary file
        The model file.
    max_bytes : int, default=2**31
        Larger files are refused unread.

    Returns
    -------
    estimator
        With predictions identical to the bit to those of the saved one.

    Raises
    ------
    ModelFileError
        If the file is damaged, too large, made by a newer version, or not a model file; the message says which.
    """
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            return load(file, max_bytes=max_bytes)
    size = path.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise ModelFileError(f"The model file has {size} bytes, more than max_bytes={max_bytes}.")
    path.seek(0)
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, size)
            head = _head(archive, members)
            arrays = [_array(archive.read(f"{i}.npy"), digest) for i, digest in enumerate(head["arrays"])]
            return _Reader(arrays).decode(head["model"], "model", 0)
    except ModelFileError:
        raise
    except (
        zipfile.BadZipFile, EOFError, struct.error, RuntimeError, NotImplementedError, ArithmeticError, LookupError,
        TypeError, ValueError, AttributeError, MemoryError, ImportError,
    ) as error:  # fmt: skip
        raise ModelFileError(f"This is not an intact model file: {error or type(error).__name__}") from error


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path`` once everything is on disk; on any failure ``path`` is as it was before."""
    target = Path(path)
    temporary = target.parent / f".{target.name[:100]}.{secrets.token_hex(8)}.tmp"
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    # A new file gets what the process allows it, which the system knows; an old one keeps its mode and is never wider.
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | _BINARY, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must survive a power cut
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# ---- writing --------------------------------------------------------------------------------------------------------


class _Writer:
    """Turns a model into a tree of JSON values; arrays are set aside, each stored once."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps ids unique while writing

    def encode(self, value: Any, field: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ModelFileError(f"{field} is nested too deeply to be stored.")
        if value is None or type(value) in (bool, int):
            return value
        if type(value) is float:
            return _finite_number(value, field)
        if type(value) is str:
            return _text(value)
        if isinstance(value, enum.Enum):
            return {"enum": [_type_name(type(value), field), value.name]}
        if isinstance(value, np.dtype) and value.name in _SCALARS:
            return {"dtype": value.name}
        if isinstance(value, np.generic):
            return {"scalar": [_scalar_name(value, field), self.encode(value.item(), field, depth + 1)]}
        if isinstance(value, np.ndarray):
            return self._array(value, field, depth)
        if sparse.issparse(value):
            if type(value).__name__ not in _SPARSE:
                raise ModelFileError(f"{field} is a sparse matrix of format {value.format}: only CSR and CSC are kept.")
            parts = [self._array(part, field, depth) for part in (value.data, value.indices, value.indptr)]
            return {"sparse": [type(value).__name__, list(map(int, value.shape)), *parts]}
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.encode(item, field, depth + 1) for item in value]}
        if isinstance(value, dict):
            pairs = [[self.encode(part, field, depth + 1) for part in pair] for pair in value.items()]
            return {"dict": pairs}
        name = _type_name(type(value), field)
        if dataclasses.is_dataclass(value):
            state = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        else:
            state = {key: part for key, part in vars(value).items() if not key.startswith(_TRANSIENT)}
        return {"object": name, "state": {key: self.encode(part, key, depth + 1) for key, part in state.items()}}

    def _array(self, value: np.ndarray, field: str, depth: int) -> Any:
        if value.dtype.kind == "O":
            if value.ndim != 1 or not all(type(item) is str for item in value):
                raise ModelFileError(
                    f"{field} holds Python objects, which cannot be stored: use labels that are all text or all "
                    "numbers."
                )
            return {"strings": [_text(item) for item in value]}
        _check_values(value, field)
        if id(value) not in self._known:
            buffer = io.BytesIO()
            npy.write_array(buffer, value, version=(1, 0), allow_pickle=False)
            self._known[id(value)] = len(self.arrays)
            self._kept.append(value)
            self.arrays.append(buffer.getvalue())
        return {"array": self._known[id(value)]}


def _type_name(cls: type, field: str) -> str:
    for module, names in _TYPES.items():
        if cls.__name__ in names and getattr(_home(module), cls.__name__, None) is cls:
            return f"{module}.{cls.__name__}"
    raise ModelFileError(
        f"{field} is of type {cls.__module__}.{cls.__qualname__}, which a model file cannot hold: it stores data, "
        "no code. Use a named kernel, an integer random_state and the estimators listed in docs/cli.md."
    )


def _scalar_name(value: np.generic, field: str) -> str:
    name = "str" if isinstance(value, np.str_) else value.dtype.name
    if name not in _SCALARS:
        raise ModelFileError(f"{field} is a {name}, which a model file cannot hold.")
    return name


def _finite_number(value: float, field: str) -> Any:
    if np.isfinite(value):
        return value
    if field not in _MAY_BE_UNKNOWN:
        raise ModelFileError(f"{field} is {value}: only finite numbers are stored there.")
    return {"float": str(value)}


def _text(value: str) -> str:
    value.encode("utf-8")  # lone surrogates would fail later, wherever the name is shown
    return value


def _check_values(value: np.ndarray, field: str) -> None:
    """Refuse what is not plain data: other kinds, invalid characters, numbers that are not finite."""
    kind = value.dtype.kind
    if kind not in "biufU" or value.dtype.name in ("float128", "longdouble"):
        raise ModelFileError(f"{field} has dtype {value.dtype}, which a model file cannot hold.")
    if kind == "f" and field not in _MAY_BE_UNKNOWN and not np.isfinite(value).all():
        raise ModelFileError(f"{field} holds NaN or infinity.")
    if kind == "b" and value.size and np.ascontiguousarray(value).view(np.uint8).max() > 1:
        raise ModelFileError(f"{field} holds invalid truth values.")
    if kind == "U" and value.size and value.dtype.itemsize:
        codes = np.ascontiguousarray(value).view(np.uint32)
        if codes.max() > 0x10FFFF or ((codes >= 0xD800) & (codes < 0xE000)).any():
            raise ModelFileError(f"{field} holds invalid characters.")


# ---- reading --------------------------------------------------------------------------------------------------------


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Check the table of contents; nothing has been read so far."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) > MAX_MEMBERS or len(names) < len(infos):
        raise ModelFileError("This is not a model file: it has too many or repeated members.")
    for info in infos:
        if not _MEMBER.fullmatch(info.filename):
            raise ModelFileError(f"This is not a model file: it has an unknown member {info.filename[:80]!r}.")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise ModelFileError("This is not a model file: its members are compressed or encrypted.")
    if sum(info.file_size for info in infos) > size:
        raise ModelFileError("This is not a model file: its members overlap.")
    return {info.filename: info for info in infos}


def _head(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
    if not {"model.json", "sha256"} <= members.keys():
        raise ModelFileError("This is not a model file: model.json or its checksum is missing.")
    if members["model.json"].file_size > MAX_JSON_BYTES:
        raise ModelFileError("This is not a model file: model.json is too large.")
    text = archive.read("model.json")
    if archive.read("sha256") != hashlib.sha256(text).hexdigest().encode():
        raise ModelFileError("The model file is damaged: the checksum of model.json differs.")
    head = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ModelFileError("This is not a model file: model.json does not say so.")
    if head.get("version") != VERSION:
        raise ModelFileError(
            f"The model file has format version {head.get('version')!r}, this program reads {VERSION}: upgrade smaller."
        )
    arrays = head.get("arrays")
    if not isinstance(arrays, list) or {"model.json", "sha256", *(f"{i}.npy" for i in range(len(arrays)))} != set(
        members
    ):
        raise ModelFileError("The model file is damaged: its arrays differ from those it lists.")
    return head


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ModelFileError("model.json repeats a key.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"model.json holds {name}.")


def _array(data: bytes, digest: Any) -> np.ndarray:
    """Parse one array; its header is believed only if it accounts for every byte."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelFileError("The model file is damaged: the checksum of an array differs.")
    header = _NPY_HEADER.match(data)
    if header is None or header.end() != 10 + int.from_bytes(header[1], "little"):
        raise ModelFileError("An array of the model file has an unknown format, or a dtype that is not allowed.")
    dtype, fortran = np.dtype(header[2].decode()), header[3] == b"True"
    shape = tuple(int(side) for side in header[4].decode().split(",") if side.strip())
    count, body = math.prod(shape), data[header.end() :]
    if dtype.itemsize == 0 or count * dtype.itemsize != len(body):
        raise ModelFileError("An array of the model file does not have the size it claims.")
    flat = np.frombuffer(body, dtype) if count else np.empty(0, dtype)
    native = flat.astype(dtype.newbyteorder("="), copy=True)
    return native.reshape(shape, order="F" if fortran else "C")


class _Reader:
    """Turns a tree of JSON values back into a model, field by field."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays

    def decode(self, node: Any, field: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ModelFileError("The model file is nested too deeply.")
        if node is None or isinstance(node, bool | int):
            return node
        if isinstance(node, float):
            if not np.isfinite(node):
                raise ModelFileError(f"{field} is not finite.")
            return node
        if isinstance(node, str):
            return _text(node)
        if not isinstance(node, dict):
            raise ModelFileError(f"{field} is not a value that a model file holds.")
        if node.keys() == {"object", "state"}:
            return self._object(node["object"], node["state"], depth)
        if len(node) != 1:
            raise ModelFileError(f"{field} is not a value that a model file holds.")
        (kind, content), readers = next(iter(node.items())), self._readers()
        if kind not in readers:
            raise ModelFileError(f"{field} is of the unknown kind {kind[:40]!r}.")
        return readers[kind](content, field, depth + 1)

    def _readers(self) -> dict[str, Any]:
        return {
            "dtype": lambda content, field, depth: np.dtype(_SCALARS[content]),
            "float": self._float, "scalar": self._scalar, "array": self._array, "strings": self._strings,
            "sparse": self._sparse, "enum": self._enum, "dict": self._dict,
            "list": lambda content, field, depth: [self.decode(item, field, depth) for item in _listed(content)],
            "tuple": lambda content, field, depth: tuple(self.decode(item, field, depth) for item in _listed(content)),
        }  # fmt: skip

    def _float(self, content: Any, field: str, depth: int) -> float:
        if content not in ("nan", "inf", "-inf") or field not in _MAY_BE_UNKNOWN:
            raise ModelFileError(f"{field} is not finite.")
        return float(content)

    def _scalar(self, content: Any, field: str, depth: int) -> Any:
        name, value = _listed(content, 2)
        value = self.decode(value, field, depth)
        expected = {"str": str, "bool": bool, "float32": float, "float64": float}.get(name, int)
        if type(value) is not expected:
            raise ModelFileError(f"{field} is not a {name}.")
        return _SCALARS[name](value)

    def _array(self, content: Any, field: str, depth: int) -> np.ndarray:
        if type(content) is not int or not 0 <= content < len(self.arrays):
            raise ModelFileError(f"{field} names an array that is not there.")
        _check_values(self.arrays[content], field)
        return self.arrays[content]

    def _strings(self, content: Any, field: str, depth: int) -> np.ndarray:
        if not all(type(item) is str for item in _listed(content)):
            raise ModelFileError(f"{field} must be a list of texts.")
        return np.array([_text(item) for item in content], dtype=object)

    def _sparse(self, content: Any, field: str, depth: int) -> Any:
        name, shape, *parts = _listed(content, 5)
        arrays = [self.decode(part, field, depth) for part in parts]
        if [part.ndim for part in arrays] != [1, 1, 1] or len(_listed(shape, 2)) != 2:
            raise ModelFileError(f"{field} is not a sparse matrix.")
        matrix = _SPARSE[name](tuple(arrays), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _enum(self, content: Any, field: str, depth: int) -> Any:
        name, member = _listed(content, 2)
        cls = _type_of(name)
        if not issubclass(cls, enum.Enum):
            raise ModelFileError(f"{field} is not an enumeration.")
        return cls[member]

    def _dict(self, content: Any, field: str, depth: int) -> dict[Any, Any]:
        pairs = [_listed(pair, 2) for pair in _listed(content)]
        return {self.decode(key, field, depth): self.decode(value, field, depth) for key, value in pairs}

    def _object(self, name: Any, state: Any, depth: int) -> Any:
        cls = _type_of(name)
        if not isinstance(state, dict) or issubclass(cls, enum.Enum):
            raise ModelFileError(f"{name} is not stored as it should be.")
        values = {key: self.decode(part, key, depth + 1) for key, part in state.items()}
        if dataclasses.is_dataclass(cls):
            return cls(**values)
        required = set(cls._get_param_names()) if issubclass(cls, BaseEstimator) else set()  # type: ignore[attr-defined]
        for key in values:
            if not key.isidentifier() or key.startswith("__") or (key not in required and hasattr(cls, key)):
                raise ModelFileError(f"{name} has no attribute {key[:80]!r}.")
        for key in required.intersection(_ADDED.get(cls.__name__, ())) - values.keys():
            values[key] = inspect.signature(cls).parameters[key].default
        if not required <= values.keys():
            raise ModelFileError(
                f"{name} lacks {sorted(required - values.keys())}: made by another version of smaller."
            )
        made = cls.__new__(cls)
        vars(made).update(values)
        return made


def _type_of(name: Any) -> type:
    module, _, cls = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if cls not in _TYPES.get(module, ()):
        raise ModelFileError(f"The model file holds the unknown type {str(name)[:80]!r}: upgrade smaller.")
    found: type = getattr(_home(module), cls)
    return found


def _home(module: str) -> ModuleType:
    """Return the module in which the classes of a file's ``module`` live today."""
    return import_module(_MOVED.get(module, module))


def _listed(content: Any, length: int | None = None) -> list[Any]:
    if not isinstance(content, list) or (length is not None and len(content) != length):
        raise ModelFileError("The model file holds a malformed value.")
    return content
