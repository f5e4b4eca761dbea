"""The facts of a study as one typed structure: report.json holds it, page and terminal only render it."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

__all__ = ["SCHEMA", "Facts"]

SCHEMA = 2  # grows when a fact changes its meaning or goes away; new facts may come at any time


class Facts(TypedDict):
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
    calibration: dict[str, Any]
    confusion: list[list[float]]
    decisions: dict[str, Any] | None
    sizes_per_fold: list[int]
    chosen: dict[str, Any] | None
    stability: dict[str, Any]
    path: dict[str, Any] | None
    certificate: dict[str, Any]
    caution: str | None
    bound: dict[str, float] | None
    points: int | None
    import_path: dict[str, Any] | None
    scales: list[dict[str, Any]] | None
    notes: list[str]
    seconds: float
    command: NotRequired[str]
