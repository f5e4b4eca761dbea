"""The command line: `smaller fit TABLE --target COLUMN` and its companions.

Exit codes: 0 done, 2 the input cannot be used (one sentence says why), 3 a defect of this program, 4 no usable model
could be fitted (nothing is written), 130 interrupted.
Results go to standard output, everything else to standard error. Files appear complete or not at all.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Grid

from smaller.app.columns import TableEncoder, class_labels
from smaller.app.delimited import csv_text
from smaller.app.report import features_csv, render, report_json
from smaller.app.study import Study, TableModel, UnusableModelError, available_models, run_study
from smaller.app.study.answer import ADVICE
from smaller.app.study.honest import is_small, stages
from smaller.app.tables import Table, TableError, read_table
from smaller.decisions import adjust_priors
from smaller.persistence import (
    ModelFileError,
    atomic_write,
    check_replaceable,
    finish_interrupted,
    load,
    model_bytes,
    write_together,
)
from smaller.threads import limited

__all__ = ["app", "main"]

_RESULTS = ("report.html", "report.json", "features.csv", "model.smaller")
_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which typer carries under its own name

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Which few variables matter, how sure can I be, and can I use the model?",
)  # fmt: skip

TablePath = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, XLSX, Parquet, Feather/Arrow, NPZ or svmlight file (.gz, .zst), or - for stdin."),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a text table; recognised if left out.")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Column to leave out; may be repeated.")]
Missing = Annotated[str, typer.Option(help="What to do with missing values: fill or refuse.")]
Rule = Annotated[str, typer.Option(help="Strength of smlr: 1se (sparser) or min (best score).")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of every random choice.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads to use; all cores if left out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]


@app.command()
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
    """Fit a model to a table and write report.html, report.json, features.csv and model.smaller."""
    _check_choice("--model", model, [*available_models(), "auto"])
    _check_choice("--rule", rule, ["1se", "min"])
    _check_folder(out)
    X, y, encoder, notes = _prepare(table, target, drop, missing, encoding, header)
    with _threads(threads, X), _progress(X, model, quiet or as_json) as tick:
        study = run_study(X, y, encoder, model=model, rule=rule, seed=seed, notes=notes, tick=tick)
    study.facts["command"] = f"smaller {shlex.join(sys.argv[1:])}"
    _write(study, out)
    _show(study, out, as_json=as_json, quiet=quiet)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    table: TablePath,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if left out.")] = None,
    reject: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Leave the label empty where the risk is above this.")
    ] = None,
    priors: Annotated[str | None, typer.Option(help='Class shares where the model is used: "a=0.9,b=0.1".')] = None,
    encoding: Encoding = None,
    header: Header = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table: label, risk of being wrong, and the probability of every class."""
    fitted = _load(model)
    rows = read_table(table, encoding=encoding, header=header)
    proba = fitted.predict_proba(rows)
    if priors is not None:
        proba, _ = adjust_priors(proba, fitted.train_priors, _parse_priors(priors, fitted.classes))
    risk = 1.0 - proba.max(axis=1)
    labels = [str(label) for label in fitted.classes[proba.argmax(axis=1)].tolist()]
    if reject is not None:
        labels = ["" if doubt > reject else label for label, doubt in zip(labels, risk, strict=True)]
    names = [f"p({label})" for label in fitted.classes.tolist()]
    _say([] if quiet else fitted.encoder.unknown_levels(rows))
    if as_json:
        _emit(out, json.dumps([
            {"label": label or None, "risk": float(doubt)} | dict(zip(names, map(float, row), strict=True))
            for label, doubt, row in zip(labels, risk, proba, strict=True)
        ]) + "\n")  # fmt: skip
        return
    lines: list[list[Any]] = [["row", "label", "risk", *names]]
    for i, (label, doubt, row) in enumerate(zip(labels, risk, proba, strict=True), 1):
        lines.append([i, label, f"{doubt:.6g}", *(repr(float(value)) for value in row)])
    _emit(out, csv_text(lines))


@app.command()
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
    """Follow the whole path: for every strength the loss and the weights (per standard deviation)."""
    from smaller import smlr_path
    from smaller.app.study.models import make_model

    X, y, encoder, _ = _prepare(table, target, drop, missing, encoding, header)
    with _threads(threads, X):
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
    _emit(out, csv_text(lines))


