"""The page of a paper: its tables beside ours, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .engine import (
    ROOT,
    Experiment,
    Listing,
    Outcome,
    Paper,
    Row,
    Table,
    paired_p_value,
    recall_all,
    recall_listing,
    recall_pairs,
)
from .ledger import wall_time

DOCS = ROOT / "docs" / "papers"
HOW_TO_READ = """\
Unless a table says otherwise, every hyper-parameter is cross-validated on the training part only. "Ours" is the mean
over the seeds ± their standard deviation [smallest, largest]; the seed moves the folds (or the random splits), never a
chosen parameter. A row is *inside* if the mean of each measure that has a band lies in it. A band marked "paper" is the
printed value with its printed deviation, or with 1.5 points where that is larger; one marked "ours" was set around
values of an earlier program of ours: inside it means that nothing has changed, not that the paper agrees. "p" is
McNemar's exact paired test of the row against the first row of ours on the same test decisions (median over the seeds).
"CPU s" is processor time per seed; "commit" is the code that a row was measured with ("+": with changes on top).
"""


def write_page(paper: Paper, quick: bool = False) -> Path:
    """Write the page from stored results; a quick run's page goes beside the cache, not into the docs."""
    folder = ROOT / ".cache" / "papers" / "quick" if quick else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{paper.name}.md"
    path.write_text(render(paper, folder, quick), encoding="utf-8")
    return path


def render(paper: Paper, folder: Path, quick: bool) -> str:
    command = f"Made by `python -m benchmarks.papers {paper.name}`; do not edit."
    clock = wall_time(paper.name, commits(paper, quick))
    parts = [f"# {paper.title}", " ".join([command, clock]).strip(), paper.text.strip(), HOW_TO_READ.strip()]
    for table in paper.tables:
        parts += [f"## {table.title}", table.text.strip()]
        parts.append(listing_lines(table) if isinstance(table, Listing) else table_lines(table, quick))
        if isinstance(table, Table) and any_results(table, quick):
            parts.append(figure_line(table, folder, quick))
        parts += [f"- {note.strip()}" for note in table.notes]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(header: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def listing_lines(table: Listing) -> str:
    if not table.measured:
        return markdown(*table.make())
    stored = recall_listing(table)
    if stored is None:
        return "Not run."
    note = f"{stored['seconds']:.0f} s of processor time, at commit {stored['commit']}."
    return f"{markdown(stored['header'], stored['body'])}\n\n{note}"


def commits(paper: Paper, quick: bool) -> set[str]:
    """Commits at which the results on a page were measured."""
    found = {
        outcome.commit
        for table in paper.tables
        if isinstance(table, Table)
        for experiment in table.experiments
        for row in experiment.rows
        for outcome in recall_all(table, experiment, row, quick)
    }
    listings = [recall_listing(table) for table in paper.tables if isinstance(table, Listing) and table.measured]
    return found | {stored["commit"] for stored in listings if stored is not None}


def table_lines(table: Table, quick: bool) -> str:
    header = ["data", "method"]
    for heading in table.measures.values():
        header += [f"{heading}: paper", "ours", "band"]
    header += ["verdict", "p", "seeds", "CPU s", "commit"]
    body = [row_cells(table, experiment, row, quick) for experiment in table.experiments for row in experiment.rows]
    return markdown(header, body)


def row_cells(table: Table, experiment: Experiment, row: Row, quick: bool) -> list[str]:
    outcomes = recall_all(table, experiment, row, quick)
    cells = [experiment.name, f"**{row.method}**" if row.ours else row.method]
    for key in table.measures:
        band = row.bands.get(key)
        paper = f"{row.paper[key]:g}" if key in row.paper else ""
        cells += [paper, summary(outcomes, key), "" if band is None else str(band)]
    seconds = f"{np.mean([outcome.seconds for outcome in outcomes]):.1f}" if outcomes else ""
    return [
        *cells,
        verdict(row, outcomes),
        p_cell(table, experiment, row, quick),
        str(len(outcomes)),
        seconds,
        ", ".join(sorted({outcome.commit for outcome in outcomes})),
    ]


def summary(outcomes: Sequence[Outcome], key: str) -> str:
    values = [outcome.measures[key] for outcome in outcomes if key in outcome.measures]
    if not values:
        return ""
    counts = all(float(value).is_integer() for value in values)
    digits = 1 if counts else decimals(max(abs(value) for value in values))
    ends = 0 if counts else digits
    if len(values) == 1 or np.ptp(values) == 0:
        return f"{values[0]:.{ends}f}"
    spread = f"± {np.std(values, ddof=1):.{digits}f} [{min(values):.{ends}f}, {max(values):.{ends}f}]"
    return f"{np.mean(values):.{digits}f} {spread}"


def decimals(largest: float) -> int:
    """Return how many decimals show three digits of values up to ``largest``; rates and entropies have three."""
    return 3 if largest < 2.0 else 2 if largest < 20.0 else 1


def verdict(row: Row, outcomes: Sequence[Outcome]) -> str:
    """Read a row's bands: inside, OUTSIDE and by which measure, not run and why."""
    if not outcomes:
        return "not run"
    if outcomes[0].unavailable:
        return f"not run: {outcomes[0].unavailable}"
    outside = [
        key
        for key, band in row.bands.items()
        if float(np.mean([outcome.measures[key] for outcome in outcomes])) not in band
    ]
    if outside:
        return f"OUTSIDE ({', '.join(outside)})"
    return "inside" if row.bands else ""


def p_cell(table: Table, experiment: Experiment, row: Row, quick: bool) -> str:
    reference = next((other for other in experiment.rows if other.ours), None)
    if reference is None or reference is row:
        return ""
    value = paired_p_value(recall_pairs(table, experiment, reference, row, quick))
    return "" if np.isnan(value) else f"{value:.2g}"


def outside_rows(paper: Paper, names: Sequence[str], quick: bool) -> list[str]:
    """Name the rows of the selected tables whose mean left its band, listings with such a line too."""
    chosen = [table for table in paper.tables if not names or paper.name in names or table.name in names]
    stored = ((table.name, recall_listing(table)) for table in chosen if isinstance(table, Listing) and table.measured)
    lines = [f"{name}: {line[0]}" for name, made in stored if made for line in made["body"] if "OUTSIDE" in line]
    return lines + [
        f"{table.name}: {experiment.name}, {row.method}"
        for table in chosen
        if isinstance(table, Table)
        for experiment in table.experiments
        for row in experiment.rows
        if verdict(row, recall_all(table, experiment, row, quick)).startswith("OUTSIDE")
    ]


def any_results(table: Table, quick: bool) -> bool:
    return any(recall_all(table, e, row, quick) for e in table.experiments for row in e.rows)


def figure_line(table: Table, folder: Path, quick: bool) -> str:
    from .figures import draw_bands  # matplotlib only where a figure is made

    (folder / "img").mkdir(exist_ok=True)
    draw_bands(table, folder / "img" / f"{table.name}.png", quick)
    return f"![{table.title}: the paper's values, ours and the bands](img/{table.name}.png)"
