"""A data set larger than the memory allowed, fitted from files by one process: certified, timed, its peak measured."""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_BLOCK = 100_000  # rows written at a time
_COLUMNS = 100


def make(folder: Path, gigabytes: float) -> tuple[Path, Path]:
    """Write float32 features of three classes, ten of which matter, and their labels."""
    folder.mkdir(parents=True, exist_ok=True)
    n = int(gigabytes * 1e9 / (4 * _COLUMNS))
    features, labels = folder / f"X-{n}.npy", folder / f"y-{n}.npy"
    if labels.exists():
        return features, labels
    rng = np.random.default_rng(0)
    w = rng.standard_normal((10, 3)).astype(np.float32)
    X = np.lib.format.open_memmap(features, mode="w+", dtype=np.float32, shape=(n, _COLUMNS))
    y = np.empty(n, dtype=np.int8)
    for start in range(0, n, _BLOCK):
        block = rng.standard_normal((min(_BLOCK, n - start), _COLUMNS), dtype=np.float32)
        X[start : start + len(block)] = block
        y[start : start + len(block)] = (block[:, :10] @ w + rng.gumbel(size=(len(block), 3))).argmax(axis=1)
    X.flush()
    np.save(labels, y)
    return features, labels


def fit(features: str, labels: str, share: float) -> None:
    """Fit in this process, whose address space is limited, and print what it took."""
    from smaller import SMLR
    from smaller.rows import from_files

    start = time.perf_counter()
    model = SMLR(alpha=share, alpha_scale="max").fit(from_files(features, target=np.load(labels, mmap_mode="r")))
    wall = time.perf_counter() - start
    solution = model.solution_
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e6  # type: ignore[index]
    size = os.path.getsize(features) / 1e9
    print(
        f"{size:.2f} GB on disk: {solution.status.name}, gap {solution.gap / solution.scale:.1e} of the null loss, "
        f"{len(model.active_features_)} features, {wall:.1f} s wall, {time.process_time():.1f} s cpu, "
        f"most memory held {peak:.2f} GB"
    )


def read(path: Path, chunk: int = 1 << 24) -> float:
    """Return how fast a file can be read in this way, in GB/s, once dropped from the system's cache where allowed."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        while file.read(chunk):
            pass
    return path.stat().st_size / (time.perf_counter() - start) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.beyond_memory", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=6.5)
    parser.add_argument("--allowed", type=float, default=2.0, help="gigabytes of address space")
    parser.add_argument("--share", type=float, default=0.01, help="of the strength that zeroes every weight")
    parser.add_argument("--folder", type=Path, default=Path("build/beyond-memory"))
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fit:
        limit = int(asked.allowed * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        fit(*asked.fit, asked.share)
        return
    files = make(asked.folder, asked.gigabytes)
    print(f"bare reading: {read(files[0]):.2f} GB/s", flush=True)
    options = ["--allowed", str(asked.allowed), "--share", str(asked.share), "--fit", *map(str, files)]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.cluster.beyond_memory", *options]
    subprocess.run(command, check=True, env=os.environ | one_thread)


if __name__ == "__main__":
    main()
