"""The page of an evaluation on another table: facts in, HTML out."""

from __future__ import annotations

from html import escape
from typing import Any

from smaller.app.report.page import card, page
from smaller.app.report.quality import calibration_sentences
from smaller.app.report.svg import bars, calibration_chart
from smaller.app.report.words import estimate, name, percent

__all__ = ["render_evaluation"]

Part = dict[str, Any]


def render_evaluation(facts: Part) -> str:
    """Return an evaluation as one HTML page."""
    sections = (_answer, _parts, _calibration, _shares, _shifts, _notes)
    return page(f"{facts['target']} on other rows", "\n".join(piece for one in sections if (piece := one(facts))), {})


def _answer(facts: Part) -> str:
    judged = facts["performance"]
    error, interval = estimate(judged["error"], judged["error_interval"])
    draws = "rows" if facts["group"] is None else f"values of {name(facts['group'])}"
    left = f" {facts['unlabelled']:,} rows without a label are left out." if facts["unlabelled"] else ""
    cards = [
        card(error, f"of {facts['rows']:,} rows wrong ({interval} with 95% confidence, {draws} as independent draws)"),
        card(percent(judged["baseline_error"]), "wrong by always guessing the commonest class"),
        card(f"{judged['log_loss']:.3f}", f"log-loss; {judged['baseline_log_loss']:.3f} from these class shares alone"),
        card(f"{judged['brier']:.3f}", "Brier score, 0 at best"),
    ]
    if len(facts["classes"]) == 2 and facts["areas"][0]["value"] is not None:
        cards.insert(1, card(*_area(facts["areas"][0], facts["classes"][1])))
    return f"<h1>How the model does on other rows</h1><p class='soft'>Target: {name(facts['target'])}.{left}</p>" + (
        f"<div class='cards'>{''.join(cards)}</div>"
    )


def _area(area: Part, label: str) -> tuple[str, str]:
    interval = area["interval"]
    ends = "no interval: nothing overlaps" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
    return f"{area['value']:.3f}", f"area under the ROC curve for {name(label, 24)} ({ends})"


def _parts(facts: Part) -> str:
    if "parts" not in facts:
        return ""
    two = len(facts["classes"]) == 2
    head = "".join(f"<th>{title}</th>" for title in ("rows", "error", "95%", "AUC" if two else "", "log-loss", "slope"))
    lines = [f"<tr><td>{name(part['name'], 40)}</td>{_cells(part, two)}</tr>" for part in facts["parts"]]
    small = f"<p class='soft'>Too few rows to judge: {escape(', '.join(facts['left_out']))}.</p>" * bool(
        facts["left_out"]
    )
    return (
        f"<h2>By {name(facts['by'])}</h2><div class='scroll'><table><thead><tr><th>{name(facts['by'], 24)}</th>{head}"
        f"</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{small}"
    )


def _cells(part: Part, two: bool) -> str:
    judged, fit = part["performance"], part["recalibration"]
    error, interval = estimate(judged["error"], judged["error_interval"])
    value = part["areas"][0]["value"] if two else None
    cells = [
        f"{part['rows']:,}",
        error,
        interval,
        "" if value is None else f"{value:.3f}",
        f"{judged['log_loss']:.3f}",
        "" if fit is None else f"{fit['slope']:.2f}",
    ]
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _calibration(facts: Part) -> str:
    ece = facts["calibration"]["expected_calibration_error"]
    said = calibration_sentences(facts["recalibration"], facts["classes"])
    return (
        f"<h2>Can the probabilities be trusted here?</h2><p>{escape(said)}</p><p>They are off by {percent(ece)} on "
        "average.</p>"
        f"<div class='half'>{calibration_chart(facts['calibration']['bins'])}</div>"
    )


def _shares(facts: Part) -> str:
    rows = "".join(
        f"<tr><td>{name(label, 40)}</td><td>{percent(before)}</td><td>{percent(here)}</td></tr>"
        for label, before, here in zip(facts["classes"], facts["train_shares"], facts["shares"], strict=True)
    )
    return (
        "<h2>Class shares</h2><div class='scroll'><table><thead><tr><th>class</th><th>in training</th><th>here</th>"
        f"</tr></thead><tbody>{rows}</tbody></table></div><p><small>Where shares differ for good, <code>smaller "
        "predict --priors</code> corrects the probabilities.</small></p>"
    )


def _shifts(facts: Part) -> str:
    shifts, strange = facts["shifts"], _unlike(facts)
    if not shifts:
        return f"<h2>Have the features moved?</h2>{strange}" if strange else ""
    values = [shift["mean"] for shift in shifts]
    chart = bars("shift of the mean", [shift["name"] for shift in shifts], values, lambda i: f"{values[i]:+.2f}")
    return (
        "<h2>Have the features moved?</h2><p>The mean of each feature in use here, less that in training, in standard "
        f"deviations of training. Beyond one, the model judges rows unlike most it has learnt from.</p>{strange}{chart}"
    )


def _unlike(facts: Part) -> str:
    """Say how many rows lie beyond everything the model has learnt from."""
    if facts["unlike"] is None:
        return ""
    count, rows = facts["unlike"], facts["rows"]
    return (
        f"<p><b>Unlike anything seen: {count:,} of {rows:,} rows.</b> A number in use lies farther from its mean "
        "there than in any row learnt from; of rows drawn as those were, about one in as many would.</p>"
    )


def _notes(facts: Part) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in facts["notes"][:12])
    return f"<details><summary>What was done with the table</summary><ul>{notes}</ul></details>" if notes else ""
