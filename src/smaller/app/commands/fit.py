"""`smaller fit` and `smaller demo`: from a table to a report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from smaller.app.commands.options import (
    AsJson,
    Drop,
    Encoding,
    Header,
    Missing,
    Quiet,
    Rule,
    Seed,
    TablePath,
    Target,
    Threads,
)
from smaller.app.commands.screen import show
from smaller.app.commands.steps import check_choice, check_folder, encode, prepare, progress, shared_threads, write
from smaller.app.study import available_models, run_study
from smaller.app.tables import Table

__all__ = ["demo", "fit"]


def fit(
    table: TablePath,
    target: Target,
    model: Annotated[str, typer.Option(help="smlr, sbmlr, ivm, jcfo, sparse-probit or auto.")] = "smlr",
    out: Annotated[Path, typer.Option(help="Folder for report, features and model.")] = Path("smaller-report"),
    drop: Drop = None,
    missing: Missing = "fill",
    encoding: Encoding = None,
    header: Header = None,
    rule: Rule = "1se",
    seed: Seed = 0,
    threads: Threads = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and write a report.

    The folder gets report.html, report.json, features.csv and model.smaller.
    """
    check_choice("--model", model, [*available_models(), "auto"])
    check_choice("--rule", rule, ["1se", "min"])
    check_folder(out)
    X, y, encoder, notes = prepare(table, target, drop, missing, encoding, header)
    with shared_threads(threads, X), progress(X, model, quiet or as_json) as tick:
        study = run_study(X, y, encoder, model=model, rule=rule, seed=seed, notes=notes, tick=tick)
    study.facts["command"] = f"smaller {shlex.join(sys.argv[1:])}"
    write(study, out)
    show(study, out, as_json=as_json, quiet=quiet)


def demo(
    data: Annotated[str, typer.Option(help="tumours (two classes) or wines (three).")] = "tumours",
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("smaller-demo"),
    quiet: Quiet = False,
) -> None:
    """Fit a data set that comes with scikit-learn and write a report."""
    from sklearn import datasets

    check_choice("--data", data, ["tumours", "wines"])
    check_folder(out)
    if data == "tumours":
        bunch, target = datasets.load_breast_cancer(), "diagnosis"
    else:
        bunch, target = datasets.load_wine(), "cultivar"
    columns = dict(zip(map(str, bunch.feature_names), bunch.data.T, strict=True))
    columns[target] = bunch.target_names.astype(object)[bunch.target]
    X, y, encoder, notes = encode(Table(columns), target, [], "fill")
    with shared_threads(None, X), progress(X, "smlr", quiet) as tick:
        study = run_study(X, y, encoder, notes=notes, tick=tick)
    study.facts["command"] = f"smaller demo --data {data}"
    write(study, out)
    show(study, out, as_json=False, quiet=quiet)
