"""How the columns of a table become features: numbers as they are, categories as indicators, gaps marked.

Nothing here looks at the target, so it may be learnt from all rows; filling of gaps and scaling are learnt inside the
folds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.cells import parse_numbers
from smaller.app.remarks import Remark, sentences
from smaller.app.tables import Table, TableError, unique_names
from smaller.arrays import Array

__all__ = [
    "NOTHING",
    "Column",
    "TableEncoder",
    "check_columns",
    "check_names",
    "codes_of",
    "counts_rows",
    "decide",
    "encode",
    "is_id_name",
    "is_missing",
]

MAX_LEVELS = 200  # of a category
FEWEST_IDS = 20  # rows from which a sequence of whole numbers is no coincidence
NOTHING: Any = None  # what a missing text is
MIN_GAPS = 5  # missing values from which a gap gets its own feature


@dataclass(frozen=True)
class Column:
    """One column that is used: a number, or a category with its levels; ``gaps`` adds an indicator of missing values.

    A category has one feature per level, of two levels only the second (unless values are missing). ``unit`` is what
    the numbers of a column of text had behind them.
    """

    name: str
    levels: tuple[str, ...] = ()
    gaps: bool = False
    unit: str = ""

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
        if not self.levels:
            return [self.name, *([f"{self.name} is missing"] if self.gaps else [])]
        return [f"{self.name} = {level}" for level in self._shown]

    @property
    def numbers(self) -> list[bool]:
        """Whether each of its features is a number, not an indicator."""
        return [not self.levels and j == 0 for j in range(len(self.features))]

    @property
    def _shown(self) -> tuple[str, ...]:
        return self.levels[1:] if len(self.levels) == 2 and not self.gaps else self.levels

    def encode(self, values: Any) -> list[Array]:
        """Return the features (n,) of the column's values."""
        if self.levels:
            codes = codes_of(values, self.levels)
            return [
                (codes == j).astype(np.float64) for j in range(len(self.levels) - len(self._shown), len(self.levels))
            ]
        if values.dtype.kind == "O":
            values = self._read(values)
        numbers = values.astype(np.float64)
        if np.isinf(numbers).any():
            raise TableError(f"Column {self.name!r} holds infinite numbers: correct them, or leave them empty.")
        return [numbers, *([np.isnan(numbers).astype(np.float64)] if self.gaps else [])]

    def _read(self, cells: Any) -> Array:
        """Return text as numbers, the odd cell as missing."""
        example = next((cell for cell in cells if cell is not None), None)
        if example is None:
            return np.full(len(cells), np.nan)
        numbers = parse_numbers(np.array([None if c is None else str(c) for c in cells], dtype=object), self.unit, 1e-9)
        if numbers is None:
            raise TableError(f"Column {self.name!r} must hold numbers, as in training, but it holds {example!r:.60}.")
        return numbers.values


