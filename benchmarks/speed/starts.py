"""Where JCFO ends: the screened start and equal scales beside eleven random starts, all on the same draws.

An end counts as good if its objective is at most 2 % above the lowest of the thirteen. 200 rows, ``alpha=1``;
``alpha_scales`` is 10 on rings and 3 on the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.speed.clock import Options
from smaller.bases import Kernel
from smaller.datasets import make_rings, make_xor
from smaller.estimators.jcfo import JCFO
from smaller.kernels import RBF
from smaller.likelihoods import Probit
from smaller.searches.scales import ScaledProblem, ScaledSolution, search_scales

DRAWS = 8
FIRST_SEED = 4100
RANDOM_STARTS = 11
NEAR = 1.02  # times the lowest objective
Data = tuple[Any, Any]


def three_way(n: int, p: int, random_state: int) -> Data:
    """The sign of a product of three features."""
    X = np.random.default_rng(random_state).uniform(-1, 1, (n, p))
    return X, (X[:, 0] * X[:, 1] * X[:, 2] > 0).astype(int)


def additive(n: int, p: int, random_state: int) -> Data:
    """A sum of two curves, one in each of two features."""
    X = np.random.default_rng(random_state).normal(size=(n, p))
    return X, (X[:, 0] ** 2 + np.sin(2 * X[:, 1]) > 1).astype(int)


def linear(n: int, p: int, random_state: int) -> Data:
    """A plane in three features."""
    X = np.random.default_rng(random_state).normal(size=(n, p))
    return X, (X[:, :3].sum(axis=1) > 0).astype(int)


def fitted(X: Any, y: Any, alpha_scales: float, how: str) -> tuple[JCFO, float]:
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = JCFO(1.0, alpha_scales, starts=how).fit(X, y)
    return model, process_time() - start


def random_ends(X: Any, y: Any, alpha_scales: float, seed: int) -> list[ScaledSolution]:
    """Return where fits from exponential scales end."""
    rng = np.random.default_rng(seed)
    p = X.shape[1]
    scaled = ScaledProblem(X, Kernel(RBF(), X), Probit().encode(y), None, Probit(), 1.0, alpha_scales)
    return [search_scales(scaled, [rng.exponential(size=p) / p]) for _ in range(RANDOM_STARTS)]


@dataclass
class Tally:
    """Ends of one kind of start."""

    fits: int = 0
    good: int = 0
    warned_good: int = 0
    warned_bad: int = 0

    def add(self, solution: ScaledSolution, best: float) -> None:
        good = solution.objective <= NEAR * best
        warned = len(solution.scales) > 20 and np.count_nonzero(solution.scales) > 15
        self.fits += 1
        self.good += good
        self.warned_good += good and warned
        self.warned_bad += warned and not good


def compare(make: Callable[..., Data], p: int, alpha_scales: float, options: Options) -> None:
    """Print how many ends are good, what the screened start costs, and in which ends the warning would come."""
    tallies = {"screened": Tally(), "equal": Tally(), "random": Tally()}
    excess, cost, kept = [], [], []
    for draw in range(DRAWS):
        X, y = make(200, p, random_state=FIRST_SEED + draw)
        screened, seconds = fitted(X, y, alpha_scales, "screened")
        equal, base = fitted(X, y, alpha_scales, "equal")
        ends = {
            "screened": [screened.solution_],
            "equal": [equal.solution_],
            "random": random_ends(X, y, alpha_scales, draw),
        }
        best = min(solution.objective for found in ends.values() for solution in found)
        for name, found in ends.items():
            for solution in found:
                tallies[name].add(solution, best)
        excess.append(screened.solution_.objective / best - 1)
        cost.append(seconds / base)
        kept.append(len(screened.active_features_))
    print(f"{make.__name__}, p = {p}:")
    for name, tally in tallies.items():
        bad = tally.fits - tally.good
        print(
            f"  {name}: {tally.good} of {tally.fits} ends are good; more than 15 scales in {tally.warned_bad} of {bad} "
            f"bad ends and in {tally.warned_good} of the good ones"
        )
    print(
        f"  screened: objective at most {100 * max(excess):.2f} % above the best, {np.mean(kept):.1f} features on "
        f"average, {np.median(cost):.2f} times the seconds of equal scales (largest {max(cost):.2f})",
        flush=True,
    )


PARTS = {
    f"{make.__name__}{p}": partial(compare, make, p, alpha_scales)
    for make, sizes, alpha_scales in (
        (make_rings, (20, 100, 500, 2000), 10.0),
        (make_xor, (10, 50, 100, 500), 3.0),
        (three_way, (50,), 3.0),
        (additive, (100,), 3.0),
        (linear, (100,), 3.0),
    )
    for p in sizes
}
