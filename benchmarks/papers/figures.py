"""Figures of the papers' pages."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from .engine import Experiment, Row, Table, recall_all

_COUNTS = ("errors", "errors_per_split")  # measures that are shown in per cent of the decisions


def draw_bands(table: Table, path: Path, quick: bool) -> None:
    """Draw every row's first measure, errors in per cent: the paper's, ours and the accepted band."""
    key = next(iter(table.measures))
    entries = [
        (experiment, row, values)
        for experiment in table.experiments
        for row in experiment.rows
        if (values := measured(table, experiment, row, key, quick))
    ]
    with matplotlib.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.5, 0.9 + 0.24 * len(entries)), layout="constrained")
        axes = figure.subplots()
        previous = None
        for line, (experiment, row, values) in enumerate(entries):
            decisions = scale(table, experiment, row, key, quick)
            draw_row(axes, line, row, np.array(values) / decisions, key, decisions)
            if previous is not None and experiment is not previous:
                axes.axhline(line - 0.5, color="0.85", linewidth=0.8)
            previous = experiment
        labels = [f"{experiment.name}   {row.method}" for experiment, row, _ in entries]
        axes.set(yticks=range(len(entries)), yticklabels=labels, ylim=(len(entries) - 0.5, -0.5))
        axes.set_xlabel("test errors, per cent" if key in _COUNTS else key.replace("_", " "))
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        handles = [
            axes.plot([], [], "x", color="0.2", label="paper")[0],
            axes.plot([], [], "o", color="C0", label="ours: mean and range")[0],
            axes.plot([], [], "o", color="0.55", label="rival, run here")[0],
            axes.plot([], [], "s", color="C0", alpha=0.2, markersize=9, label="accepted")[0],
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path, dpi=130)


def measured(table: Table, experiment: Experiment, row: Row, key: str, quick: bool) -> list[float]:
    outcomes = recall_all(table, experiment, row, quick)
    return [outcome.measures[key] for outcome in outcomes if key in outcome.measures]


def scale(table: Table, experiment: Experiment, row: Row, key: str, quick: bool) -> float:
    """Divisor that turns counts of errors into per cent, and leaves other measures alone."""
    first = recall_all(table, experiment, row, quick)[0].measures
    if key not in _COUNTS:
        return 1.0
    return first["decisions"] / 100 if key == "errors" else decisions_per_split(first) / 100


def decisions_per_split(measures: dict[str, float]) -> float:
    splits = measures["errors"] / measures["errors_per_split"] if measures["errors"] else 1.0
    return measures["decisions"] / splits


def draw_row(axes: object, line: int, row: Row, values: np.ndarray, key: str, divisor: float) -> None:
    if key in row.bands:
        band = row.bands[key]
        low, high = max(band.low, 0.0) / divisor, band.high / divisor
        axes.barh(line, high - low, left=low, height=0.7, color="C0", alpha=0.2)
    color = "C0" if row.ours else "0.55"
    axes.plot([values.min(), values.max()], [line, line], color=color, linewidth=1.5)
    axes.plot(values.mean(), line, "o", color=color, markersize=5)
    if key in row.paper:
        axes.plot(row.paper[key] / divisor, line, "x", color="0.2", markersize=6, clip_on=False)
