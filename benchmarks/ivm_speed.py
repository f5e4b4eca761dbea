"""Time and memory of the import vector machine beside scikit-learn's SVC: ``python -m benchmarks.ivm_speed``.

One core, best of several runs, kernel computation included. Needs the papers' data (SMALLER_DATA) for the IDA lines.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.papers.datasets import load
from benchmarks.papers.ivm import IDA
from smaller.datasets import make_mixture
from smaller.estimators.kernel_logistic import IVM, KLR

MIXTURE = {"gamma": 1.0 / 1.4}  # the paper's sigma^2 = .7


def best(action: Callable[[], Any], runs: int) -> tuple[Any, float, float]:
    """Return the result and the least wall-clock and processor seconds of several runs."""
    wall = cpu = np.inf
    for _ in range(runs):
        clocks = time.perf_counter(), time.process_time()
        result = action()
        wall, cpu = min(wall, time.perf_counter() - clocks[0]), min(cpu, time.process_time() - clocks[1])
    return result, wall, cpu


def say(name: str, wall: float, cpu: float, rest: str = "") -> None:
    print(f"{name:44s} {wall:8.3f} s wall {cpu:8.3f} s cpu   {rest}", flush=True)


def ida(runs: int) -> None:
    """First realisation of the eleven IDA sets: fit, against SVC with calibrated probabilities."""
    totals = np.zeros((2, 2))
    for name, (variance, alpha) in IDA.items():
        data = load(f"ida_{name}")
        rows = data.realisations[0][0]
        X, y = StandardScaler().fit_transform(data.data[rows]), data.target[rows]
        gamma = 0.5 / variance
        ivm, *ours = best(lambda X=X, y=y, g=gamma, a=alpha: IVM(a, gamma=g).fit(X, y), runs)
        svc = CalibratedClassifierCV(SVC(C=1.0 / alpha, gamma=gamma), ensemble=False)
        _, *theirs = best(lambda svc=svc, X=X, y=y: svc.fit(X, y), runs)
        say(f"IDA {name}: IVM", *ours, f"{len(ivm.support_)} points")
        say(f"IDA {name}: calibrated SVC", *theirs)
        if name != "image":
            totals += [ours, theirs]
    say("IDA without image: IVM", *totals[0])
    say("IDA without image: calibrated SVC", *totals[1])


def mixture(n: int, runs: int) -> None:
    """Fit n rows of the mixture, then predict 10^5."""
    X, y, centers = make_mixture(n, random_state=0)
    X_new, y_new, _ = make_mixture(100_000, centers=centers, random_state=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ivm, *fit = best(lambda: IVM(random_state=0, **MIXTURE).fit(X, y), runs)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    proba, *ours = best(lambda: ivm.predict_proba(X_new), runs)
    error = np.mean(proba.argmax(axis=1) != y_new)
    say(f"mixture n={n}: IVM", *fit, f"{len(ivm.support_)} points, {memory:.2f} GiB more, test error {error:.4f}")
    say(f"mixture n={n}: IVM predict_proba 1e5", *ours)
    if n == 10_000:
        full, *fit = best(lambda: IVM(n_candidates=n, memory_limit=1 << 29, **MIXTURE).fit(X, y), 1)
        say(f"mixture n={n}: IVM, all candidates", *fit, f"test error {1.0 - full.score(X_new, y_new):.4f}")
    if n > 20_000:
        return
    svc, *fit = best(lambda: SVC(**MIXTURE).fit(X, y), runs)
    scores, *theirs = best(lambda: svc.decision_function(X_new), 1)
    error = np.mean((scores > 0) != y_new)
    say(f"mixture n={n}: SVC", *fit, f"{len(svc.support_)} support vectors, test error {error:.4f}")
    say(f"mixture n={n}: SVC decision_function 1e5", *theirs, f"{theirs[1] / ours[1]:.1f} times ours")


def klr(runs: int) -> None:
    """All 2000 rows as centres: in two dimensions, and in twenty, where the kernel matrix has full rank."""
    X, y, _ = make_mixture(2000, random_state=0)
    for p in (2, 20):
        Z = np.hstack([X, np.random.default_rng(0).normal(size=(2000, p - 2))])
        for alpha in (1.0, 1e-3):
            model, *fit = best(lambda Z=Z, a=alpha: KLR(a).fit(Z, y), runs)
            say(
                f"KLR n=2000, p={p}, alpha={alpha:g}",
                *fit,
                f"rank {len(model.support_)}, {model.solution_.status.name}",
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ivm_speed", description=__doc__)
    parser.add_argument("what", nargs="*", default=["ida", "klr", "5000", "10000", "20000", "50000"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if len(options.what) > 1:  # each in a process of its own, so that peaks of memory do not mix
        for what in options.what:
            command = [sys.executable, "-m", "benchmarks.ivm_speed", what, "--runs", str(options.runs)]
            subprocess.run(command, check=True)
    elif options.what[0] in ("ida", "klr"):
        {"ida": ida, "klr": klr}[options.what[0]](options.runs)
    else:
        mixture(int(options.what[0]), options.runs)


if __name__ == "__main__":
    main()