@dataclass(frozen=True)
class TableEncoder:
    """Turns tables with the columns of the training table into a feature matrix.

    Parameters
    ----------
    target : str
        Name of the target column.
    columns : tuple of Column
        The columns used, in order.
    block_names : tuple of str
        Names of the features of a sparse block.
    ids : tuple of str
        Columns that name rows: no features, but repeated beside predictions.
    """

    target: str
    columns: tuple[Column, ...]
    block_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        table: Table,
        target: str,
        *,
        drop: Sequence[str] = (),
        missing: str = "fill",
        ids: Sequence[str] = (),
        keep: Sequence[str] = (),
    ) -> tuple[TableEncoder, list[str]]:
        """Decide what becomes of every column.

        Parameters
        ----------
        table : Table
            Training table.
        target : str
            Target column.
        drop : sequence of str
            Columns to leave out.
        missing : {"fill", "refuse"}
            Whether gaps are filled later or are an error.
        ids : sequence of str
            Columns that name rows.
        keep : sequence of str
            Columns to use although they look like identifiers.

        Returns
        -------
        encoder : TableEncoder
            What was decided.
        notes : list of str
            What the user should know about it.
        """
        check_names(table, target, drop)
        columns, remarks = decide(table, skip=(target, *drop), keep=keep, missing=missing)
        if not columns and not table.block_names:
            raise TableError("No column is left to learn from: every other one is dropped, constant or an identifier.")
        return cls(target, columns, tuple(table.block_names), tuple(ids)), sentences(remarks, table.n_rows)

    @property
    def features(self) -> list[str]:
        """Unique names of the features."""
        made = [feature for column in self.columns for feature in column.features]
        return unique_names([*made, *self.block_names])

    def transform(self, table: Table, *, optional: Collection[str] = ()) -> Any:
        """Return the features: float64 (n, p) with NaN for gaps, or a sparse array.

        Columns that are ``optional`` may be absent: their features are then gaps.
        """
        X = encode(self.columns, table, optional)
        if not self.block_names:
            return X
        block = _fitted_width(table.block, len(self.block_names))
        return sparse.hstack([sparse.csr_array(X), block], format="csr") if X.shape[1] else block

    def unknown_levels(self, table: Table) -> list[str]:
        """Return a note for every category that holds values never seen in training."""
        notes = []
        for column in self.columns:
            if column.levels and column.name in table.columns:
                values = table.columns[column.name]
                unknown = (codes_of(values, column.levels) < 0) & ~is_missing(values)
                if unknown.any():
                    notes.append(f"Column {column.name!r} has {int(unknown.sum())} values not seen in training.")
        return notes


def decide(
    table: Table, *, skip: Collection[str] = (), keep: Collection[str] = (), missing: str = "fill"
) -> tuple[tuple[Column, ...], list[Remark]]:
    """Return the columns to use, and what to tell the user; those to ``skip`` are not looked at."""
    for name, reason in table.refused.items():
        if name not in skip:
            raise TableError(reason)
    columns, remarks = [], []
    for name, values in table.columns.items():
        if name in skip:
            continue
        gaps = int(is_missing(values).sum())
        if missing == "refuse" and gaps:
            raise TableError(
                f"Column {name!r} has {gaps} missing value{'s' * (gaps > 1)}: fill them, --drop the column, or "
                "allow filling with --missing fill."
            )
        column, told = _decide(name, values, asked=name in keep)
        columns += [column] if column else []
        remarks += told
    return tuple(columns), remarks


def encode(columns: Sequence[Column], table: Table, optional: Collection[str] = ()) -> Array:
    """Return the features (n, p) of some columns, with NaN for gaps and for the ``optional`` ones that are absent."""
    absent = {column.name for column in columns if column.name not in table.columns}
    lacking = [column.name for column in columns if column.name in absent.difference(optional)]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise TableError(f"The table lacks the column {', '.join(map(repr, lacking[:3]))}{more} of the training table.")
    X = np.empty((table.n_rows, sum(len(column.features) for column in columns)), order="F")
    position = 0
    for column in columns:
        made = [np.nan] * len(column.features)
        for feature in made if column.name in absent else column.encode(table.columns[column.name]):
            X[:, position] = feature
            position += 1
    return X


def check_names(table: Table, target: str, drop: Sequence[str] = ()) -> None:
    """Raise an error that names the nearest columns unless the target and all columns to drop are there."""
    if target in table.refused:
        raise TableError(table.refused[target])
    check_columns(table, (target, *drop))


