"""What is asked of a table, and the data that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smaller.app.columns import TableEncoder, check_names
from smaller.app.labels import RareClasses, check_classes, labels_in, rare_classes
from smaller.app.study.audit import Finding, audit
from smaller.app.study.units import Units, chance_pairs, copies_of
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["NONE", "Data", "Question", "prepare"]

NONE = "none"  # the answer "rows stand alone"
MISSING_POLICIES = ("fill", "refuse")
FEWEST_GROUPS = 4


@dataclass(frozen=True)
class Question:
    """What is to be predicted from which columns, and which rows belong together.

    Parameters
    ----------
    target : str
        Column to predict.
    drop : sequence of str
        Columns to leave out.
    missing : {"fill", "refuse"}
        What to do with gaps.
    group : str, optional
        Column whose rows belong together; "none": rows stand alone, copies too; None: not said.
    ids : sequence of str
        Columns that name rows: no features, but repeated beside predictions.
    order : str, optional
        Column that orders rows in time: the future is predicted from the past.
    features : sequence of str
        Columns to use although they look like identifiers.
    always : sequence of str
        Columns that are in the model in any case, without a penalty.
    drop_rare : int, optional
        Classes with fewer rows are left out.
    merge_rare : int, optional
        Classes with fewer rows become one class.
    """

    target: str
    drop: tuple[str, ...] = ()
    missing: str = "fill"
    group: str | None = None
    ids: tuple[str, ...] = ()
    order: str | None = None
    features: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    drop_rare: int | None = None
    merge_rare: int | None = None


@dataclass(frozen=True)
class Data:
    """A table made ready: features, labels, the way from one to the other, and what was done."""

    X: Any
    y: Array
    encoder: TableEncoder
    units: Units = field(default_factory=Units)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    likely_group: str | None = None  # nobody has said whether its rows belong together
    free: tuple[int, ...] = ()  # features that are always in the model
    numbers: Array | None = None  # of the rows in the table as it was given, from 0
    rare: RareClasses = field(default_factory=RareClasses)


def prepare(table: Table, question: Question) -> Data:
    """Turn a table into features and labels; rows without a label are left out."""
    if question.missing not in MISSING_POLICIES:
        raise TableError(f"--missing must be one of {', '.join(MISSING_POLICIES)}, not {question.missing!r}.")
    values, rows = labels_in(table, question.target)
    rare = rare_classes(values, drop=question.drop_rare, merge=question.merge_rare)
    y, kept = rare.settle(values)
    check_classes(y, question.target)
    told = [*table.notes, *([rare.sentence] if rare.sentence else [])]
    if len(rows) < table.n_rows:
        told.append(f"{table.n_rows - len(rows)} rows without a value of {question.target!r} were left out.")
    if len(y) < table.n_rows:
        rows = rows[kept]
        table = table.rows(rows)
    group = None if question.group == NONE else question.group
    drop = (*question.drop, *_aside(table, question, group))
    encoder, notes = TableEncoder.learn(
        table, question.target, drop=drop, missing=question.missing, ids=question.ids,
        keep=(*question.features, *question.always),
    )  # fmt: skip
    free = _always(encoder, question.always, drop)
    X = encoder.transform(table)
    units = _units(table, X, y, question, group)
    findings, likely_group = _findings(audit(table, y, X, encoder, (question.target, *drop)), question, units, len(y))
    return Data(X, y, encoder, units, [*told, *notes], findings, likely_group, free, np.asarray(rows), rare)


def _findings(found: list[Finding], question: Question, units: Units, n_rows: int) -> tuple[list[Finding], str | None]:
    """Return what the user is to know of the table, and the column of which nobody said whether it groups the rows."""
    if question.group is not None or question.order is not None:  # the user has answered what belongs together
        found = [finding for finding in found if finding.kind != "group"]
    likely_group = next((finding.columns[0] for finding in found if finding.kind == "group"), None)
    copies = [Finding("copies", (), _copies(units, n_rows))] if units.copies else []
    return [*copies, *found], likely_group


def _always(encoder: TableEncoder, names: tuple[str, ...], drop: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers of the features that are made of some columns."""
    used = {column.name for column in encoder.columns}
    for name in names:
        if name in drop:
            raise TableError(f"--always {name!r} is also left out or names rows: it cannot be both.")
        if name not in used:
            raise TableError(f"--always {name!r} cannot be a feature: it is constant, empty or text that names rows.")
    places: list[int] = []
    start = 0
    for column in encoder.columns:
        count = len(column.features)
        if column.name in names:  # of several levels the first is left to the penalty: all of them make an intercept
            places += range(start + (count > 1 and bool(column.levels)), start + count)
        start += count
    return tuple(places)


