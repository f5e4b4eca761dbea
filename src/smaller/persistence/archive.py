"""The archive around a model: members, digests and arrays, each checked before it is believed."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zipfile
from typing import Any, BinaryIO, NoReturn

import numpy as np

from smaller.persistence.registry import FORMAT, MAX_JSON_BYTES, VERSION, ModelFileError, check_size

__all__ = ["read_archive"]

MAX_MEMBERS = 100_000
# Exactly what NumPy writes for plain data. Its own reader would parse the header as Python source.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|][biufU][0-9]{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,15},? ?){0,8})\), \} *\n",
    re.DOTALL,
)
_MEMBER = re.compile(r"model\.json|sha256|(0|[1-9][0-9]{0,5})\.npy")


def read_archive(file: BinaryIO, size: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return model.json and the arrays of a file of ``size`` bytes."""
    with zipfile.ZipFile(file) as archive:
        members = _members(archive, size)
        head = _head(archive, members)
        return head, [_array(archive.read(f"{i}.npy"), digest) for i, digest in enumerate(head["arrays"])]


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
