"""`smaller compare`: every model on the same held-out rows."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from smaller.app.commands import options
from smaller.app.commands.steps import check_choice, emit, progress, say, shared_threads
from smaller.app.study import Procedure, Question, available_models, prepare
from smaller.app.tables import read_table

__all__ = ["compare"]


def compare(
    table: options.TablePath,
    target: options.Target,
    drop: options.Drop = None,
    group: options.Group = None,
    ids: options.Ids = None,
    order: options.Order = None,
    feature: options.UsedFeature = None,
    drop_rare: options.DropRare = None,
    merge_rare: options.MergeRare = None,
    missing: options.Missing = "fill",
    encoding: options.Encoding = None,
    header: options.Header = None,
    rule: options.Rule = "1se",
    seed: options.Seed = 0,
    threads: options.Threads = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge every model on the same held-out rows of one table."""
    from smaller.app.study.compare import compare_models

    check_choice("--rule", rule, ["1se", "min"])
    question = Question(
        target, tuple(drop or ()), missing, group, tuple(ids or ()), order, tuple(feature or ()), drop_rare=drop_rare,
        merge_rare=merge_rare,
    )  # fmt: skip
    data = prepare(read_table(table, encoding=encoding, header=header), question)
    how = Procedure(rule=rule, seed=seed, relax=True)
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
