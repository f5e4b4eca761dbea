"""The tree of the site. A section page is a plain list of links; its pages are those it links to.

A page that no section links to belongs to the guide and is shown at its end: a new page needs no entry to be found.
"""

from __future__ import annotations

import re
from pathlib import Path

SECTIONS = ("guide", "methods", "develop")
LINK = re.compile(r"\[([^\]]+)\]\(([\w/-]+)\.md\)")
EXAMPLE = re.compile(r"^(```python\n.*?)\n+```$", re.DOTALL | re.MULTILINE)


def for_the_site(text: str) -> str:
    """Return a page as the site shows it: no empty line ends an example, and scripts are reached as they ran."""
    return EXAMPLE.sub(r"\1\n```", text).replace("](../examples/walkthroughs)", "](gallery/index.rst)")


def pages_of(docs: Path, section: str) -> dict[str, str]:
    """Return the pages that a section links to, in its order, with what it calls them."""
    found: dict[str, str] = {}
    for title, page in LINK.findall((docs / f"{section}.md").read_text(encoding="utf-8")):
        found.setdefault(page, title)
    return found


def unlisted(docs: Path) -> list[str]:
    """Return the pages that no section links to."""
    known = {"index", *SECTIONS, *(page for section in SECTIONS for page in pages_of(docs, section))}
    return sorted(page.stem for page in docs.glob("*.md") if page.stem not in known)


def tree(docs: Path, name: str) -> str:
    """Return what to append to the text of a page: a toctree for the start page and for sections, else nothing."""
    if name == "index":
        return toctree([*SECTIONS, "api/index", "gallery/index"], hidden=True)
    if name not in SECTIONS:
        return ""
    text = toctree([f"{title} <{page}>" for page, title in pages_of(docs, name).items()], hidden=True)
    others = unlisted(docs) if name == "guide" else []
    return text + (f"\n\n## More\n{toctree(others, hidden=False)}" if others else "")


def toctree(pages: list[str], *, hidden: bool) -> str:
    """Return a MyST toctree."""
    lines = ["```{toctree}", *([":hidden:"] if hidden else [":maxdepth: 1"]), "", *pages, "```"]
    return "\n\n" + "\n".join(lines) + "\n"
