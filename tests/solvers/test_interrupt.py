"""A long fit can be stopped and watched: Ctrl-C, scikit-learn's callbacks, logging."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from smaller import RMLR, SMLR
from smaller.problem import Status

X, y = load_iris(return_X_y=True)
X = scale(X)

# Sends itself SIGINT after a while and reports how long the fit still ran.
PROGRAM = """
import json, os, signal, threading, time
import numpy as np
from smaller import KLR, RMLR, SMLR

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
rng = np.random.default_rng(0)
{data}
model = {model}
small = rng.normal(size=(30, 3))
model.fit(small, np.arange(30) % 3)
before = dict(vars(model))
model.set_params({settings})
sent = []

def interrupt():
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

timer = threading.Timer({after}, interrupt)
timer.start()
try:
    model.fit(X, y)
    outcome = "finished"
    timer.cancel()
except KeyboardInterrupt:
    outcome = "interrupted"
late = time.perf_counter() - sent[0] if sent else None
same = all(vars(model)[name] is before[name] for name in before if name.endswith("_"))
print(json.dumps(dict(outcome=outcome, late=late, same=same and vars(model).keys() == before.keys())))
"""

WIDE = """
X = rng.normal(size=(1000, 4000))
y = np.argmax(X[:, :5] + rng.gumbel(size=(1000, 5)), axis=1)
"""
TALL = """
X = rng.normal(size=(30_000, 300))
X[:, 1:] += 3 * X[:, :1]
y = np.argmax(X[:, :4] + rng.gumbel(size=(30_000, 4)), axis=1)
"""
ROWS = """
X = rng.normal(size=(600, 20))
y = np.argmax(X[:, :3] + rng.gumbel(size=(600, 3)), axis=1)
"""
SPARSE = """
from scipy import sparse
X = sparse.random_array((20_000, 20_000), density=1e-3, rng=rng, format="csc")
y = rng.integers(0, 3, 20_000)
"""


KERNEL = """
X = rng.normal(size=(3000, 5))
y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=3000) > 0).astype(int)
"""


def interrupted(data: str, model: str, settings: str, after: float) -> dict[str, Any]:
    """Run the program and return its report."""
    program = textwrap.dedent(PROGRAM).format(data=data, model=model, settings=settings, after=after)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    logging.getLogger(__name__).info("%s: %.3f s from the signal to the end", settings, report["late"] or 0.0)
    assert report["outcome"] == "interrupted", "the fit was over before the signal: make the problem larger"
    assert report["same"]
    return report


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself SIGINT on Windows")
@pytest.mark.parametrize("after", [0.2, 0.7, 1.5])
def test_ctrl_c_in_kernel_logistic_regression(after: float) -> None:
    """Kernel matrix, its factor, Newton's steps: none is one long call."""
    assert interrupted(KERNEL, "KLR()", "gamma=1.0, alpha=1e-3", after)["late"] < 2.0


@pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself SIGINT on Windows")
@pytest.mark.parametrize(
    ("data", "model", "settings"),
    [
        (WIDE, "SMLR()", "alpha=0.01, tol=1e-12"),
        (TALL, "SMLR()", "alpha=1e-3, tol=1e-13"),
        (SPARSE, "SMLR()", "alpha=0.01, tol=1e-12"),
        (TALL, "RMLR()", "alpha=1e-6, tol=1e-14"),
        (TALL, "SMLR()", "solver='proximal', tol=1e-14"),
        (ROWS, "RMLR()", "kernel='rbf', coding='reference', alpha=1e-4, tol=1e-14"),
        (ROWS, "RMLR()", "kernel='rbf', alpha=1e-4, tol=1e-14"),
    ],
    ids=["wide", "tall", "sparse", "newton", "proximal", "kernel", "symmetric kernel"],
)
def test_ctrl_c(data: str, model: str, settings: str) -> None:
    """The fit ends soon after the signal and the estimator is what it was before.

    Half a second is what is promised; the limit here leaves room for a busy machine.
    """
    report = interrupted(data, model, settings, 0.5)
    assert report["late"] < 2.0


@pytest.mark.skipif(os.name == "nt", reason="needs SIGALRM")
def test_an_interrupted_fit_leaves_an_unfitted_estimator_unfitted() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3000))
    labels = np.arange(1000) % 4
    model = SMLR(1e-3, tol=1e-13)
    before = dict(vars(model))

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows, labels)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
    assert vars(model) == before


# --- scikit-learn's callbacks ---


class Recorder:
    """Remember every hook; ask for a stop after some iterations."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.events: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.events.append("setup")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        self.events.append(f"end {context.task_name}")
        return self.stop_after is not None and self.iterations >= self.stop_after

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append("teardown")

    @property
    def iterations(self) -> int:
        return self.events.count("end iteration")


@pytest.fixture
def callbacks() -> Any:
    return pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


@pytest.mark.parametrize("model", [SMLR(), RMLR(), SMLR(kernel="rbf")], ids=repr)
def test_callbacks_see_every_iteration(callbacks: Any, model: Any) -> None:
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.iterations == model.n_iter_
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.events.count("begin iteration") == model.n_iter_


def test_callbacks_can_stop_a_fit(callbacks: Any) -> None:
    recorder = Recorder(stop_after=2)
    model = SMLR(tol=1e-12).set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert recorder.iterations == 2
    assert model.solution_.n_iter == 1  # the second report is about the point after one iteration
    assert not model.solution_.converged
    assert model.predict_proba(X).shape == (150, 3)


def test_callbacks_are_closed_when_a_fit_fails(callbacks: Any) -> None:
    recorder = Recorder()
    model = SMLR().fit(X, y).set_callbacks(recorder).set_params(alpha=-1.0)
    coef = model.coef_
    with pytest.raises(ValueError, match="alpha"):
        model.fit(X, y)
    assert recorder.events[-1] == "teardown"
    assert model.coef_ is coef
    recorder.events.clear()
    model.set_params(alpha=1.0).fit(X, y)
    assert recorder.events[-1] == "teardown"


def test_progress_bar(callbacks: Any) -> None:
    pytest.importorskip("rich")
    model = SMLR(tol=1e-12).set_callbacks(callbacks.ProgressBar())
    assert_array_equal(model.fit(X, y).predict(X), SMLR(tol=1e-12).fit(X, y).predict(X))


# --- logging ---


def test_verbose_goes_through_logging(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.INFO, logger="smaller"):
        model = SMLR(verbose=1).fit(X, y)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("SMLR: iteration 0, objective ")
    assert all("gap" in line for line in lines)
    assert capsys.readouterr() == ("", "")
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="smaller"):
        SMLR().fit(X, y)
    assert not caplog.records


def test_verbose_and_callbacks_together(callbacks: Any, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    with caplog.at_level(logging.INFO, logger="smaller"):
        model = SMLR(verbose=1).set_callbacks(recorder).fit(X, y)
    assert recorder.iterations == model.n_iter_ == len(caplog.records)


def test_statuses_are_sentences() -> None:
    assert all(status.value.endswith(".") and status.value[0].isupper() for status in Status)
