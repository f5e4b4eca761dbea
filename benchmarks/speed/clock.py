"""One clock for all measurements: the least of several runs, processor and wall seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Options", "Timing", "least", "ratio", "show"]


@dataclass(frozen=True)
class Options:
    """What the command line says to every part."""

    runs: int | None = None  # None: the part's own number
    python: str | None = None  # interpreter in which a rival is installed

    def repeats(self, own: int) -> int:
        return own if self.runs is None else self.runs


@dataclass(frozen=True)
class Timing:
    """The least seconds of several runs, and what the last run returned."""

    result: Any
    wall: float
    cpu: float


def least(action: Callable[[], Any], runs: int) -> Timing:
    """Run an action several times."""
    wall = cpu = float("inf")
    for _ in range(runs):
        start = time.perf_counter(), time.process_time()
        result = action()
        wall, cpu = min(wall, time.perf_counter() - start[0]), min(cpu, time.process_time() - start[1])
    return Timing(result, wall, cpu)


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], runs: int) -> float:
    """Return their processor seconds over ours, in turns, so that a change of the machine's pace meets both."""
    turns = [(least(ours, 1).cpu, least(theirs, 1).cpu) for _ in range(runs)]
    return min(turn[1] for turn in turns) / min(turn[0] for turn in turns)


def show(name: str, timing: Timing, rest: str = "") -> None:
    """Print one line of a part."""
    print(f"{name:44s} {timing.wall:8.3f} s wall {timing.cpu:8.3f} s cpu   {rest}", flush=True)
