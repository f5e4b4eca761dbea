"""What in a table makes an error too good, or an answer doubtful: looked for before anything is believed.

Every finding is a question to the user with the option that answers it; nothing here changes the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats

from smaller.app.columns import NOTHING, TableEncoder, codes_of, counts_rows
from smaller.app.tables import Table
from smaller.arrays import Array

__all__ = ["Finding", "audit"]

FEW_ROWS = 10  # of a class
FEWEST_GROUPS, MOST_REPEATS = 8, 500
ALMOST = 0.99  # of the rows that one feature alone gets right
LEAST_ROWS_ALONE = 30
SITE_P = 1e-3
SHOWN = 3
ROWS_AT_FIRST = 20_000
MAX_CELLS_LOOKED_AT = 50_000_000

_PERSON = re.compile(
    r"(.*[^a-z])?(patient|subject|subj|participant|person|proband|donor|animal|mouse|rat|individual|family|household|"
    r"pair|twin|cluster|client|customer|user|speaker|pid|mrn|case)s?([^a-z]*(id|nr|no|num|number|code|name|key)?)"
)
_SITE = re.compile(
    r"(.*[^a-z])?(batch|site|plate|center|centre|hospital|clinic|scanner|operator|lot|chip|run|lab|machine|date)"
    r"s?([^a-z]*(id|nr|no|num|number|code|name)?)"
)


@dataclass(frozen=True)
class Finding:
    """One thing to look at: its kind, the columns it is about, and a sentence with advice."""

    kind: str
    columns: tuple[str, ...]
    sentence: str


def audit(table: Table, y: Array, X: Any, encoder: TableEncoder, aside: tuple[str, ...]) -> list[Finding]:
    """Look at a table, the most serious first; the columns ``aside`` are answered for and not looked at."""
    columns = {name: values for name, values in table.columns.items() if name not in aside}
    codes = np.unique(y, return_inverse=True)[1]
    return [
        *_likely_groups(columns, codes),
        *_too_good(X, codes, encoder),
        *_counters(columns, encoder),
        *_sites(columns, codes),
        *_rare(y),
    ]


def _likely_groups(columns: dict[str, Any], codes: Array) -> Iterator[Finding]:
    for name, values in columns.items():
        column = _levels(values)
        if column is None:
            continue
        kind, count, repeated = column.max() + 1, len(codes), np.bincount(column)
        if not (FEWEST_GROUPS <= kind <= 0.9 * count and repeated.max() <= MOST_REPEATS):
            continue
        called = _PERSON.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()) is not None
        text = values.dtype.kind == "O"
        if (called and (text or _pure(column, codes) or count / kind < 50)) or _one_label_each(values, column, codes):
            why = " and all rows of one value have one label" if _pure(column, codes) else ""
            yield Finding(
                "group", (name,),
                f"{count:,} rows, {kind:,} values of {name!r}{why}: repeated measures? Use --group {name!r}, or "
                "--group none if the rows are independent.",
            )  # fmt: skip


def _levels(values: Any) -> Array | None:
    """Return codes of text or whole numbers; None for other columns and those with gaps."""
    if values.dtype.kind == "O":
        if np.equal(values, NOTHING).any():
            return None
        return codes_of(values, sorted(map(str, set(values.tolist()))))
    if not np.isfinite(values).all() or (values != np.round(values)).any():
        return None
    return np.asarray(np.unique(values, return_inverse=True)[1])


def _pure(column: Array, codes: Array) -> bool:
    table = np.bincount(column * (codes.max() + 1) + codes, minlength=(column.max() + 1) * (codes.max() + 1))
    table = table.reshape(column.max() + 1, -1)
    return bool(((table > 0).sum(axis=1) == 1).all())


def _one_label_each(values: Any, column: Array, codes: Array) -> bool:
    """Tell whether values repeat, each with one label, in a way that neither chance nor a threshold explains."""
    size = np.bincount(column)
    if not _pure(column, codes) or np.median(size) < 2:
        return False
    shares = np.bincount(codes) / len(codes)
    if np.log((shares**2).sum()) * (size - 1).sum() > np.log(1e-6):  # roughly, of so many agreements by chance
        return False
    label = np.zeros(len(size), dtype=np.int64)
    label[column] = codes
    runs = 1 + int((np.diff(label) != 0).sum())
    return values.dtype.kind == "O" or runs > len(size) / 4  # a number with a threshold has few runs


def _too_good(X: Any, codes: Array, encoder: TableEncoder) -> Iterator[Finding]:
    n, p = X.shape
    commonest = np.bincount(codes).max() / n
    if sparse.issparse(X) or n < LEAST_ROWS_ALONE or n * p > MAX_CELLS_LOOKED_AT or commonest > ALMOST - 0.05:
        return
    some = slice(None, None, max(1, n // ROWS_AT_FIRST))  # of a tall table: a first look
    looked = [j for j in range(p) if _alone(X[some, j], codes[some]) >= ALMOST - 0.01]
    found = [j for j in looked if _alone(X[:, j], codes) >= ALMOST]
    names = [encoder.features[j] for j in found[:SHOWN]]
    if names:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        one = len(found) == 1
        yield Finding(
            "too good", tuple(names),
            f"{', '.join(map(repr, names))}{more} alone predict{'s' * one} almost everything: too good? Is it the "
            "target, a code of it, or known only afterwards? Then --drop it.",
        )  # fmt: skip


def _alone(feature: Array, codes: Array) -> float:
    """Return the share of rows right by one feature: its values, or as many intervals of them as classes and two."""
    K, n = codes.max() + 1, len(codes)
    finite = np.where(np.isnan(feature), np.inf, feature)
    values, bins = np.unique(finite, return_inverse=True)
    if len(values) <= K + 2:
        return float(np.bincount(bins * K + codes, minlength=len(values) * K).reshape(-1, K).max(axis=1).sum() / n)
    order = np.argsort(finite, kind="stable")
    runs = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
    if len(runs) > 0.02 * n + 2 * K:  # nearly sorted by class means few runs
        return 0.0
    lengths = np.sort(np.diff(np.r_[runs, n]))[::-1]
    return float(lengths[: K + 1].sum() / n)


def _counters(columns: dict[str, Any], encoder: TableEncoder) -> Iterator[Finding]:
    used = {column.name for column in encoder.columns}
    names = [name for name, values in columns.items() if name in used and counts_rows(name, values)]
    if names:
        shown = ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        one = len(names) == 1
        yield Finding(
            "identifier", tuple(names),
            f"{shown} {'has' if one else 'have'} another whole number in every row, sorted or in sequence: "
            f"{'an identifier' if one else 'identifiers'}? Then --id {names[0]!r}.",
        )  # fmt: skip


def _sites(columns: dict[str, Any], codes: Array) -> Iterator[Finding]:
    for name, values in columns.items():
        if _SITE.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()) is None:
            continue
        column = _levels(values)
        if column is None or not 2 <= column.max() + 1 <= len(codes) / 3:
            continue
        table = np.bincount(column * (codes.max() + 1) + codes, minlength=(column.max() + 1) * (codes.max() + 1))
        p = stats.chi2_contingency(table.reshape(column.max() + 1, -1)).pvalue
        if p < SITE_P:
            yield Finding(
                "site", (name,),
                f"{name!r} goes with the target (p = {p:.1g}): rows of one {name} share more than what is asked about. "
                f"Use --group {name!r}, or --drop {name!r}.",
            )  # fmt: skip


def _rare(y: Array) -> Iterator[Finding]:
    classes, counts = np.unique(y, return_counts=True)
    rare = [
        f"{label!s:.30} ({count})" for label, count in zip(classes.tolist(), counts, strict=True) if count < FEW_ROWS
    ]
    if rare:
        more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
        yield Finding(
            "rare class", (),
            f"{'A class has' if len(rare) == 1 else f'{len(rare)} classes have'} fewer than {FEW_ROWS} rows: "
            f"{', '.join(rare[:5])}{more}. What is said about {'it' if len(rare) == 1 else 'them'} is rough "
            "(--drop-rare and --merge-rare leave such classes out, or make them one).",
        )  # fmt: skip
