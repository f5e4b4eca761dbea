"""How long a page took: wall-clock time of every run of a paper, kept beside its results."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import engine


@dataclass
class Session:
    """One run of one paper: its wall time so far is on disk after every result, whatever breaks it off."""

    paper: str
    jobs: int
    started: float = field(default_factory=time.time)

    def note(self) -> None:
        """Write down the seconds since the start."""
        entries = _read(self.paper)
        entries[f"{self.started:.3f}"] = {
            "commit": engine.commit(),
            "jobs": self.jobs,
            "seconds": time.time() - self.started,
        }
        engine.keep(_path(self.paper), entries)


def wall_time(paper: str, commits: Collection[str]) -> str:
    """Say how long the runs took that were made at these commits; nothing if none is known."""
    entries = [entry for entry in _read(paper).values() if entry["commit"] in commits]
    if not entries:
        return ""
    minutes = sum(entry["seconds"] for entry in entries) / 60.0
    runs = "one run" if len(entries) == 1 else f"{len(entries)} runs, each going on where the one before stopped"
    jobs = " or ".join(sorted({str(entry["jobs"]) for entry in entries}))
    return f"Wall time: {minutes:.1f} minutes in {runs} (worker processes: {jobs})."


def _path(paper: str) -> Path:
    return engine.CACHE / f"{paper}-runs.json"


def _read(paper: str) -> dict[str, Any]:
    path = _path(paper)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
