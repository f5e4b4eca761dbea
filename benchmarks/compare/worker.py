"""Measures one library on one problem, in the library's own environment:

python -m benchmarks.compare.worker LIBRARY problem.npz job.json result.json

Climbs the library's ladder of tolerances, each rung from a cold start, and writes after every rung.
"""

import json
import resource
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.sparse as sp

from .libraries import LADDER, LIBRARIES, Library, Timed
from .problems import Problem
from .referee import judge

# No finer tolerance is tried below this relative suboptimality; while the optimum is unknown, below this gap.
ENOUGH, ENOUGH_GAP = 1e-7, 1e-9
CERTIFIER = "smaller"  # goes on to the small gap: what is optimal is known from its duals
REPEATS, REPEAT_SECONDS = 5, 1.0
SHORT = 0.1  # seconds: shorter runs are timed several in a row, since CPU clocks tick in milliseconds


def timed(solve, tol: float) -> Timed:
    """Minimum over several runs; slow solvers run once."""
    began = time.perf_counter()
    result = solve(tol)
    if isinstance(result, Timed):
        return result
    batch = max(1, int(SHORT / (time.perf_counter() - began)))
    cpu, wall = [], []
    while not wall or (len(wall) < REPEATS and time.perf_counter() - began < REPEAT_SECONDS):
        start = time.perf_counter(), time.process_time()
        for _ in range(batch):
            result = solve(tol)
        wall.append((time.perf_counter() - start[0]) / batch)
        cpu.append((time.process_time() - start[1]) / batch)
    return Timed(result, min(cpu), min(wall))


def version(module: ModuleType, library: Library) -> str:
    """What a module says of itself, else its package's metadata."""
    return module.version() if hasattr(module, "version") else f"{library.package} {metadata.version(library.package)}"


def limit_cpu(seconds: float) -> None:
    """End this process, or its child R, after that much CPU time: fair on a busy machine too."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


def climb(name: str, problem: Problem, job: dict, out: Path) -> None:
    """Rung after rung until optimal enough or out of time."""
    library = LIBRARIES[name]
    module = import_module(f".libraries.{library.module}", __package__)
    alphas, best = np.array(job["alphas"]), job["optima"] and np.array(job["optima"])
    solve = module.prepare(problem, alphas, job["threads"], library.variant)
    ladder = getattr(module, "TOLERANCES", LADDER)
    first = time.perf_counter()
    solve(ladder[0])  # warm-up: just-in-time compilation, page faults
    record = {"warm_up": time.perf_counter() - first, "version": version(module, library), "rungs": []}
    spent = 0.0
    limit_cpu(job["limit"])
    for tol in ladder:
        if spent > job["limit"]:
            return
        pairs, cpu, wall = timed(solve, tol)
        spent += cpu
        verdicts = [judge(problem, a, *pair, library.objective) for a, pair in zip(alphas, pairs, strict=True)]
        F, D = np.array(verdicts).T
        nonzero = [int(np.count_nonzero(W.data if sp.issparse(W) else W)) for W, _ in pairs]
        rung = {"tol": tol, "cpu": cpu, "wall": wall, "F": F.tolist(), "D": D.tolist(), "nonzero": nonzero}
        record["rungs"].append(rung)
        out.write_text(json.dumps(record))
        near = best is not None and name != CERTIFIER and np.all(F - best <= ENOUGH * F)
        if near or np.all(F - D <= ENOUGH_GAP * F):
            break
    out.write_text(json.dumps({**record, "finished": True}))


if __name__ == "__main__":
    name, data, job, out = sys.argv[1:]
    climb(name, Problem.load(Path(data)), json.loads(Path(job).read_text()), Path(out))
