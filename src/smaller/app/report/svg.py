"""Small charts as inline SVG: text in, text out, colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from smaller.app.report.words import name as short

__all__ = [
    "Frame",
    "bars",
    "calibration_chart",
    "free_height",
    "import_chart",
    "nice_ticks",
    "path_chart",
    "score_chart",
]


NAMED = 8  # lines that have a colour and a name of their own


def number(value: float) -> str:
    """Return a coordinate with one digit after the point."""
    return f"{value:.1f}"


@dataclass(frozen=True)
class Frame:
    """A plotting area with linear axes; values in, pixels out."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    width: float = 640
    height: float = 300
    left: float = 58
    right: float = 14
    top: float = 12
    bottom: float = 42

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / ((high - low) or 1.0) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return (
            self.height - self.bottom - (value - low) / ((high - low) or 1.0) * (self.height - self.top - self.bottom)
        )

    def line(self, points: Sequence[tuple[float, float]], style: str) -> str:
        path = " ".join(f"{number(self.x(a))},{number(self.y(b))}" for a, b in points)
        return f'<polyline class="{style}" points="{path}"/>'

    def vertical(self, at: float, style: str, label: str, *, leftwards: bool, line: int = 0) -> str:
        x, side, shift = number(self.x(at)), "tick end" if leftwards else "tick", -4 if leftwards else 4
        y = self.top + 10 + 14 * line
        text = f'<text class="{side}" x="{x}" y="{y:g}" dx="{shift}">{escape(label)}</text>'
        return f'<line class="{style}" x1="{x}" x2="{x}" y1="{self.top}" y2="{self.height - self.bottom}"/>{text}'

    def axes(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> str:
        """Draw tick labels (a second line after a newline), grid lines, and the names of the axes."""
        parts = []
        for value, text in y_ticks or [(tick, f"{tick:g}") for tick in nice_ticks(*self.y_range)]:
            y = number(self.y(value))
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.width - self.right}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text class="tick end" x="{self.left - 6}" y="{y}" dy="4">{escape(text)}</text>')
        for value, text in x_ticks:
            for line, words in enumerate(text.split("\n")):
                base = self.height - self.bottom + 16 + 14 * line
                x = number(self.x(value))
                parts.append(f'<text class="tick middle" x="{x}" y="{base:g}">{escape(words)}</text>')
        middle = number((self.left + self.width - self.right) / 2)
        parts.append(f'<text class="label middle" x="{middle}" y="{self.height - 6:g}">{escape(x_label)}</text>')
        parts.append(
            f'<text class="label middle" transform="translate(12,{number((self.height - self.bottom) / 2)}) '
            f'rotate(-90)">{escape(y_label)}</text>'
        )
        return "".join(parts)

    def svg(self, title: str, *parts: str) -> str:
        return (
            f'<div class="scroll"><svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg></div>'
        )


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers inside a range."""
    span = high - low
    if not span > 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / count))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (factor * step) <= count)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def bars(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    note: Callable[[int], str],
    *,
    limit: float | None = None,
    muted: Sequence[bool] | None = None,
    mark: float | None = None,
) -> str:
    """Draw signed horizontal bars, the first on top.

    Parameters
    ----------
    title : str
        For readers that cannot see the chart.
    names, values
        One bar each.
    note : callable
        The text at the right of a bar.
    limit : float, optional
        Value of the longest bar possible, where several charts share a scale.
    muted : sequence of bool, optional
        Bars in grey.
    mark : float, optional
        Where to draw a dashed line.
    """
    row, left, right, width = 24, 230, 120, 680
    limit = limit or max((abs(value) for value in values), default=1.0) or 1.0
    zero = (left + width - right) / 2 if any(value < 0 for value in values) else left
    scale = (width - right - zero) / limit
    height = len(names) * row + 8
    parts = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y, x = i * row + 4, zero + min(value, 0.0) * scale
        style = "muted" if muted and muted[i] else "positive" if value >= 0 else "negative"
        parts.append(
            f'<text class="name end" x="{left - 10}" y="{y + 12}"><title>{escape(name)}</title>{short(name, 34)}</text>'
            f'<rect class="{style}" x="{number(x)}" y="{y}" width="{number(max(abs(value) * scale, 1))}" height="15"/>'
            f'<text class="tick" x="{width - right + 12}" y="{y + 12}">{escape(note(i))}</text>'
        )
    parts.append(f'<line class="axis" x1="{number(zero)}" x2="{number(zero)}" y1="0" y2="{height}"/>')
    if mark is not None:
        at = number(zero + mark * scale)
        parts.append(f'<line class="threshold" x1="{at}" x2="{at}" y1="0" y2="{height}"/>')
    return (
        f'<div class="scroll"><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg></div>"
    )


def calibration_chart(bins: Sequence[dict[str, Any]]) -> str:
    """Draw how often decisions were right against how sure the model was."""
    lowest = min((min(part["confidence"], part["interval"][0]) for part in bins), default=0.0)
    start = math.floor(10.0 * min(lowest, 0.9)) / 10.0
    frame = Frame((start, 1.0), (start, 1.0), width=420, height=360)
    ticks = [(value, f"{value:g}") for value in nice_ticks(start, 1.0)]
    parts = [frame.axes("stated probability of the decision", "share that was right", ticks)]
    parts.append(frame.line([(start, start), (1.0, 1.0)], "reference"))
    for part in bins:
        x, (low, high) = number(frame.x(part["confidence"])), part["interval"]
        parts.append(
            f'<line class="whisker" x1="{x}" x2="{x}" y1="{number(frame.y(low))}" y2="{number(frame.y(high))}"/>'
        )
        parts.append(f'<circle class="dot" cx="{x}" cy="{number(frame.y(part["right"]))}" r="4.5"/>')
    return frame.svg("Calibration on rows not learnt from", *parts)


def _strength_ticks(path: dict[str, Any]) -> list[tuple[float, str]]:
    """Return round strengths, each with the number of features it leaves."""
    alphas: list[float] = path["alphas"]
    low, high = math.log10(min(alphas)), math.log10(max(alphas))
    steps = (1, 2, 5) if high - low < 1.5 else (1, 3) if high - low < 2.5 else (1,)
    round_values = [step * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    shown = [value for value in round_values if min(alphas) <= value <= max(alphas)]
    counts = [path["n_active"][min(range(len(alphas)), key=lambda i: abs(alphas[i] - value))] for value in shown]
    return [(-math.log10(value), f"{value:g}\n({count})") for value, count in zip(shown, counts, strict=True)]


STRENGTH = "strength of the penalty, alpha (number of features)"


def path_chart(path: dict[str, Any]) -> str:
    """Draw the weights of the strongest features against the strength of the penalty, strong at the left."""
    at = [-math.log10(alpha) for alpha in path["alphas"]]
    lines: list[dict[str, Any]] = path["lines"]
    values = [value for line in lines for value in line["weights"]] or [0.0]
    frame = Frame((at[0], at[-1]), (min(values), max(values)), height=330, bottom=56, right=190)
    parts = [frame.axes(STRENGTH, "weight", _strength_ticks(path))]
    parts.append(frame.line([(at[0], 0.0), (at[-1], 0.0)], "axis"))
    parts += [frame.line(list(zip(at, line["weights"], strict=True)), "path other") for line in lines[NAMED:]]
    heights: list[float] = []
    for i, line in enumerate(lines[:NAMED]):
        parts.append(frame.line(list(zip(at, line["weights"], strict=True)), f"path c{i}"))
        heights.append(free_height(frame.y(line["weights"][-1]), heights))
        x, y = frame.width - frame.right + 6, number(heights[-1] + 4)
        parts.append(f'<text class="tick c{i}" x="{x:g}" y="{y}">{short(str(line["name"]), 26)}</text>')
    parts += _marks(frame, path)
    return frame.svg("Weights along the path", *parts)


def free_height(wanted: float, taken: list[float]) -> float:
    """Return the nearest height to the wanted one at which a label covers no other."""
    offsets = sorted((k * 6.0 for k in range(-60, 61)), key=abs)
    return next((wanted + d for d in offsets if all(abs(wanted + d - other) >= 13 for other in taken)), wanted)


def score_chart(path: dict[str, Any]) -> str:
    """Draw the cross-validated log-loss (on a logarithmic scale) against the strength, with one standard error."""
    loss = [-value for value in path["score"]]
    error: list[float] = path["score_error"]
    least = max(min(loss) / 10.0, 1e-12)  # a band that reaches down to zero has no logarithm
    at = [-math.log10(alpha) for alpha in path["alphas"]]
    lower = [math.log10(max(a - b, least)) for a, b in zip(loss, error, strict=True)]
    upper = [math.log10(max(a + b, least)) for a, b in zip(loss, error, strict=True)]
    low = max(min(lower), math.log10(max(min(loss), least)) - 0.5)
    high = min(max(upper), upper[0] + 0.3)
    frame = Frame((at[0], at[-1]), (low, high), height=260, bottom=56, right=190)
    ticks = [(math.log10(value), f"{value:g}") for value in _round_numbers(10.0**low, 10.0**high)]
    band = [*zip(at, upper, strict=True), *reversed(list(zip(at, lower, strict=True)))]
    points = " ".join(f"{number(frame.x(a))},{number(frame.y(min(max(b, low), high)))}" for a, b in band)
    middle = [(a, min(max(math.log10(max(v, least)), low), high)) for a, v in zip(at, loss, strict=True)]
    parts = [frame.axes(STRENGTH, "log-loss", _strength_ticks(path), ticks)]
    parts.append(f'<polygon class="band" points="{points}"/>')
    parts.append(frame.line(middle, "path c0"))
    parts += _marks(frame, path)
    return frame.svg("Cross-validated log-loss along the path", *parts)


def import_chart(path: dict[str, Any]) -> str:
    """Draw the objective, and the error on rows held back where there is one, against the number of points."""
    charts = [_growth("objective", path["objective"])]
    if path["error"]:
        charts.append(_growth("error on rows held back", path["error"]))
    return "".join(charts)


def _growth(label: str, values: list[float]) -> str:
    counts = list(range(1, len(values) + 1))
    frame = Frame((1, max(len(values), 2)), (min([0.0, *values]), max(values) or 1.0), height=230)
    ticks = [(tick, f"{tick:g}") for tick in nice_ticks(1, max(len(values), 2), 8) if tick == int(tick)]
    dots = "".join(
        f'<circle class="dot" cx="{number(frame.x(a))}" cy="{number(frame.y(b))}" r="2.5"/>'
        for a, b in zip(counts, values, strict=True)
    )
    line = frame.line(list(zip(counts, values, strict=True)), "path c0")
    return frame.svg(f"{label} after each point", frame.axes("reference points", label, ticks), line, dots)


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2, 5 times powers of ten inside a range, or just its ends if there is none."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [round(step * 10.0**k, 12) for k in powers for step in (1, 2, 5) if low <= step * 10.0**k <= high]
    return inside if len(inside) > 1 else [float(f"{value:.3g}") for value in (low, high)]


def _marks(frame: Frame, path: dict[str, Any]) -> list[str]:
    """Mark the best strength, the one-standard-error strength, and the one used."""
    best, within, used = (-math.log10(float(path[key])) for key in ("alpha_min", "alpha_1se", "alpha"))
    labels = {best: "best", within: "1 s.e."}
    labels[used] = f"{labels.get(used, '')} (used)".strip()
    crowded = frame.x(best) > frame.width - frame.right - 40  # no room for words between the line and the edge
    return [
        frame.vertical(
            at,
            "used" if at == used else "mark",
            label,
            leftwards=crowded or at < best,
            line=int(crowded and at == best and len(labels) > 1),
        )
        for at, label in labels.items()
    ]
