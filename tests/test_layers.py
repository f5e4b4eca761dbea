"""The layer table of docs/architecture.md, enforced: every import of the package is read and judged."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import smaller

ROOT = Path(smaller.__file__).parent

# One line per layer, lowest first. A module imports from lower lines, and in its own line only from its left.
LAYERS = [
    ["_core"],
    ["threads", "telling", "arrays", "kernels", "grams", "factors", "designs"],
    ["likelihoods", "priors", "bases"],
    ["rows"],
    ["problem", "row_problem"],
    ["solvers"],
    ["searches"],
    ["validation", "soft_labels", "papers", "inference", "estimators"],
    ["datasets", "persistence", "export", "plotting", "distributed", "devices", "app"],
]
BLIND = {"likelihoods", "priors", "bases"}  # none of the three may know another
DOORS = ("likelihoods.multinomial", "rows.passes", "solvers.core")  # to the compiled core
SIDE = {"bounds", "decisions"}  # functions on arrays: they see layers 1-2 and are seen from layer 7 on

LAYER = {name: level for level, line in enumerate(LAYERS) for name in line}
SCIKIT_LEARN_FROM = LAYER["validation"]
LEAVES = LAYER["datasets"]
NUMERIC = {"numpy", "scipy", "array_api_compat"}
READERS = ("rows.arrow",)  # of files, whose package is imported when such files are opened


def modules() -> list[str]:
    """Dotted names of every module of the package, relative to it ("" is the package itself)."""
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def read(module: str) -> tuple[str, bool]:
    """Source of a module, and whether it is a package (relative imports count from there)."""
    path = ROOT.joinpath(*module.split(".")) if module else ROOT
    package = path.is_dir()
    return (path / "__init__.py" if package else path.with_suffix(".py")).read_text(encoding="utf-8"), package


def imported(source: str, module: str, package: bool) -> Iterator[tuple[str, bool]]:
    """Absolute dotted names a source imports, and whether only when a function is called."""
    here = ["smaller", *module.split(".")] if module else ["smaller"]
    base = here if package else here[:-1]
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lazy = {inner for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = base[: len(base) - node.level + 1] if node.level else []
            origin = ".".join([*parent, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from smaller import priors` imports the module `smaller.priors`.
                yield (f"{origin}.{alias.name}" if origin == "smaller" else origin), node in lazy


def complaints(source: str, module: str, package: bool = False) -> list[str]:
    """Import statements that break the table, one sentence each."""
    room = module.split(".")[0]
    found = []
    for name, lazy in imported(source, module, package):
        top, *rest = name.split(".")
        problem = (
            inside(module, room, rest[0] if rest else "") if top == "smaller" else outside(module, room, top, lazy)
        )
        if problem:
            found.append(f"{module or '__init__'} imports {name}: {problem}")
    return found


def inside(module: str, room: str, other: str) -> str | None:
    """What is wrong with `room` importing `other`, both of this package."""
    level, theirs = LAYER.get(room, -1), LAYER.get(other)
    if other == "_core":
        return None if module in DOORS else "the compiled core has doors of its own"
    if room in ("", other):  # the package itself names what it offers to type checkers; test_api: it loads nothing
        return None
    if other in SIDE:
        return None if level >= SCIKIT_LEARN_FROM else "only layers 7 and 8 use these functions"
    if theirs is None:
        # The public names of the package itself: for leaves, which stand outside like any user.
        return None if level == LEAVES else "name the module it comes from, not the package"
    if room in SIDE:
        return None if 1 <= theirs <= 2 else "bounds and decisions see layers 1-2 only"
    if theirs > level:
        return f"layer {theirs} is above layer {level}"
    if theirs == level and room in BLIND:
        return "likelihoods, priors and bases are mutually blind"
    if theirs == level and LAYERS[level].index(other) > LAYERS[level].index(room):
        return "in its own layer a module imports only from its left"
    return None


def outside(module: str, room: str, top: str, lazy: bool) -> str | None:
    """What is wrong with `room` importing the foreign package `top`."""
    level = LAYER.get(room, 0)
    if top in sys.stdlib_module_names or top in NUMERIC or level == LEAVES:
        return None
    if module in READERS and top == "pyarrow" and lazy:
        return None
    if level < SCIKIT_LEARN_FROM:
        return "scikit-learn enters at layer 7, and nothing but numerical packages before"
    return None if top == "sklearn" or lazy else "an optional package is imported where it is used"


@pytest.mark.parametrize("module", [name for name in modules() if name])
def test_module_has_a_layer(module: str) -> None:
    room = module.split(".")[0]
    assert room in LAYER or room in SIDE, f"{room}: give it a line here and in docs/architecture.md"


@pytest.mark.parametrize("module", modules(), ids=lambda name: name or "__init__")
def test_imports_respect_the_layers(module: str) -> None:
    source, package = read(module)
    assert complaints(source, module, package) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("priors", "from smaller.likelihoods import Multinomial"),
        ("priors", "from .bases import Kernel"),
        ("bases", "def f():\n    import smaller.priors"),
        ("arrays", "from smaller.kernels import rbf"),
        ("designs", "from smaller import problem"),
        ("problem", "from . import solvers"),
        ("solvers.proximal", "from smaller import _core"),
        ("solvers.proximal", "from .. import _core"),
        ("solvers.coordinate", "from smaller._core import descend"),
        ("solvers.driver", "from ..searches.path import path"),
        ("problem", "import sklearn.utils"),
        ("searches.path", "from sklearn.base import clone"),
        ("bounds", "from smaller.problem import Solution"),
        ("bounds", "import sklearn"),
        ("solvers.driver", "from smaller.decisions import adjust_priors"),
        ("estimators.smlr", "import matplotlib.pyplot as plt"),
        ("priors", "def f():\n    import pandas"),
        ("estimators.smlr", "from smaller.plotting import plot_path"),
        ("estimators.smlr", "from smaller import SMLR"),
    ],
)
def test_a_forbidden_import_is_caught(module: str, statement: str) -> None:
    assert len(complaints(statement, module, package=module == "")) == 1


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("kernels", "from .arrays import namespace"),
        ("bases", "from smaller.designs import Dense"),
        ("problem", "from smaller import priors"),
        ("solvers.core", "from smaller import _core"),
        ("likelihoods.multinomial", "import smaller._core as _core"),
        ("solvers.coordinate", "from .driver import drive"),
        ("estimators.smlr", "from ..decisions import adjust_priors\nfrom sklearn.base import BaseEstimator"),
        ("estimators.smlr", "class A:\n    def to_frame(self):\n        import pandas"),
        ("app.cli", "import typer\nfrom smaller import SMLR\nfrom smaller.datasets import load"),
        ("", "from smaller.estimators.smlr import SMLR"),
    ],
)
def test_a_permitted_import_passes(module: str, statement: str) -> None:
    assert complaints(statement, module, package=module == "") == []


# Classes of which a caller should not ask whether a part is one: it should ask the part what it can do.
PARTS = {
    *("Dense", "Csc", "Scaled", "Multinomial", "Gaussian", "Probit", "Ordinal", "ElasticNet", "Jeffreys", "Grouped"),
    *("Coordinate", "Blockwise", "Proximal", "KernelBasis", "Precomputed"),
}


def parts_asked_for(source: str) -> set[str]:
    """Names of concrete parts that appear in an isinstance of a source."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    asked = [node.args[1] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "isinstance"]
    return {name.id for kinds in asked for name in ast.walk(kinds) if isinstance(name, ast.Name)} & PARTS


def defined(source: str) -> set[str]:
    """Names of the classes of a source: a part may know itself."""
    return {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}


def test_every_question_for_a_concrete_part_is_on_the_page_and_the_reverse() -> None:
    found = set()
    for module in modules():
        source, _ = read(module)
        found |= {(module.replace(".", "/"), part) for part in parts_asked_for(source) - defined(source)}
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Where a part is asked what it is")[2].partition("\n## ")[0]
    rows = [[re.findall(r"`([\w/]+)`", cell) for cell in line.split("|")[1:3]] for line in section.splitlines()]
    named = {(place, part) for row in rows if len(row) == 2 for place in row[0] for part in row[1]}
    assert {place for place, _ in found} == {place for place, _ in named}
    assert found <= named
