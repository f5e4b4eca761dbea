"""Rows on a real cluster: workers in processes of their own, which are killed, put to sleep, and short of memory.

Not part of `make test`: `make test-real ONLY=cluster` runs it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smaller import SMLR, SMLRCV
from smaller.rows import from_files

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
shelves = pytest.importorskip("smaller.distributed")

pytestmark = pytest.mark.cluster

N, D = 120_000, 20
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, D)).astype(np.float32)
LABELS = np.array(["a", "b", "c"])[(X[:, :3] + RNG.standard_normal((N, 3))).argmax(axis=1)]
COUNTS = (30_000, 1, 20_000, 0, 9_999, 40_000, 20_000)  # unequal blocks, one of a row, one of none


def model(**options: Any) -> SMLR:
    return SMLR(alpha=100.0, tol=1e-9, **options)


@contextlib.contextmanager
def workers(count: int, **options: Any) -> Iterator[Any]:
    """Yield the client of a cluster whose workers are processes, watched over by nannies."""
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "processes": True} | options
    with distributed.LocalCluster(n_workers=count, **settings) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    here = tmp_path_factory.mktemp("cluster")
    np.save(here / "X.npy", X)
    return here


@pytest.fixture(scope="module")
def files(folder: Path) -> Any:
    return from_files(folder / "X.npy", target=LABELS, block_mb=0.5)


@pytest.fixture(scope="module")
def expected(files: Any) -> SMLR:
    return model().fit(files)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with workers(2) as found:
        yield found


def assert_same_bits(found: SMLR, wanted: SMLR) -> None:
    assert found.solution_.converged
    assert np.array_equal(found.coef_, wanted.coef_)
    assert np.array_equal(found.intercept_, wanted.intercept_)
    assert found.solution_.gap == wanted.solution_.gap


def slow(pause: float) -> Any:
    """Return the rows as chunks that take their time whenever they are read."""

    def read(block: Any) -> Any:
        time.sleep(pause)
        return block

    return da.from_array(X, chunks=(COUNTS, -1)).map_blocks(read, dtype=X.dtype, meta=np.zeros((0, 0), X.dtype))


def holders(client: Any, word: str) -> list[str]:
    """Return the workers that hold results of tasks of a kind."""
    held = client.who_has()
    return [worker for key, at in held.items() if word in str(key) for worker in at]


def strike(client: Any, signal_number: int, when: Callable[[], list[str]]) -> tuple[threading.Thread, list[str]]:
    """Send a signal to the first worker that ``when`` names, as soon as it names one."""
    pids, hit = client.run(os.getpid), list[str]()

    def wait() -> None:
        while not hit:
            for worker in when():
                if worker in pids:
                    os.kill(pids[worker], signal_number)
                    hit.append(worker)
                    return
            time.sleep(0.005)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread, hit


@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_workers_gives_the_same_bits(count: int, files: Any, expected: SMLR) -> None:
    with workers(count):
        assert_same_bits(model().fit(shelves.spread(files)), expected)


@pytest.mark.parametrize("a_thread", [100, 3, 1], ids=["a block a shelf", "a few", "many"])
def test_shelves_of_any_height_give_the_same_bits(
    a_thread: int, files: Any, expected: SMLR, client: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("smaller.distributed.rows._SHELVES_A_THREAD", a_thread)
    assert_same_bits(model().fit(shelves.spread(files)), expected)


@pytest.fixture(scope="module")
def in_blocks() -> SMLR:
    with dask.config.set(scheduler="synchronous"):
        return model().fit(da.from_array(X, chunks=(COUNTS, -1)), da.from_array(LABELS, chunks=(COUNTS,)))


@pytest.mark.parametrize("whom", ["an idle worker", "a worker in a round", "the worker with the question"])
def test_a_killed_worker_changes_nothing(whom: str, in_blocks: SMLR, monkeypatch: Any) -> None:
    monkeypatch.setattr("smaller.distributed.crew._HELD_SHARE", 0.0)  # every question reads again
    with workers(3 if whom == "an idle worker" else 2) as client:

        def when() -> list[str]:
            if whom == "an idle worker":
                busy = {worker for worker, keys in client.processing().items() if keys}
                return [worker for worker in client.nthreads() if worker not in busy] if busy else []
            if whom == "a worker in a round":
                return [worker for worker, keys in client.processing().items() if any("-at-" in str(k) for k in keys)]
            return holders(client, "smaller-question")

        thread, hit = strike(client, signal.SIGKILL, when)
        found = model().fit(slow(0.05), da.from_array(LABELS, chunks=(COUNTS,)))
        thread.join(timeout=1.0)
        assert hit, "nobody was killed"
        assert_same_bits(found, in_blocks)


def test_a_worker_asleep_is_waited_for(in_blocks: SMLR, monkeypatch: Any) -> None:
    monkeypatch.setattr("smaller.distributed.crew._HELD_SHARE", 0.0)
    with workers(2) as client:
        pids = client.run(os.getpid)
        thread, hit = strike(
            client, signal.SIGSTOP, lambda: [w for w, keys in client.processing().items() if "-at-" in str(keys)]
        )

        def wake() -> None:
            thread.join()
            time.sleep(5.0)
            os.kill(pids[hit[0]], signal.SIGCONT)

        threading.Thread(target=wake, daemon=True).start()
        found = model().fit(slow(0.05), da.from_array(LABELS, chunks=(COUNTS,)))
        assert hit
        assert_same_bits(found, in_blocks)


def test_workers_with_less_memory_than_the_data_read_them_again(tmp_path: Path) -> None:
    n, d, limit = 1_200_000, 100, 400 * 2**20
    rng = np.random.default_rng(1)
    whole = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=(n, d))
    labels = np.empty(n, dtype=np.int64)
    for start in range(0, n, 100_000):
        block = rng.standard_normal((100_000, d), dtype=np.float32)
        whole[start : start + 100_000] = block
        labels[start : start + 100_000] = block[:, 0] + rng.standard_normal(100_000) > 0
    whole.flush()
    size = whole.nbytes
    del whole
    assert size > limit
    data = from_files(tmp_path / "X.npy", target=labels, block_mb=8)
    with workers(1, memory_limit=limit) as client:
        found = SMLR(alpha=500.0).fit(shelves.spread(data))
        assert found.solution_.converged
        [peak] = client.run(_peak).values()
        assert peak < limit
    again = SMLR(alpha=500.0).fit(data)
    assert np.array_equal(found.coef_, again.coef_)


def _peak() -> int:
    """Return the most memory that this process has held, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def test_no_workers_left_ends_in_an_error(files: Any) -> None:
    with workers(1) as client, dask.config.set({"smaller.no-workers-timeout": "2s"}):
        data = shelves.spread(files)
        rows = model().fit(data)
        client.cluster.scale(0)
        deadline = time.monotonic() + 30.0
        while client.nthreads() and time.monotonic() < deadline:
            time.sleep(0.05)
        before = dict(vars(rows))
        with pytest.raises(RuntimeError, match="no workers for 2 s"):
            rows.fit(data)
        assert vars(rows) == before


