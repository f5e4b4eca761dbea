"""``python -m docs.site.check FOLDER``: every link of a built site leads somewhere, and nothing is fetched."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs.site.reference import public_names

LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src"}  # a browser fetches these by itself


class Page(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(value for key in ("id", "name") if (value := values.get(key)))
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag in LOADED and values.get(LOADED[tag]):
            self.loaded.append(str(values[LOADED[tag]]))


def dead(folder: Path, pages: dict[Path, Page]) -> list[str]:
    """Return a sentence for every link to a page, file or anchor that is not there."""
    found = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(folder)}: no {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(folder)}: no anchor {link}")
    return found


def foreign(folder: Path, pages: dict[Path, Page]) -> list[str]:
    """Return a sentence for everything that a browser would fetch from another host."""
    return [
        f"{path.relative_to(folder)}: loads {link}"
        for path, page in pages.items()
        for link in page.loaded
        if urlsplit(link).netloc
    ]


def missing(folder: Path) -> list[str]:
    """Return a sentence if the public names are not the pages of the reference."""
    names = {f"{module}.{name}" for module, names in public_names().items() for name in names}
    pages = {page.stem for page in (folder / "api" / "generated").glob("*.html")}
    return [f"API: no page of {name}" for name in sorted(names - pages)] + [
        f"API: a page of {name}, which is not public" for name in sorted(pages - names)
    ]


def main(folder: Path) -> int:
    """Print what is wrong, then a count."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    wrong = dead(folder, pages) + foreign(folder, pages) + missing(folder)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    links = sum(len(page.links) for page in pages.values())
    names = sum(len(names) for names in public_names().values())
    print(f"site: {len(pages)} pages, {links} links, {names} public names; {len(wrong)} wrong")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
