"""``python -m benchmarks.coverage [PART ...]``: simulate, judge, and write the tables into docs/how-sure.md.

Every draw is kept as soon as it is there (.cache/coverage): the same command goes on where a run was broken off. Parts:
``ranges`` (of probabilities), ``effects`` (ranges of weights), ``sampler`` (against the full posterior), ``blocks``,
``divergence`` (what relaxing does, truth known) and ``relaxing`` (on data sets; needs SMALLER_DATA).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.papers.engine import ROOT

from . import blocks, effects, ranges, relaxing, sampler
from .engine import Part, outside, pending, recall, store, table

PARTS = {
    part.name: part for part in (ranges.PART, effects.PART, sampler.PART, blocks.PART, relaxing.TRUTH, relaxing.DATA)
}
PAGE = ROOT / "docs" / "how-sure.md"


def main() -> int:
    """Run what is asked for; 1 if a mean left its band."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("parts", nargs="*", help="all of them without one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; go on by another run")
    parser.add_argument("--show", action="store_true", help="print the tables of what is there, and run nothing")
    asked = parser.parse_args()
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    chosen = [PARTS[name] for name in asked.parts] if asked.parts else list(PARTS.values())
    end = time.monotonic() + 60.0 * asked.minutes
    for part in chosen:
        if not asked.show:
            run(part, end)
        print(f"{part.name}\n{table(part)}\n", flush=True)
        if complete(part):
            write(part, PAGE)
    left = [line for part in chosen for line in outside(part)]
    for line in left:
        print(f"OUTSIDE its band: {line}")
    return 1 if left else 0


def run(part: Part, end: float) -> None:
    """Make the draws that are missing, row by row."""
    if part.needs_data and "SMALLER_DATA" not in os.environ:
        print(f"{part.name}: left out, SMALLER_DATA is not set")
        return
    with threadpool_limits(1):
        for row in part.rows:
            for seed in pending(part, row):
                if time.monotonic() > end:
                    return
                store(part, row, seed, part.measure(row.settings, seed))


def complete(part: Part) -> bool:
    return all(len(recall(part, row)) == row.draws for row in part.rows)


def write(part: Part, page: Path) -> None:
    """Put the table of a part between its two marks, if the page has them."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    first, last = f"<!-- {part.name} -->\n", f"<!-- /{part.name} -->"
    if first in text and last in text:
        before, rest = text.split(first)
        after = rest.split(last, 1)[1]
        page.write_text(f"{before}{first}\n{table(part)}\n\n{last}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
