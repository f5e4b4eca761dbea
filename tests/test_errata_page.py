"""docs/errata.md accuses authors by name: every entry has its quotation, its place, and a test that exists."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errata.md"
TEXTS = {
    "Sparse multinomial": "smlr",
    "Bayesian SMLR": "sbmlr",
    "Joint classifier": "jcfo",
    "Import vector": "ivm",
}


def entries() -> list[tuple[str, str, str]]:
    """Paper, heading and body of every erratum; remarks are none."""
    if not PAGE.is_file():
        return []  # a copy without docs/: nothing to read
    text = PAGE.read_text(encoding="utf-8").split("## What the papers leave open")[0]
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        paper, *items = re.split(r"^### ", part, flags=re.MULTILINE)
        name = next(short for start, short in TEXTS.items() if paper.startswith(start))
        found += [(name, *item.split("\n", 1)) for item in items]
    return found


def quotations(body: str) -> list[tuple[str, str]]:
    """Quoted words and what stands behind them in the same block."""
    blocks = re.findall(r"(?:^> .*\n)+", body, flags=re.MULTILINE)
    flat = [" ".join(line.removeprefix("> ") for line in block.splitlines()) for block in blocks]
    return [(block[1 : block.rindex('"')], block[block.rindex('"') + 1 :].strip()) for block in flat]


def plain(text: str) -> str:
    """Without marks of mathematics and emphasis, and with single spaces."""
    return re.sub(r"\s+", " ", text.replace("$", "").replace("*", "")).strip()


ENTRIES = entries()
QUOTED = [(paper, words, place) for paper, _, body in ENTRIES for words, place in quotations(body)]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the papers' texts by their short names, or skip."""
    folder = os.environ.get("SMALLER_PAPERS")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SMALLER_PAPERS does not name the folder of the papers' texts")
    found = {name: sorted(Path(folder).glob(f"{name}_*.txt")) for name in TEXTS.values()}
    return {name: plain(paths[0].read_text(encoding="utf-8")) for name, paths in found.items() if paths}


@pytest.mark.parametrize(("paper", "words", "place"), QUOTED, ids=[words[:40] for _, words, _ in QUOTED])
def test_every_quotation_is_in_the_papers_text(paper: str, words: str, place: str, texts: dict[str, str]) -> None:
    if paper not in texts:
        pytest.skip(f"there is no text {paper}_*.txt in SMALLER_PAPERS")
    assert plain(words) in texts[paper]


@pytest.mark.parametrize(("paper", "heading", "body"), ENTRIES, ids=[heading for _, heading, _ in ENTRIES])
def test_every_erratum_has_its_quotation_its_place_and_its_test(paper: str, heading: str, body: str) -> None:
    quoted = quotations(body)
    assert quoted
    assert all(re.fullmatch(r"\(.*(section \d|of \(\d+\)).*\)", place) for _, place in quoted)
    assert "Shown by" in body or "Shown\nby" in body


def test_every_test_that_is_named_exists() -> None:
    if not PAGE.is_file():
        pytest.skip("docs/ is not part of this copy")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in sources[path]] == []
