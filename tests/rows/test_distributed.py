"""Dask collections as rows, without processes: the bits of the same blocks in memory, and what is refused.

Real workers, and their deaths, are in tests/cluster.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.rows import test_files as files

from smaller.likelihoods import Multinomial
from smaller.rows import from_files
from smaller.rows.registry import rows_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("smaller.distributed")
shelves = pytest.importorskip("smaller.distributed.shelves")

X, LABELS, WEIGHT, D = files.X, files.LABELS, files.WEIGHT, files.D
COUNTS = (70, 1, 129, 0, 200, 60, 40, 100)  # unequal blocks, one of a row, one of none


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def arrays(X: Any = X, labels: Any = LABELS, counts: tuple[int, ...] = COUNTS) -> tuple[Any, Any, Any]:
    whole = da.from_array(X, chunks=(counts, -1), asarray=False)
    return whole, da.from_array(labels, chunks=170), da.from_array(WEIGHT, chunks=-1)  # y and weight are cut to match


@pytest.mark.parametrize("threads", [1, 2, 4, 64], ids=lambda threads: f"for {threads} threads")
def test_shelves_of_any_height_have_the_bits_of_blocks_in_memory(threads: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("smaller.distributed.rows._SHELVES_A_THREAD", 1)
    monkeypatch.setattr("smaller.distributed.crew.Crew.threads", lambda self: threads)
    monkeypatch.setattr("smaller.distributed.rows._ADDED_BY_ONE", 2)
    rows = rows_of(*arrays(), Multinomial)
    assert isinstance(rows, distributed.DaskRows)
    assert len(rows.shelves) == min(threads, len(COUNTS))
    assert list(rows.labels) == ["a", "b", "c"]
    files.assert_same_bits(rows, files.in_memory(COUNTS))
    view = rows.scaled(np.ones(D), np.full(D, 2.0)).take(np.arange(D))
    files.assert_same_bits(view, files.in_memory(COUNTS).scaled(np.ones(D), np.full(D, 2.0)))
    files.assert_same_bits(view, files.in_memory(COUNTS).scaled(np.ones(D), np.full(D, 2.0)))  # what a shelf remembers


def test_blocks_beyond_the_memory_are_read_for_every_question(monkeypatch: Any) -> None:
    monkeypatch.setattr("smaller.distributed.crew._HELD_SHARE", 0.0)
    reads = []

    def read(block: Any) -> Any:
        reads.append(len(block))
        return block

    whole, labels, weight = arrays()
    rows = rows_of(whole.map_blocks(read, dtype=X.dtype, meta=np.zeros((0, 0))), labels, weight, Multinomial)
    assert rows is not None
    files.assert_same_bits(rows, files.in_memory(COUNTS))
    assert len(reads) >= 2 * len(COUNTS)
    assert len(rows.shelves) == len(COUNTS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("held", [0.5, 0.0], ids=["held", "read"])
@pytest.mark.parametrize("ending", files.FORMATS)
def test_files_on_shelves_have_the_bits_of_blocks_in_memory(
    tmp_path_factory: Any, ending: str, held: float, monkeypatch: Any, folder: Path
) -> None:
    monkeypatch.setattr("smaller.distributed.crew._HELD_SHARE", held)
    monkeypatch.setattr("smaller.distributed.crew.Crew.threads", lambda self: 1)
    data = from_files(files.pattern(folder, ending), block_mb=files.BLOCK_MB, **files.FORMATS[ending])
    rows = distributed.spread(data).__smaller_rows__(Multinomial)
    assert len(rows.shelves) > 1
    stored = sparse.csc_array(X) if ending.startswith("sparse") else X
    files.assert_same_bits(rows, files.in_memory(data.counts, stored))


folder = files.folder


def test_dataframes_and_sparse_chunks_are_rows() -> None:
    spans = list(pairwise(np.cumsum([0, *COUNTS])))
    frame = dd.from_map(lambda span: files.frame()[slice(*span)], spans)
    names = [f"f{j}" for j in range(D)]
    rows = rows_of(frame[names], frame["y"], frame["c"], Multinomial)
    assert rows is not None
    assert list(rows.features) == names  # type: ignore[arg-type]
    files.assert_same_bits(rows, files.in_memory(COUNTS))
    whole, labels, weight = arrays()
    entries = whole.map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))
    rows = rows_of(entries, labels, weight, Multinomial)
    assert rows is not None
    files.assert_same_bits(rows, files.in_memory(COUNTS, sparse.csc_array(X)))


def test_outputs_stay_where_the_rows_are() -> None:
    rows = rows_of(*arrays(), Multinomial)
    assert rows is not None
    here = files.places()[0]
    eta = rows.outputs(here)
    assert isinstance(eta, da.Array)
    assert np.array_equal(eta.compute(), files.in_memory(COUNTS).outputs(here))


def test_a_shelf_tells_its_size_and_travels_as_a_recipe(folder: Path) -> None:
    data = from_files(files.pattern(folder, "npy"), block_mb=files.BLOCK_MB, **files.FORMATS["npy"])
    source = data.source(Multinomial(3))
    here = files.places()[0]
    question = files_question("at", [here])
    held = shelves.FileShelf(source.section(2, 6), 2, True)
    answer = held.answer(question)
    assert sys.getsizeof(held) > sum(data.counts[2:6]) * D * 8
    recipe = pickle.dumps(held)
    assert len(recipe) < 20_000
    again = pickle.loads(recipe).answer(question)
    assert np.array_equal(again[0].G, answer[0].G)
    memory = shelves.Shelf(2, list(source.blocks(2, 6)))
    assert sys.getsizeof(memory) > sum(data.counts[2:6]) * D * 8
    copy = pickle.loads(pickle.dumps(memory))
    for shelf in (memory, copy):
        assert np.array_equal(shelf.answer(question)[0].G, answer[0].G)


def files_question(name: str, *arguments: Any) -> Any:
    from smaller.rows.gathered import Question

    return Question(name, arguments)


def test_what_cannot_be_used_is_refused_by_a_sentence() -> None:
    whole, labels, weight = arrays()
    with pytest.raises(ValueError, match="chunked by columns"):
        rows_of(whole.rechunk({1: 2}), labels, None, Multinomial)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        rows_of(whole[whole[:, 0] > 0], labels, None, Multinomial)
    with pytest.raises(ValueError, match="y is missing"):
        rows_of(whole, None, None, Multinomial)
    with pytest.raises(ValueError, match="599 entries"):
        rows_of(whole, labels[:-1], None, Multinomial)
    with pytest.raises(ValueError, match="must hold numbers"):
        rows_of(whole.astype(str), labels, None, Multinomial)
    with pytest.raises(ValueError, match="sample_weight must hold"):
        rows_of(whole, labels, weight - 1.0, Multinomial)
    broken = X.copy()
    broken[300, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in column 3"):
        rows_of(arrays(broken)[0], labels, None, Multinomial)
    mixed = LABELS.astype(object)
    mixed[5] = 1
    with pytest.raises(ValueError, match="mixes text with numbers"):
        rows_of(whole, da.from_array(mixed, chunks=-1), None, Multinomial)
    mixed[:200] = 1  # the first three blocks
    with pytest.raises(ValueError, match="numbers in others"):
        rows_of(whole, da.from_array(mixed, chunks=-1), None, Multinomial)
    missing = np.where(LABELS == "a", np.nan, 1.0)
    with pytest.raises(ValueError, match="y contains NaN"):
        rows_of(whole, da.from_array(missing, chunks=170), None, Multinomial)
    with pytest.raises(ValueError, match="more than 1000 distinct"):
        rows_of(da.zeros((2000, 1), chunks=500), da.arange(2000, chunks=500), None, Multinomial)
    frame = dd.from_pandas(files.frame(), npartitions=3)
    with pytest.raises(ValueError, match="Column 'y' of X"):
        rows_of(frame, frame["y"], None, Multinomial)
    with pytest.raises(ValueError, match="3 partitions, X has 8"):
        rows_of(whole, frame["y"], None, Multinomial)
