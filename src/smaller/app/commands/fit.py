"""`smaller fit` and `smaller demo`: from a table to a report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from smaller.app.commands import options
from smaller.app.commands.regress import fit_regression, refuse_options_of_classes
from smaller.app.commands.screen import show
from smaller.app.commands.steps import check_choice, check_folder, progress, say, shared_threads, write
from smaller.app.study import Data, Procedure, Question, available_models, prepare, run_study
from smaller.app.study.costs import cost_matrix
from smaller.app.study.demands import graded
from smaller.app.tables import Table, TableError, read_table

__all__ = ["demo", "fit"]


def fit(
    table: options.TablePath,
    target: options.Target,
    task: Annotated[str, typer.Option(help="classification, or regression of a column of numbers.")] = "classification",
    model: Annotated[
        str, typer.Option(help="smlr, sbmlr, sparse-probit; kernels: ivm, jcfo, rvm, sbmlr-rbf; or auto.")
    ] = "smlr",
    out: Annotated[Path, typer.Option(help="Folder for report, features and model.")] = Path("smaller-report"),
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
    repeats: Annotated[
        int | None, typer.Option(min=1, max=100, help="Times cross-validation is done; by table size if left out.")
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Try shuffled labels, too.")] = True,
    alphas: Annotated[int, typer.Option(min=2, max=1000, help="Number of strengths that smlr tries.")] = 50,
    ordinal: Annotated[
        str | None, typer.Option(help="Grades of the target from lowest to highest: low,middle,high.")
    ] = None,
    eps: Annotated[float | None, typer.Option(help="Smallest strength as a share of the largest.")] = None,
    relax: options.Relax = True,
    always: options.Always = None,
    features: options.MostFeatures = None,
    class_weight: options.ClassWeight = None,
    costs: options.CostsPath = None,
    positive: options.Positive = None,
    specificity: options.Specificity = 0.9,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a model to a table and write a report.

    The folder gets report.html, report.json, features.csv and model.smaller.
    """
    check_choice("--task", task, ["classification", "regression"])
    if task == "regression":
        refuse_options_of_classes(
            {
                "--order": order, "--ordinal": ordinal, "--always": always, "--features": features,
                "--class-weight": class_weight, "--costs": costs, "--positive": positive, "--eps": eps,
                "--drop-rare": drop_rare, "--merge-rare": merge_rare,
            }
        )  # fmt: skip
        check_folder(out)
        asked = Question(target, tuple(drop or ()), missing, group, tuple(ids or ()), features=tuple(feature or ()))
        fit_regression(
            read_table(table, encoding=encoding, header=header), asked, out, model=model, seed=seed, shuffle=shuffle,
            command=f"smaller {shlex.join(sys.argv[1:])}", threads=threads, as_json=as_json, quiet=quiet,
        )  # fmt: skip
        return
    check_choice("--model", model, [*available_models(), "auto"])
    check_choice("--rule", rule, ["1se", "min"])
    if eps is not None and not 0 < eps < 1:
        raise TableError(f"--eps must lie between 0 and 1, not be {eps:g}.")
    check_folder(out)
    forced = () if always is None else tuple(part.strip() for part in always.split(","))
    question = Question(
        target,
        tuple(drop or ()),
        missing,
        group,
        tuple(ids or ()),
        order,
        tuple(feature or ()),
        forced,
        drop_rare,
        merge_rare,
    )
    data = prepare(read_table(table, encoding=encoding, header=header), question)
    grades = None if ordinal is None else graded(ordinal.split(","), data.y, model)
    how = Procedure(
        model, rule, seed, repeats, shuffle, relax, alphas, eps, features, class_weight, positive=positive,
        specificity=specificity,
    )  # fmt: skip
    if costs is not None:
        how = replace(how, costs=cost_matrix(read_table(costs), grades or np.unique(data.y)))
    if grades is not None:
        how = replace(how, model="ordinal", grades=grades)
    _study(data, how, out, f"smaller {shlex.join(sys.argv[1:])}", threads=threads, as_json=as_json, quiet=quiet)


def _study(
    data: Data, how: Procedure, out: Path, command: str, *, threads: int | None, as_json: bool, quiet: bool
) -> None:
    silent = quiet or as_json
    with shared_threads(threads, data.X), progress(data, how, silent) as tick:
        study = run_study(data, how, tick=tick, announce=lambda sentence: say([] if silent else [sentence]))
    study.facts["command"] = command
    write(study, out)
    show(study, out, as_json=as_json, quiet=quiet)


def demo(
    data_name: Annotated[str, typer.Option("--data", help="tumours (two classes) or wines (three).")] = "tumours",
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("smaller-demo"),
    quiet: options.Quiet = False,
) -> None:
    """Fit a data set that comes with scikit-learn and write a report."""
    from sklearn import datasets

    check_choice("--data", data_name, ["tumours", "wines"])
    check_folder(out)
    if data_name == "tumours":
        bunch, target = datasets.load_breast_cancer(), "diagnosis"
    else:
        bunch, target = datasets.load_wine(), "cultivar"
    columns = dict(zip(map(str, bunch.feature_names), bunch.data.T, strict=True))
    columns[target] = bunch.target_names.astype(object)[bunch.target]
    data = prepare(Table(columns), Question(target))
    _study(
        data, Procedure(relax=True), out, f"smaller demo --data {data_name}", threads=None, as_json=False, quiet=quiet
    )
