"""The pages of the API reference: one list a module, one page a public name, from ``__all__`` alone."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

MODULES = {
    "smaller": "Estimators, and what goes with them",
    "smaller.decisions": "Decisions from probabilities",
    "smaller.bounds": "Bounds on the error",
    "smaller.plotting": "Pictures",
    "smaller.export": "Models without Python",
    "smaller.rows": "Rows: where the data live",
    "smaller.datasets": "Synthetic problems",
}


def public_names() -> dict[str, list[str]]:
    """Return the public names of every module."""
    return {module: list(importlib.import_module(module).__all__) for module in MODULES}


def write(folder: Path) -> None:
    """Write the lists; files that would not change keep their time."""
    folder.mkdir(exist_ok=True)
    names = public_names()
    for module, title in MODULES.items():
        put(folder / f"{module}.rst", module_page(module, title, names[module]))
    put(folder / "index.rst", index_page())


def put(path: Path, text: str) -> None:
    """Write a file unless it has this text."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def index_page() -> str:
    """Return the page that leads to the modules."""
    lists = "\n".join(f"   {module}" for module in MODULES)
    return (
        f"{heading('API')}"
        "Every public name has a page: its formula, its arguments, its attributes, an example that runs.\n"
        "What the numbers mean is decided in :doc:`/conventions`.\n\n"
        f".. toctree::\n   :maxdepth: 2\n\n{lists}\n"
    )


def module_page(module: str, title: str, names: list[str]) -> str:
    """Return the list of a module: classes, then functions."""
    owner = importlib.import_module(module)
    classes = [name for name in names if inspect.isclass(getattr(owner, name))]
    functions = [name for name in names if name not in classes]
    blocks = [("Classes", classes), ("Functions", functions)]
    text = heading(title) + f".. currentmodule:: {module}\n\nIn ``{module}``.\n\n"
    for label, part in blocks:
        if part:
            entries = "\n".join(f"   {name}" for name in part)
            text += (
                f".. rubric:: {label}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{entries}\n\n"
            )
    return text


def heading(title: str) -> str:
    """Return a page's title."""
    return f"{title}\n{'=' * len(title)}\n\n"
