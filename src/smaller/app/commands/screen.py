"""The facts of a study on the terminal: the answer first; nothing here computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from smaller.app.commands.steps import emit, say
from smaller.app.report import report_json
from smaller.app.study import Facts, Study
from smaller.app.study.verdict import WITHHELD

__all__ = ["show"]

SHOWN_LINES = 5
SHOWN_CLASSES, SHOWN_FEATURES = 6, 20  # of more classes each has a line of its own


def show(study: Study, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Print the summary: chosen features, error, calibration, certificate, and where the report is."""
    facts = study.facts
    if as_json:
        emit(None, report_json(facts))
        return
    console = Console(highlight=False, soft_wrap=True)
    if not quiet:
        say(_few(facts["notes"], out))
        proof = facts["certificate"]
        console.print(f"[bold]{escape(facts['verdict']['sentence'])}[/bold]")
        if facts["together"]:
            console.print(escape(facts["together"]))
        for finding in _few([finding["sentence"] for finding in facts["audit"]], out):
            console.print(f"[bold]check:[/bold] {escape(finding)}")
        _show_features(console, facts)
        _show_error(console, facts)
        if facts["caution"]:
            console.print(f"[bold]caution:[/bold] {escape(facts['caution'])}\n")
        else:
            share = None if proof["gap"] is None else proof["gap"] / max(proof["scale"], 1e-300)
            gap = "" if share is None else f" (duality gap {share:.1g} of the loss without features)"
            whose = "Penalised fit, before relaxing: " if facts["relaxed"] else ""
            console.print(f"{whose}{proof['status']}{gap}\n")
    console.print(f"report: {escape(str((out / 'report.html').absolute()))}")


def _few(lines: list[str], out: Path) -> list[str]:
    """Return at most five lines; the last says where the others are."""
    if len(lines) <= SHOWN_LINES:
        return lines
    more = len(lines) - SHOWN_LINES + 1
    return [*lines[: SHOWN_LINES - 1], f"... and {more} more: see {out / 'report.html'}."]


def _show_error(console: Console, facts: Facts) -> None:
    judged = facts["performance"]
    low, high = judged["error_interval"]
    certainty = "" if facts["verdict"]["state"] == WITHHELD else f"95%: {low:.1%} to {high:.1%}; "
    _show_cost(console, facts)
    console.print(
        f"error {judged['error']:.1%} on {judged['rows']:,} rows not learnt from ({certainty}"
        f"guessing: {judged['baseline_error']:.1%})"
    )
    if facts["shuffled"] is not None:
        luck = facts["shuffled"]
        paid = "" if luck["cost"] is None else f"{luck['cost']['name']} {luck['cost']['value']:.3g}, "
        console.print(f"the same with shuffled labels: {paid}error {luck['error']:.1%}")
    console.print(escape(facts["all_features"]["sentence"]))
    relaxed = f", before relaxing: {facts['relaxed']['penalised_log_loss']:.3f}" if facts["relaxed"] else ""
    console.print(f"log-loss {judged['log_loss']:.3f} (without features: {judged['baseline_log_loss']:.3f}{relaxed})")
    _show_classes(console, facts)
    fit = facts["recalibration"]
    slope = "" if fit is None else f"; calibration slope {fit['slope']:.2f}"
    console.print(
        f"probabilities are off by {facts['calibration']['expected_calibration_error']:.1%} on average{slope}"
    )


def _show_cost(console: Console, facts: Facts) -> None:
    """Print what decisions cost, where mistakes are not all the same."""
    console.print()
    cost = facts["performance"]["cost"]
    if cost is not None:
        low, high = cost["interval"]
        certainty = "" if facts["verdict"]["state"] == WITHHELD else f"95%: {low:.3g} to {high:.3g}; "
        always = f"always {escape(facts['classes'][cost['baseline_decision']])}: {cost['baseline']:.3g}"
        console.print(f"{cost['name']} {cost['value']:.3g} a row ({certainty}{always})")


def _show_classes(console: Console, facts: Facts) -> None:
    """Print what an error of all rows may hide."""
    whole, found = facts["by_class"], facts["operation"]
    shares = [(one["found"], label) for one, label in zip(whole["classes"], facts["classes"], strict=True)]
    least, label = min(share for share in shares if share[0] is not None)
    console.print(f"balanced accuracy {whole['balanced_accuracy']:.1%}; found least: {escape(label)}, {least:.1%}")
    if found is not None:
        low, high = found["interval"]
        certainty = "" if facts["verdict"]["state"] == WITHHELD else f" (95%: {low:.1%} to {high:.1%})"
        console.print(
            f"{found['sensitivity']:.1%} of {escape(found['positive'])} found at {found['wanted']:.0%} specificity"
            f"{certainty}"
        )
    if facts["cap"] is not None:
        console.print(escape(facts["cap"]["sentence"]))


def _show_features(console: Console, facts: Facts) -> None:
    if facts["chosen"] is None:
        console.print(f"{facts['points']} of {facts['rows']} rows serve as reference points")
        return
    grid = _loudest(facts) if len(facts["classes"]) > SHOWN_CLASSES and not facts["graded"] else _weights(facts)
    console.print(f"{len(facts['chosen']['features'])} of {facts['features']} features used")
    console.print(grid)


def _weights(facts: Facts) -> Grid:
    """Return the weights of the strongest features, a column for every class."""
    labels = facts["classes"]
    classes = [f"{labels[1]} (+) or {labels[0]} (-)"] if len(labels) == 2 else labels
    classes = ["each step up"] if facts["graded"] else classes
    grid = Grid("feature", *(escape(label) for label in classes), "chosen again", box=None)
    for row in facts["chosen"]["features"][:SHOWN_FEATURES] if facts["chosen"] else []:
        weights = [f"{value:+.3f}" if value else "" for value in row["weights"]]
        grid.add_row(escape(row["name"]), *weights, _again(row))
    return grid


def _loudest(facts: Facts) -> Grid:
    """Return, for every one of many classes, the features that speak loudest for and against it."""
    grid = Grid("class", "speaks for it", "speaks against it", box=None)
    rows = facts["chosen"]["features"] if facts["chosen"] else []
    for k, label in enumerate(facts["classes"]):
        for_it = sorted((row for row in rows if row["weights"][k] > 0), key=lambda row: -row["weights"][k])
        against = sorted((row for row in rows if row["weights"][k] < 0), key=lambda row: row["weights"][k])
        cells = [", ".join(f"{row['name']} {row['weights'][k]:+.2g}" for row in part[:3]) for part in (for_it, against)]
        grid.add_row(escape(label), *map(escape, cells))
    return grid


def _again(row: dict[str, Any]) -> str:
    return "" if row["frequency"] is None else f"{row['frequency']:.0%}"