@app.command()
def compare(
    table: TablePath,
    target: Target,
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
    """Judge every model on the same held-out rows of one table."""
    from smaller.app.study.compare import compare_models

    _check_choice("--rule", rule, ["1se", "min"])
    X, y, _, notes = _prepare(table, target, drop, missing, encoding, header)
    _say([] if quiet else notes)
    with _threads(threads, X), _progress(X, "compare", quiet or as_json) as tick:
        lines = compare_models(X, y, seed=seed, rule=rule, tick=tick)
    if as_json:
        _emit(None, json.dumps(lines) + "\n")
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


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="Model file written by fit.")],
    as_json: AsJson = False,
) -> None:
    """Say what is in a model file."""
    fitted = _load(model)
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
        _emit(None, json.dumps(facts) + "\n")
        return
    console = Console(highlight=False)
    console.print(f"{facts['estimator']} for {escape(fitted.encoder.target)!s}: {escape(', '.join(facts['classes']))}")
    console.print(escape(facts["status"]))
    console.print(f"{len(used)} of {len(fitted.encoder.features)} features used:")
    for name in used[:50]:
        console.print(f"  {escape(name)}")


@app.command()
def demo(
    data: Annotated[str, typer.Option(help="tumours (two classes) or wines (three).")] = "tumours",
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("smaller-demo"),
    quiet: Quiet = False,
) -> None:
    """Fit a data set that comes with scikit-learn and write a report."""
    from sklearn import datasets

    _check_choice("--data", data, ["tumours", "wines"])
    _check_folder(out)
    if data == "tumours":
        bunch, target = datasets.load_breast_cancer(), "diagnosis"
    else:
        bunch, target = datasets.load_wine(), "cultivar"
    columns = dict(zip(map(str, bunch.feature_names), bunch.data.T, strict=True))
    columns[target] = bunch.target_names.astype(object)[bunch.target]
    X, y, encoder, notes = _encode(Table(columns), target, [], "fill")
    with _threads(None, X), _progress(X, "smlr", quiet) as tick:
        study = run_study(X, y, encoder, notes=notes, tick=tick)
    study.facts["command"] = f"smaller demo --data {data}"
    _write(study, out)
    _show(study, out, as_json=False, quiet=quiet)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what this installation has: versions, linear algebra, threads, models, GPU."""
    from smaller.app.study.diagnosis import diagnose

    facts = diagnose()
    if as_json:
        _emit(None, json.dumps(facts) + "\n")
        return
    grid = Grid(box=None, show_header=False)
    for key, value in facts.items():
        grid.add_row(key, escape(", ".join(value) if isinstance(value, list) else str(value)))
    Console().print(grid)


# ---- shared steps ---------------------------------------------------------------------------------------------------


def _prepare(
    path: Path, target: str, drop: list[str] | None, missing: str, encoding: str | None, header: bool | None
) -> tuple[Any, Any, TableEncoder, list[str]]:
    _check_choice("--missing", missing, ["fill", "refuse"])
    return _encode(read_table(path, encoding=encoding, header=header), target, drop or [], missing)


def _encode(table: Table, target: str, drop: list[str], missing: str) -> tuple[Any, Any, TableEncoder, list[str]]:
    y, rows = class_labels(table, target)
    told = list(table.notes)
    if len(rows) < table.n_rows:
        told.append(f"{table.n_rows - len(rows)} rows without a value of {target!r} were left out.")
        table = table.rows(rows)
    encoder, notes = TableEncoder.learn(table, target, drop=drop, missing=missing)
    return encoder.transform(table), y, encoder, [*told, *notes]


def _check_choice(name: str, value: str, choices: list[str]) -> None:
    if value not in choices:
        raise TableError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")


def _check_folder(folder: Path, names: Sequence[str] = _RESULTS) -> None:
    """Find out before the work, not after it, whether the results can be written."""
    existing = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not existing.is_dir():
        raise TableError(f"--out {folder}: {existing} is a file, not a folder.")
    if not os.access(existing, os.W_OK):
        raise TableError(f"--out {folder}: no permission to write to {existing}.")
    for name in names:
        check_replaceable(folder / name)


def _load(path: Path) -> TableModel:
    if not path.is_file():
        raise TableError(f"{path}: there is no such file.")
    with suppress(PermissionError):  # a folder one may only read from
        finish_interrupted(path.parent)
    model = load(path)
    if not isinstance(model, TableModel):
        raise ModelFileError(f"{path.name} holds a {type(model).__name__}, not a model that `smaller fit` wrote.")
    model.encoder.features  # noqa: B018 - a damaged encoder fails here, before any row is read
    return model


def _parse_priors(text: str, classes: Any) -> Any:
    names = [str(label) for label in classes.tolist()]
    try:
        given = {name.strip(): float(value) for name, value in (part.rsplit("=", 1) for part in text.split(","))}
    except ValueError:
        raise TableError(f'--priors must look like "{names[0]}=0.9,{names[1]}=0.1", not {text!r:.80}.') from None
    if sorted(given) != sorted(names):
        raise TableError(f"--priors must name every class once: {', '.join(names)}.")
    values = np.array([given[name] for name in names])
    if not (values >= 0).all() or not np.isfinite(values).all() or values.sum() == 0:
        raise TableError("--priors must be numbers of at least 0, not all of them 0.")
    return values / values.sum()


def _write(study: Study, folder: Path) -> None:
    """Write the four files: after an interruption all of them are old, or all of them new."""
    facts = study.facts
    texts = [text.encode() for text in (render(facts), report_json(facts), features_csv(facts))]
    contents = dict(zip(_RESULTS, [*texts, model_bytes(study.model)], strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    write_together(folder, contents)


def _emit(out: Path | None, text: str) -> None:
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    _check_folder(out.parent, [out.name])
    with atomic_write(out) as file:
        file.write(text.encode())


def _say(notes: list[str]) -> None:
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


@contextmanager
def _threads(limit: int | None, X: Any) -> Iterator[None]:
    """Share out the threads (all cores if no limit is given).

    Small tables: that many folds at a time, each on one thread, because small products only lose by more. Large ones:
    one fold at a time, all threads for its linear algebra.
    """
    from joblib import cpu_count, parallel_config
    from threadpoolctl import threadpool_limits

    count = limit or cpu_count()
    folds, algebra = (count, 1) if is_small(*X.shape) else (1, count)
    with threadpool_limits(algebra), limited(algebra), parallel_config(backend="threading", n_jobs=folds):
        yield


@contextmanager
def _progress(X: Any, model: str, hidden: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the stage that begins; the bar knows how many there are, hence the time left."""
    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=hidden or not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("reading", total=stages(X, model), completed=-1)

        def tick(stage: str) -> None:
            bar.update(task, advance=1, description=stage)

        yield tick


