"""How many threads may work: a number handed on, by default the environment's, which is read and never written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

__all__ = ["carried", "count", "limited"]

_LIMIT: ContextVar[int | None] = ContextVar("smaller_threads", default=None)


def count() -> int:
    """Return how many threads may run: the limit set here, else OMP_NUM_THREADS, else one for every processor."""
    limit = _LIMIT.get()
    if limit is not None:
        return limit
    named = os.environ.get("OMP_NUM_THREADS") or os.environ.get("OPENBLAS_NUM_THREADS") or ""
    return max(int(named), 1) if named.isdigit() else os.cpu_count() or 1


@contextmanager
def limited(limit: int | None) -> Iterator[None]:
    """Let ``limit`` threads run within the block (None changes nothing); other threads and processes do not notice."""
    token = _LIMIT.set(_LIMIT.get() if limit is None else limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` to be run by a worker, thread or process, under the limit that holds here."""
    return partial(_within, _LIMIT.get(), function)


def _within(limit: int | None, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    with limited(limit):
        return function(*arguments, **keywords)
