"""Files of every format give the bits of the same blocks in memory; what cannot be read is refused by a sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.rows.fakes import ROUNDS

from smaller.arrays import Array
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.rows import Blocks, Fold, HostRows, Place, Rows, from_files
from smaller.rows.blocks import Tree, tree_sum
from smaller.rows.reading import ahead

N, D, CUTS = 600, 5, [0, 200, 201, 460, 600]  # rows, columns, and where one file ends and the next begins
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.7)
LABELS = np.array(["b", "a", "c"])[RNG.integers(0, 3, N)]
WEIGHT = RNG.random(N) * (RNG.random(N) < 0.8)
CLASSES = np.array(["a", "b", "c"])
BLOCK_MB = 70 * D * 8 / 2**20  # 70 rows
FORMATS: dict[str, dict[str, Any]] = {
    "parquet": {"target": "y", "weight": "c"},
    "csv": {"target": "y", "weight": "c"},
    "npy": {"target": LABELS, "weight": WEIGHT},
    "npz": {"target": "y", "weight": "c"},
    "sparse.npz": {"target": LABELS, "weight": WEIGHT},
}


def frame() -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(D)]).assign(y=LABELS, c=WEIGHT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    for i, (a, b) in enumerate(pairwise(CUTS)):
        part = frame()[a:b]
        part.to_parquet(path / f"{i}.parquet", row_group_size=90)
        part.to_csv(path / f"{i}.csv", index=False)
        np.save(path / f"{i}.npy", X[a:b] if i else np.asfortranarray(X[a:b]))
        np.savez(path / f"{i}.npz", X=X[a:b], y=LABELS[a:b], c=WEIGHT[a:b])
        (path / "sparse").mkdir(exist_ok=True)
        sparse.save_npz(path / "sparse" / f"{i}.npz", sparse.csr_array(X[a:b]))
    return path


def pattern(folder: Path, ending: str) -> str:
    return str(folder / "sparse" / "*.npz") if ending == "sparse.npz" else str(folder / f"*.{ending}")


def in_memory(counts: tuple[int, ...], X: Any = X) -> Blocks:
    likelihood = Multinomial(3)
    y = likelihood.encode(np.searchsorted(CLASSES, LABELS))
    whole = HostRows(as_design(X), y, WEIGHT, likelihood, labels=CLASSES)
    edges = np.cumsum([0, *counts])
    return Blocks(tuple(whole.subset(np.arange(a, b)) for a, b in pairwise(edges)))


def places() -> tuple[Place, Place]:
    rng = np.random.default_rng(1)
    w = rng.standard_normal((D, 3))
    w[2] = 0.0
    return Place.of(w, rng.standard_normal(3)), Place.of(0.5 * w, np.zeros(3), Fold(1, 3))


def answers(rows: Rows) -> Iterator[tuple[str, list[Array]]]:
    """Yield the answer to every question, as plain arrays."""
    here, there = places()
    coordinates = (np.arange(D + 1), np.zeros(D + 1, dtype=np.int64))
    totals = rows.totals()
    asked: dict[str, tuple[Any, ...]] = {
        "at": ([here, there],),
        "line": (here, there, np.array([0.25, 1.0])),
        "dual": (here, 0.3),
        "squares": (there,),
        "hessian": (here, coordinates),
        "outputs": (there,),
        "curve": (here, there),
    }
    yield "totals", [np.asarray(value) for value in vars(totals).values()]
    for name, arguments in asked.items():
        answer = getattr(rows, name)(*arguments)
        parts = [part for reply in answer for part in reply] if name == "at" else answer
        yield name, [np.asarray(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
    sample = rows.sample(100, totals, 3)
    matrix = sample.design.matrix
    yield "sample", [matrix.toarray() if sparse.issparse(matrix) else matrix, sample.y, sample.weight]


def assert_same_bits(mine: Rows, theirs: Rows) -> None:
    for (name, ours), (_, expected) in zip(answers(mine), answers(theirs), strict=True):
        for a, b in zip(ours, expected, strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


@pytest.mark.parametrize("ending", FORMATS)
def test_files_answer_with_the_bits_of_blocks_in_memory(folder: Path, ending: str) -> None:
    data = from_files(pattern(folder, ending), block_mb=BLOCK_MB, **FORMATS[ending])
    assert data.shape == (N, D)
    assert data.classes.tolist() == list(CLASSES)
    rows = data.__smaller_rows__(Multinomial)
    blocks = in_memory(data.counts, sparse.csc_array(X) if ending.startswith("sparse") else X)
    assert len(data.counts) > 3
    assert list(rows.labels) == list(CLASSES)  # type: ignore[arg-type]
    assert (rows.features is None) == ("np" in ending)
    assert set(ROUNDS) | {"curve"} == {name for name, _ in answers(rows)}
    assert_same_bits(rows, blocks)
    index = np.array([3, 199, 200, 430, 599])
    factors = np.random.default_rng(2).random(N)
    views = [
        lambda r: r.scaled(np.arange(D) * 0.1, np.arange(1.0, D + 1.0)),
        lambda r: r.weighted(factors).take(np.arange(D)),
        lambda r: r.subset(Fold(0, 2)),
        lambda r: r.with_likelihood(Multinomial(3)),
    ]
    for view in views:
        assert view(rows).n_rows == view(blocks).n_rows
        assert_same_bits(view(rows), view(blocks))
    here = places()[0]
    assert np.array_equal(rows.subset(index).outputs(here), blocks.subset(index).outputs(here))
    assert np.array_equal(
        rows.subset(Fold(0, 2)).subset(np.array([0, 40])).outputs(here),
        blocks.subset(Fold(0, 2)).subset(np.array([0, 40])).outputs(here),
    )


def test_prediction_data_need_no_labels(folder: Path) -> None:
    data = from_files(pattern(folder, "parquet"), columns=["f3", "f0"], block_mb=BLOCK_MB)
    assert np.array_equal(np.vstack(list(data.blocks())), X[:, [3, 0]])
    with pytest.raises(ValueError, match="where the labels are"):
        data.__smaller_rows__(Multinomial)


def test_small_numbers_are_stored_in_float32(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.arange(4, dtype=np.int16), "b": [True, False, True, True], "y": [0, 1, 0, 1]}).to_parquet(
        tmp_path / "narrow.parquet"
    )
    np.save(tmp_path / "wide.npy", np.arange(8).reshape(4, 2))
    assert from_files(tmp_path / "narrow.parquet", target="y").reader.dtype == np.float32
    data = from_files(tmp_path / "wide.npy", target=1)
    assert data.reader.dtype == np.float64
    assert data.shape == (4, 1)
    assert data.classes.tolist() == [1, 3, 5, 7]


def write(path: Path, **columns: Any) -> Path:
    frame = pd.DataFrame(columns)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_cannot_be_used_is_named(tmp_path: Path, ending: str) -> None:
    good: dict[str, Any] = {"a": [1.0, 2.0, 3.0], "b": [1.0, 0.0, 2.0], "y": ["u", "v", "u"]}
    path = write(tmp_path / f"t.{ending}", **good)
    with pytest.raises(ValueError, match="no column 'z'"):
        from_files(path, target="z")
    with pytest.raises(ValueError, match="must not name 'y'"):
        from_files(path, target="y", columns=["a", "y"])
    with pytest.raises(ValueError, match=r"Column 'y' of .* not numbers"):
        from_files(path)
    with pytest.raises(ValueError, match="2 entries, but the files have 3 rows"):
        from_files(path, target=[0, 1], columns=["a"])
    with pytest.raises(ValueError, match="'v' is not among the classes"):
        from_files(path, target="y", classes=["u", "w"]).__smaller_rows__(Multinomial)
    broken = write(tmp_path / f"broken.{ending}", **(good | {"b": [1.0, np.nan, 2.0]}))
    with pytest.raises(ValueError, match="NaN or infinity in column 'b'"):
        from_files(broken, target="y").__smaller_rows__(Multinomial)
    missing = write(tmp_path / f"missing.{ending}", **(good | {"y": [1.0, np.nan, 2.0]}))
    with pytest.raises(ValueError, match="missing labels"):
        _ = from_files(missing, target="y").classes
    negative = write(tmp_path / f"negative.{ending}", **good, c=[1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="weight must hold"):
        from_files(negative, target="y", weight="c").__smaller_rows__(Multinomial)
    numbers = write(tmp_path / f"numbers.{ending}", **(good | {"y": [1, 2, 1]}))
    with pytest.raises(ValueError, match=r"all\s+numbers or all text|make them all text"):
        _ = from_files([path, numbers], target="y").classes


def test_patterns_and_formats_are_checked(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none of that pattern"):
        from_files(tmp_path / "*.parquet")
    with pytest.raises(ValueError, match="must all end in one of"):
        from_files([folder / "0.npy", folder / "0.csv"])
    with pytest.raises(ValueError, match="block_mb"):
        from_files(folder / "0.npy", block_mb=0)
    np.save(tmp_path / "vector.npy", np.arange(3.0))
    with pytest.raises(ValueError, match="must hold a matrix"):
        from_files(tmp_path / "vector.npy")
    whole = (folder / "2.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="shorter than its header"):
        list(from_files(tmp_path / "short.npy").blocks())


def test_one_block_is_read_ahead_and_errors_arrive() -> None:
    read: list[int] = []
    go = threading.Event()

    def blocks() -> Iterator[int]:
        for number in range(4):
            read.append(number)
            yield number
            go.set()
        raise OSError("disk")

    walk = ahead(blocks())
    assert next(walk) == 0
    assert next(walk) == 1
    go.wait(5.0)
    assert read[-1] <= 2  # one ahead, not more
    with pytest.raises(OSError, match="disk"):
        list(walk)


def test_the_growing_tree_is_the_tree() -> None:
    parts = list(np.random.default_rng(0).standard_normal(37))
    for count in range(1, 38):
        tree = Tree(lambda a, b: a + b)
        for part in parts[:count]:
            tree.append(part)
        assert tree.total() == tree_sum(parts[:count], lambda a, b: a + b)
