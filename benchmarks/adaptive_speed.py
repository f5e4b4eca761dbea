"""Speed of adaptive sparseness on one core: ``python -m benchmarks.adaptive_speed [--rvm PYTHON]``.

``--rvm`` names a Python interpreter that has sklearn-rvm; its machines are then timed on the same rows and widths.
Every time is the least of several runs, wall clock and processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.papers.datasets import load
from smaller.estimators.adaptive import SparseProbit, SparseRegressor

RVM = """
import json, sys, time, warnings
import numpy as np
import sklearn_rvm
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
kind = sklearn_rvm.EMRVR if sys.argv[2] == "regression" else sklearn_rvm.EMRVC
times = []
for _ in range(int(sys.argv[4])):
    model = kind(kernel="rbf", gamma=float(sys.argv[3]))
    start = time.perf_counter(), time.process_time()
    model.fit(data["X"], data["y"])
    times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
wall, cpu = np.min(times, axis=0)
out = model.predict(data["X_test"]).tolist()
print(json.dumps({"wall": wall, "cpu": cpu, "kept": len(model.relevance_), "out": out}))
"""


def least_times(fit: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the least wall-clock and processor seconds, and the last model."""
    times, model = [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        model = fit()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return *np.min(times, axis=0), model


def boston() -> dict[str, Any]:
    data = load("boston")
    order = np.random.default_rng(0).permutation(len(data.target))
    train, test = order[:481], order[481:]
    scaler = StandardScaler().fit(data.data[train])
    X, X_test = scaler.transform(data.data[train]), scaler.transform(data.data[test])
    return {"X": X, "y": data.target[train], "X_test": X_test, "y_test": data.target[test], "gamma": 1 / 18}


def ripley(n: int) -> dict[str, Any]:
    data = load("ripley_synth")
    train, test = data.split["train"], data.split["test"]
    train = np.random.default_rng(0).permutation(train)[:n]
    y = (data.target == np.unique(data.target)[1]).astype(int)
    return {"X": data.data[train], "y": y[train], "X_test": data.data[test], "y_test": y[test], "gamma": 2.0}


def banana(n: int) -> dict[str, Any]:
    data = load("ida_banana")
    y = (data.target == np.unique(data.target)[1]).astype(int)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n], order[n:]
    return {"X": data.data[train], "y": y[train], "X_test": data.data[test], "y_test": y[test], "gamma": 1.0}


def golub() -> dict[str, Any]:
    data = load("golub")
    train, test = data.split["train"], data.split["test"]
    scaler = StandardScaler().fit(data.data[train])
    y = (data.target == np.unique(data.target)[1]).astype(int)
    X, X_test = scaler.transform(data.data[train]), scaler.transform(data.data[test])
    return {"X": X, "y": y[train], "X_test": X_test, "y_test": y[test], "gamma": None}


def error(task: dict[str, Any], answer: Any) -> str:
    if task["y"].dtype.kind == "f":
        return f"MSE {np.mean((np.asarray(answer) - task['y_test']) ** 2):.2f}"
    return f"{int(np.sum(np.asarray(answer) != task['y_test']))} of {len(task['y_test'])} wrong"


def ours(task: dict[str, Any], repeats: int, **options: Any) -> tuple[str, float, float]:
    kind = SparseRegressor if task["y"].dtype.kind == "f" else SparseProbit
    if task["gamma"] is not None:
        options |= {"kernel": "rbf", "gamma": task["gamma"]}
    wall, cpu, model = least_times(lambda: kind(**options).fit(task["X"], task["y"]), repeats)
    return f"{error(task, model.predict(task['X_test']))}, {model.n_active_} kept", wall, cpu


def rvm(python: str, task: dict[str, Any], repeats: int) -> tuple[str, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **{name: task[name] for name in ("X", "y", "X_test")})
        kind = "regression" if task["y"].dtype.kind == "f" else "classes"
        command = [python, "-c", RVM, str(path), kind, str(task["gamma"]), str(repeats)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return f"{error(task, result['out'])}, {result['kept']} kept", result["wall"], result["cpu"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptive_speed", description=__doc__)
    parser.add_argument("--rvm", metavar="PYTHON", help="interpreter with sklearn-rvm")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    tasks = {
        "boston, 481 rows, kernel": boston(),
        "ripley, 100 rows, kernel": ripley(100),
        "ripley, 250 rows, kernel": ripley(250),
        "banana, 2000 rows, kernel": banana(2000),
        "golub, 38 x 7129, features": golub(),
    }
    print(f"{'task':28}{'method':14}{'wall s':>9}{'cpu s':>9}  test")
    with threadpool_limits(1):
        for name, task in tasks.items():
            result, wall, cpu = ours(task, options.repeats)
            print(f"{name:28}{'smaller':14}{wall:9.3f}{cpu:9.3f}  {result}")
            if options.rvm and task["gamma"] is not None and len(task["y"]) < 1000:
                result, slow, slow_cpu = rvm(options.rvm, task, min(options.repeats, 2))
                ratio = f"{slow / wall:.0f} (cpu {slow_cpu / cpu:.0f}) times ours"
                print(f"{'':28}{'sklearn-rvm':14}{slow:9.3f}{slow_cpu:9.3f}  {result}; {ratio}")


if __name__ == "__main__":
    main()
