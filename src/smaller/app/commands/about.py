"""`smaller inspect` and `smaller doctor`: what a model file holds, what this installation has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from smaller.app.commands.options import AsJson
from smaller.app.commands.steps import emit, load_model

__all__ = ["doctor", "inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    as_json: AsJson = False,
) -> None:
    """Say what is in a model file."""
    fitted = load_model(model)
    estimator = fitted.pipeline[-1]
    used = [fitted.encoder.features[j] for j in getattr(estimator, "active_features_", [])]
    facts = {
        "settings": fitted.settings,
        "estimator": type(estimator).__name__,
        "classes": [str(label) for label in fitted.classes.tolist()],
        "train_priors": fitted.train_priors.tolist(),
        "columns": [column.name for column in fitted.encoder.columns],
        "features_used": used,
        "status": estimator.solution_.status.value,
    }
    if as_json:
        emit(None, json.dumps(facts) + "\n")
        return
    console = Console(highlight=False)
    console.print(f"{facts['estimator']} for {escape(fitted.encoder.target)!s}: {escape(', '.join(facts['classes']))}")
    console.print(escape(facts["status"]))
    console.print(f"{len(used)} of {len(fitted.encoder.features)} features used:")
    for name in used[:50]:
        console.print(f"  {escape(name)}")


def doctor(as_json: AsJson = False) -> None:
    """Say what this installation has.

    Versions, linear algebra, threads, models, GPU.
    """
    from smaller.app.study.diagnosis import diagnose

    facts = diagnose()
    if as_json:
        emit(None, json.dumps(facts) + "\n")
        return
    grid = Grid(box=None, show_header=False)
    for key, value in facts.items():
        grid.add_row(key, escape(", ".join(value) if isinstance(value, list) else str(value)))
    Console().print(grid)
