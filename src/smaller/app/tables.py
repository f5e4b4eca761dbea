"""Tables: named columns of numbers or text, read from a file of any known format.

A reader either returns a `Table` or raises `TableError` with one sentence that says what to do. What a column *means*
(number or category, how it becomes features) is the business of `smaller.app.columns`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["FORMATS", "MAX_CELLS", "Reading", "Source", "Table", "TableError", "arrow", "read_table", "reason",
           "too_large", "unique_names"]  # fmt: skip

MAX_CELLS = 1_000_000_000  # a table beyond this would take 8 GB as numbers
MAX_FILE_BYTES = 16 << 30
MAX_UNPACKED_BYTES = 4 << 30  # of a compressed file, or of standard input: they are held in memory
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_STANDARD_INPUT = "-"


class TableError(ValueError):
    """A table cannot be read or used; the message is one sentence with advice."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and perhaps a sparse block of further numeric columns.

    Attributes
    ----------
    columns : dict of str to ndarray
        Numbers (missing: NaN) or text (object arrays; missing: None).
    block : sparse array of shape (n_rows, n_block), or None
        Sparse features of an svmlight file.
    block_names : list of str
        Their names.
    notes : list of str
        What was changed on the way in, for the user.
    refused : dict of str to str
        Columns of a type that cannot be used, each with the advice to give if it is needed.
    times : dict of str to ndarray
        Columns of dates and times as numbers, to order rows by; they are refused as features.
    """

    columns: dict[str, Any]
    block: Any = None
    block_names: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    times: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.block is not None:
            return int(self.block.shape[0])
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def rows(self, index: Any) -> Table:
        """Return some rows."""
        columns = {name: values[index] for name, values in self.columns.items()}
        times = {name: values[index] for name, values in self.times.items()}
        return replace(self, columns=columns, times=times, block=None if self.block is None else self.block[index])


@dataclass(frozen=True)
class Source:
    """Where a table comes from: a file, or bytes in memory (unpacked, or from standard input)."""

    name: str
    ending: str
    path: Path | None = None
    content: bytes | None = None

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.content) if self.path is None else self.path.stat().st_size  # type: ignore[arg-type]

    def open(self) -> BinaryIO:
        """Open it for reading from its start."""
        import io

        return io.BytesIO(self.content or b"") if self.path is None else self.path.open("rb")


@dataclass(frozen=True)
class Reading:
    """What the user says about a text table; None: it is found out."""

    encoding: str | None = None
    header: bool | None = None


# The endings, and which module reads them: a reader is imported when it is needed.
FORMATS: dict[str, str] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "delimited"),
    **dict.fromkeys((".parquet", ".feather", ".arrow", ".npz", ".svm", ".svmlight", ".libsvm", ".xlsx"), "formats"),
}


def read_table(path: str | Path, *, encoding: str | None = None, header: bool | None = None) -> Table:
    r"""Read a table; the ending of its name says the format.

    Parameters
    ----------
    path : str or path
        A file ending in one of ``FORMATS``, perhaps followed by ``.gz``, ``.zst`` or ``.bz2``; or ``-`` for standard
        input, whose format is recognised.
    encoding : str, optional
        Of a text table, such as "cp1252"; recognised if left out.
    header : bool, optional
        Whether the first line of a text table names the columns; recognised if left out.

    Returns
    -------
    Table
        Its columns under unique names.

    Raises
    ------
    TableError
        If the file is missing, damaged, too large or of an unknown format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from smaller.app.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.csv"
    ...     _ = path.write_text("a,b,a\n1,x,?\n2,,3.5\n")
    ...     table = read_table(path)
    >>> list(table.columns), table.columns["b"].tolist(), table.columns["a (2)"].tolist()
    (['a', 'b', 'a (2)'], ['x', None], [nan, 3.5])
    """
    source = _source(Path(path))
    if source.size == 0:
        raise TableError(f"{source.name} is empty.")
    if source.size > MAX_FILE_BYTES:
        raise TableError(
            f"{source.name} has {source.size / 2**30:.0f} GiB, too much to read: take a sample of its rows."
        )
    reader: Callable[[Source, Reading], Table]
    reader = import_module(f"smaller.app.{FORMATS[source.ending]}").READERS[source.ending]
    table = reader(source, Reading(encoding, header))
    if table.n_rows == 0 and not table.refused:
        raise TableError(f"{source.name} has no rows.")
    return table


def _source(path: Path) -> Source:
    if str(path) == _STANDARD_INPUT:
        content = _unpacked(sys.stdin.buffer, "standard input")
        return Source("standard input", _recognised(content), content=content)
    ending = path.suffix.lower()
    packing = _PACKED.get(ending)
    if packing:
        ending = path.with_suffix("").suffix.lower()
    if ending not in FORMATS:
        raise TableError(
            f"{path.name}: the ending {ending!r} is unknown; use one of {', '.join(FORMATS)} (or one of these with "
            f"{', '.join(_PACKED)} behind it)."
        )
    if not path.is_file():
        raise TableError(f"{path}: there is no such file.")
    if not packing:
        return Source(path.name, ending, path)
    pa = arrow()
    try:
        with pa.input_stream(str(path), compression=packing) as stream:
            return Source(path.name, ending, content=_unpacked(stream, path.name))
    except (OSError, pa.ArrowException, EOFError) as error:
        raise TableError(f"{path.name} is not an intact {packing} file: {reason(error)}") from error


def _unpacked(stream: Any, name: str) -> bytes:
    pieces, size = [], 0
    while piece := stream.read(1 << 24):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_UNPACKED_BYTES:
            raise TableError(f"{name} holds more than {MAX_UNPACKED_BYTES >> 30} GiB: give it as an unpacked file.")
    return b"".join(pieces)


def _recognised(content: bytes) -> str:
    """Return the ending that a file of this content would have."""
    if content.startswith(b"PAR1"):
        return ".parquet"
    if content.startswith(b"ARROW1"):
        return ".arrow"
    if content.startswith(b"PK"):
        return ".xlsx" if b"[Content_Types].xml" in content[:4096] or b"xl/" in content[: 1 << 16] else ".npz"
    return ".csv"


def unique_names(names: list[str]) -> list[str]:
    """Make names unique and non-empty: a repeated name gets a number, an empty one its position.

    Examples
    --------
    >>> unique_names(["a", "", "a", "a (2)"])
    ['a', 'column 2', 'a (3)', 'a (2)']
    """
    taken, seen, result = set(names), Counter[str](), []
    for position, name in enumerate(names, 1):
        name = name if name.strip() else f"column {position}"
        seen[name] += 1
        unique, number = name, seen[name]
        while number > 1 and unique in taken:
            unique, number = f"{name} ({number})", number + 1
        taken.add(unique)
        result.append(unique)
    return result


def arrow() -> Any:
    """Return pyarrow, or say which extra has it."""
    try:
        import pyarrow
    except ImportError as error:
        raise TableError("Reading tables needs pyarrow: install smaller with the extra 'cli'.") from error
    return pyarrow


def too_large(name: str) -> TableError:
    """Return the error for a table of too many cells."""
    return TableError(f"{name} has more than {MAX_CELLS:.0e} cells, too many to hold: take a sample of its rows.")


def reason(error: BaseException) -> str:
    """Return the first line of a foreign message, without its row contents, as the end of a sentence."""
    text = (str(error) or type(error).__name__).splitlines()[0].strip()
    text = text if len(text) <= 160 else text[:159] + "…"
    return text if text.endswith((".", "…")) else text + "."
