"""What is sure about single effects and probabilities: a forest plot, its table, and the sentences beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

from smaller.app.report.svg import number
from smaller.app.report.words import name
from smaller.app.study.schema import Facts

__all__ = ["effects", "ranges", "relaxed"]

RARE = 0.05  # of corrected p-values
SHOWN = 20
FARTHEST = 300.0  # of log-odds: what exp takes
HEIGHT, LEFT, RIGHT, WIDTH = 24, 230, 190, 680  # of a line of the forest; of the names, the numbers and all


def effects(facts: Facts) -> str:
    """Draw the odds ratio of every chosen feature with its range, and list them per unit."""
    found = facts["effects"]
    if not found:
        return ""
    head = "<h3>How large is each effect?</h3>"
    if not found["features"]:
        return f"{head}<p>{escape(found['note'])}</p>"
    rows, towards = found["features"], name(facts["classes"][1])
    return (
        f"{head}<p>Factor of the odds of <b>{towards}</b> for a feature one standard deviation higher, all others "
        f"given; at the right p-values of no effect, corrected for all {found['columns']:,} features. Filled: told "
        f"apart from no effect; hollow: not told apart.</p>{_forest(rows[:SHOWN])}"
        f"<p><small>{escape(found['note'])}</small></p>{_table(found)}"
    )


def relaxed(facts: Facts) -> str:
    """Say what taking the shrinkage out of the probabilities has brought."""
    return f"<p>{escape(facts['relaxed']['sentence'])}</p>" if facts["relaxed"] else ""


def ranges(facts: Facts) -> str:
    """Say whether a single probability can have a range, and how to get it."""
    found = facts["ranges"]
    if found is None:
        return ""
    reach = "" if found["reach"] is None else f" (reach {found['reach']:.2g})"
    how = "<code>smaller predict --interval 90</code> gives every probability a range"
    return f"<h3>How sure is a single probability?</h3><p>{how}{reach}. {' '.join(map(escape, found['sentences']))}</p>"


def _forest(rows: list[dict[str, Any]]) -> str:
    """Draw ranges on a logarithmic axis, the odds ratio one in dashes."""
    steps = [[row[key] * row["deviation"] for key in ("low", "effect", "high")] for row in rows]
    low, high = min(0.0, *(ends[0] for ends in steps)), max(0.0, *(ends[2] for ends in steps))
    total = len(rows) * HEIGHT

    def x(value: float) -> float:
        return LEFT + float(value - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT)

    parts = [f'<line class="threshold" x1="{number(x(0.0))}" x2="{number(x(0.0))}" y1="0" y2="{total}"/>']
    parts += [_line(place * HEIGHT + 12, rows[place], steps[place], x) for place in range(len(rows))]
    parts += [
        f'<text class="tick middle" x="{number(x(tick))}" y="{total + 14}">{math.exp(tick):g}</text>'
        for tick in _ticks(low, high)
    ]
    title = "Odds ratios per standard deviation with nominal 90 % ranges"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {total + 26}" role="img" aria-label="{title}">'
        f"<title>{title}</title>{''.join(parts)}</svg></div>"
    )


def _line(y: int, row: dict[str, Any], ends: list[float], x: Callable[[float], float]) -> str:
    """Draw one feature: its name, range and mark, and the numbers."""
    low, middle, high = map(x, ends)
    told = row["p_corrected"] < RARE
    style = ("positive" if ends[1] > 0 else "negative") if told else "muted"
    return (
        f'<text class="name end" x="{LEFT - 10}" y="{y + 4}"><title>{escape(row["name"])}</title>'
        f'{name(row["name"], 34)}</text><rect class="{style}" x="{number(low)}" y="{y - 1}" '
        f'width="{number(high - low)}" height="2"/><rect class="{style if told else "hollow"}" '
        f'x="{number(middle - 4.5)}" y="{y - 4.5}" width="9" height="9"/><text class="tick" '
        f'x="{WIDTH - RIGHT + 12}" y="{y + 4}">{_odds(*ends)}; p {_p(row["p_corrected"])}</text>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return the logarithms of a few round odds ratios inside a range."""
    decades = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    step = max(1, len(decades) // 6)
    factors = (1, 2, 5) if len(decades) <= 3 else (1,)
    values = [k * math.log(10) + math.log(factor) for k in decades if k % step == 0 for factor in factors]
    return [value for value in values if low <= value <= high]


def _table(found: dict[str, Any]) -> str:
    lines = "".join(
        f"<tr><td>{name(row['name'])}</td><td>{_odds(row['low'], row['effect'], row['high'])}</td>"
        f"<td>{_p(row['p_value'])}</td><td>{_p(row['p_corrected'])}</td></tr>"
        for row in found["features"]
    )
    return (
        "<details><summary>Odds ratios per unit</summary><div class='scroll'><table><thead><tr><th>feature</th>"
        f"<th>odds ratio per unit (nominal {found['level']:.0%} range)</th><th>p</th><th>p, corrected for all "
        f"{found['columns']:,} features</th></tr></thead><tbody>{lines}</tbody></table></div>"
        f"<p><small>{escape(found['note'])}</small></p></details>"
    )


def _odds(low: float, middle: float, high: float) -> str:
    first, second, third = (math.exp(max(-FARTHEST, min(FARTHEST, value))) for value in (low, middle, high))
    return f"{second:.3g} ({first:.3g} to {third:.3g})"


def _p(value: float) -> str:
    return "&lt; 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
