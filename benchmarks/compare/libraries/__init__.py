"""One thin file per library, each with

    prepare(problem, alphas, threads, variant) -> solve;   solve(tol) -> [(W, b), ...]

one (q, d) and (q,) pair per alpha (decreasing; single-fit libraries get one alpha). Conversions that a user could do
once happen in `prepare` and are not timed. A `solve` that times itself returns `Timed`. `TOLERANCES` is the ladder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..problems import Problem
from ..referee import Objective, alpha_max

LADDER = tuple(10.0**-e for e in range(1, 13))
Pair = tuple[np.ndarray, np.ndarray]


class Timed(NamedTuple):
    """Result of a solver that runs in its own process and measures its own seconds."""

    pairs: list[Pair]
    cpu: float
    wall: float


OURS = Objective()
SEPARATE = Objective("one-versus-rest")
PENALISED = Objective("one-versus-rest", "penalised")
NO_INTERCEPT = Objective("one-versus-rest", "none")


@dataclass(frozen=True)
class Library:
    """Where a competitor lives, the package whose version is reported, and what it minimises."""

    module: str
    package: str
    environment: str = "own"
    objective: Objective = OURS
    variant: str = ""
    path: bool = False
    max_weights: int | None = None


LIBRARIES = {
    "smaller": Library("smaller", "smaller", path=True),
    "glmnet": Library("glmnet", "glmnet", path=True),
    "adelie": Library("adelie", "adelie", "numpy1", path=True),
    "cyanure": Library("cyanure", "cyanure", "peers"),
    "sklearn-saga": Library("sklearn", "scikit-learn", "peers", variant="saga"),
    "sklearn-newton-cd": Library("sklearn", "scikit-learn", "peers", variant="newton-cd"),
    "skglm": Library("skglm", "skglm", "peers", SEPARATE),
    "liblinear": Library("liblinear", "scikit-learn", "peers", PENALISED),
    "snapml": Library("snapml", "snapml", "peers", NO_INTERCEPT),
    "celer": Library("celer", "celer", "peers", NO_INTERCEPT),
    "scipy-cg": Library("smoothed", "scipy", "peers", variant="CG", max_weights=2500),
    "scipy-bfgs": Library("smoothed", "scipy", "peers", variant="BFGS", max_weights=2500),
    "smaller-block": Library("smaller", "smaller", variant="block", max_weights=2500),
    "smaller-componentwise": Library("smaller", "smaller", variant="componentwise", max_weights=2500),
}


def one_versus_rest(y: np.ndarray, fit: Callable[[np.ndarray], Pair]) -> Pair:
    """Stack the binary fits of each class against the others; one fit when there are two classes."""
    classes = range(int(y.max()) + 1) if y.max() > 1 else [1]
    pairs = [fit(np.where(y == k, 1, -1)) for k in classes]
    return np.vstack([np.ravel(w) for w, _ in pairs]), np.ravel([np.ravel(b)[0] for _, b in pairs])


def approach(problem: Problem, alphas: np.ndarray, steps: int = 10) -> np.ndarray:
    """A short path down to a single alpha: path solvers are several times slower from a cold start."""
    return np.geomspace(alpha_max(problem), alphas[0], steps + 1)[1:] if len(alphas) == 1 else np.asarray(alphas)
