"""From a model file to a model: nothing in it is run, and nothing is believed that was not checked."""

from __future__ import annotations

import enum
import hashlib
import inspect
import json
import math
import os
import re
import struct
import zipfile
from importlib.metadata import version
from typing import Any, BinaryIO, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from smaller.persistence.registry import (
    FORMAT,
    MAX_DEPTH,
    MAX_JSON_BYTES,
    MAY_BE_UNKNOWN,
    SCALARS,
    SPARSE,
    VERSION,
    ModelFileError,
    check_keys,
    check_size,
    check_text,
    check_values,
    is_part,
    type_of,
)

__all__ = ["load"]

MAX_BYTES = 2 << 30  # of a file that `load` opens unless told otherwise
MAX_MEMBERS = 100_000
# Exactly what NumPy writes for plain data. Its own reader would parse the header as Python source.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|][biufU][0-9]{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,15},? ?){0,8})\), \} *\n",
    re.DOTALL,
)
_MEMBER = re.compile(r"model\.json|sha256|(0|[1-9][0-9]{0,5})\.npy")


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
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, size)
            head = _head(archive, members)
            arrays = [_array(archive.read(f"{i}.npy"), digest) for i, digest in enumerate(head["arrays"])]
            return _Reader(arrays, _written_by_another(head)).decode(head["model"], "model", 0)
    except ModelFileError:
        raise
    except (
        zipfile.BadZipFile, EOFError, struct.error, RuntimeError, NotImplementedError, ArithmeticError, LookupError,
        TypeError, ValueError, AttributeError, MemoryError, ImportError,
    ) as error:  # fmt: skip
        raise ModelFileError(f"This is not an intact model file: {error or type(error).__name__}") from error


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
    check_size(text)
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


def _written_by_another(head: dict[str, Any]) -> bool:
    """Tell whether another version wrote the file: an argument that came later means its default then."""
    made_with = head.get("made_with")
    return isinstance(made_with, dict) and made_with.get("smaller") != version("smaller")


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
            "dtype": lambda content, field, depth: np.dtype(SCALARS[content]),
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
        return made


def _defaults(cls: type) -> dict[str, Any]:
    """Return the arguments of an estimator's constructor with their defaults."""
    arguments = inspect.signature(cls).parameters if issubclass(cls, BaseEstimator) else {}
    return {key: argument.default for key, argument in arguments.items()}


def _may_be_set(cls: type, key: str) -> bool:
    """Tell whether an attribute can be what a fit has learnt."""
    return key.isidentifier() and not key.startswith("__") and not hasattr(cls, key)


def _listed(content: Any, length: int | None = None) -> list[Any]:
    if not isinstance(content, list) or (length is not None and len(content) != length):
        raise ModelFileError("The model file holds a malformed value.")
    return content
