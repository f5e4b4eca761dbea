"""Values as words for the page: every text that comes from a table is escaped here."""

from __future__ import annotations

from html import escape
from typing import Any

from smaller.app.study.schema import Facts

__all__ = ["count", "estimate", "name", "percent", "weighted_classes"]


def name(text: Any, length: int = 80) -> str:
    """Return a name on one line, cut to a readable length and escaped."""
    shown = " ".join(str(text).split())
    return escape(shown if len(shown) <= length else shown[: length - 1] + "…")


def weighted_classes(facts: Facts) -> list[str]:
    """Return what the weights of a feature speak for, one after another."""
    if facts["graded"]:
        return ["each step up"]
    return facts["classes"][1:] if len(facts["classes"]) == 2 else facts["classes"]


def count(value: float) -> str:
    """Return a count; the mean of several has one digit after the point."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def percent(share: float, *, exact: bool = False) -> str:
    """Return a share in percent, with one digit after the point where it is small (or known exactly)."""
    return f"{100 * share:.1f}%" if exact or 0 < share < 0.0995 else f"{100 * share:.0f}%"


def estimate(share: float, interval: list[float]) -> tuple[str, str]:
    """Return a share and its interval, with as many digits as the interval deserves."""
    low, high = interval
    exact = high - low < 0.05
    return percent(share, exact=exact), f"{percent(low, exact=exact)} to {percent(high, exact=exact)}"
