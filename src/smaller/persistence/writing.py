"""From a model to the bytes of a model file."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import io
import json
import os
import zipfile
from collections import UserList
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.lib import format as npy
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from smaller.persistence.files import atomic_write
from smaller.persistence.registry import (
    CLASSES,
    FORMAT,
    MAX_DEPTH,
    MAY_BE_UNKNOWN,
    SCALARS,
    SPARSE,
    VERSION,
    ModelFileError,
    check_item,
    check_keys,
    check_size,
    check_text,
    check_values,
    is_part,
    type_name,
)
from smaller.persistence.stand_ins import stand_in

__all__ = ["model_bytes", "save"]

# Belongs to a running fit, or to the program that saved, not to the model.
_TRANSIENT = ("_skl_callbacks", "_callback", "_metadata_request", "_sklearn_version")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file that `load` opens without running any code.

    The file appears complete or not at all: it is written beside its place, flushed to disk, then renamed.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package, alone or within scikit-learn's pipelines, column transformers, calibration
        and voting (docs/cli.md has the list). A fitted search is stored as what it has found, and a warning says so.
        Callables (a kernel of your own) and random-number generators cannot be stored and are refused.
    path : str or path
        Where to write; the usual ending is ``.smaller``.

    See Also
    --------
    load : Reads the file.
    smaller.export : Models without Python: JSON, SQL, ONNX, a card of points.

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
    content = model_bytes(model)
    with atomic_write(path) as file:
        file.write(content)


def model_bytes(model: Any) -> bytes:
    """Return what `save` writes: equal models give equal bytes."""
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    writer = _Writer()
    tree = writer.encode(model, type(model).__name__, 0)
    made_with = {name: version(name) for name in ("smaller", "scikit-learn", "numpy")}
    head = {"format": FORMAT, "version": VERSION, "made_with": made_with}
    head |= {"arrays": [hashlib.sha256(data).hexdigest() for data in writer.arrays], "model": tree}
    text = json.dumps(head, allow_nan=False, ensure_ascii=True, separators=(",", ":")).encode()
    check_size(text)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        members = [("model.json", text), ("sha256", hashlib.sha256(text).hexdigest().encode())]
        for name, data in [*members, *((f"{i}.npy", data) for i, data in enumerate(writer.arrays))]:
            archive.writestr(zipfile.ZipInfo(name), data)  # ZipInfo: no time stamp, so equal models give equal files
    return buffer.getvalue()


class _Writer:
    """Turns a model into a tree of JSON values; arrays are set aside, each stored once."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps ids unique while writing

    def encode(self, value: Any, field: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ModelFileError(f"{field} is nested too deeply to be stored.")
        if type(value) in _PLAIN:
            return _PLAIN[type(value)](value, field)
        for kinds, write in self._writers.items():
            if isinstance(value, kinds):
                return write(value, field, depth)
        return self._object(value, field, depth)

    @cached_property
    def _writers(self) -> dict[tuple[type, ...], Callable[[Any, str, int], Any]]:
        """Writers of what JSON does not have; the first kind that fits counts."""
        return {
            (slice,): lambda value, field, depth: {"slice": [value.start, value.stop, value.step]},
            (type,): self._class,
            (UserList,): lambda value, field, depth: self.encode(value.data, field, depth),
            (Bunch,): lambda value, field, depth: {"bunch": self._dict(value, field, depth)["dict"]},
            (enum.Enum,): lambda value, field, depth: {"enum": [type_name(type(value), field), value.name]},
            (np.dtype,): self._dtype, (np.generic,): self._scalar, (np.ndarray,): self._array,
            (sparse.sparray, sparse.spmatrix): self._sparse, (list, tuple): self._sequence, (dict,): self._dict,
        }  # fmt: skip

    def _class(self, value: type, field: str, depth: int) -> Any:
        names = [name for name, known in CLASSES.items() if known is value]
        if not names:
            raise ModelFileError(f"{field} is the class {value.__name__}, which a model file cannot hold.")
        return {"type": names[0]}

    def _dtype(self, value: np.dtype[Any], field: str, depth: int) -> Any:
        return {"dtype": value.name} if value.name in (*SCALARS, "object") else self._object(value, field, depth)

    def _scalar(self, value: np.generic, field: str, depth: int) -> Any:
        return {"scalar": [_scalar_name(value, field), self.encode(value.item(), field, depth + 1)]}

    def _sparse(self, value: Any, field: str, depth: int) -> Any:
        if type(value).__name__ not in SPARSE:
            raise ModelFileError(f"{field} is a sparse matrix of format {value.format}: only CSR and CSC are kept.")
        parts = [self._array(part, field, depth) for part in (value.data, value.indices, value.indptr)]
        return {"sparse": [type(value).__name__, list(map(int, value.shape)), *parts]}

    def _sequence(self, value: Any, field: str, depth: int) -> Any:
        if type(value) not in (list, tuple):  # a named tuple would come back as another thing
            return self._object(value, field, depth)
        return {type(value).__name__: [self.encode(item, field, depth + 1) for item in value]}

    def _dict(self, value: dict[Any, Any], field: str, depth: int) -> Any:
        check_keys(list(value), field)
        return {"dict": [[self.encode(part, field, depth + 1) for part in pair] for pair in value.items()]}

    def _object(self, value: Any, field: str, depth: int) -> Any:
        value = stand_in(value, field)
        name = type_name(type(value), field)
        if is_part(type(value)):
            state = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        else:
            known = value.__getstate__() if isinstance(value, BaseEstimator) else vars(value)
            state = {key: part for key, part in known.items() if not key.startswith(_TRANSIENT)}
        return {"object": name, "state": {key: self.encode(part, key, depth + 1) for key, part in state.items()}}

    def _array(self, value: np.ndarray, field: str, depth: int) -> Any:
        if value.dtype.kind == "O":
            return _objects(value, field)
        check_values(value, field)
        if id(value) not in self._known:
            buffer = io.BytesIO()
            npy.write_array(buffer, value, version=(1, 0), allow_pickle=False)
            self._known[id(value)] = len(self.arrays)
            self._kept.append(value)
            self.arrays.append(buffer.getvalue())
        return {"array": self._known[id(value)]}


def _objects(value: np.ndarray, field: str) -> Any:
    """Return names, or categories of which some are missing or numbers."""
    if value.ndim != 1:
        raise ModelFileError(f"{field} holds a table of Python objects, which cannot be stored.")
    items = [item.item() if isinstance(item, np.generic) else item for item in value]
    for item in items:
        check_item(item, field)
    if all(type(item) is str for item in items):
        return {"strings": items}
    return {"objects": [_finite_number(item, "missing_values") if type(item) is float else item for item in items]}


_PLAIN: dict[type, Callable[[Any, str], Any]] = {
    **dict.fromkeys((type(None), bool, int), lambda value, field: value),
    float: lambda value, field: _finite_number(value, field),
    str: lambda value, field: check_text(value),
}


def _scalar_name(value: np.generic, field: str) -> str:
    name = "str" if isinstance(value, np.str_) else value.dtype.name
    if name not in SCALARS:
        raise ModelFileError(f"{field} is a {name}, which a model file cannot hold.")
    return name


def _finite_number(value: float, field: str) -> Any:
    if np.isfinite(value):
        return value
    if field not in MAY_BE_UNKNOWN:
        raise ModelFileError(f"{field} is {value}: only finite numbers are stored there.")
    return {"float": str(value)}
