"""What error bars cost: ranges and relaxing, each in units of the fit without them.

Ranges are kept while SBMLR fits at most 400 rows (limit: .1 of the fit more); relaxing repeats the fit in five folds
(limits: 7 fits of SBMLR, 2.2 of SMLRCV). Needs the papers' data (SMALLER_DATA).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.datasets import load
from benchmarks.speed.clock import Options, least, ratio
from smaller import SBMLR, SMLRCV

ROWS = {"golub": 48, "colon": 41, "wine": 118, "digits8x8": 400, "pima": 200, "wdbc": 380}
RELAXED = ("golub", "wine", "digits8x8")
MOST_RANGES, MOST_SBMLR, MOST_SMLRCV = 0.1, 7.0, 2.2


def rows(name: str) -> tuple[Any, Any]:
    data = load(name)
    X, _, y, _ = train_test_split(data.data, data.target, train_size=ROWS[name], stratify=data.target, random_state=0)
    return StandardScaler().fit_transform(X), y


def show(name: str, what: str, share: float, limit: float, seconds: float) -> None:
    verdict = "within" if share <= limit else "OVER"
    print(f"{name:10s} {what:24s} {share:6.3f} fits ({verdict} {limit:g}); the fit {seconds:.4f} s cpu", flush=True)


def compare(name: str, options: Options) -> None:
    """Time one data set."""
    warnings.simplefilter("ignore")
    X, y = rows(name)
    runs = options.repeats(15)
    seconds = least(lambda: SBMLR().fit(X, y), 3).cpu
    share = ratio(lambda: SBMLR().fit(X, y), lambda: SBMLR(posterior=True).fit(X, y), runs) - 1.0
    show(name, "ranges, SBMLR", share, MOST_RANGES, seconds)
    if name in RELAXED:
        for make, limit in ((SBMLR, MOST_SBMLR), (SMLRCV, MOST_SMLRCV)):
            seconds = least(lambda make=make: make().fit(X, y), 1).cpu
            share = ratio(
                lambda make=make: make().fit(X, y), lambda make=make: make(relax=True).fit(X, y), max(runs // 5, 1)
            )
            show(name, f"relaxed, {make.__name__}", share, limit, seconds)


PARTS = {name: partial(compare, name) for name in ROWS}