def _show(study: Study, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Print the summary: chosen features, error, calibration, certificate, and where the report is."""
    facts = study.facts
    if as_json:
        _emit(None, report_json(facts))
        return
    console = Console(highlight=False, soft_wrap=True)
    if not quiet:
        _say(facts["notes"])
        judged, proof = facts["performance"], facts["certificate"]
        _show_features(console, facts)
        low, high = judged["error_interval"]
        console.print(
            f"\nerror {judged['error']:.1%} on {judged['rows']} rows not learnt from (95%: {low:.1%} to {high:.1%}; "
            f"guessing: {judged['baseline_error']:.1%})"
        )
        console.print(f"log-loss {judged['log_loss']:.3f} (without features: {judged['baseline_log_loss']:.3f})")
        console.print(f"probabilities are off by {facts['calibration']['expected_calibration_error']:.1%} on average")
        if facts["caution"]:
            console.print(f"[bold]caution:[/bold] {escape(facts['caution'])}\n")
        else:
            gap = "" if proof["gap"] is None else f" (duality gap {proof['gap']:.2g})"
            console.print(f"{proof['status']}{gap}\n")
    console.print(f"report: {escape(str((out / 'report.html').absolute()))}")


def _show_features(console: Console, facts: dict[str, Any]) -> None:
    if facts["chosen"] is None:
        console.print(f"{facts['points']} of {facts['rows']} rows serve as reference points")
        return
    labels = facts["classes"]
    classes = [f"{labels[1]} (+) or {labels[0]} (-)"] if len(labels) == 2 else labels[:6]
    grid = Grid("feature", *(escape(label) for label in classes), "chosen again", box=None)
    for row in facts["chosen"]["features"][:20]:
        weights = [f"{value:+.3f}" if value else "" for value in row["weights"][: len(classes)]]
        grid.add_row(escape(row["name"]), *weights, "" if row["frequency"] is None else f"{row['frequency']:.0%}")
    console.print(f"{len(facts['chosen']['features'])} of {facts['features']} features used")
    console.print(grid)


def main() -> None:
    """Run the command line; whatever goes wrong is one sentence on standard error and an exit code."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how typer passes on Ctrl-C
            raise KeyboardInterrupt
    except (typer.Exit, SystemExit) as error:
        code = getattr(error, "exit_code", getattr(error, "code", 0))
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("interrupted; nothing was written.", 130)
    except _USAGE_ERROR as error:
        code = _fail(error.format_message(), 2)
    except (TableError, ModelFileError) as error:
        code = _fail(str(error), 2)
    except UnusableModelError as error:
        code = _fail(str(error), 4)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = _fail(f"{error.filename or 'file'}: {error.strerror or error}.", 2)
    except (np.linalg.LinAlgError, OverflowError, FloatingPointError) as error:
        code = _fail(f"the columns cannot be computed with ({error}): {ADVICE}", 4)
    except MemoryError:
        code = _fail("there is not enough memory for this table: take a sample of its rows or fewer columns.", 2)
    except Exception as error:
        if os.environ.get("SMALLER_DEBUG"):
            traceback.print_exc()
        code = _fail(f"unexpected {type(error).__name__}: {error} (set SMALLER_DEBUG=1 for details, and report it).", 3)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"smaller: {' '.join(sentence.split())}\n")
    return code


if __name__ == "__main__":
    main()