def _aside(table: Table, question: Question, group: str | None) -> list[str]:
    """Return the columns that say something about rows and are no features."""
    aside = [name for name in (group, question.order, *question.ids) if name is not None]
    check_names(table, question.target, [*aside, *question.features, *question.always])
    if question.target in aside:
        raise TableError(f"The target {question.target!r} cannot be group, order or identifier of the rows too.")
    return aside


def _copies(units: Units, n: int) -> str:
    one = units.copies == 1
    return (
        f"{units.copies:,} of {n:,} rows repeat{'s' * one} another one exactly (features and label). They stay on one "
        "side of every split; torn apart they would make the error too good. --group none lets every row stand alone."
    )


def _units(table: Table, X: Any, y: Array, question: Question, group: str | None) -> Units:
    if question.order is not None:
        if group is not None:
            raise TableError("Rows can be kept together by --group or ordered by --order, not both.")
        return Units(_time(table, question.order), question.order, ordered=True)
    if group is not None:
        return Units(_groups(table, group, y), group)
    if question.group == NONE:
        return Units()
    first = copies_of(X, y)
    copies = int((first != np.arange(len(y))).sum())
    different = np.unique(first)
    if not copies or chance_pairs(X[different], y[different]) > 1.0:
        return Units()
    if len(different) < 2 * FEWEST_GROUPS:
        raise TableError(f"The table has only {len(different)} different rows, all others are copies of them.")
    return Units(first, copies=copies)


def groups_in(table: Table, name: str) -> Array:
    """Return which value of a column every row has, as numbers; there must be enough of them to hold some out."""
    if name in table.refused:
        raise TableError(table.refused[name])
    values = table.columns[name]
    text = np.asarray(["" if value is None or value != value else str(value) for value in values.tolist()])
    if (text == "").any():
        raise TableError(f"The group {name!r} has {int((text == '').sum())} empty cells: every row needs its group.")
    names, codes = np.unique(text, return_inverse=True)
    if len(names) < FEWEST_GROUPS:
        raise TableError(
            f"The group {name!r} has only {len(names)} value{'s' * (len(names) != 1)}: at least {FEWEST_GROUPS} are "
            "needed, so that whole groups can be held out."
        )
    return np.asarray(codes)


def _groups(table: Table, name: str, y: Array) -> Array:
    codes = groups_in(table, name)
    for label in np.unique(y):
        if len(np.unique(codes[y == label])) < 2:
            raise TableError(
                f"Class {label.item() if hasattr(label, 'item') else label!r} occurs in one value of {name!r} only, so "
                "it cannot be both learnt and held out: merge it with another class or remove its rows."
            )
    return codes


def _time(table: Table, name: str) -> Array:
    values = table.times.get(name)
    if values is None:
        if name in table.refused:
            raise TableError(table.refused[name])
        values = table.columns[name]
    if values.dtype.kind == "O":
        raise TableError(f"The order {name!r} holds text: give numbers or dates (as 2026-05-31).")
    if np.isnan(values.astype(np.float64)).any():
        raise TableError(f"The order {name!r} has empty cells: every row needs its time.")
    return np.asarray(np.unique(values, return_inverse=True)[1])