def check_columns(table: Table, names: Sequence[str]) -> None:
    """Raise an error that names the nearest columns unless all are there."""
    for name in names:
        if name not in table.columns and name not in table.refused:
            lowered = {other.lower(): other for other in table.columns}
            close = [lowered[key] for key in get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
            near = " or ".join(map(repr, close or list(table.columns)[:5]))
            raise TableError(f"The table has no column {name!r:.80}; did you mean {near}?")


def _decide(name: str, values: Any, *, asked: bool) -> tuple[Column | None, list[Remark]]:
    """Return what a column becomes (None: left out) and what to tell the user."""
    unit, told = "", []
    if values.dtype.kind == "O" and (numbers := parse_numbers(values)) is not None:
        values, unit = numbers.values, numbers.unit
        told += [Remark("cells", name, "; ".join(numbers.remarks))] if numbers.remarks else []
    gaps = int(is_missing(values).sum())
    if gaps == len(values):
        return None, [Remark("empty", name)]
    told += [Remark("gaps", name, number=values.dtype.kind != "O", cells=gaps)] if gaps else []
    if values.dtype.kind == "O":
        became = _category(name, values, gaps)
    else:
        became = _number(name, values, gaps, unit, asked)
    return (became, told) if isinstance(became, Column) else (None, [became])


def _number(name: str, values: Array, gaps: int, unit: str, asked: bool) -> Column | Remark:
    """Return a column of numbers, or why it is left out."""
    present = values[~is_missing(values)]
    if present.min() == present.max() and gaps < MIN_GAPS:
        return Remark("constant", name)
    if not asked and counts_rows(name, values) and is_id_name(name):
        return Remark("counter", name)
    return Column(name, gaps=gaps >= MIN_GAPS, unit=unit)


def _category(name: str, values: Any, gaps: int) -> Column | Remark:
    """Return a column of text with its levels, or why it is left out."""
    levels = sorted({str(value) for value in set(values.tolist()) if value is not None})
    if len(levels) > 20 and len(levels) > 0.5 * (len(values) - gaps):
        return Remark("identifier", name, cells=len(levels))
    if len(levels) > MAX_LEVELS:
        raise TableError(
            f"Column {name!r} has {len(levels)} different texts, more than {MAX_LEVELS}: group them, or --drop it."
        )
    if len(levels) == 1 and gaps < MIN_GAPS:
        return Remark("constant", name)
    return Column(name, tuple(levels), gaps > 0)


def counts_rows(name: str, values: Array) -> bool:
    """Tell whether numbers name rows: whole, all different, and in sequence, sorted or called an identifier."""
    if len(values) < FEWEST_IDS or values.dtype.kind == "O" or not np.isfinite(values).all():
        return False
    if (values != np.round(values)).any():
        return False
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return True
    sequence = values.max() - values.min() + 1 == len(values)
    return bool((sequence or is_id_name(name)) and len(np.unique(values)) == len(values))


_ID_NAMES = re.compile(
    r"(.*[^a-z])?(id|ids|index|nr|no|mrn|key|barcode|accession)([^a-z].*)?|column \d+|unnamed.*|\.\.\.\d+|rownames?|row"
)


def is_id_name(name: str) -> bool:
    """Tell whether a column is called an identifier or an index, or has no name of its own."""
    return _ID_NAMES.fullmatch(re.sub(r"([a-z])(Id|ID|Nr|No)\b", r"\1_id", name).strip().lower()) is not None


def is_missing(values: Any) -> Array:
    """Tell which values of a column are missing."""
    if values.dtype.kind == "O":
        return np.equal(values, NOTHING).astype(bool)  # an order faster than to ask each by `is`
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


def codes_of(values: Any, levels: Sequence[str]) -> Array:
    """Return the place of every value, as text, among some levels; -1 where it is missing or none of them."""
    places = {level: j for j, level in enumerate(levels)}
    shown = str if values.dtype.kind == "O" else _number_text
    cells = values.tolist()
    known = {cell: -1 if cell is None or cell != cell else places.get(shown(cell), -1) for cell in set(cells)}
    return np.fromiter(map(known.__getitem__, cells), dtype=np.int64, count=len(cells))


def _number_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _fitted_width(block: Any, width: int) -> Any:
    """Return a sparse block with the training table's number of columns; later columns were never seen."""
    if block is None:
        raise TableError("The model was learnt from an svmlight file: predict from one too.")
    if block.shape[1] >= width:
        return block[:, :width]
    block = sparse.csr_array(block)
    return sparse.csr_array((block.data, block.indices, block.indptr), shape=(block.shape[0], width))
