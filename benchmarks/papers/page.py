"""The page of a paper: its tables beside ours, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .engine import ROOT, Experiment, Listing, Outcome, Paper, Row, Table, paired_p_value, recall_all, recall_pairs

DOCS = ROOT / "docs" / "papers"
HOW_TO_READ = """\
Every hyper-parameter is cross-validated on the training part only. "Ours" is the mean
over the seeds ± their standard deviation [smallest, largest]; the seed moves the folds (or the random
splits), never a chosen parameter. A row is *inside* if the mean of each measure that has a band lies in it.
"p" is McNemar's exact paired test of the row against the first row of ours on the same test decisions
(median over the seeds).
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
    parts = [f"# {paper.title}", command, paper.text.strip(), HOW_TO_READ.strip()]
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
    return markdown(*table.make())


def table_lines(table: Table, quick: bool) -> str:
    header = ["data", "method"]
    for heading in table.measures.values():
        header += [f"{heading}: paper", "ours", "band"]
    header += ["verdict", "p", "seeds", "s per seed"]
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
    ]


def summary(outcomes: Sequence[Outcome], key: str) -> str:
    values = [outcome.measures[key] for outcome in outcomes if key in outcome.measures]
    if not values:
        return ""
    digits = 3 if max(values) < 1 else 1
    mean = f"{np.mean(values):.{digits}f}".removesuffix(".0")
    if len(values) == 1 or np.ptp(values) == 0:
        return mean
    low, high = (f"{value:.{digits}f}".removesuffix(".0") for value in (min(values), max(values)))
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f} [{low}, {high}]"


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
    """Name the rows of the selected tables whose mean left its band."""
    return [
        f"{table.name}: {experiment.name}, {row.method}"
        for table in paper.tables
        if isinstance(table, Table) and (not names or paper.name in names or table.name in names)
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
