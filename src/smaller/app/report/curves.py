"""The decision curve, and partial dependence, as small charts."""

from __future__ import annotations

from typing import Any

from smaller.app.report.svg import Frame, free_height, nice_ticks
from smaller.app.report.words import name, percent

__all__ = ["benefit_chart", "dependence_chart"]

MOST_LINES = 8


def benefit_chart(curve: dict[str, Any]) -> str:
    """Draw the net benefit of the model and of acting on everybody, against the threshold; nobody is the zero line."""
    at, model, everybody = curve["thresholds"], curve["model"], curve["everybody"]
    high = max(*model, *everybody, 0.01)
    low = -0.15 * high  # lines that leave the picture below are worse than doing nothing
    frame = Frame((0.0, 1.0), (low, high), height=260, right=110)
    parts = [frame.axes("probability from which one acts", "net benefit", [(t, percent(t)) for t in nice_ticks(0, 1)])]
    parts.append(frame.line([(0.0, 0.0), (1.0, 0.0)], "axis"))
    ends: list[float] = []
    for values, style, label in ((everybody, "path c7", "everybody"), (model, "path c0", "the model")):
        shown = _inside(list(zip(at, values, strict=True)), low)
        parts.append(frame.line(shown, style))
        x, y = shown[-1] if style == "path c0" else shown[len(shown) // 2]
        height = frame.y(y) - 8
        while any(abs(height - other) < 14 for other in ends):
            height -= 14
        ends.append(height)
        parts.append(f'<text class="tick {style[-2:]}" x="{frame.x(x) + 6:.1f}" y="{height:.1f}">{label}</text>')
    return frame.svg("Net benefit of acting on the model", *parts)


def _inside(points: list[tuple[float, float]], low: float) -> list[tuple[float, float]]:
    """Return a line as far as it stays above the lower edge, its last point on the edge."""
    for i, (x, y) in enumerate(points):
        if y < low and i:
            x0, y0 = points[i - 1]
            if y0 <= low:
                return points[:i]
            return [*points[:i], (x0 + (x - x0) * (y0 - low) / (y0 - y), low)]
    return points


def dependence_chart(curve: dict[str, Any], classes: list[str]) -> str:
    """Draw the mean probability of each class (of two: of the second) against the values of a feature."""
    at = curve["values"]
    shown = [1] if len(classes) == 2 else list(range(min(len(classes), MOST_LINES)))
    frame = Frame((at[0], at[-1]), (0.0, 1.0), width=420, height=230, right=14 if len(shown) == 1 else 110)
    ticks = [(value, f"{value:g}") for value in nice_ticks(at[0], at[-1], 4)]
    parts = [frame.axes(name(curve["name"], 44), "mean probability", ticks, [(t, percent(t)) for t in (0.0, 0.5, 1.0)])]
    heights: list[float] = []
    for i, k in enumerate(shown):
        points = list(zip(at, curve["proba"][k], strict=True))
        parts.append(frame.line(points, f"path c{i}"))
        if len(shown) > 1:
            heights.append(free_height(frame.y(points[-1][1]), heights))
            x, y = frame.width - frame.right + 6, heights[-1] + 4
            parts.append(f'<text class="tick c{i}" x="{x:g}" y="{y:.1f}">{name(classes[k], 14)}</text>')
    return frame.svg(f"Partial dependence on {curve['name']}", *parts)
