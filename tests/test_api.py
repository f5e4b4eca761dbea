"""The public surface: few names, all documented, and an import that stays light."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import smaller

# What outside programs may rely on. A name enters here and in the README together with the object itself.
CONTRACT = {
    "SMLR",
    "SMLRCV",
    "RMLR",
    "SBMLR",
    "SparseRegressor",
    "SparseProbit",
    "JCFO",
    "JCFOCV",
    "KLR",
    "IVM",
    "RVC",
    "RVR",
    "OrdinalSMLR",
    "smlr_path",
    "alpha_max",
    "coef_interval",
    "adjust_priors",
    "PriorShiftClassifier",
    "RejectOptionClassifier",
    "MinimumRiskClassifier",
    "StabilitySelection",
    "TableFeatures",
    "select_by_evidence",
    "save",
    "load",
    "study",
    "__version__",
}
README = Path(__file__).parents[1] / "README.md"
OPTIONAL = ["matplotlib", "pandas", "dask", "torch", "typer"]

PUBLIC = sorted(getattr(smaller, "__all__", []))
OBJECTS = [name for name in PUBLIC if not name.startswith("__")]
EAGER = set(OBJECTS) - {
    "StabilitySelection",
    "TableFeatures",
    "load",
    "save",
    "study",
}  # they load more of scikit-learn


def methods(cls: type) -> list[str]:
    """Public methods and properties that the package itself defines on a class."""
    ours = [base for base in cls.__mro__ if base.__module__.split(".")[0] == "smaller"]
    members = {name: member for base in ours for name, member in vars(base).items() if name[0] != "_"}
    return sorted(name for name, m in members.items() if callable(m) or isinstance(m, property))


def test_public_names_are_the_contract() -> None:
    assert PUBLIC, "smaller.__all__ lists the public names"
    assert len(PUBLIC) == len(set(PUBLIC))
    assert set(PUBLIC) <= CONTRACT


def test_nothing_public_is_left_out_of_all() -> None:
    visible = {
        name for name, value in vars(smaller).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible <= set(PUBLIC)


def test_package_has_a_docstring() -> None:
    assert smaller.__doc__


@pytest.mark.parametrize("name", OBJECTS)
def test_public_object_has_a_docstring(name: str) -> None:
    public = getattr(smaller, name)
    # object.__doc__ and inherited text do not count: ask the object's own dictionary for classes.
    text = vars(public).get("__doc__") if isinstance(public, type) else public.__doc__
    assert text
    assert text.strip()


@pytest.mark.parametrize("name", OBJECTS)
def test_public_methods_have_docstrings(name: str) -> None:
    public = getattr(smaller, name)
    if isinstance(public, type):
        bare = [method for method in methods(public) if not inspect.getdoc(getattr(public, method))]
        assert bare == []
    else:
        assert callable(public)


def test_readme_says_what_is_available() -> None:
    """Rows of the README's table of methods: | `Name`, `name` | ... | available or coming |."""
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|.*\| (available|coming) \|$", README.read_text("utf-8"), re.M)
    status = {name: word for names, word in rows for name in re.findall(r"\w+", names)}
    assert set(status) == CONTRACT - {"__version__"}
    assert {name for name, word in status.items() if word == "available"} == set(OBJECTS)


def test_import_loads_no_optional_package() -> None:
    """Beyond what scikit-learn itself loads: it takes pandas along where that is installed."""
    code = f"""
import json, sys, sklearn.linear_model
before = set(sys.modules)
from smaller import {", ".join(sorted(EAGER))}
print(json.dumps(sorted((set(sys.modules) - before) & set({OPTIONAL}))))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []


def test_import_loads_little_of_scikit_learn() -> None:
    """Beyond what its own linear models load: clustering, neighbours, trees and the like come when they are used."""
    code = f"""
import json, sys, sklearn.linear_model
before = set(sys.modules)
from smaller import {", ".join(sorted(EAGER))}
print(json.dumps(sorted({{".".join(name.split(".")[:2]) for name in set(sys.modules) - before}})))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(run.stdout)
    assert {name for name in loaded if name.startswith("sklearn")} <= {
        "sklearn.frozen",
        "sklearn.pipeline",
        "sklearn.utils",
    }
    assert {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) <= {
        "array_api_compat",
        "sklearn",
        "smaller",
    }


def test_names_are_loaded_when_first_used() -> None:
    """The bare package loads nothing: an interrupt finds it whole, and a command's help is there at once."""
    code = """
import json, sys
import smaller
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] in ("smaller", "numpy", "sklearn"))))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == ["smaller"]
    assert set(OBJECTS) <= set(dir(smaller))
    with pytest.raises(AttributeError, match="no attribute 'SMLRR'"):
        _ = smaller.SMLRR


def test_type_checkers_see_every_name_from_where_it_is_loaded() -> None:
    text = Path(smaller.__file__).read_text("utf-8")
    (block,) = re.findall(r"^if _typing.TYPE_CHECKING:\n((?:    .*\n)+)", text, re.M)
    seen = {home: set(names.split(", ")) for home, names in re.findall(r"from (\S+) import (.+)", block)}
    assert seen == {home: set(names) for home, names in smaller._HOMES.items()}


@pytest.mark.parametrize(
    ("file", "line"), [("CITATION.cff", r"^version: (\S+)$"), ("recipe/recipe.yaml", r'^  version: "(\S+)"$')]
)
def test_every_file_that_names_the_version_names_this_one(file: str, line: str) -> None:
    path = Path(__file__).parents[1] / file
    if not path.exists():
        pytest.skip(f"{file} is not part of this copy")
    assert re.findall(line, path.read_text(encoding="utf-8"), re.MULTILINE) == [smaller.__version__]
