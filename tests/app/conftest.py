"""The command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command and returns exit code, output and errors."""
    from smaller.app.cli import main  # needs typer, without which the tests of the command line are skipped

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["smaller", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return call
