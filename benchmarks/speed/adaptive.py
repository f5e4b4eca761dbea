"""Speed of adaptive sparseness; with ``--python`` naming an interpreter that has sklearn-rvm, beside its machines."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from benchmarks.speed.clock import Options, Timing, least, show
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


def ours(task: dict[str, Any], repeats: int) -> tuple[str, Timing]:
    kind = SparseRegressor if task["y"].dtype.kind == "f" else SparseProbit
    settings = {} if task["gamma"] is None else {"kernel": "rbf", "gamma": task["gamma"]}
    fit = least(lambda: kind(**settings).fit(task["X"], task["y"]), repeats)
    return f"{error(task, fit.result.predict(task['X_test']))}, {fit.result.n_active_} kept", fit


def rvm(python: str, task: dict[str, Any], repeats: int) -> tuple[str, Timing]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **{name: task[name] for name in ("X", "y", "X_test")})
        kind = "regression" if task["y"].dtype.kind == "f" else "classes"
        command = [python, "-c", RVM, str(path), kind, str(task["gamma"]), str(repeats)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return f"{error(task, result['out'])}, {result['kept']} kept", Timing(None, result["wall"], result["cpu"])


TASKS = {
    "boston": ("boston, 481 rows, kernel", boston),
    "ripley100": ("ripley, 100 rows, kernel", partial(ripley, 100)),
    "ripley250": ("ripley, 250 rows, kernel", partial(ripley, 250)),
    "banana": ("banana, 2000 rows, kernel", partial(banana, 2000)),
    "golub": ("golub, 38 x 7129, features", golub),
}


def compare(name: str, options: Options) -> None:
    """Fit one task."""
    title, make = TASKS[name]
    task, repeats = make(), options.repeats(5)
    result, own = ours(task, repeats)
    show(f"{title}: smaller", own, result)
    if options.python and task["gamma"] is not None and len(task["y"]) < 1000:
        result, other = rvm(options.python, task, min(repeats, 2))
        show(f"{title}: sklearn-rvm", other, f"{result}; {other.cpu / own.cpu:.0f} times ours")


PARTS = {name: partial(compare, name) for name in TASKS}
