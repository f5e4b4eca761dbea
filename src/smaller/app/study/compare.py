"""All models side by side, on the same held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.study.honest import make_plan, predict_held_out
from smaller.app.study.judgement import performance
from smaller.app.study.models import Procedure, available_models
from smaller.app.study.question import Data
from smaller.app.study.ridge import RIDGE, fit_ridge
from smaller.app.tables import TableError

__all__ = ["compare_models"]


def compare_models(
    data: Data, how: Procedure, *, tick: Callable[[str], None] = lambda stage: None
) -> list[dict[str, Any]]:
    """Return one line per model: error, log-loss, size and time; best log-loss first, impossible ones last.

    The ridge model of all features stands among them, so that the price of sparsity can be seen.

    Parameters
    ----------
    data, how, tick
        As in `run_study`.
    """
    X, y = data.X, data.y
    gaps = not sparse.issparse(X) and bool(np.isnan(X.sum()))
    how = replace(how, ordered=data.units.ordered, gaps=gaps)
    plan = make_plan(X, y, data.units, replace(how, model="smlr", repeats=1))
    done, refused = [], []
    for name in [*available_models(), RIDGE]:
        tick(name)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name == RIDGE:
                    held_out = predict_held_out(X, y, plan, replace(how, model="smlr"), fit=fit_ridge)
                else:
                    held_out = predict_held_out(X, y, plan, replace(how, model=name))
        except (TableError, ValueError, TypeError) as error:
            refused.append({"model": name, "reason": str(error).splitlines()[0]})
            continue
        groups = data.units.grouped
        judged = performance(held_out.codes, held_out.proba, None if groups is None else groups[held_out.rows])
        facts = {key: judged[key] for key in ("error", "error_interval", "log_loss")}
        size = f"{X.shape[1]} feature{'s' * (X.shape[1] != 1)}" if name == RIDGE else held_out.size
        done.append({"model": name, **facts, "size": size, "seconds": time.perf_counter() - start})
    return [*sorted(done, key=lambda line: line["log_loss"]), *refused]
