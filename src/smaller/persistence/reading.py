"""From a model file to a model: nothing in it is run, and nothing is believed that was not checked."""

from __future__ import annotations

import enum
import inspect
import os
import struct
import zipfile
from importlib.metadata import version
from typing import Any, BinaryIO

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from smaller.persistence.archive import read_archive
from smaller.persistence.registry import (
    CLASSES,
    MAX_DEPTH,
    MAY_BE_UNKNOWN,
    SCALARS,
    SPARSE,
    ModelFileError,
    check_item,
    check_keys,
    check_text,
    check_values,
    is_part,
    type_of,
)

__all__ = ["load"]

MAX_BYTES = 2 << 30  # of a file that `load` opens unless told otherwise


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

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(SMLR(alpha=20.0).fit(X, y), Path(folder) / "iris.smaller")
    ...     model = load(Path(folder) / "iris.smaller")
    >>> model.alpha
    20.0
    """
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            return load(file, max_bytes=max_bytes)
    size = path.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise ModelFileError(f"The model file has {size} bytes, more than max_bytes={max_bytes}.")
    path.seek(0)
    try:
        head, arrays = read_archive(path, size)
        return _Reader(arrays, _written_by_another(head)).decode(head["model"], "model", 0)
    except ModelFileError:
        raise
    except (
        zipfile.BadZipFile, EOFError, struct.error, RuntimeError, NotImplementedError, ArithmeticError, LookupError,
        TypeError, ValueError, AttributeError, MemoryError, ImportError,
    ) as error:  # fmt: skip
        raise ModelFileError(f"This is not an intact model file: {error or type(error).__name__}") from error


def _written_by_another(head: dict[str, Any]) -> bool:
    """Tell whether another version wrote the file: an argument that came later means its default then."""
    made_with = head.get("made_with")
    return isinstance(made_with, dict) and made_with.get("smaller") != version("smaller")


class _Reader:
    """Turns a tree of JSON values back into a model, field by field."""

    def __init__(self, arrays: list[np.ndarray], tolerant: bool) -> None:
        self.arrays = arrays
        self._tolerant = tolerant  # of arguments that are missing, since they came later
        self._checked: set[tuple[int, bool]] = set()

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
            return check_text(node)
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
            "dtype": lambda content, field, depth: np.dtype(object if content == "object" else SCALARS[content]),
            "type": lambda content, field, depth: CLASSES[content],
            "slice": lambda content, field, depth: slice(*(_place(item) for item in _listed(content, 3))),
            "objects": self._objects,
            "bunch": lambda content, field, depth: Bunch(**self._dict(content, field, depth)),
            "float": self._float, "scalar": self._scalar, "array": self._array, "strings": self._strings,
            "sparse": self._sparse, "enum": self._enum, "dict": self._dict,
            "list": lambda content, field, depth: [self.decode(item, field, depth) for item in _listed(content)],
            "tuple": lambda content, field, depth: tuple(self.decode(item, field, depth) for item in _listed(content)),
        }  # fmt: skip

    def _float(self, content: Any, field: str, depth: int) -> float:
        if content not in ("nan", "inf", "-inf") or field not in MAY_BE_UNKNOWN:
            raise ModelFileError(f"{field} is not finite.")
        return float(content)

    def _scalar(self, content: Any, field: str, depth: int) -> Any:
        name, value = _listed(content, 2)
        value = self.decode(value, field, depth)
        expected = {"str": str, "bool": bool, "float32": float, "float64": float}.get(name, int)
        if type(value) is not expected:
            raise ModelFileError(f"{field} is not a {name}.")
        return SCALARS[name](value)

    def _array(self, content: Any, field: str, depth: int) -> np.ndarray:
        if type(content) is not int or not 0 <= content < len(self.arrays):
            raise ModelFileError(f"{field} names an array that is not there.")
        rule = (content, field in MAY_BE_UNKNOWN)
        if rule not in self._checked:  # a file may name one array very often
            check_values(self.arrays[content], field)
            self._checked.add(rule)
        return self.arrays[content]

    def _strings(self, content: Any, field: str, depth: int) -> np.ndarray:
        if not all(type(item) is str for item in _listed(content)):
            raise ModelFileError(f"{field} must be a list of texts.")
        return np.array([check_text(item) for item in content], dtype=object)

    def _objects(self, content: Any, field: str, depth: int) -> np.ndarray:
        array = np.empty(len(_listed(content)), dtype=object)
        array[:] = [float("nan") if item == {"float": "nan"} else item for item in content]
        for item in array:
            check_item(item, field)
        return array

    def _sparse(self, content: Any, field: str, depth: int) -> Any:
        name, shape, *parts = _listed(content, 5)
        arrays = [self.decode(part, field, depth) for part in parts]
        if [part.ndim for part in arrays] != [1, 1, 1] or len(_listed(shape, 2)) != 2:
            raise ModelFileError(f"{field} is not a sparse matrix.")
        matrix = SPARSE[name](tuple(arrays), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix

    def _enum(self, content: Any, field: str, depth: int) -> Any:
        name, member = _listed(content, 2)
        cls = type_of(name)
        if not issubclass(cls, enum.Enum):
            raise ModelFileError(f"{field} is not an enumeration.")
        return cls[member]

    def _dict(self, content: Any, field: str, depth: int) -> dict[Any, Any]:
        pairs = [_listed(pair, 2) for pair in _listed(content)]
        keys = [self.decode(key, field, depth) for key, _ in pairs]
        check_keys(keys, field)
        return dict(zip(keys, (self.decode(value, field, depth) for _, value in pairs), strict=True))

    def _object(self, name: Any, state: Any, depth: int) -> Any:
        cls = type_of(name)
        if not isinstance(state, dict) or issubclass(cls, enum.Enum):
            raise ModelFileError(f"{name} is not stored as it should be.")
        values = {key: self.decode(part, key, depth + 1) for key, part in state.items()}
        return cls(**values) if is_part(cls) else self._estimator(cls, name, values)

    def _estimator(self, cls: Any, name: str, values: dict[str, Any]) -> Any:
        """Return an estimator with the arguments and the fitted attributes that it had."""
        defaults = _defaults(cls)
        for key in values:
            if key not in defaults and not _may_be_set(cls, key):
                raise ModelFileError(f"{name} has no attribute {key[:80]!r}.")
        late = {key: default for key, default in defaults.items() if key not in values}
        lacking = [key for key, default in late.items() if not self._tolerant or default is inspect.Parameter.empty]
        if lacking:
            raise ModelFileError(
                f"{name} lacks {sorted(lacking)}: the file is not whole, or of another version of smaller."
            )
        made = cls.__new__(cls)
        vars(made).update(late | values)
        if "__setstate__" in vars(cls):  # makes what follows from the rest
            made.__setstate__({"_sklearn_version": sklearn.__version__})
        return made


def _defaults(cls: type) -> dict[str, Any]:
    """Return the arguments of an estimator's constructor with their defaults."""
    arguments = inspect.signature(cls).parameters if issubclass(cls, BaseEstimator) else {}
    return {key: argument.default for key, argument in arguments.items()}


def _may_be_set(cls: type, key: str) -> bool:
    """Tell whether an attribute can be what a fit has learnt."""
    return key.isidentifier() and not key.startswith("__") and not hasattr(cls, key)


def _place(item: Any) -> int | None:
    if item is not None and type(item) is not int:
        raise ModelFileError("The model file holds a malformed slice.")
    return item


def _listed(content: Any, length: int | None = None) -> list[Any]:
    if not isinstance(content, list) or (length is not None and len(content) != length):
        raise ModelFileError("The model file holds a malformed value.")
    return content
