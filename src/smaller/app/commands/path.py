"""`smaller path`: the weights for every strength."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.pipeline import Pipeline

from smaller.app.commands.options import (
    Drop,
    DropRare,
    Encoding,
    Header,
    MergeRare,
    Missing,
    TablePath,
    Target,
    Threads,
)
from smaller.app.commands.steps import emit, shared_threads
from smaller.app.delimited import csv_text
from smaller.app.study import Question, prepare
from smaller.app.study.models import preparation
from smaller.app.tables import read_table

__all__ = ["path"]


def path(
    table: TablePath,
    target: Target,
    alphas: Annotated[int, typer.Option(min=2, max=1000, help="Number of strengths.")] = 30,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if left out.")] = None,
    drop: Drop = None,
    drop_rare: DropRare = None,
    merge_rare: MergeRare = None,
    missing: Missing = "fill",
    encoding: Encoding = None,
    header: Header = None,
    threads: Threads = None,
) -> None:
    """Follow the whole path of strengths.

    For every strength the loss and the weights (per standard deviation).
    """
    from smaller import smlr_path

    question = Question(target, tuple(drop or ()), missing, group="none", drop_rare=drop_rare, merge_rare=merge_rare)
    data = prepare(read_table(table, encoding=encoding, header=header), question)
    with shared_threads(threads, data.X):
        scaled = Pipeline(preparation(data.X)).fit_transform(data.X)
        traced = smlr_path(scaled, data.y, alphas=alphas, tol=1e-4)
    labels = traced.classes[1:] if len(traced.classes) == 2 else traced.classes
    lines: list[list[Any]] = [["alpha", "features_used", "loss", "gap", "feature", "class", "weight"]]
    names = data.encoder.features
    for alpha, used, loss, gap, w in zip(
        traced.alphas, traced.n_active, traced.losses, traced.gaps, traced.weights, strict=True
    ):
        head = [f"{alpha:.6g}", int(used), f"{loss:.6g}", f"{gap:.3g}"]
        entries = w.tocoo()
        for j, k, value in zip(*entries.coords, entries.data, strict=True):
            lines.append([*head, names[j], labels[k], f"{value:.6g}"])
        if not entries.nnz:
            lines.append([*head, "", "", ""])
    emit(out, csv_text(lines))
