"""`smaller compare`: every model on the same held-out rows."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from smaller.app.commands.options import (
    AsJson,
    Drop,
    Encoding,
    Group,
    Header,
    Ids,
    Missing,
    Order,
    Quiet,
    Rule,
    Seed,
    TablePath,
    Target,
    Threads,
    UsedFeature,
)
from smaller.app.commands.steps import check_choice, emit, progress, say, shared_threads
from smaller.app.study import Procedure, Question, available_models, prepare
from smaller.app.tables import read_table

__all__ = ["compare"]


def compare(
    table: TablePath,
    target: Target,
    drop: Drop = None,
    group: Group = None,
    ids: Ids = None,
    order: Order = None,
    feature: UsedFeature = None,
    missing: Missing = "fill",
    encoding: Encoding = None,
    header: Header = None,
    rule: Rule = "1se",
    seed: Seed = 0,
    threads: Threads = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Judge every model on the same held-out rows of one table."""
    from smaller.app.study.compare import compare_models

    check_choice("--rule", rule, ["1se", "min"])
    question = Question(target, tuple(drop or ()), missing, group, tuple(ids or ()), order, tuple(feature or ()))
    data, how = prepare(read_table(table, encoding=encoding, header=header), question), Procedure(rule=rule, seed=seed)
    say([] if quiet else data.notes)
    models = len(available_models()) + 1
    with shared_threads(threads, data.X), progress(data, how, quiet or as_json, models) as tick:
        lines = compare_models(data, how, tick=tick)
    if as_json:
        emit(None, json.dumps(lines) + "\n")
        return
    grid = Grid("model", "error", "95% interval", "log-loss", "size", "seconds", box=None)
    for line in lines:
        if "reason" in line:
            grid.add_row(line["model"], "-", escape(line["reason"]))
        else:
            low, high = line["error_interval"]
            grid.add_row(
                line["model"], f"{line['error']:.3f}", f"{low:.3f}-{high:.3f}", f"{line['log_loss']:.3f}",
                line["size"], f"{line['seconds']:.1f}",
            )  # fmt: skip
    Console().print(grid)
