"""Steps that several commands share: from a file to features, threads, progress, and files as a whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from smaller.app.regression.model import ResponseModel
from smaller.app.report import features_csv, render, report_json
from smaller.app.study import Data, Procedure, Study, TableModel
from smaller.app.study.honest import is_small, stages
from smaller.app.tables import TableError
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

__all__ = ["check_choice", "check_folder", "emit", "load_any", "load_model", "progress", "say",
           "shared_threads", "write"]  # fmt: skip

RESULTS = ("report.html", "report.json", "features.csv", "model.smaller")


def check_choice(name: str, value: str, choices: list[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise TableError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")


def check_folder(folder: Path, names: Sequence[str] = RESULTS) -> None:
    """Find out before the work, not after it, whether the results can be written."""
    existing = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not existing.is_dir():
        raise TableError(f"--out {folder}: {existing} is a file, not a folder.")
    if not os.access(existing, os.W_OK):
        raise TableError(f"--out {folder}: no permission to write to {existing}.")
    for name in names:
        check_replaceable(folder / name)


def load_model(path: Path) -> TableModel:
    """Return the table model of classes in a file, whole and usable."""
    model = load_any(path)
    if not isinstance(model, TableModel):
        raise TableError(f"{path.name} holds a regression: only `smaller predict` takes it.")
    return model


def load_any(path: Path) -> TableModel | ResponseModel:
    """Return the table model in a file, whole and usable."""
    if not path.is_file():
        raise TableError(f"{path}: there is no such file.")
    with suppress(PermissionError):  # a folder one may only read from
        finish_interrupted(path.parent)
    model = load(path)
    if not isinstance(model, TableModel | ResponseModel):
        raise ModelFileError(f"{path.name} holds a {type(model).__name__}, not a model that `smaller fit` wrote.")
    model.encoder.features  # noqa: B018 - a damaged encoder fails here, before any row is read
    return model


def write(study: Study, folder: Path) -> None:
    """Write the four files: after an interruption all of them are old, or all of them new."""
    facts = study.facts
    texts = [text.encode() for text in (render(facts), report_json(facts), features_csv(facts))]
    contents = dict(zip(RESULTS, [*texts, model_bytes(study.model)], strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    write_together(folder, contents)


def emit(out: Path | None, text: str) -> None:
    """Write text to standard output, or to a file that appears complete or not at all."""
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    check_folder(out.parent, [out.name])
    with atomic_write(out) as file:
        file.write(text.encode())


def say(notes: list[str]) -> None:
    """Print notes to standard error."""
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


@contextmanager
def shared_threads(limit: int | None, X: Any) -> Iterator[None]:
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
def progress(data: Data, how: Procedure, hidden: bool, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the stage that begins; the bar knows how many there are, hence the time left."""
    total = total or stages(data.X, len(np.unique(data.y)), how, data.units)
    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=hidden or not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("reading", total=total, completed=-1)

        def tick(stage: str) -> None:
            bar.update(task, advance=1, description=stage)

        yield tick
