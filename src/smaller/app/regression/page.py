"""The report of a regression: the answer first, then what it rests on."""

from __future__ import annotations

from html import escape
from typing import Any

from smaller.app.report.page import card, page
from smaller.app.report.words import name, percent

__all__ = ["render", "verdict"]


def verdict(facts: dict[str, Any]) -> str:
    """Return what the rows left out allow to say."""
    found = facts["performance"]
    low, high = found["r2_interval"]
    target = facts["settings"]["target"]
    if low <= 0.0:
        return f"It is not shown that these columns predict {target} better than its mean does."
    return (
        f"On rows that were not learnt from, {percent(found['r2'])} of the variance of {target} is explained "
        f"({percent(low)} to {percent(high)} with 95% confidence)."
    )


def render(facts: dict[str, Any]) -> str:
    """Return the report as one HTML page."""
    target = name(facts["settings"]["target"])
    notes = "".join(f"<li>{escape(note)}</li>" for note in facts["notes"])
    body = (
        f"<h1>What predicts {target}?</h1><p class='soft'>{facts['rows']:,} rows, {facts['columns']:,} columns. "
        f"Model: {escape(facts['summary'])}.</p><p><b>{escape(verdict(facts))}</b></p>"
        f"<div class='cards'>{''.join(_cards(facts))}</div>{_inside(facts)}{_intervals(facts)}"
        "<section><h2>How it was done</h2><p>Five parts; each was predicted by the same procedure, fitted to the "
        f"others. Fit of all rows: {escape(facts['status'])} {escape(facts['citation'])}</p></section>"
        + (f"<details><summary>What was done with the table</summary><ul>{notes}</ul></details>" if notes else "")
    )
    return page(f"What predicts {facts['settings']['target']}?", body, {"decisions": None, "shares": []})


def _cards(facts: dict[str, Any]) -> list[str]:
    found, luck = facts["performance"], facts["shuffled"]
    low, high = found["rmse_interval"]
    cards = [
        card(f"{found['r2']:.3f}", "R², on rows not learnt from"),
        card(f"{found['rmse']:.4g}", f"root mean square error ({low:.4g} to {high:.4g} with 95% confidence)"),
        card(f"{found['baseline_rmse']:.4g}", "the same for the mean of the rows learnt from"),
    ]
    return [*cards, *([] if luck is None else [card(f"{luck:.3f}", "R² after learning from shuffled values")])]


def _inside(facts: dict[str, Any]) -> str:
    inside = facts["model"]
    if inside["features"] is None:
        text = f"New rows are compared with {inside['points']} rows of the table."
        return f"<section><h2>The model</h2><p>{text}</p></section>"
    rows = "".join(f"<tr><td>{name(one['name'])}</td><td>{one['weight']:+.4g}</td></tr>" for one in inside["features"])
    return (
        f"<section><h2>Features in use: {len(inside['features'])} of {facts['features']:,}</h2>"
        f"<table><tr><th>feature</th><th>change of the prediction for one standard deviation</th></tr>{rows}"
        "</table></section>"
    )


def _intervals(facts: dict[str, Any]) -> str:
    found = facts["performance"]
    low, high = found["coverage_interval"]
    trusted = low <= found["level"] <= high
    remark = "" if trusted else " <b>They are not what they say: do not rely on them.</b>"
    return (
        f"<section><h2>Do the intervals hold?</h2><p>Intervals of {found['level']:.0%} hold "
        f"{percent(found['coverage'])} of "
        f"the rows left out ({percent(low)} to {percent(high)} with 95% confidence).{remark}</p></section>"
    )
