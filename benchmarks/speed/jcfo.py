"""Time, memory and quality of JCFO.

Seconds are processor time of this process; memory is the peak that NumPy asked for during the fit.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import scale

from benchmarks.speed.clock import Options, least, show
from smaller.bases import Kernel
from smaller.datasets import make_rings
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.kernels import RBF
from smaller.likelihoods import Probit
from smaller.searches.scales import Journal, ScaledProblem, search_scales, warm_up

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def ring(
    n: int, p: int, seed: int, threshold: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64], float]:
    """Normal rows; class 1 where x0^2 + x1^2 is above the threshold (its median if None)."""
    X = np.random.default_rng(seed).normal(size=(n, p))
    squared = (X[:, :2] ** 2).sum(axis=1)
    threshold = float(np.median(squared)) if threshold is None else threshold
    return X, (squared > threshold).astype(np.int64), threshold


def small_ring(options: Options) -> None:
    """A ring in 2 of 100 dimensions, n = 200, strengths (1, 3), five draws."""
    lines = []
    for seed in range(5):
        X, y, threshold = ring(200, 100, seed)
        X_test, y_test, _ = ring(5000, 100, 1000 + seed, threshold)
        model = JCFO(alpha=1.0, alpha_scales=3.0)
        seconds = least(lambda model=model, X=X, y=y: model.fit(X, y), options.repeats(3)).cpu
        found = {0, 1} <= set(model.active_features_.tolist())
        strongest = set(np.argsort(-model.scales_)[:2].tolist()) == {0, 1}
        lines.append((1.0 - model.score(X_test, y_test), seconds, found, strongest))
        counts = f"{len(model.active_features_)} features, {len(model.support_)} kernels"
        violations = f"{model.solution_.weights_violation:.0e}, {model.solution_.scales_violation:.0e}"
        print(f"ring, draw {seed}: error {lines[-1][0]:.3f}, {seconds:.2f} s, {counts}, violations {violations}")
    errors, seconds, found, strongest = zip(*lines, strict=True)
    print(
        f"ring: median error {np.median(errors):.3f}, "
        f"median time {np.median(seconds):.2f} s (largest {max(seconds):.2f}), "
        f"both features found in {sum(found)} of 5, strongest in {sum(strongest)} of 5"
    )


def large_ring(options: Options) -> None:
    """n = 5000, p = 200, 300 centres: time first, memory in a second run."""
    X, y, threshold = ring(5000, 200, 0)
    X_test, y_test, _ = ring(5000, 200, 1, threshold)
    model = JCFO(alpha=1.0, alpha_scales=30.0, n_centers=300, random_state=0)
    seconds = least(lambda: model.fit(X, y), 1).cpu
    error = 1.0 - model.score(X_test, y_test)
    print(
        f"large: {seconds:.1f} s, error {error:.3f}, {len(model.active_features_)} features, "
        f"{model.solution_.status.name}"
    )
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    unit = 8 * (5000 * 300 + 5000 * 200) / 2**20
    print(
        f"large: peak {peak / 2**20:.0f} MiB; n*m + n*p is {unit:.0f} MiB, n*m*p {8 * 5000 * 300 * 200 / 2**20:.0f} MiB"
    )


def phases(options: Options) -> None:
    """EM alone, direct descent alone, and one after the other, on three problems, means of three draws."""
    for p, rate in ((20, 10.0), (50, 10.0), (100, 3.0)):
        results = []
        for seed in range(3):
            X, y, _ = ring(200, p, seed)
            theta = np.full(p, 1.0 / p)
            for penalized in (False, True):
                problem = ScaledProblem(
                    X, Kernel(RBF(1.0), X), Probit().encode(y), None, Probit(), 1.0, rate, True, penalized
                )
                em = warm_up(problem, problem.start(theta), 60, Journal()).objective
                alone = search_scales(problem, [theta], em_iter=0).objective
                both = search_scales(problem, [theta]).objective
                results.append((em, alone, both))
        means = np.mean(np.array(results).reshape(3, 2, 3), axis=0)
        for name, (em, alone, both) in zip(("free", "penalised"), means, strict=True):
            excess = 100 * (both / min(em, alone) - 1)
            print(
                f"phases, p = {p}, {name} intercept: EM {em:.2f}, descent {alone:.2f}, "
                f"both {both:.2f} ({excess:+.2f} %)"
            )


def classes(options: Options) -> None:
    """One multinomial model of all classes against one-versus-rest probit with shared scales: five folds."""
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        X = np.hstack([scale(X), np.random.default_rng(0).normal(size=(len(y), 5))])
        for likelihood in ("multinomial", "probit"):
            model = JCFO(0.3, 1.0, likelihood=likelihood)
            run = least(lambda m=model, X=X, y=y: cross_val_predict(m, X, y, cv=5, method="predict_proba"), 1)
            errors, loss = int(np.count_nonzero(run.result.argmax(axis=1) != y)), log_loss(y, run.result)
            print(f"classes, {name}, {likelihood}: log-loss {loss:.3f}, {errors} errors, {run.cpu / 5:.1f} s a fit")


def stages(options: Options) -> None:
    """Two rings in 20 dimensions, n = 1200: all rows as centres, at once and in two stages."""
    for seed in range(3):
        X, y = make_rings(1200, n_features=20, random_state=seed)
        fits = {
            name: least(lambda c=count, X=X, y=y: JCFO(1.0, 10.0, n_centers=c).fit(X, y), runs)
            for name, count, runs in (("two stages", "auto", options.repeats(3)), ("all at once", None, 1))
        }
        whole = fits["all at once"].result.solution_.objective
        for name, fit in fits.items():
            found = fit.result
            excess = found.solution_.objective / whole - 1
            rest = f"objective {100 * excess:+.3f} %, features {found.active_features_.tolist()}"
            show(f"n=1200, draw {seed}: {name}", fit, f"{rest}, {found.solution_.status.name}")
        seconds = [fit.cpu for fit in fits.values()]
        print(f"n=1200, draw {seed}: two stages take 1/{seconds[1] / seconds[0]:.1f} of the seconds")


def folds(options: Options) -> None:
    """JCFOCV with its default grid on the same rings: 75 fits in folds, and one."""
    X, y = make_rings(1200, n_features=20, random_state=0)
    fit = least(lambda: JCFOCV(random_state=0).fit(X, y), 1)
    model = fit.result
    rest = f"strengths {model.alpha_:g}, {model.alpha_scales_:g}; features {model.active_features_.tolist()}"
    show("JCFOCV, n=1200", fit, rest)


PARTS = {
    "stages": stages,
    "folds": folds,
    "ring": small_ring,
    "large": large_ring,
    "phases": phases,
    "classes": classes,
}
