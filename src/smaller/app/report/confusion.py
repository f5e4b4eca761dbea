"""Which class is taken for which: a table of few classes, a heat map of many."""

from __future__ import annotations

from html import escape

from smaller.app.report.words import count, name, percent

__all__ = ["confusion_chart"]

TABLE_CLASSES = 8  # more are drawn as a heat map, which fits the page
LABEL, CELL, TOP, MARGIN = 150, 26, 110, 66


def confusion_chart(labels: list[str], table: list[list[float]]) -> str:
    """Return the counts, true class by class decided for, with the share of each class that was found."""
    return _table(labels, table) if len(labels) <= TABLE_CLASSES else _heat_map(labels, table)


def _table(labels: list[str], table: list[list[float]]) -> str:
    lines = []
    for i, (label, counts) in enumerate(zip(labels, table, strict=True)):
        styles = ["right" if i == j else "wrong" if count else "" for j, count in enumerate(counts)]
        cells = "".join(f'<td class="{style}">{count(value)}</td>' for style, value in zip(styles, counts, strict=True))
        lines.append(f"<tr><td>{name(label, 30)}</td>{cells}<td>{_found(counts, i)}</td></tr>")
    head = "".join(f"<th>{name(label, 18)}</th>" for label in labels)
    return (
        f"<div class='scroll'><table><thead><tr><th>true class / predicted</th>{head}<th>found</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _found(counts: list[float], i: int) -> str:
    return percent(counts[i] / sum(counts)) if sum(counts) else ""


def _heat_map(labels: list[str], table: list[list[float]]) -> str:
    """Draw shares of the true class as shades, with the counts in them and angled names above."""
    K = len(labels)
    width, height = LABEL + K * CELL + MARGIN, TOP + K * CELL + 6
    parts = []
    for j, label in enumerate(labels):
        x = LABEL + j * CELL + CELL / 2 + 4
        parts.append(f'<text transform="translate({x:g},{TOP - 6}) rotate(-60)">{name(label, 16)}</text>')
    for i, (label, counts) in enumerate(zip(labels, table, strict=True)):
        y, total = TOP + i * CELL, sum(counts) or 1.0
        parts.append(f'<text class="end" x="{LABEL - 8}" y="{y + 17}">{name(label, 20)}</text>')
        for j, value in enumerate(counts):
            if value:
                style, x = "positive" if i == j else "negative", LABEL + j * CELL
                shade = f"{0.12 + 0.6 * value / total:.2f}"
                parts.append(f'<rect class="{style}" x="{x}" y="{y}" width="25" height="25" fill-opacity="{shade}"/>')
                parts.append(
                    f'<text class="cell middle" x="{x + CELL / 2 - 0.5:g}" y="{y + 17}">{_short(value)}</text>'
                )
        parts.append(f'<text class="tick" x="{LABEL + K * CELL + 8}" y="{y + 17}">{_found(counts, i)}</text>')
    parts.append(f'<text class="tick" x="{LABEL + K * CELL + 8}" y="{TOP - 6}">found</text>')
    title = "Counts of the true class (rows) by the class predicted (columns)"
    return (
        "<p class='soft'>Rows: the true class. Columns: what is predicted. Shades are shares of the true class.</p>"
        f'<div class="scroll"><svg class="heat" viewBox="0 0 {width} {height}" style="width:{width}px" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg></div>'
    )


def _short(value: float) -> str:
    """Return a count in at most four characters."""
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 0.5 else "·"
