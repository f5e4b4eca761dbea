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
    repeats: options.Repeats = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Try shuffled labels, too.")] = True,
    alphas: Annotated[int, typer.Option(min=2, max=1000, help="Number of strengths that smlr tries.")] = 50,
    ordinal: options.Grades = None,
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
    check_folder(out)
    command = f"smaller {shlex.join(sys.argv[1:])}"
    question = Question(
        target, tuple(drop or ()), missing, group, tuple(ids or ()), order, tuple(feature or ()), _parts(always),
        drop_rare, merge_rare,
    )  # fmt: skip
    how = Procedure(
        model, rule, seed, repeats, shuffle, relax, alphas, eps, features, class_weight, positive=positive,
        specificity=specificity,
    )  # fmt: skip
    if task == "regression":
        _refuse_classes(question, how, ordinal, costs)
        fit_regression(
            read_table(table, encoding=encoding, header=header), question, out, model=model, seed=seed, shuffle=shuffle,
            command=command, threads=threads, as_json=as_json, quiet=quiet,
        )  # fmt: skip
        return
    _check_procedure(how)
    data = prepare(read_table(table, encoding=encoding, header=header), question)
    how = _with_tables(how, data, ordinal, costs)
    _study(data, how, out, command, threads=threads, as_json=as_json, quiet=quiet)


def _parts(names: str | None) -> tuple[str, ...]:
    return () if names is None else tuple(part.strip() for part in names.split(","))


def _refuse_classes(question: Question, how: Procedure, ordinal: str | None, costs: Path | None) -> None:
    """Raise where something is asked for that a regression has not."""
    refuse_options_of_classes(
        {
            "--order": question.order,
            "--ordinal": ordinal,
            "--always": question.always or None,
            "--features": how.features,
            "--class-weight": how.class_weight,
            "--costs": costs,
            "--positive": how.positive,
            "--eps": how.eps,
            "--drop-rare": question.drop_rare,
            "--merge-rare": question.merge_rare,
        }
    )


def _check_procedure(how: Procedure) -> None:
    check_choice("--model", how.model, [*available_models(), "auto"])
    check_choice("--rule", how.rule, ["1se", "min"])
    if how.eps is not None and not 0 < how.eps < 1:
        raise TableError(f"--eps must lie between 0 and 1, not be {how.eps:g}.")


def _with_tables(how: Procedure, data: Data, ordinal: str | None, costs: Path | None) -> Procedure:
    """Return the procedure with what only the labels in the table settle: grades, and the prices of mistakes."""
    if ordinal is not None:
        how = replace(how, grades=graded(ordinal.split(","), data.y, how.model), model="ordinal")
    if costs is not None:
        how = replace(how, costs=cost_matrix(read_table(costs), how.grades or np.unique(data.y)))
    return how


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
