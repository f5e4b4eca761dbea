"""Time and memory of the import vector machine beside scikit-learn's SVC.

Kernel computation included. Needs the papers' data (SMALLER_DATA) for the IDA lines.
"""

from __future__ import annotations

import resource
from functools import partial
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.papers.datasets import load
from benchmarks.papers.ivm import IDA
from benchmarks.speed.clock import Options, least, show
from smaller.datasets import make_mixture
from smaller.estimators.kernel_logistic import IVM, KLR

RUNS = 3
MIXTURE = {"gamma": 1.0 / 1.4}  # the paper's sigma^2 = .7


def ida(options: Options) -> None:
    """Fit the first realisation of the eleven IDA sets, against SVC with calibrated probabilities."""
    totals = np.zeros(2)
    for name, (variance, alpha) in IDA.items():
        data = load(f"ida_{name}")
        rows = data.realisations[0][0]
        X, y = StandardScaler().fit_transform(data.data[rows]), data.target[rows]
        gamma = 0.5 / variance
        ours = least(lambda X=X, y=y, g=gamma, a=alpha: IVM(a, gamma=g).fit(X, y), options.repeats(RUNS))
        svc = CalibratedClassifierCV(SVC(C=1.0 / alpha, gamma=gamma), ensemble=False)
        theirs = least(lambda svc=svc, X=X, y=y: svc.fit(X, y), options.repeats(RUNS))
        show(f"IDA {name}: IVM", ours, f"{len(ours.result.support_)} points")
        show(f"IDA {name}: calibrated SVC", theirs)
        if name != "image":
            totals += [ours.cpu, theirs.cpu]
    print(f"IDA without image: IVM {totals[0]:.3f} s cpu, calibrated SVC {totals[1]:.3f} s cpu")


def mixture(n: int, options: Options) -> None:
    """Fit n rows of the mixture, then predict 10^5."""
    X, y, centers = make_mixture(n, random_state=0)
    X_new, y_new, _ = make_mixture(100_000, centers=centers, random_state=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = options.repeats(RUNS)
    fit = least(lambda: IVM(random_state=0, **MIXTURE).fit(X, y), runs)
    ivm = fit.result
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    ours = least(lambda: ivm.predict_proba(X_new), runs)
    error = np.mean(ours.result.argmax(axis=1) != y_new)
    show(f"mixture n={n}: IVM", fit, f"{len(ivm.support_)} points, {memory:.2f} GiB more, test error {error:.4f}")
    show(f"mixture n={n}: IVM predict_proba 1e5", ours)
    if n == 10_000:
        fit = least(lambda: IVM(n_candidates=n, memory_limit=1 << 29, **MIXTURE).fit(X, y), 1)
        show(f"mixture n={n}: IVM, all candidates", fit, f"test error {1.0 - fit.result.score(X_new, y_new):.4f}")
    if n > 20_000:
        return
    fit = least(lambda: SVC(**MIXTURE).fit(X, y), runs)
    svc = fit.result
    theirs = least(lambda: svc.decision_function(X_new), 1)
    error = np.mean((theirs.result > 0) != y_new)
    show(f"mixture n={n}: SVC", fit, f"{len(svc.support_)} support vectors, test error {error:.4f}")
    show(f"mixture n={n}: SVC decision_function 1e5", theirs, f"{theirs.cpu / ours.cpu:.1f} times ours")


def klr(options: Options) -> None:
    """All 2000 rows as centres: in two dimensions, and in twenty, where the kernel matrix has full rank."""
    X, y, _ = make_mixture(2000, random_state=0)
    for p in (2, 20):
        Z = np.hstack([X, np.random.default_rng(0).normal(size=(2000, p - 2))])
        for alpha in (1.0, 1e-3):
            fit = least(lambda Z=Z, a=alpha: KLR(a).fit(Z, y), options.repeats(RUNS))
            model = fit.result
            rest = f"rank {len(model.support_)}, {model.solution_.status.name}"
            show(f"KLR n=2000, p={p}, alpha={alpha:g}", fit, rest)


def cover_types(draw: int) -> tuple[Any, Any, Any, Any]:
    """8000 rows of covtype to learn from and 20000 others, lodgepole pine against the rest, standardised."""
    data = load("covtype")
    y = (np.asarray(data.target) == np.unique(data.target)[1]).astype(int)
    order = np.random.default_rng(draw).permutation(len(y))[:28_000]
    X = np.asarray(data.data[order], dtype=np.float64)
    X = StandardScaler().fit(X[:8000]).transform(X)
    return X[:8000], y[order[:8000]], X[8000:], y[order[8000:]]


def covtype(options: Options) -> None:
    """Hundreds of points: by default, then 500 of them, in blocks and one by one."""
    for draw in range(3):
        X, y, X_new, y_new = cover_types(draw)
        fit = least(lambda X=X, y=y: IVM(gamma=0.1, random_state=0).fit(X, y), 1)
        model = fit.result
        rest = f"{len(model.support_)} points of {model.n_candidates_} candidates"
        show(f"covtype, draw {draw}: IVM", fit, f"{rest}, accuracy {model.score(X_new, y_new):.4f}")
    X, y, X_new, y_new = cover_types(0)
    seconds = {}
    for name, how in (
        ("500 points", {}),
        ("all candidates", {"n_candidates": 8000}),
        ("all candidates, one by one", {"n_candidates": 8000, "block": 1}),
    ):
        fit = least(lambda how=how: IVM(gamma=0.1, eps=0.0, random_state=0, **how).fit(X, y), 1)
        model, seconds[name] = fit.result, fit.cpu
        H = ", ".join(f"{model.import_path_.objective[m - 1]:.0f}" for m in (100, 200, 300, 500))
        show(f"covtype: {name}", fit, f"accuracy {model.score(X_new, y_new):.4f}; sum at 100, 200, 300, 500 points {H}")
    last = seconds.pop(name)
    print("covtype: one by one takes " + ", ".join(f"{last / s:.1f} times {n}" for n, s in seconds.items()))


def growing(options: Options) -> None:
    """Points on the mixture, means of ten draws."""
    for n in (200, 1000, 5000, 20_000, 50_000):
        found = []
        for draw in range(10):
            X, y, _ = make_mixture(n, random_state=draw)
            fit = least(lambda X=X, y=y: IVM(random_state=0, **MIXTURE).fit(X, y), 1)
            found.append((len(fit.result.support_), fit.cpu))
        points, seconds = np.mean(found, axis=0)
        print(
            f"mixture n={n}: {points:.1f} points on average, {max(found)[0]} at most; {seconds:.3f} s cpu a fit",
            flush=True,
        )


PARTS = {"ida": ida, "klr": klr, "covtype": covtype, "growing": growing} | {
    str(n): partial(mixture, n) for n in (5000, 10_000, 20_000, 50_000)
}
