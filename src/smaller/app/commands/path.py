"""`smaller path`: the weights for every strength."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from smaller.app.commands.options import Drop, Encoding, Header, Missing, TablePath, Target, Threads
from smaller.app.commands.steps import emit, prepare, shared_threads
from smaller.app.delimited import csv_text

__all__ = ["path"]


def path(
    table: TablePath,
    target: Target,
    alphas: Annotated[int, typer.Option(min=2, max=1000, help="Number of strengths.")] = 30,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if left out.")] = None,
    drop: Drop = None,
    missing: Missing = "fill",
    encoding: Encoding = None,
    header: Header = None,
    threads: Threads = None,
) -> None:
    """Follow the whole path of strengths.

    For every strength the loss and the weights (per standard deviation).
    """
    from smaller import smlr_path
    from smaller.app.study.models import make_model

    X, y, encoder, _ = prepare(table, target, drop, missing, encoding, header)
    with shared_threads(threads, X):
        scaled = make_model("smlr", X, seed=0)[:-1].fit_transform(X)
        traced = smlr_path(scaled, y, alphas=alphas, tol=1e-4)
    labels = traced.classes[1:] if len(traced.classes) == 2 else traced.classes
    lines: list[list[Any]] = [["alpha", "features_used", "loss", "gap", "feature", "class", "weight"]]
    names = encoder.features
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
