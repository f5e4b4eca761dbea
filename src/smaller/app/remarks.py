"""What was done with the columns, told in few lines however many columns there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Remark", "sentences"]

SINGLY = 3  # so many columns of a kind are told one by one


@dataclass(frozen=True)
class Remark:
    """What happened to one column: ``kind`` says what, ``cells`` to how many cells, ``text`` in which words."""

    kind: str
    column: str
    text: str = ""
    cells: int = 0
    number: bool = True


def sentences(remarks: list[Remark], n_rows: int) -> list[str]:
    """Return a line for every column of a kind if they are few, else one for all of them."""
    kinds = dict.fromkeys(remark.kind for remark in remarks)
    told = []
    for kind in kinds:
        those = [remark for remark in remarks if remark.kind == kind]
        of_one, of_many = _SENTENCES[kind]
        told += [of_one(one, n_rows) for one in those] if len(those) <= SINGLY else [of_many(those, n_rows)]
    return told


def _names(remarks: list[Remark]) -> str:
    shown = ", ".join(repr(remark.column) for remark in remarks[:SINGLY])
    return f"{shown} and {len(remarks) - SINGLY:,} more"


def _gap(remark: Remark, n_rows: int) -> str:
    share = f"Column {remark.column!r}: {remark.cells} missing value{'s' * (remark.cells > 1)} "
    share += f"({100 * remark.cells / n_rows:.0f}%) {'are' if remark.cells > 1 else 'is'} "
    if not remark.number:
        return share.replace(" are ", " belong ").replace(" is ", " belongs ") + "to no level."
    marked = " and marked by a feature of their own" if remark.cells >= MARKED else ""
    return f"{share}filled with the median{marked}."


def _gaps(remarks: list[Remark], n_rows: int) -> str:
    cells = sum(remark.cells for remark in remarks)
    marked = sum(remark.cells >= MARKED and remark.number for remark in remarks)
    share = 100.0 * cells / (n_rows * len(remarks))
    how = f", and {marked:,} of the columns get a feature that marks them" if marked else ""
    return (
        f"{len(remarks):,} columns have gaps ({share:.1f}% of their cells), filled with the median of the rows learnt "
        f"from{how}."
    )


MARKED = 5  # gaps from which they get a feature of their own

# What is said of one column, and of many of a kind.
_SENTENCES: dict[str, tuple[Callable[[Remark, int], str], Callable[[list[Remark], int], str]]] = {
    "empty": (
        lambda one, n: f"Column {one.column!r} is empty and was left out.",
        lambda many, n: f"{len(many):,} columns are empty and were left out: {_names(many)}.",
    ),
    "constant": (
        lambda one, n: f"Column {one.column!r} is constant and was left out.",
        lambda many, n: f"{len(many):,} columns are constant and were left out: {_names(many)}.",
    ),
    "counter": (
        lambda one, n: (
            f"Column {one.column!r} has another whole number in every row, like an identifier, and was left out; "
            f"--feature {one.column!r} keeps it."
        ),
        lambda many, n: (
            f"{len(many):,} columns have another whole number in every row, like identifiers, and were left out: "
            f"{_names(many)}; --feature keeps one."
        ),
    ),
    "identifier": (
        lambda one, n: (
            f"Column {one.column!r} has {one.cells} different texts, looks like an identifier and was left out."
        ),
        lambda many, n: f"{len(many):,} columns of text look like identifiers and were left out: {_names(many)}.",
    ),
    "gaps": (_gap, _gaps),
    "cells": (
        lambda one, n: f"Column {one.column!r}: {one.text}.",
        lambda many, n: (
            f"{len(many):,} columns of text are read as numbers: {_names(many)}; for example {many[0].column!r}: "
            f"{many[0].text}."
        ),
    ),
}
