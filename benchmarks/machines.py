"""Which kernel machine? Errors, log-losses, rows used, seconds and latency: ``python -m benchmarks.machines``.

Prints the tables of docs/which-kernel-machine.md: published splits of five IDA sets (SMALLER_DATA), one unless
``--splits`` says more, every machine choosing its width and strength on the training part alone. One core, a minute a
split.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.papers.datasets import load
from smaller import IVM, JCFOCV, KLR, RVC, SBMLR, SparseProbit

SETS = ("banana", "breast_cancer", "heart", "thyroid", "waveform")
CALLS = 200  # predictions of one row


def calibrated_svc(p: int) -> GridSearchCV:
    """Five folds choose among nine pairs by the log-loss of calibrated probabilities."""
    grid = {"estimator__C": [1.0, 10.0, 100.0], "estimator__gamma": np.array([0.1, 0.5, 2.5]) / p}
    return GridSearchCV(CalibratedClassifierCV(SVC(), ensemble=False), grid, scoring="neg_log_loss", cv=5)


def support(model: Any) -> int:
    """Return how many training rows a prediction needs."""
    return len(model.support_)


@dataclass(frozen=True)
class Machine:
    """How a machine is made for p features, and how many rows its fit keeps."""

    make: Callable[[int], Any]
    rows: Callable[[Any], int] = support


MACHINES = {
    "KLR": Machine(lambda p: KLR(alpha="evidence", gamma="evidence")),
    "IVM": Machine(lambda p: IVM(alphas=[10.0, 1.0, 0.1, 0.01], gamma="cv", random_state=0)),
    "RVC": Machine(lambda p: RVC(gamma="cv")),
    "SparseProbit": Machine(lambda p: SparseProbit(kernel="rbf", gamma="cv")),
    "SBMLR, rbf": Machine(lambda p: SBMLR(kernel="rbf", gamma="cv")),
    "JCFOCV": Machine(lambda p: JCFOCV((1.0, 0.3), (10.0, 3.0, 1.0), cv=3, random_state=0)),
    "SVC, calibrated": Machine(
        calibrated_svc,
        lambda model: len(model.best_estimator_.calibrated_classifiers_[0].estimator.support_),
    ),
    "GPC": Machine(
        lambda p: GaussianProcessClassifier(1.0 * RBF(p**0.5), random_state=0),
        lambda model: len(model.base_estimator_.X_train_),
    ),
    "LogisticRegression": Machine(lambda p: LogisticRegression(), lambda model: 0),
}
COLUMNS = ("error", "log-loss", "rows used", "seconds a fit", "one row, ms")


def latency(model: Any, X: Any) -> float:
    """Return the median milliseconds of a prediction of one row."""
    seconds = []
    for i in range(CALLS):
        row = X[i % len(X) : i % len(X) + 1]
        start = time.perf_counter()
        model.predict_proba(row)
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def measured(machine: Machine, name: str, split: int) -> tuple[float, ...]:
    """Return a machine's `COLUMNS` on one split."""
    data = load(f"ida_{name}")
    train, test = data.realisations[split]
    scaler = StandardScaler().fit(data.data[train])
    X, X_test, y, y_test = (
        scaler.transform(data.data[train]),
        scaler.transform(data.data[test]),
        *(data.target[rows] for rows in (train, test)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = machine.make(X.shape[1]).fit(X, y)
        seconds = time.process_time() - start
    proba = model.predict_proba(X_test)
    wrong = float(np.mean(model.classes_[proba.argmax(axis=1)] != y_test))
    return (
        wrong,
        float(log_loss(y_test, proba, labels=model.classes_)),
        machine.rows(model),
        seconds,
        latency(model, X_test),
    )


def show(title: str, names: tuple[str, ...], table: dict[str, list[str]]) -> None:
    print(f"\n| {title} | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    for name, cells in table.items():
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.machines", description=__doc__)
    parser.add_argument("--splits", type=int, default=1, help="of every set")
    splits = parser.parse_args().splits
    found = {}
    for machine, how in MACHINES.items():
        found[machine] = np.array([[measured(how, name, split) for split in range(splits)] for name in SETS])
        print(f"{machine}: {found[machine][..., 3].sum():.1f} s", flush=True)
    forms = ("{:.3f}", "{:.3f}", "{:.0f}", "{:.2f}", "{:.2f}")
    means = {
        machine: [form.format(value) for form, value in zip(forms, values.mean(axis=(0, 1)), strict=True)]
        for machine, values in found.items()
    }
    show("mean of all", COLUMNS, means)
    for title, column, form in (("error", 0, "{:.3f}"), ("log-loss", 1, "{:.3f}"), ("rows used", 2, "{:.0f}")):
        cells = {m: [form.format(v) for v in values[..., column].mean(axis=1)] for m, values in found.items()}
        show(title, SETS, cells)


if __name__ == "__main__":
    main()
