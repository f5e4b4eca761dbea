"""A second cohort: how a fitted table model does on rows of another table, as a whole and in its parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.answer import TableModel
from smaller.app.study.discrimination import area, area_interval
from smaller.app.study.judgement import calibration, confusion, performance
from smaller.app.study.novelty import unlike
from smaller.app.study.recalibration import recalibrate
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["evaluate"]

FEWEST_ROWS, FEWEST_GROUPS = 20, 5  # of a part: below, its numbers would mislead
MOST_PARTS = 50
SHOWN_SHIFTS = 20
_FLOOR = 1e-12  # probability


def evaluate(model: TableModel, table: Table, *, by: str | None = None, group: str | None = None) -> dict[str, Any]:
    """Return what a model says of a table with known labels, as plain values.

    Parameters
    ----------
    model : TableModel
        What `smaller fit` wrote.
    table : Table
        With the target's column; rows without a label are left out.
    by : str, optional
        Column whose values make parts that are judged one by one.
    group : str, optional
        Column of rows that belong together: intervals of error and log-loss take a group as one draw.
    """
    target = model.encoder.target
    for name in (target, by, group):
        if name is not None and name not in table.columns:
            raise TableError(f"There is no column {name!r} in this table; it has {', '.join(list(table.columns)[:8])}.")
    codes, rows, aside = _codes(table.columns[target], model)
    part = table.rows(rows)
    proba = np.maximum(np.asarray(model.predict_proba(part)), _FLOOR)
    groups = None if group is None else _texts(part.columns[group])
    if groups is not None and len(np.unique(groups)) < FEWEST_GROUPS:
        raise TableError(f"--group {group} has fewer than {FEWEST_GROUPS} values: too few draws for an interval.")
    labels = [str(label) for label in model.classes.tolist()]
    facts: dict[str, Any] = {
        "target": target,
        "classes": labels,
        "rows": len(codes),
        "unlabelled": table.n_rows - len(codes) - aside,
        "group": group,
        "shares": (np.bincount(codes, minlength=len(labels)) / len(codes)).tolist(),
        "train_shares": np.asarray(model.train_priors).tolist(),
        "calibration": calibration(codes, proba),
        "confusion": confusion(codes, proba),
        "shifts": _shifts(model, part),
        "unlike": None if (found := unlike(model, part)) is None else int(found.sum()),
        "notes": [*table.notes, *_left_aside(aside, model), *model.encoder.unknown_levels(part)],
        **_judged(codes, proba, groups),
    }
    if by is not None:
        facts["by"], facts["parts"], facts["left_out"] = by, *_parts(codes, proba, groups, _texts(part.columns[by]))
    return facts


def _left_aside(aside: int, model: TableModel) -> list[str]:
    if not aside:
        return []
    return [f"{aside:,} rows of classes that were left out in training ({', '.join(model.rare.labels)}) are left out."]


def _codes(values: Array, model: TableModel) -> tuple[Array, Array, int]:
    """Return the classes' numbers, the rows that have a label, and how many rows are of classes left out."""
    target, classes = model.encoder.target, model.classes
    missing = np.isnan(values) if values.dtype.kind == "f" else np.array([value is None for value in values])
    rows = np.flatnonzero(~missing)
    if len(rows) == 0:
        raise TableError(f"No row of the table has a value of {target!r}: an evaluation needs the truth.")
    known = {_text(label): k for k, label in enumerate(classes.tolist())}
    given, kept = model.rare.settle(np.array([_text(value) for value in values[rows].tolist()]))
    strange = sorted(set(given.tolist()).difference(known))
    if strange:
        shown = ", ".join(strange[:5]) + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
        raise TableError(
            f"{target!r} has values that the model does not know ({shown}); it knows {', '.join(known)}. Write them in "
            "the same way, or leave those rows out."
        )
    if len(kept) == 0:
        raise TableError(f"All rows are of classes that were left out in training: {', '.join(model.rare.labels)}.")
    return np.array([known[value] for value in given.tolist()]), rows[kept], len(rows) - len(kept)


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _texts(values: Array) -> Array:
    return np.array([_text(value) for value in values.tolist()])


def _judged(codes: Array, proba: Array, groups: Array | None) -> dict[str, Any]:
    """Return errors, areas, Brier score and recalibration of some rows."""
    K = proba.shape[1]
    areas = []
    for k in [1] if K == 2 else range(K):
        interval = area_interval(codes == k, proba[:, k])
        areas.append({"value": area(codes == k, proba[:, k]), "interval": None if interval is None else list(interval)})
    fit = recalibrate(codes, proba)
    return {
        "performance": performance(codes, proba, groups),
        "areas": areas,
        "recalibration": None
        if fit is None
        else {
            "slope": fit.slope,
            "slope_interval": list(fit.slope_interval),
            "intercepts": list(fit.intercepts),
            "intercept_intervals": [list(ends) for ends in fit.intercept_intervals],
        },
    }


def _parts(codes: Array, proba: Array, groups: Array | None, names: Array) -> tuple[list[dict[str, Any]], list[str]]:
    """Return each part's judgement, the largest first, and the parts that are too small to judge."""
    values, counts = np.unique(names, return_counts=True)
    if len(values) > MOST_PARTS:
        raise TableError(f"--by has {len(values)} different values: {MOST_PARTS} parts at most can be read.")
    parts, small = [], []
    for value, count in sorted(zip(values, counts, strict=True), key=lambda part: -part[1]):
        rows = names == value
        inside = None if groups is None else groups[rows]
        if count < FEWEST_ROWS:
            small.append(f"{value} ({count} rows)")
        elif inside is not None and len(np.unique(inside)) < FEWEST_GROUPS:
            small.append(f"{value} ({len(np.unique(inside))} groups)")
        else:
            parts.append({"name": str(value), "rows": int(count), **_judged(codes[rows], proba[rows], inside)})
    return parts, small


def _shifts(model: TableModel, table: Table) -> list[dict[str, Any]]:
    """Return how far features in use have moved since training, in standard deviations; the farthest first."""
    steps, last = model.pipeline.named_steps, model.pipeline[-1]
    scale, coef = steps.get("scale"), getattr(last, "coef_", None)
    if scale is None or getattr(scale, "mean_", None) is None:
        return []
    used = np.arange(len(scale.mean_)) if coef is None else np.flatnonzero(np.any(coef, axis=0))
    X = model.encoder.transform(table, optional=model.unused)
    moved = []
    for j in used.tolist():
        column = X[:, [j]].toarray()[:, 0] if hasattr(X, "toarray") else X[:, j]
        present = column[~np.isnan(column)]
        if len(present) and scale.scale_[j] > 0:
            mean = (float(present.mean()) - float(scale.mean_[j])) / float(scale.scale_[j])
            spread = float(present.std()) / float(scale.scale_[j])
            moved.append((abs(mean), {"name": model.encoder.features[j], "mean": mean, "spread": spread}))
    return [shift for _, shift in sorted(moved, key=lambda one: -one[0])][:SHOWN_SHIFTS]
