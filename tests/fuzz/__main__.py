"""`python -m fuzz --cases 5000`, or one again: `python -m fuzz --seed 17`."""

from __future__ import annotations

import argparse
import collections
import sys
import time

from fuzz.judge import FINDINGS, judge, make_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="judge this one case and say what it is")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so much time")
    parser.add_argument("--until", type=int, default=0, help="stop after so many findings")
    options = parser.parse_args()
    if options.seed is not None:
        case = make_case(options.seed)
        print(case)
        verdict = judge(case)
        print(f"{verdict.kind}: {verdict.note} ({verdict.cpu:.2f} CPU s)")
        return int(verdict.bad)
    kinds: collections.Counter[str] = collections.Counter()
    slowest, start, done = 0.0, time.monotonic(), 0
    for seed in range(options.first, options.first + options.cases):
        case = make_case(seed)
        verdict = judge(case)
        kinds[verdict.kind] += 1
        done += 1
        slowest = max(slowest, verdict.cpu)
        if verdict.bad:
            print(f"{verdict.kind}: {verdict.note}\n  {case}\n  again: make fuzz SEED={seed}", flush=True)
        if time.monotonic() - start > options.seconds or (
            options.until and sum(kinds[k] for k in FINDINGS) >= options.until
        ):
            break
    counts = ", ".join(
        f"{kinds[kind]} {kind}" for kind in (*FINDINGS, "right", "not converged", "refused", "undecided")
    )
    print(f"fuzz: {done} cases from seed {options.first}: {counts}; slowest {slowest:.1f} CPU s")
    return int(any(kinds[kind] for kind in FINDINGS))


if __name__ == "__main__":
    sys.exit(main())
