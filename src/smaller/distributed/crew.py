"""Who works: the cluster of a client, or this process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import dask
from dask.delayed import Delayed
from dask.utils import parse_timedelta

__all__ = ["Crew", "crew_of"]

_HELD_SHARE = 0.5  # of the memory that blocks may take; what is beyond is read again for every question
_PATIENCE = "60s"  # how long a cluster may be without workers: `dask.config.set({"smaller.no-workers-timeout": ...})`
_LOOK = 1.0  # seconds between looks at who is still there
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 GiB"}  # weights and labels travel once, on purpose


class Crew:
    """Who works: the cluster of a client, or this process; and names for tasks that no other task has."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.fit = f"{uuid4().int % 10**12:012d}"  # digits: Dask's dashboard groups names by the words before them
        self._rounds = count()

    def key(self, word: str, *numbers: int) -> str:
        """Return a task's name."""
        return "-".join(["smaller", word, self.fit, *map(str, numbers)])

    def round(self) -> int:
        """Return the number of a new round."""
        return next(self._rounds)

    def kept(self, recipes: Sequence[Delayed]) -> tuple[Delayed, ...]:
        """Have things made and kept where they are made."""
        with dask.config.set(_QUIET):
            return tuple(dask.persist(*recipes, optimize_graph=True))

    def value(self, wanted: Delayed) -> Any:
        """Return the value of a task; whatever interrupts the wait takes the round back."""
        if self.client is None:
            return dask.compute(wanted)[0]
        with dask.config.set(_QUIET):
            future = self.client.compute(wanted)
        try:
            return self._awaited(future)
        except BaseException as error:
            self.client.cancel([future], force=True)
            if type(error).__name__ == "KilledWorker":
                error.add_note(
                    "Workers died one after the other at the same rows: give them more memory, or make blocks smaller."
                )
            raise

    def _awaited(self, future: Any) -> Any:
        from distributed import TimeoutError as Waited

        alone = None
        patience = parse_timedelta(dask.config.get("smaller.no-workers-timeout", _PATIENCE))
        while True:
            try:
                return future.result(timeout=_LOOK)
            except Waited:
                if future.status != "pending":  # it ended just after the wait; or the error is the task's own
                    return future.result()
            if self.client.nthreads():
                alone = None
            elif time.monotonic() - (alone := alone or time.monotonic()) > patience:
                raise RuntimeError(
                    f"The cluster has had no workers for {patience:g} s: start some, and fit again. (How long to wait "
                    "is dask.config's smaller.no-workers-timeout.)"
                )

    def threads(self) -> int:
        """Return how many tasks run at once."""
        return max(1, sum(self.client.nthreads().values())) if self.client else os.cpu_count() or 1

    def holds(self, n_bytes: float) -> bool:
        """Whether blocks of this size altogether are to stay in memory."""
        if self.client is None:
            return n_bytes <= _HELD_SHARE * physical()
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return n_bytes <= _HELD_SHARE * sum(worker["memory_limit"] or physical() for worker in workers)


def physical() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system: a small machine's
        return 4.0 * 2**30


def crew_of(client: Any = None) -> Crew:
    """Return the crew of a client: the given one, the one that is current, or none."""
    if client is None:
        owner = getattr(dask.base.get_scheduler(), "__self__", None)
        client = owner if hasattr(owner, "scheduler_info") else None
    return Crew(client)
