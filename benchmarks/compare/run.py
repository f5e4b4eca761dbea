"""Runs libraries on problems, one subprocess each, and keeps every record in .cache/compare."""

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import problems
from .libraries import LIBRARIES, Library
from .referee import alpha_max

CACHE = Path(".cache/compare")
ROOT = Path(__file__).parents[2]
CERTIFIED = 1e-8  # optima known this well are handed to later runs, so that they stop in time
PATH_LENGTH = 100
PATIENCE = 8  # wall-clock seconds allowed per CPU second of the limit, for busy machines
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One problem at one fraction of alpha_max, or the whole path down to it."""

    problem: str
    fraction: float
    path: bool = False

    @property
    def key(self) -> str:
        return f"{self.problem.replace('/', '_')}-{'path' if self.path else 'fit'}-{self.fraction:g}"

    def record_file(self, library: str, threads: int) -> Path:
        return CACHE / "records" / f"{self.key}-{library}-{threads}.json"

    def record(self, library: str, threads: int) -> dict | None:
        file = self.record_file(library, threads)
        return json.loads(file.read_text()) if file.exists() else None

    def alphas(self, largest: float) -> np.ndarray:
        if self.path:
            return np.geomspace(largest, self.fraction * largest, PATH_LENGTH)
        return np.array([self.fraction * largest])

    def bounds(self, libraries: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Best objective and best lower bound, per alpha, over all records of these libraries."""
        files = [f for name in libraries for f in self.record_file(name, 1).parent.glob(f"{self.key}-{name}-?.json")]
        rungs = [rung for f in files for rung in json.loads(f.read_text())["rungs"]]
        if not rungs:
            return np.array([np.inf]), np.array([-np.inf])
        return np.min([r["F"] for r in rungs], axis=0), np.max([r["D"] for r in rungs], axis=0)


def problem_file(name: str) -> tuple[Path, dict]:
    """The problem on disk, made once, and its size with alpha_max."""
    file = CACHE / "problems" / f"{name.replace('/', '_')}.npz"
    facts = file.with_suffix(".json")
    if not facts.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        problem = problems.make(name)
        problem.save(file)
        shape = dict(zip(("n", "d", "K"), (*problem.X.shape, problem.n_classes), strict=True))
        facts.write_text(json.dumps({**shape, "alpha_max": alpha_max(problem)}))
    return file, json.loads(facts.read_text())


def interpreter(library: Library) -> str:
    """Python of the library's environment; ours for "own"."""
    if library.environment == "own":
        return sys.executable
    return str(Path(os.environ.get("SMALLER_BENCH_ENVS", ".cache/bench-envs")) / library.environment / "bin" / "python")


def comparable(name: str, n_classes: int) -> list[str]:
    """Libraries that minimise the same function as `name`; with two classes the coding does not matter."""

    def kind(library: Library) -> tuple[str, str]:
        return ("binary" if n_classes == 2 else library.objective.coding, library.objective.intercept)

    return [other for other, library in LIBRARIES.items() if kind(library) == kind(LIBRARIES[name])]


def measure(task: Task, name: str, threads: int, limit: float) -> None:
    """Run one worker, about `limit` CPU seconds at most, and leave its record."""
    library, record = LIBRARIES[name], task.record_file(name, threads).absolute()
    file, facts = problem_file(task.problem)
    if (task.path and not library.path) or facts["d"] * facts["K"] > (library.max_weights or np.inf):
        return
    upper, lower = task.bounds(comparable(name, facts["K"]))
    known = bool(np.all(np.isfinite(upper)) and np.all(upper - lower <= CERTIFIED * upper))
    job = {"alphas": task.alphas(facts["alpha_max"]).tolist(), "optima": upper.tolist() if known else None}
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"rungs": [], "limit": limit}))
    job_file = record.with_suffix(".job")
    job_file.write_text(json.dumps({**job, "threads": threads, "limit": limit}))
    log.info("%s %s, %d threads", task.key, name, threads)
    worker = subprocess.Popen(
        [interpreter(library), "-m", f"{__package__}.worker", name, file.absolute(), job_file, record],
        cwd=ROOT, env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))},
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _, errors = worker.communicate(timeout=PATIENCE * limit)
        if worker.returncode > 0 and not json.loads(record.read_text())["rungs"]:
            log.warning("%s on %s failed: %s", name, task.key, errors.strip().splitlines()[-1:])
            record.write_text(json.dumps({"rungs": [], "failed": errors.strip().splitlines()[-1:]}))
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)  # with its children, R for one
        worker.communicate()
    job_file.unlink()


def run(tasks: list[Task], libraries: list[str], threads: list[int], limit: float, refresh: list[str]) -> None:
    """Measure what is not yet in the cache, or is to be measured anew."""
    for task in tasks:
        for count in threads:
            for name in libraries:
                if name in refresh or task.record(name, count) is None:
                    measure(task, name, count, limit)
