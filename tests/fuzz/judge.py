"""Fit a case and believe nothing: what the estimator says is recomputed, and a refusal must be a sentence that fits.

Findings are "silent wrong" (a claim that is refuted), "crash" (an exception or a warning that is no sentence for the
user), "slow" (more than 30 CPU seconds) and "changed" (the user's data are not what they were).
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import smaller
from fuzz import claims, hostile
from fuzz.extras import enriched
from fuzz.hostile import Case

__all__ = ["FINDINGS", "Refuted", "Verdict", "judge", "make_case"]

FINDINGS = ("silent wrong", "crash", "slow", "changed")
CPU_LIMIT = 30.0

# What may be refused, and how. A sentence that is not here is a finding: it may be a bare error, or a wrong one.
REFUSALS = [
    r"samples of at least 2 classes in the data",
    r"sample_weight .*sums to .* out of range",
    r"minimum of 1 is required|a minimum of \d+ is required",
    r"n_splits=\d cannot be greater than the number of members in each class",
    r"cv .*(folds|class)",
    r"kernel must be symmetric and positive semi-definite",
    r"least populated class",
    r"sample_weight .*spans .* more than float64 can add up",
    r"sample_weight is all zeros",
    r"X has columns of extreme size in one group",
    r"as rows of class probabilities needs at least 2 classes",
    r"Input X contains infinity",  # extreme columns may be drawn twice
    r"columns so small that their weights overflow",
    r"columns so small or so large that float64 cannot hold",
    r"gamma='scale' is one over the variance of X's entries, and that is",
    r"validation_fraction=.* holds back .* as many rows as classes",
    r"cannot judge a fold that holds out no row of class",
    r"scoring=.* cannot judge these labels: .* pos_label",  # scikit-learn's own scorer, on labels that are texts
    r"The posterior cannot be computed: alpha=.*, or an intercept, is lost in rounding",
    r"centers='kmeans' needs distances, and the squares of entries as large as",
    r"The kernel returned values that are not finite: scale the features",
]


class Slow(BaseException):
    """The CPU limit; not an Exception, so that nothing swallows it."""


@dataclass(frozen=True)
class Verdict:
    seed: int
    kind: str  # "right", "not converged", "refused", "undecided", or one of FINDINGS
    note: str
    cpu: float

    @property
    def bad(self) -> bool:
        return self.kind in FINDINGS


Refuted = claims.Refuted


def make_case(seed: int) -> Case:
    """Return the case of a seed: always the same."""
    return enriched(hostile.make_case(seed))


def judge(case: Case) -> Verdict:
    """Fit and look."""
    before = _fingerprint(case)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _limited(CPU_LIMIT):
                result = _fit(case)
        except (ValueError, TypeError) as error:
            kind = "refused" if _is_known(str(error)) else "crash"
            return Verdict(case.seed, kind, f"{type(error).__name__}: {error}{_place(error, kind)}", _since(start))
        except Slow:
            return Verdict(case.seed, "slow", f"more than {CPU_LIMIT:g} CPU s", _since(start))
        except Exception as error:
            return Verdict(
                case.seed, "crash", f"{type(error).__name__}: {error}{_place(error, 'crash')}", _since(start)
            )
        cpu = _since(start)
        stray = _stray(caught)
    if stray:
        return Verdict(case.seed, "crash", stray, cpu)
    if _fingerprint(case) != before:
        return Verdict(case.seed, "changed", "X, y or sample_weight was written to", cpu)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind, note = claims.check(case, result, [str(w.message) for w in caught], _unconverged(caught))
    except Refuted as error:
        return Verdict(case.seed, "silent wrong", str(error), cpu)
    except Exception as error:
        return Verdict(case.seed, "crash", f"after fit: {type(error).__name__}: {error}{_place(error, 'crash')}", cpu)
    return Verdict(case.seed, kind, note, cpu)


def _fit(case: Case) -> Any:
    offset = {} if case.offset is None else {"offset": case.offset}
    if not case.path:
        weight = {} if _ignores_weight(case) else {"sample_weight": case.weight}
        return clone(case.model).fit(case.X, case.y, **weight, **offset)
    settings = {name: value for name, value in case.model.get_params().items() if name not in ("alpha", "warm_start")}
    return smaller.smlr_path(case.X, case.y, sample_weight=case.weight, **offset, **case.path, **settings)


def _ignores_weight(case: Case) -> bool:
    return case.weight is None or isinstance(case.model, smaller.StabilitySelection)


def _since(start: float) -> float:
    return time.process_time() - start


def _place(error: BaseException, kind: str) -> str:
    if kind != "crash":
        return ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "/smaller/" in f.filename]
    frame = ours[-1] if ours else frame
    return f" [{frame.filename.rsplit('/', 2)[-2]}/{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}]"


def _is_known(sentence: str) -> bool:
    return any(re.search(pattern, sentence, re.DOTALL) for pattern in REFUSALS)


def _stray(caught: list[Any]) -> str:
    """Return the first warning that is not meant for the user."""
    for warning in caught:
        if not issubclass(warning.category, UserWarning) or not str(warning.message).rstrip().endswith((".", ")")):
            where = f"{warning.filename.rsplit('/', 1)[-1]}:{warning.lineno}"
            return f"stray {warning.category.__name__}: {warning.message} [{where}]"
    return ""


def _unconverged(caught: list[Any]) -> bool:
    return any(issubclass(w.category, ConvergenceWarning) and "did not converge" in str(w.message) for w in caught)


def _fingerprint(case: Case) -> tuple[bytes, ...]:
    parts = []
    for part in (case.X, case.y, case.weight, case.offset):
        if sparse.issparse(part):
            part = part.tocoo() if part.format == "lil" else part
            names = ("row", "col", "data") if part.format == "coo" else ("indptr", "indices", "data")
            parts += [np.asarray(getattr(part, name)).tobytes() for name in names]
        else:
            parts.append(repr(part).encode() if isinstance(part, list) or part is None else np.asarray(part).tobytes())
    return tuple(parts)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise Slow after so many CPU seconds of this process."""

    def stop(*_: Any) -> None:
        raise Slow

    if not hasattr(signal, "SIGPROF"):
        yield
        return
    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, old)
