"""`smaller evaluate`: a model on another table whose labels are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from smaller.app.commands.options import AsJson, Encoding, Header, Quiet, TablePath
from smaller.app.commands.steps import check_folder, emit, load_model, say
from smaller.app.report.evaluation import render_evaluation
from smaller.app.study.evaluation import evaluate as judge
from smaller.app.tables import read_table
from smaller.persistence import write_together

__all__ = ["evaluate"]

_FILES = ("evaluation.html", "evaluation.json")


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    table: TablePath,
    by: Annotated[str | None, typer.Option(help="Column whose values are judged one by one: hospital, sex.")] = None,
    group: Annotated[str | None, typer.Option(help="Column whose rows belong together, for the intervals.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for evaluation.html and evaluation.json.")] = None,
    encoding: Encoding = None,
    header: Header = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Judge a model on another table with known labels."""
    if out is not None:
        check_folder(out, _FILES)
    facts = judge(load_model(model), read_table(table, encoding=encoding, header=header), by=by, group=group)
    text = json.dumps(facts, allow_nan=False, indent=1) + "\n"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_together(out, {"evaluation.html": render_evaluation(facts).encode(), "evaluation.json": text.encode()})
    if as_json:
        emit(None, text)
        return
    if not quiet:
        say(facts["notes"][:5])
        _show(Console(highlight=False, soft_wrap=True), facts)
    if out is not None:
        typer.echo(f"report: {(out / 'evaluation.html').absolute()}")


def _show(console: Console, facts: dict[str, Any]) -> None:
    judged, fit = facts["performance"], facts["recalibration"]
    low, high = judged["error_interval"]
    console.print(
        f"error {judged['error']:.1%} on {facts['rows']:,} rows (95%: {low:.1%} to {high:.1%}; guessing: "
        f"{judged['baseline_error']:.1%})"
    )
    area = facts["areas"][0]
    if len(facts["classes"]) == 2 and area["value"] is not None:
        ends = "" if area["interval"] is None else f" (95%: {area['interval'][0]:.3f} to {area['interval'][1]:.3f})"
        console.print(f"area under the ROC curve {area['value']:.3f}{ends}")
    console.print(f"log-loss {judged['log_loss']:.3f}, Brier score {judged['brier']:.3f}")
    if fit is not None:
        low, high = fit["slope_interval"]
        console.print(f"calibration slope {fit['slope']:.2f} (95%: {low:.2f} to {high:.2f})")
    if facts["unlike"]:
        console.print(f"{facts['unlike']:,} of {facts['rows']:,} rows are unlike anything seen in training")
    if "parts" in facts:
        grid = Grid(escape(facts["by"]), "rows", "error", "95%", "log-loss", box=None)
        for part in facts["parts"]:
            p = part["performance"]
            low, high = p["error_interval"]
            numbers = (f"{part['rows']:,}", f"{p['error']:.1%}", f"{low:.1%} to {high:.1%}", f"{p['log_loss']:.3f}")
            grid.add_row(escape(part["name"]), *numbers)
        console.print(grid)
        if facts["left_out"]:
            console.print(f"too few rows to judge: {escape(', '.join(facts['left_out']))}")
