"""Classes: the labels in the column of the target, and what becomes of those that have too few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smaller.app.columns import check_names, is_missing
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["OTHER", "RareClasses", "check_classes", "class_labels", "labels_in", "rare_classes"]

MAX_CLASSES = 100
MIN_CLASS_ROWS = 5  # so that every fold has one
MAX_VALUES = 10_000  # of a target: beyond, no choice of rare classes makes it one
SHOWN = 60  # characters of a name
OTHER = "other"


@dataclass(frozen=True)
class RareClasses:
    """Classes that were left out for their few rows, or made one class.

    Parameters
    ----------
    labels : tuple of str
        Their names.
    into : str, optional
        The class that they became; None: their rows are left out.
    sentence : str
        What was done, for the user.
    """

    labels: tuple[str, ...] = ()
    into: str | None = None
    sentence: str = ""

    @classmethod
    def remembered(cls, facts: Mapping[str, Any] | None) -> RareClasses:
        """Return what `facts` has said; nothing of models that were made before there was a choice."""
        return cls() if facts is None else cls(tuple(facts["labels"]), facts["into"])

    @property
    def facts(self) -> dict[str, Any] | None:
        """Plain values, for a model to remember."""
        return {"labels": list(self.labels), "into": self.into} if self.labels else None

    def settle(self, values: Array) -> tuple[Array, Array]:
        """Return the labels that are left, and which ones of the values they are."""
        if not self.labels:
            return values, np.arange(len(values))
        texts = np.asarray([str(value) for value in values.tolist()])
        rare = np.isin(texts, self.labels)
        if self.into is None:
            return values[~rare], np.flatnonzero(~rare)
        return np.where(rare, self.into, texts), np.arange(len(values))


def class_labels(table: Table, target: str, rare: RareClasses | None = None) -> tuple[Array, Array]:
    """Return the labels of the rows that have one, and which rows those are.

    Whole numbers stay numbers, everything else is text; ``rare`` classes are left out, or one class.

    Raises
    ------
    TableError
        If the column cannot be the target of a classification.
    """
    values, rows = labels_in(table, target)
    labels, kept = (rare or RareClasses()).settle(values)
    check_classes(labels, target)
    return labels, rows[kept]


def labels_in(table: Table, target: str) -> tuple[Array, Array]:
    """Return what stands in the column of the target, whole numbers or text, and in which rows."""
    check_names(table, target)
    values = table.columns[target]
    rows = np.flatnonzero(~is_missing(values))
    if len(rows) == 0:
        raise TableError(f"The target {target!r} has no values at all.")
    values = values[rows]
    if values.dtype.kind == "f":
        if (values != np.round(values)).any() or np.abs(values).max() > 2**53:
            raise TableError(
                f"The target {target!r} holds fractional numbers, but classes are learnt here: group the values first."
            )
        return values.astype(np.int64), rows
    return (np.asarray([str(value) for value in values]) if values.dtype.kind == "O" else values), rows


def rare_classes(values: Array, *, drop: int | None = None, merge: int | None = None) -> RareClasses:
    """Return what becomes of the classes with fewer rows than ``drop`` or ``merge``.

    Examples
    --------
    >>> import numpy as np
    >>> found = rare_classes(np.repeat(["a", "b", "c", "d"], [9, 2, 1, 8]), merge=3)
    >>> found.sentence
    "2 classes with fewer than 3 rows ('b': 2, 'c': 1) became one class 'other' of 3 rows."
    >>> found.settle(np.array(["a", "c"]))[0].tolist()
    ['a', 'other']
    """
    least = _least(drop, merge)
    if least is None:
        return RareClasses()
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) > MAX_VALUES:
        raise TableError(f"The target has {len(classes)} different values, too many for classes.")
    sizes = {str(one): int(n) for one, n in zip(classes.tolist(), counts, strict=True)}
    rare = {one: n for one, n in sizes.items() if n < least}
    if not rare:
        return RareClasses(sentence=f"No class has fewer than {least} rows: all of them stay as they are.")
    many = f"{_classes(len(rare))} with fewer than {least} rows ({_named(rare)})"
    if merge is not None:
        return _merged(rare, 0 if OTHER in rare else sizes.get(OTHER, 0), many)
    were = "was" if len(rare) == 1 else "were"
    return RareClasses(tuple(rare), None, f"{many} {were} left out: {_rows(sum(rare.values()))}.")


def _least(drop: int | None, merge: int | None) -> int | None:
    """Return the number of rows below which a class is rare, if one of the options gives it."""
    if drop is not None and merge is not None:
        raise TableError("--drop-rare leaves classes out and --merge-rare makes them one: choose one of the two.")
    for option, least in (("--drop-rare", drop), ("--merge-rare", merge)):
        if least is not None and least < 2:
            raise TableError(f"{option} is the number of rows below which a class is rare: at least 2, not {least}.")
    return drop if merge is None else merge


def _merged(rare: dict[str, int], there: int, many: str) -> RareClasses:
    """Return what becomes of rare classes beside a class OTHER of ``there`` rows; ``many`` names them."""
    if len(rare) == 1 and not there:
        return RareClasses(sentence=f"{many} keeps its name: there is no other rare class to merge it with.")
    joined = f"joined the class {OTHER!r}, now" if there else f"became one class {OTHER!r} of"
    return RareClasses(tuple(rare), OTHER, f"{many} {joined} {_rows(there + sum(rare.values()))}.")


def check_classes(values: Array, target: str) -> None:
    """Raise an error that names all classes in the way unless the labels can be learnt."""
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) == 0:
        raise TableError(f"The target {target!r} has no class with enough rows: take a smaller number of --drop-rare.")
    if len(classes) < 2:
        raise TableError(f"The target {target!r} has only one class, {classes.tolist()[0]!r:.60}: two are needed.")
    if len(classes) > MAX_CLASSES:
        raise TableError(
            f"The target {target!r} has {len(classes)} different values, too many for classes: --drop-rare N or "
            "--merge-rare N takes those with fewer than N rows away."
        )
    rare = {str(one): int(n) for one, n in zip(classes.tolist(), counts, strict=True) if n < MIN_CLASS_ROWS}
    if rare:
        raise TableError(
            f"{_classes(len(rare))} of {target!r} {'has' if len(rare) == 1 else 'have'} fewer than {MIN_CLASS_ROWS} "
            f"rows ({_named(rare)}), too few for cross-validation: --drop-rare {MIN_CLASS_ROWS} leaves their rows out, "
            "--merge-rare N makes one class of all that have fewer than N."
        )


def _named(counts: dict[str, int]) -> str:
    shown = [f"{label!r:.{SHOWN}}: {count}" for label, count in counts.items()][:MAX_CLASSES]
    return ", ".join(shown) + (f" and {len(counts) - MAX_CLASSES} more" if len(counts) > MAX_CLASSES else "")


def _classes(count: int) -> str:
    return f"{count:,} class{'es' * (count != 1)}"


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
