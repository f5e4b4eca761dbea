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
    option = parser.add_argument
    option("--problems", default=DEFAULT, help="A-F, real sets, NAME/3 for every third row; all: every real set")
    option("--libraries", default=",".join(LIBRARIES))
    option("--threads", default="1", help="1, 2 or 1,2")
    option("--fractions", default="0.1", help="of alpha_max")
    option("--paths", action="store_true", help="100-alpha paths down to the fractions, not single fits")
    option("--limit", type=float, default=60, help="CPU seconds for a library on a problem")
    option("--refresh", default="", help="libraries to measure again although cached")
    option("--quick", action="store_true", help="small problems, 10 seconds each")
    option("--report", action="store_true", help="only write the page from the cache")
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
