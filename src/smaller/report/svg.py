"""Small charts as inline SVG: text in, text out, colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Frame", "bars", "calibration_chart", "path_chart", "score_chart"]


def number(value: float) -> str:
    """Return a coordinate with one digit after the point."""
    return f"{value:.1f}"


def short(name: str, length: int = 34) -> str:
    """Return a name cut to a readable length and escaped."""
    text = " ".join(name.split())
    return escape(text if len(text) <= length else text[: length - 1] + "…")


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

    def vertical(self, at: float, style: str, label: str, *, leftwards: bool) -> str:
        x, side, shift = number(self.x(at)), "tick end" if leftwards else "tick", -4 if leftwards else 4
        text = f'<text class="{side}" x="{x}" y="{self.top + 2}" dx="{shift}" dy="8">{escape(label)}</text>'
        return f'<line class="{style}" x1="{x}" x2="{x}" y1="{self.top}" y2="{self.height - self.bottom}"/>{text}'

    def axes(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]]) -> str:
        parts = []
        for value in nice_ticks(*self.y_range):
            y = number(self.y(value))
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.width - self.right}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text class="tick end" x="{self.left - 6}" y="{y}" dy="4">{value:g}</text>')
        for value, text in x_ticks:
            x = number(self.x(value))
            base = self.height - self.bottom + 16
            parts.append(f'<text class="tick middle" x="{x}" y="{base}">{escape(text)}</text>')
        middle = number((self.left + self.width - self.right) / 2)
        parts.append(f'<text class="label middle" x="{middle}" y="{self.height - 6}">{escape(x_label)}</text>')
        parts.append(
            f'<text class="label middle" transform="translate(12,{number((self.height - self.bottom) / 2)}) '
            f'rotate(-90)">{escape(y_label)}</text>'
        )
        return "".join(parts)

    def svg(self, title: str, *parts: str) -> str:
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(title)}">'
            f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
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


def bars(title: str, names: Sequence[str], values: Sequence[float], note: Callable[[int], str]) -> str:
    """Draw signed horizontal bars, the first on top; ``note`` is the text at the right of a row."""
    row, left, right, width = 24, 230, 120, 680
    limit = max((abs(value) for value in values), default=1.0) or 1.0
    signed = any(value < 0 for value in values)
    zero = (left + width - right) / 2 if signed else left
    scale = (width - right - zero) / limit
    parts = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y, x = i * row + 4, zero + min(value, 0.0) * scale
        style = "positive" if value >= 0 else "negative"
        parts.append(
            f'<text class="name end" x="{left - 10}" y="{y + 12}"><title>{escape(name)}</title>{short(name)}</text>'
            f'<rect class="{style}" x="{number(x)}" y="{y}" width="{number(max(abs(value) * scale, 1))}" height="15"/>'
            f'<text class="tick" x="{width - right + 12}" y="{y + 12}">{escape(note(i))}</text>'
        )
    height = len(names) * row + 8
    parts.append(f'<line class="axis" x1="{number(zero)}" x2="{number(zero)}" y1="0" y2="{height}"/>')
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def calibration_chart(bins: Sequence[dict[str, Any]]) -> str:
    """Draw how often decisions were right against how sure the model was."""
    frame = Frame((0.0, 1.0), (0.0, 1.0), width=420, height=380)
    ticks = [(value, f"{value:g}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts = [frame.axes("stated probability of the decision", "share that was right", ticks)]
    parts.append(frame.line([(0.0, 0.0), (1.0, 1.0)], "reference"))
    for part in bins:
        x, (low, high) = number(frame.x(part["confidence"])), part["interval"]
        parts.append(
            f'<line class="whisker" x1="{x}" x2="{x}" y1="{number(frame.y(low))}" y2="{number(frame.y(high))}"/>'
        )
        parts.append(f'<circle class="dot" cx="{x}" cy="{number(frame.y(part["right"]))}" r="4.5"/>')
    return frame.svg("Calibration on rows not learnt from", *parts)


def _log_ticks(alphas: Sequence[float]) -> list[tuple[float, str]]:
    low, high = math.log10(min(alphas)), math.log10(max(alphas))
    whole = range(math.ceil(low), math.floor(high) + 1)
    return [(-k, f"{10.0**k:g}") for k in whole] or [(-low, f"{min(alphas):.2g}"), (-high, f"{max(alphas):.2g}")]


def path_chart(path: dict[str, Any]) -> str:
    """Draw the weights of the strongest features against the strength of the penalty, strong at the left."""
    alphas: list[float] = path["alphas"]
    lines: list[dict[str, Any]] = path["lines"]
    at = [-math.log10(alpha) for alpha in alphas]
    values = [value for line in lines for value in line["weights"]] or [0.0]
    frame = Frame((at[0], at[-1]), (min(values), max(values)), right=170)
    parts = [frame.axes("strength of the penalty, alpha (weaker to the right)", "weight", _log_ticks(alphas))]
    parts.append(frame.line([(at[0], 0.0), (at[-1], 0.0)], "axis"))
    heights: list[float] = []
    for i, line in enumerate(lines):
        points = list(zip(at, line["weights"], strict=True))
        parts.append(frame.line(points, f"path c{i % 8}"))
        if i < 8:
            heights.append(_free_height(frame.y(line["weights"][-1]), heights))
            label = short(str(line["name"]), 22)
            parts.append(
                f'<text class="tick c{i % 8}" x="{frame.width - 164}" y="{number(heights[-1] + 4)}">{label}</text>'
            )
    parts += _marks(frame, path)
    return frame.svg("Weights along the path", *parts)


def _free_height(wanted: float, taken: list[float]) -> float:
    """Return the nearest height to the wanted one at which a label covers no other."""
    offsets = sorted((k * 6.0 for k in range(-60, 61)), key=abs)
    return next((wanted + d for d in offsets if all(abs(wanted + d - other) >= 13 for other in taken)), wanted)


def score_chart(path: dict[str, Any]) -> str:
    """Draw the cross-validated log-loss against the strength, with one standard error."""
    alphas: list[float] = path["alphas"]
    loss = [-value for value in path["score"]]
    error: list[float] = path["score_error"]
    at = [-math.log10(alpha) for alpha in alphas]
    low = min(a - b for a, b in zip(loss, error, strict=True))
    ceiling = loss[0] + error[0]
    high = min(max(a + b for a, b in zip(loss, error, strict=True)), low + 1.6 * max(ceiling - low, 1e-9))
    frame = Frame((at[0], at[-1]), (low, high), height=230, right=170)
    band = [(a, min(v + e, high)) for a, v, e in zip(at, loss, error, strict=True)]
    band += [(a, min(v - e, high)) for a, v, e in reversed(list(zip(at, loss, error, strict=True)))]
    points = " ".join(f"{number(frame.x(a))},{number(frame.y(b))}" for a, b in band)
    parts = [frame.axes("strength of the penalty, alpha", "log-loss", _log_ticks(alphas))]
    parts.append(f'<polygon class="band" points="{points}"/>')
    parts.append(frame.line([(a, min(v, high)) for a, v in zip(at, loss, strict=True)], "path c0"))
    parts += _marks(frame, path)
    return frame.svg("Cross-validated log-loss along the path", *parts)


def _marks(frame: Frame, path: dict[str, Any]) -> list[str]:
    """Mark the best strength, the one-standard-error strength, and the one used."""
    best, within, used = (-math.log10(float(path[key])) for key in ("alpha_min", "alpha_1se", "alpha"))
    labels = {best: "best", within: "1 s.e."}
    labels[used] = f"{labels.get(used, '')} (used)".strip()
    return [
        frame.vertical(at, "used" if at == used else "mark", label, leftwards=at < best)  # labels do not meet
        for at, label in labels.items()
    ]
