"""``python -m benchmarks.speed SUBJECT [PART ...]``: every part in a process of its own: memory does not mix."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.speed.clock import Options

SUBJECTS = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in ("__init__", "__main__", "clock"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("parts", nargs="*", help="all of the subject's parts without one")
    parser.add_argument("--runs", type=int, help="the least of so many runs counts")
    parser.add_argument("--python", help="interpreter in which a rival is installed")
    asked = parser.parse_args()
    parts = import_module(f"benchmarks.speed.{asked.subject}").PARTS
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"{asked.subject} has no part {', '.join(sorted(unknown))}; it has {', '.join(parts)}")
    if len(asked.parts) == 1:
        parts[asked.parts[0]](Options(asked.runs, asked.python))
        return
    given = [("--runs", asked.runs), ("--python", asked.python)]
    options = [str(word) for name, value in given if value is not None for word in (name, value)]
    for part in asked.parts or parts:
        subprocess.run([sys.executable, "-m", "benchmarks.speed", asked.subject, part, *options], check=True)


if __name__ == "__main__":
    main()
