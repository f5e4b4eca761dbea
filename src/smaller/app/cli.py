"""The command line: `smaller fit TABLE --target COLUMN` and its companions.

Exit codes: 0 done, 2 the input cannot be used (one sentence says why), 3 a defect of this program, 4 no usable model
could be fitted (nothing is written), 130 interrupted.
Results go to standard output, everything else to standard error. Files appear complete or not at all.

`smaller.app.commands` has a file per command; `program` puts them together and turns errors into sentences, `options`
and `steps` are what they share, `screen` prints the answer.
"""

import sys

__all__ = ["main"]

_EXTRA = ("typer", "rich", "pyarrow")


def main() -> None:
    """Run the command line; whatever goes wrong is one sentence on standard error and an exit code."""
    try:
        from smaller.app.commands.program import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f"smaller: the command line needs {error.name}: pip install 'smaller[cli]'.\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("smaller: interrupted; nothing was written.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
