"""Tables as text: CSV and TSV in any encoding, with or without a header, on the way in; CSV on the way out."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from smaller.app.frames import from_arrow
from smaller.app.tables import MAX_CELLS, Reading, Source, Table, TableError, arrow, reason, too_large

__all__ = ["MISSING", "READERS", "csv_text", "harmless"]

MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "?", "."]
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
_FALLBACK = "cp1252"  # what spreadsheets write in western Europe and America
_START = 1 << 16
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


# ---- in -------------------------------------------------------------------------------------------------------------


def _read(source: Source, reading: Reading) -> Table:
    encoding, note = _encoding(source, reading.encoding)
    with source.open() as file:
        start = file.read(_START).decode(encoding, errors="ignore")
    if "\x00" in start:
        raise TableError(f"{source.name} is not a text table: it holds binary data.")
    first = start.split("\n", 1)[0]
    delimiter, decimal = _dialect(source.ending, start)
    columns = first.count(delimiter) + 1
    if columns * max(1, source.size // (2 * columns)) > MAX_CELLS:
        raise too_large(source.name)
    names = next(csv.reader([first], delimiter=delimiter), [])
    headed = reading.header if reading.header is not None else not _looks_like_data(names, start, delimiter)
    notes = [note] if note else []
    if not headed:
        names = [f"column {i}" for i in range(1, len(names) + 1)]
        if reading.header is None:
            notes.append(f"The first line of {source.name} looks like data, so its columns are called 'column 1' to "
                         f"'column {len(names)}'; --header takes the line for names.")  # fmt: skip
    table = _parsed(source, encoding, delimiter, decimal, 2 * len(first.encode()), None if headed else names)
    return from_arrow(table, source.name, notes)


def _parsed(source: Source, encoding: str, delimiter: str, decimal: str, line: int, names: list[str] | None) -> Any:
    pa = arrow()
    from pyarrow import csv as reader

    try:
        with source.open() as file:
            return reader.read_csv(
                file,
                parse_options=reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=reader.ConvertOptions(
                    null_values=MISSING, strings_can_be_null=True, quoted_strings_can_be_null=False,
                    decimal_point=decimal,
                ),
                read_options=reader.ReadOptions(
                    block_size=max(1 << 20, line), column_names=names,
                    encoding="utf8" if encoding.startswith("utf-8") else encoding,
                ),
            )  # fmt: skip
    except pa.ArrowInvalid as error:
        raise TableError(f"{source.name} cannot be read as a table: {reason(error)}") from error
    except UnicodeError as error:
        raise TableError(f"{source.name} is not text in {encoding}: name its encoding with --encoding.") from error


def _encoding(source: Source, declared: str | None) -> tuple[str, str | None]:
    """Return the encoding, and what to tell the user about it.

    UTF-8 unless a byte-order mark, a pattern of zeros or invalid bytes speak against it.
    """
    if declared is not None:
        try:
            return codecs.lookup(declared).name, None
        except LookupError:
            raise TableError(f"--encoding {declared!r:.40} is unknown: try utf-8, cp1252, latin-1 or utf-16.") from None
    with source.open() as file:
        start = file.read(_START)
        if (name := _marked(start)) is not None:
            return name, None if name == "utf-8-sig" else f"{source.name} was read as {name.upper()}, as its mark says."
        if (name := _zeros(start)) is not None:
            return name, f"{source.name} was read as {name.upper()}, by the pattern of its bytes."
        try:
            for _ in codecs.iterdecode(chain([start], iter(lambda: file.read(1 << 20), b"")), "utf-8"):
                pass
        except UnicodeDecodeError as error:
            if _is_binary(start):
                raise TableError(
                    f"{source.name} is not a text table in UTF-8 or {_FALLBACK}: it holds binary data, or needs "
                    "--encoding."
                ) from error
            return _FALLBACK, (
                f"{source.name} is not UTF-8 and was read as {_FALLBACK}, what spreadsheets write in western Europe "
                "and America; if names look wrong, give --encoding."
            )
    return "utf-8", None


def _marked(start: bytes) -> str | None:
    """Return the encoding that a byte-order mark names."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)


def _zeros(start: bytes) -> str | None:
    """Return the UTF-16 without a mark in which nearly every second byte is zero."""
    for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = start[offset::2]
        if len(half) > 8 and half.count(0) > 0.7 * len(half) and 0 not in start[1 - offset :: 2]:
            return name
    return None


def _is_binary(start: bytes) -> bool:
    """Tell whether bytes hold what no text in the fallback encoding has: control characters, or undefined ones."""
    return any(byte < 9 or 13 < byte < 32 or byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) for byte in set(start))


def _dialect(ending: str, start: str) -> tuple[str, str]:
    """Return the delimiter (by the ending; semicolons are recognised) and the decimal mark."""
    if ending in (".tsv", ".tab"):
        return "\t", "."
    first = start.split("\n", 1)[0]
    counts = {mark: first.count(mark) for mark in (",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    if not counts[best]:
        return ",", "."
    return best, "," if best == ";" and re.search(r"(^|;)-?[0-9]+,[0-9]+(;|\r?$)", start, re.MULTILINE) else "."


def _looks_like_data(names: list[str], start: str, delimiter: str) -> bool:
    """Tell whether a first line is a row: it holds numbers no column is called by, or values of its own columns."""
    numbers = [name for name in names if _NUMBER.fullmatch(name.strip())]
    if not numbers:
        return False
    repeated = len(set(numbers)) < len(numbers)
    if len(numbers) == len(names):
        return repeated or any("." in number for number in numbers)
    texts = {j: name for j, name in enumerate(names) if name.strip() and not _NUMBER.fullmatch(name.strip())}
    if not texts:
        return repeated
    lines = start.splitlines()[1:201]
    return _stand_again(texts, csv.reader(lines[:-1] or lines, delimiter=delimiter))


def _stand_again(texts: dict[int, str], rows: Iterable[list[str]]) -> bool:
    """Tell whether a text of the first line is a value of its column, too."""
    return any(row[j] == text for row in rows for j, text in texts.items() if j < len(row))


READERS: dict[str, Callable[[Source, Reading], Table]] = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), _read)


# ---- out ------------------------------------------------------------------------------------------------------------


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    """Return lines as CSV that no spreadsheet takes for formulas."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([harmless(cell) if isinstance(cell, str) else cell for cell in line] for line in lines)
    return buffer.getvalue()


def harmless(text: str) -> str:
    """Return text with an apostrophe before it if a spreadsheet would take it for a formula; numbers stay."""
    if not text.startswith(_FORMULA_STARTS) or _NUMBER.fullmatch(text):
        return text
    return "'" + text
