"""Fuzz the model reader: `python -m tests.fuzz_model [SECONDS]` (600 by default); any crash is an uncaught exception.

Files are mutated on two levels: raw bytes, and the tree in model.json with its checksums put right again, so that the
mutations reach the decoder and not only the checksum.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import logging
import random
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from smaller import SMLR
from smaller.persistence import ModelFileError, load, save

SCALARS = [None, True, 0, -1, 3, 2**31, 10**30, 0.5, -1e308, "", "coef_", "rbf", "nan", "a\x00b"]
KINDS = ["array", "strings", "scalar", "sparse", "enum", "dict", "list", "tuple", "float", "object", "state"]
TYPES = ["smaller.problem.Status", "smaller.bases.Kernel", "smaller.bases.Linear", "sklearn.pipeline.Pipeline", "os.x"]


@functools.cache
def valid_file() -> bytes:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.smaller"
        save(SMLR(kernel=None, class_weight={0: 1.0, 1: 2.0}).fit(X, (X[:, 0] > 0).astype(int)), path)
        return path.read_bytes()


def mutate(draw: Callable[[Any], Any]) -> bytes:
    """Return a damaged file; ``draw`` picks from hypothesis strategies."""
    if draw(st.booleans()):
        return _mutated_bytes(draw)
    with zipfile.ZipFile(io.BytesIO(valid_file())) as archive:
        head = json.loads(archive.read("model.json"))
        arrays = [archive.read(f"{i}.npy") for i in range(len(head["arrays"]))]
    for _ in range(draw(st.integers(1, 3))):
        head = _mutated_tree(head, draw)
    if draw(st.booleans()):
        index = draw(st.integers(0, len(arrays) - 1))
        array = bytearray(arrays[index])
        array[draw(st.integers(0, len(array) - 1))] = draw(st.integers(0, 255))
        arrays[index] = bytes(array)
    if isinstance(head, dict) and draw(st.booleans()):
        head["arrays"] = [hashlib.sha256(data).hexdigest() for data in arrays]
    text = json.dumps(head).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model.json", text)
        archive.writestr("sha256", hashlib.sha256(text).hexdigest())
        for i, data in enumerate(arrays):
            archive.writestr(f"{i}.npy", data)
    return buffer.getvalue()


def _mutated_bytes(draw: Callable[[Any], Any]) -> bytes:
    content = bytearray(valid_file())
    for _ in range(draw(st.integers(1, 8))):
        position = draw(st.integers(0, len(content) - 1))
        kind = draw(st.sampled_from(["set", "cut", "insert", "repeat"]))
        if kind == "set":
            content[position] = draw(st.integers(0, 255))
        elif kind == "cut":
            del content[position : position + draw(st.integers(1, 40))]
        elif kind == "insert":
            content[position:position] = draw(st.binary(min_size=1, max_size=20))
        else:
            content[position:position] = content[position : position + 30]
    return bytes(content)


def _mutated_tree(node: Any, draw: Callable[[Any], Any]) -> Any:
    """Replace, remove or add one thing somewhere in the tree."""
    if isinstance(node, dict) and node and draw(st.integers(0, 9)) > 0:
        key = draw(st.sampled_from(sorted(node)))
        action = draw(st.sampled_from(["into", "into", "into", "remove", "rename", "add"]))
        changed = dict(node)
        if action == "into":
            changed[key] = _mutated_tree(node[key], draw)
        elif action == "add":
            changed[draw(st.sampled_from(KINDS))] = draw(st.sampled_from(SCALARS))
        else:
            value = changed.pop(key)
            if action == "rename":
                changed[draw(st.sampled_from([*KINDS, "coef_", "predict", "__class__"]))] = value
        return changed
    if isinstance(node, list) and node and draw(st.integers(0, 9)) > 0:
        index = draw(st.integers(0, len(node) - 1))
        return [*node[:index], _mutated_tree(node[index], draw), *node[index + 1 :]]
    if draw(st.booleans()):
        return draw(st.sampled_from([*SCALARS, *TYPES]))
    return {draw(st.sampled_from(KINDS)): draw(st.sampled_from([[], [1, 2], ["float64", 1.0], *SCALARS]))}


class _Random:
    """Draws from the few strategies used above by a plain generator: thousands of files a second."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, strategy: Any) -> Any:
        wrapped = getattr(strategy, "wrapped_strategy", strategy)
        name = type(wrapped).__name__
        if name == "BooleansStrategy":
            return self.random.random() < 0.5
        if name == "IntegersStrategy":
            return self.random.randint(wrapped.start, wrapped.end)
        if name == "BytesStrategy":
            return self.random.randbytes(self.random.randint(1, 20))
        return self.random.choice(list(wrapped.elements))


def main(seconds: float) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    start, count, read, draw = time.monotonic(), 0, 0, _Random(int(time.time()))
    probe = np.zeros((1, 2))
    while time.monotonic() - start < seconds:
        content = mutate(draw)
        count += 1
        try:
            model = load(io.BytesIO(content))
        except ModelFileError:
            continue
        except BaseException:
            Path("crash.smaller").write_bytes(content)
            logging.exception("crash after %d files: the file is crash.smaller", count)
            return 1
        read += 1
        assert not callable(model), probe
    logging.info("%d files in %.0f s, %d readable, no crash", count, time.monotonic() - start, read)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0))
