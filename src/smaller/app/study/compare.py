"""All models side by side, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from smaller.app.study.honest import make_plan, predict_held_out
from smaller.app.study.judgement import performance
from smaller.app.study.models import available_models
from smaller.app.tables import TableError
from smaller.arrays import Array

__all__ = ["compare_models"]


def compare_models(
    X: Any, y: Array, *, seed: int, rule: str, tick: Callable[[str], None] = lambda stage: None
) -> list[dict[str, Any]]:
    """Return one line per model: error, log-loss, size and time; best log-loss first, impossible ones last.

    Parameters
    ----------
    X, y, seed, rule, tick
        As in `run_study`.
    """
    plan = make_plan(X, y, seed=seed)
    done, refused = [], []
    for name in available_models():
        tick(name)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                held_out = predict_held_out(name, X, y, plan, seed=seed, rule=rule)
        except (TableError, ValueError, TypeError) as error:
            refused.append({"model": name, "reason": str(error).splitlines()[0]})
            continue
        judged = performance(held_out.codes, held_out.proba)
        facts = {key: judged[key] for key in ("error", "error_interval", "log_loss")}
        done.append({"model": name, **facts, "size": held_out.size, "seconds": time.perf_counter() - start})
    return [*sorted(done, key=lambda line: line["log_loss"]), *refused]
