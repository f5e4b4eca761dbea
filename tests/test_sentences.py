"""Whatever the library may say, some test has heard it: statuses, and the sentences of warnings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import smaller
from smaller.problem import Status

SOURCE, TESTS = Path(smaller.__file__).parent, Path(__file__).parent
LEAST = 12  # characters in a row that a test must share with a sentence


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def fixed_text(node: ast.expr) -> str:
    """Return what is always the same in a string: values that are put in become a line break."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr), ast.dump(node)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "\n" for part in node.values)


def warnings_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tell", "warnings.warn"):
            message = node.args[0]
            if not isinstance(message, ast.Name):  # `tell` itself passes its argument on
                yield node.lineno, fixed_text(message)


SENTENCES = {f"{path.stem}:{line}": text for path, tree in trees(SOURCE) for line, text in warnings_of(tree)}


def windows(text: str) -> set[str]:
    return {text[i : i + LEAST] for i in range(len(text) - LEAST + 1)}


@cache
def expected() -> frozenset[str]:
    """Return all that tests look for, cut into windows: every text in their code but the first of a function."""
    found: set[str] = set()
    for path, tree in trees(TESTS):
        if path.name.startswith("test_") and path != Path(__file__):
            said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                    found |= windows(node.value.replace("\\", ""))
    return frozenset(found)


@cache
def code_of_tests() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__))


def test_there_are_sentences() -> None:
    assert len(SENTENCES) >= 20


@pytest.mark.parametrize("place", SENTENCES)
def test_a_test_hears_every_warning(place: str) -> None:
    assert windows(SENTENCES[place]) & expected(), f"no test looks for: {SENTENCES[place]!r}"


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_a_test_reaches_every_status(status: Status) -> None:
    assert re.search(rf"""Status\.{status.name}\b|["']{status.name}["']""", code_of_tests())
