"""Numbers as people write them: with units, thousands, percent signs, limits of detection, and the odd word between.

A column of such cells is a column of numbers. What was done to how many cells is said in one line.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.arrays import Array

__all__ = ["Numbers", "parse_numbers"]

FEWEST_NUMBERS = 0.8  # share of the cells that must be numbers, else a column is text
_LOOK, _PROMISING = 500, 0.5  # different texts looked at first, and the share of them that must be numbers
_SPACES = "\u00a0\u202f\u2009 '"
_CELL = re.compile(
    r"(?P<limit>[<>\u2264\u2265~]=?)?\s*(?P<currency>[$\u20ac\u00a3\u00a5])?\s*"
    rf"(?P<number>[-+\u2212]?(?:\d{{1,3}}(?:[,.{_SPACES}]\d{{3}})+|\d+)?(?:[.,]\d+)?(?:[eE][-+]?\d+)?)"
    r"\s*(?P<plus>\+)?\s*(?P<unit>%|[A-Za-z\u00b5\u03bc\u00b0\u20ac$\u00a3][A-Za-z0-9\u00b5\u03bc\u00b0/^*.\u00b2\u00b3]{0,11})?"
)


@dataclass(frozen=True)
class Numbers:
    """Cells read as numbers, and what was done to them."""

    values: Array  # missing: NaN
    unit: str  # the unit nearly all cells share, "%" for percent, else empty
    remarks: list[str]


def parse_numbers(cells: Any, unit: str | None = None, share: float = FEWEST_NUMBERS) -> Numbers | None:
    """Read a column of text as numbers; None if it is text.

    Parameters
    ----------
    cells : object array
        Text; None where missing.
    unit : str, optional
        The unit a cell may have; None: the commonest of the column.
    share : float
        Share of the cells that must be numbers.

    Notes
    -----
    Signs of currency and one unit are dropped, separators of thousands too; percent keeps its size (12% is 12).
    A limit (``<0.01``, ``>90``, ``3+``) is taken at its value. What else is there, also a number in another unit, is
    missing.

    Examples
    --------
    >>> import numpy as np
    >>> found = parse_numbers(np.array(["1,234", "$48", "<0.01", "7", "unknown", None] + ["5"] * 9, dtype=object))
    >>> found.values[:6].tolist()
    [1234.0, 48.0, 0.01, 7.0, nan, nan]
    >>> found.remarks[0]
    "1 cell that is no number ('unknown') is taken as missing"
    """
    counts = Counter(cells.tolist())
    counts.pop(None, None)
    present = counts.total()
    if not present or not _promising(list(counts)[:_LOOK], share):
        return None
    read = _read_all(counts)
    if unit is None:
        unit = _common_unit(counts, read)
    good = {text: cell for text, cell in read.items() if _agrees(cell.unit, unit)}
    if not good or sum(map(counts.__getitem__, good)) < share * present:
        return None
    values = np.array([good[cell].value if cell in good else np.nan for cell in cells])
    return Numbers(values, unit, _remarks(counts, good, unit))


@dataclass(frozen=True)
class _Cell:
    value: float
    unit: str
    limit: bool
    dressed: bool  # with currency, unit or thousands


def _promising(texts: list[str], share: float) -> bool:
    """Tell from the first texts whether it is worth while to read all."""
    return sum(_match(text) is not None for text in texts) >= _PROMISING * min(share, 1.0) * len(texts)


def _match(text: str) -> re.Match[str] | None:
    match = _CELL.fullmatch(text.strip())
    return match if match and any(character.isdigit() for character in match["number"]) else None


def _read_all(counts: Counter[str]) -> dict[str, _Cell]:
    """Return the texts that are numbers, read."""
    comma = _decimal_comma(counts)
    return {text: cell for text in counts if (cell := _read(text, comma)) is not None}


def _decimal_comma(counts: Counter[str]) -> bool:
    """Tell whether commas are decimal marks: one of them is not followed by three digits, and no cell has a point."""
    numbers = [match["number"] for text in counts if (match := _match(text)) is not None]
    commas = any(re.search(r",(?!\d{3}(?!\d))", number) for number in numbers)
    points = any(re.search(r"\.(?!\d{3}(?!\d))", number) for number in numbers)
    return commas and not points


def _read(text: str, comma: bool) -> _Cell | None:
    match = _match(text)
    if match is None:
        return None
    number = match["number"].replace("\u2212", "-")
    plain = number
    for mark in (*_SPACES, "." if comma else ","):
        number = number.replace(mark, "")
    try:
        value = float(number.replace(",", "."))
    except ValueError:
        return None
    unit = match["unit"] or ""
    dressed = bool(match["currency"] or unit) or number.replace(",", ".") != plain.replace(",", ".")
    return _Cell(value, unit, bool(match["limit"] or match["plus"]), dressed)


def _common_unit(counts: Counter[str], read: dict[str, _Cell]) -> str:
    """Return the commonest unit; none where most numbers are bare and some are percent."""
    units = Counter[str]()
    for text, cell in read.items():
        units[cell.unit] += counts[text]
    bare = units.pop("", 0)
    unit = units.most_common(1)[0][0] if units else ""
    return "" if unit == "%" and bare > units[unit] else unit


def _agrees(unit: str, common: str) -> bool:
    """Tell whether a cell is in the column's unit; a bare number is, unless the others are percent."""
    return unit == common or (not unit and common != "%")


def _remarks(counts: Counter[str], good: dict[str, _Cell], unit: str) -> list[str]:
    odd = Counter({text: count for text, count in counts.items() if text not in good})
    limits = Counter({text: counts[text] for text, cell in good.items() if cell.limit})
    dressed = Counter({text: counts[text] for text, cell in good.items() if cell.dressed and not cell.limit})
    place = f" in {unit}" if unit else ""
    return [
        *_told(odd, f"cell that is no number{place}", f"cells that are no numbers{place}", "taken as missing"),
        *_told(limits, "limit", "limits", "taken at its value", "taken at their value"),
        *_told(dressed, "cell with a sign or unit", "cells with a sign or unit", "read as a number", "read as numbers"),
    ]


def _told(texts: Counter[str], one: str, many: str, became: str, became_all: str | None = None) -> list[str]:
    """Return the line on some cells: how many, what they are with a few examples, and what became of them."""
    if not texts:
        return []
    shown = ", ".join(f"{text!r:.30}" for text, _ in texts.most_common(3)) + (", ..." if len(texts) > 3 else "")
    if texts.total() == 1:
        return [f"1 {one} ({shown}) is {became}"]
    return [f"{texts.total()} {many} ({shown}) are {became_all or became}"]
