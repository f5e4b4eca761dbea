"""Command line: ``python -m benchmarks.papers [names] [--quick] [--list] [--jobs N]``.

Every result is kept as soon as it is there: the same command goes on where a run was broken off. Do not change the code
in between, or the rows that depend on it are measured anew.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import MODULES
from .engine import Listing, Paper, Unit, measure_listing, pending, recall_listing, run, selected
from .ledger import Session
from .page import outside_rows, write_page


def main() -> int:
    """Run what is asked for; 1 if a row left its band, 2 if a name is unknown."""
    console = Console()
    options = parse()
    papers = [importlib.import_module(f"{__package__}.{module}").PAPER for module in MODULES]
    known = {paper.name for paper in papers} | {table.name for paper in papers for table in paper.tables}
    if unknown := [name for name in options.names if name not in known]:
        console.print(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}", markup=False)
        return 2
    chosen = [paper for paper in papers if any(selected(paper, table, options.names) for table in paper.tables)]
    if options.list:
        for paper in chosen:
            for table in paper.tables:
                console.print(f"{table.name:24} {table.title}", markup=False)
        return 0
    outside = []
    for paper in chosen:
        units = pending(paper, options.names, options.quick, options.slow)
        listings = [] if options.quick else missing_listings(paper, options.names)
        run_with_bar(paper, units, listings, options.jobs, console)
        console.print(f"{paper.name}: {write_page(paper, options.quick)}", markup=False)
        outside += outside_rows(paper, options.names, options.quick)
    for line in outside:
        console.print(f"OUTSIDE its band: {line}", markup=False)
    return 1 if outside else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("names", nargs="*", help="papers or tables, such as smlr or smlr-table2 (default: all)")
    parser.add_argument("--quick", action="store_true", help="one seed; the page goes to .cache/papers/quick")
    parser.add_argument("--list", action="store_true", help="list the tables and stop")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--slow", action="store_true", help="also the slow rows (RVM; one seed, cached)")
    return parser.parse_args()


def missing_listings(paper: Paper, names: list[str]) -> list[Listing]:
    """Return the measured listings that are asked for and not there."""
    chosen = (table for table in paper.tables if isinstance(table, Listing) and selected(paper, table, names))
    return [table for table in chosen if table.measured and recall_listing(table) is None]


def run_with_bar(paper: Paper, units: list[Unit], listings: list[Listing], jobs: int, console: Console) -> None:
    session = Session(paper.name, jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(paper.name, total=len(units) + len(listings))
        for unit in run(units, jobs):
            session.note()
            progress.update(bar, advance=1, description=f"{unit.table.name} {unit.experiment.name}")
        for table in listings:
            measure_listing(table)
            session.note()
            progress.update(bar, advance=1, description=table.name)


if __name__ == "__main__":
    sys.exit(main())
