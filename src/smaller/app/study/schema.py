"""The facts of a study as one typed structure: report.json holds it, page and terminal only render it."""

from __future__ import annotations

from typing import Any, TypedDict

__all__ = ["SCHEMA", "Facts", "Judged"]

SCHEMA = 2  # grows when a fact changes its meaning or goes away; new facts may come at any time


class Judged(TypedDict):
    """What predictions of rows not learnt from say beside their error."""

    by_class: dict[str, Any]
    benefit: dict[str, Any] | None  # of two classes
    operation: dict[str, Any] | None  # where a class is looked for
    calibration: dict[str, Any]
    recalibration: dict[str, Any] | None
    confusion: list[list[float]]
    decisions: dict[str, Any] | None


class Facts(Judged):
    """What is known after a study, as plain values."""

    schema: int
    settings: dict[str, Any]
    summary: str
    citation: str
    rows: int
    features: int
    columns: int
    classes: list[str]
    graded: bool
    class_counts: list[int]
    plan: str
    nested: bool
    together: str | None
    verdict: dict[str, Any]
    performance: dict[str, Any]
    audit: list[dict[str, Any]]
    shuffled: dict[str, Any] | None
    all_features: dict[str, Any]
    cap: dict[str, Any] | None
    always: list[str]
    sizes_per_fold: list[int]
    chosen: dict[str, Any] | None
    stability: dict[str, Any]
    path: dict[str, Any] | None
    certificate: dict[str, Any]
    relaxed: dict[str, Any] | None
    caution: str | None
    bound: dict[str, float] | None
    effects: dict[str, Any] | None
    ranges: dict[str, Any] | None
    points: int | None
    dependence: list[dict[str, Any]] | None  # of kernel models
    reference: list[dict[str, Any]] | None
    import_path: dict[str, Any] | None
    scales: list[dict[str, Any]] | None
    notes: list[str]
    seconds: float
    command: str | None  # that was typed, if any
