"""Command line: `python -m benchmarks.compare --problems A,B --fractions 0.1,0.01`."""

import argparse
import logging

from . import report, run
from .libraries import LIBRARIES

DEFAULT = "A,B,C,D,E,F,colon,golub,isolet"


def names(text: str) -> list[str]:
    return text.split(",") if text else []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--problems", default=DEFAULT, help="A-F, names of real sets, name/3: every third row; all: every real set")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--threads", default="1", help="1, 2 or 1,2")
    parser.add_argument("--fractions", default="0.1", help="of alpha_max")
    parser.add_argument("--paths", action="store_true", help="100-alpha paths down to the fractions instead of single fits")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a library on a problem, all tolerances together")
    parser.add_argument("--refresh", default="", help="libraries to measure again although cached")
    parser.add_argument("--quick", action="store_true", help="small problems, 10 seconds each")
    parser.add_argument("--report", action="store_true", help="only write the page from the cache")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

    wanted = "A,wine,colon" if args.quick else args.problems
    problems = run.problems.real_names() if wanted == "all" else names(wanted)
    tasks = [run.Task(p, float(f), args.paths) for p in problems for f in names(args.fractions)]
    if not args.report:
        threads = [int(t) for t in names(args.threads)]
        run.run(tasks, names(args.libraries), threads, 10 if args.quick else args.limit, names(args.refresh))
    report.write()


if __name__ == "__main__":
    main()