def test_ctrl_c_takes_the_round_back_and_leaves_the_cluster_usable(files: Any, expected: SMLR) -> None:
    with workers(2) as client:

        def interrupt() -> None:
            while not any("-at-" in str(keys) for keys in client.processing().values()):
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGINT)

        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Thread(target=interrupt, daemon=True).start()
            with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler=client):
                model().fit(slow(0.3), da.from_array(LABELS, chunks=(COUNTS,)))
        finally:
            signal.signal(signal.SIGINT, handler)
        deadline = time.monotonic() + 10.0
        while any("-at-" in str(keys) for keys in client.processing().values()):
            assert time.monotonic() < deadline, "the round is still going on"
            time.sleep(0.05)
        assert_same_bits(model().fit(shelves.spread(files)), expected)


def test_two_fits_at_once_do_not_meet(files: Any, expected: SMLR, client: Any) -> None:
    found: list[SMLR] = []
    data = shelves.spread(files, client)
    threads = [threading.Thread(target=lambda: found.append(model().fit(data))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for one in found:
        assert_same_bits(one, expected)


def test_blocks_without_some_classes_or_weight_and_a_bad_column_are_told_apart(client: Any) -> None:
    order = np.argsort(LABELS, kind="stable")  # every block lacks classes
    weight = np.ones(N)
    weight[:30_000] = 0.0  # a block without weight
    sorted_rows = da.from_array(X[order], chunks=(COUNTS, -1))
    target, weights = da.from_array(LABELS[order], chunks=(COUNTS,)), da.from_array(weight, chunks=(COUNTS,))
    found = model().fit(sorted_rows, target, weights)
    local = model().fit(X[order], LABELS[order], weight)
    assert found.solution_.objective == pytest.approx(local.solution_.objective, abs=2e-9 * local.solution_.scale)
    broken = X.copy()
    broken[100_000, 7] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in column 7"):
        model().fit(da.from_array(broken, chunks=(COUNTS, -1)), da.from_array(LABELS, chunks=(COUNTS,)))


def test_cross_validation_and_predictions_stay_on_the_cluster(files: Any, client: Any) -> None:
    chosen = SMLRCV(alphas=5, eps=1e-3, cv=3).fit(shelves.spread(files))
    local = SMLRCV(alphas=5, eps=1e-3, cv=3).fit(files)
    assert np.array_equal(chosen.scores_, local.scores_)
    assert np.array_equal(chosen.coef_, local.coef_)
    proba = chosen.predict_proba(da.from_array(X, chunks=(COUNTS, -1)))
    assert np.allclose(proba.compute(), chosen.predict_proba(X), rtol=0, atol=1e-12)
