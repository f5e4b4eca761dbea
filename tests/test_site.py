"""The site: every page has one place in its tree, every public name a page of the reference."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import smaller
from smaller.estimators import documentation

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs" / "site").is_dir():
    pytest.skip("docs/ is not part of this copy", allow_module_level=True)

from docs.site import reference, sections  # noqa: E402

NAMES = [(module, name) for module, names in reference.public_names().items() for name in names]
ESTIMATORS = [name for name in smaller.__all__ if hasattr(getattr(smaller, name), "get_params")]
WALKS = sorted((ROOT / "examples" / "walkthroughs").glob("*.py"))
PAGES = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_every_page_has_one_place_in_the_tree() -> None:
    trees = [sections.tree(ROOT / "docs", name) for name in ("index", *sections.SECTIONS)]
    places = [line for tree in trees for line in re.findall(r"^(?:.* <)?([\w/-]+)>?$", tree, re.MULTILINE)]
    assert len(places) == len(set(places)), "a page is linked from two sections"
    assert set(places) - {"api/index", "gallery/index"} == PAGES - {"index"}


def test_a_page_that_no_section_names_ends_in_the_guide(tmp_path: Path) -> None:
    for name in sections.SECTIONS:
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n- [one](of_{name}.md)\n")
    for name in ("index", "of_guide", "new"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    first, more = sections.tree(tmp_path, "guide").split("## More")
    assert first.rstrip().endswith("\none <of_guide>\n```")
    assert more.split()[-2:] == ["new", "```"]


def test_no_example_ends_with_an_empty_line() -> None:
    page = "```python\n>>> 1\n1\n\n```\n\n```\na formula\n```\n"
    assert sections.for_the_site(page) == page.replace("1\n\n```", "1\n```")


def test_the_reference_names_everything_public_once(tmp_path: Path) -> None:
    reference.write(tmp_path)
    assert set(smaller.__all__) == set(reference.public_names()["smaller"])
    for module, names in reference.public_names().items():
        listed = re.findall(r"^   (\w+)$", (tmp_path / f"{module}.rst").read_text(), re.MULTILINE)
        assert sorted(listed) == sorted(names)
        assert all(hasattr(importlib.import_module(module), name) for name in listed)


def test_writing_the_reference_again_touches_no_file(tmp_path: Path) -> None:
    reference.write(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    reference.write(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_has_an_example_and_neighbours(module: str, name: str) -> None:
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    assert ">>> " in text, f"{module}.{name} needs a section Examples"
    assert "See Also\n--------\n" in text, f"{module}.{name} needs a section See Also"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_neighbours_are_public_names(module: str, name: str) -> None:
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    section = text.split("See Also\n--------\n")[1].split("\n\n")[0]
    known = {name for _, name in NAMES} | {f"{module}.{name}" for module, name in NAMES} | set(reference.MODULES)
    for names in re.findall(r"^(\S.*?) : ", section, re.MULTILINE):
        assert set(names.split(", ")) <= known


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_link_to_their_page_under_the_one_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = getattr(smaller, name)
    model = cls(smaller.SMLR()) if "estimator" in inspect.signature(cls).parameters else cls()
    monkeypatch.setattr(documentation, "SITE", "")
    assert model._get_doc_link() == ""
    assert "Documentation for" not in model._repr_html_()
    monkeypatch.setattr(documentation, "SITE", "https://site.invalid/smaller")
    assert model._get_doc_link() == f"https://site.invalid/smaller/api/generated/smaller.{name}.html"
    assert f"Documentation for {name}" in model._repr_html_()


@pytest.mark.parametrize("script", WALKS, ids=lambda path: path.stem)
def test_every_walk_through_ends_with_a_decision(script: Path) -> None:
    headings = re.findall(r"^# (.+)\n# -{4,}$", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[-1] == "Decision"


def test_every_display_is_in_the_gallery() -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "displays").glob("*.py"))
    for name in reference.public_names()["smaller.plotting"]:
        assert f"\n{name}.from_" in shown
