"""The site: every page has one place in its tree, every public name a page of the reference."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import smaller

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs" / "site").is_dir():
    pytest.skip("docs/ is not part of this copy", allow_module_level=True)

from docs.site import reference, sections  # noqa: E402

PAGES = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_every_page_has_one_place_in_the_tree() -> None:
    trees = [sections.tree(ROOT / "docs", name) for name in ("index", *sections.SECTIONS)]
    places = [line for tree in trees for line in re.findall(r"^[\w/-]+$", tree, re.MULTILINE)]
    assert len(places) == len(set(places)), "a page is linked from two sections"
    assert set(places) - {"api/index", "gallery/index"} == PAGES - {"index"}


def test_a_page_that_no_section_names_ends_in_the_guide(tmp_path: Path) -> None:
    for name in sections.SECTIONS:
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n- [one](of_{name}.md)\n")
    for name in ("index", "of_guide", "new"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    first, more = sections.tree(tmp_path, "guide").split("## More")
    assert first.split()[-2:] == ["of_guide", "```"]
    assert more.split()[-2:] == ["new", "```"]


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
