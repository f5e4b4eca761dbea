"""The program: commands under one name, and what becomes of whatever goes wrong."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from smaller.app.commands.about import doctor, inspect
from smaller.app.commands.compare import compare
from smaller.app.commands.evaluate import evaluate
from smaller.app.commands.export import export
from smaller.app.commands.fit import demo, fit
from smaller.app.commands.path import path
from smaller.app.commands.predict import predict
from smaller.app.study import UnusableModelError
from smaller.app.study.observed import ADVICE
from smaller.app.tables import TableError
from smaller.persistence import ModelFileError

__all__ = ["app", "run"]

_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which typer carries under its own name

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"max_content_width": 120},
    help="Which few variables matter, how sure can I be, and can I use the model?",
)  # fmt: skip
for command in (fit, predict, evaluate, compare, path, inspect, export, demo, doctor):
    app.command()(command)


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Say which few variables matter, how sure one can be, and whether the model can be used."""
    if version:
        from smaller import __version__

        typer.echo(f"smaller {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run() -> None:
    """Run the command line; whatever goes wrong is one sentence on standard error and an exit code."""
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how typer passes on Ctrl-C
            raise KeyboardInterrupt
    except (typer.Exit, SystemExit) as error:
        code = getattr(error, "exit_code", getattr(error, "code", 0))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (Exception, KeyboardInterrupt) as error:
        code, sentence = _explain(error)
        sys.stderr.write(f"smaller: {' '.join(sentence.split())}\n")
    sys.exit(code if isinstance(code, int) else 0)


_FAILURES: tuple[tuple[Any, int, Callable[[Any], str]], ...] = (  # what was raised (the first that fits), exit code
    ((KeyboardInterrupt, typer.Abort), 130, lambda error: "interrupted; nothing was written."),
    (_USAGE_ERROR, 2, lambda error: str(error.format_message())),
    ((TableError, ModelFileError), 2, str),
    (UnusableModelError, 4, str),
    (OSError, 2, lambda error: f"{error.filename or 'file'}: {error.strerror or error}."),
    (
        (np.linalg.LinAlgError, OverflowError, FloatingPointError), 4,
        lambda error: f"the columns cannot be computed with ({error}): {ADVICE}",
    ),
    (
        MemoryError, 2,
        lambda error: "there is not enough memory for this table: take a sample of its rows or fewer columns.",
    ),
)  # fmt: skip


def _explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the sentence for what went wrong."""
    for kinds, code, sentence in _FAILURES:
        if isinstance(error, kinds):
            return code, sentence(error)
    if os.environ.get("SMALLER_DEBUG"):
        traceback.print_exception(error)
    return 3, f"unexpected {type(error).__name__}: {error} (set SMALLER_DEBUG=1 for details, and report it)."
