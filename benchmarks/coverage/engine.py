"""Parts made of rows, rows made of draws: every draw is kept as soon as it is there, and means are judged by bands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import smaller
from benchmarks.papers.engine import ROOT, Band
from benchmarks.papers.page import markdown

__all__ = ["CACHE", "Part", "Row", "outside", "pending", "recall", "store", "table"]

CACHE = ROOT / ".cache" / "coverage"
_CODE = ("inference", "likelihoods", "priors", "searches", "solvers")  # folders of the package that figures depend on
_ESTIMATORS = ("base", "blocks", "cross_validated", "folds", "intervals", "relaxed", "sbmlr")


@dataclass(frozen=True)
class Row:
    """One setting; ``bands`` are for means over its draws."""

    name: str
    settings: Mapping[str, Any]
    draws: int
    bands: Mapping[str, Band] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A table: ``measure(settings, seed)`` returns the numbers of one draw, ``columns`` are those shown."""

    name: str
    measure: Callable[[Mapping[str, Any], int], dict[str, float]]
    columns: Mapping[str, str]  # key: heading
    rows: tuple[Row, ...]
    heading: str = "rows, columns, not zero"
    needs_data: bool = False


def pending(part: Part, row: Row) -> Iterator[int]:
    """Return the seeds of a row that no stored result answers."""
    done = recall(part, row)
    return (seed for seed in range(row.draws) if seed not in done)


def recall(part: Part, row: Row) -> dict[int, dict[str, float]]:
    """Return the stored draws of a row, those of other code left out."""
    path = _path(part)
    if not path.is_file():
        return {}
    entries = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {e["seed"]: e["values"] for e in entries if e["row"] == row.name and e["stamp"] == _stamp(part)}


def store(part: Part, row: Row, seed: int, values: Mapping[str, float]) -> None:
    """Append a draw."""
    path = _path(part)
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"row": row.name, "seed": seed, "stamp": _stamp(part), "values": dict(values)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def table(part: Part) -> str:
    """Return the table of a part in Markdown."""
    body = []
    for row in part.rows:
        drawn = list(recall(part, row).values())
        cells = [_cell(_mean(drawn, key), row.bands.get(key)) for key in part.columns]
        body.append(
            [row.name, *cells, len(drawn), "" if not row.bands else "OUTSIDE" if _left(row, drawn) else "inside"]
        )
    return markdown([part.heading, *part.columns.values(), "draws", "bands"], body)


def outside(part: Part) -> list[str]:
    """Name the rows whose mean is not in its band."""
    lines = []
    for row in part.rows:
        drawn = list(recall(part, row).values())
        lines += [
            f"{part.name}: {row.name}: {key} {_mean(drawn, key):.3g} ({_ends(row.bands[key])})"
            for key in _left(row, drawn)
        ]
    return lines


def _left(row: Row, drawn: list[dict[str, float]]) -> list[str]:
    return [key for key, band in row.bands.items() if drawn and _mean(drawn, key) not in band]


def _mean(drawn: list[dict[str, float]], key: str) -> float:
    values = [draw[key] for draw in drawn if draw.get(key) is not None and not np.isnan(draw[key])]
    return float(np.mean(values)) if values else float("nan")


def _cell(value: float, band: Band | None) -> str:
    text = "" if np.isnan(value) else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
    return text if band is None else f"{text} ({_ends(band)})"


def _ends(band: Band) -> str:
    if np.isinf(band.low):
        return f"<= {band.high:g}"
    return f">= {band.low:g}" if np.isinf(band.high) else f"{band.low:g} to {band.high:g}"


def _path(part: Part) -> Path:
    return CACHE / f"{part.name}.jsonl"


@cache  # the code that runs is the code read at the start
def _digest(files: frozenset[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _stamp(part: Part) -> str:
    home = Path(smaller.__file__).parent
    files = {path for folder in _CODE for path in (home / folder).glob("*.py")}
    files |= {home / "estimators" / f"{name}.py" for name in _ESTIMATORS}
    return _digest(frozenset(files | {Path(part.measure.__code__.co_filename)}))
