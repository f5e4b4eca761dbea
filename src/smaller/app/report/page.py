"""The page itself: facts of a study in, HTML out. The answer comes first, then what it rests on."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from smaller.app.report.certainty import ranges
from smaller.app.report.paper import for_your_paper
from smaller.app.report.quality import decisions, errors, probabilities
from smaller.app.report.sections import certificate, features, kernel, method, path, settings
from smaller.app.report.words import estimate, name, percent
from smaller.app.study.schema import Facts
from smaller.app.study.verdict import BETTER, WITHHELD

__all__ = ["card", "page", "render"]

SHOWN_NOTES = 12
WORTH_A_CARD = 0.1  # below the accuracy: a class found so much less often must not hide behind it


def render(facts: Facts) -> str:
    """Return the report of a study as one HTML page.

    Parameters
    ----------
    facts : dict
        `Study.facts`: plain values.
    """
    sections = [
        _answer, features, errors, probabilities, ranges, decisions, path, kernel, certificate, method,
        for_your_paper, settings,
    ]  # fmt: skip
    body = "\n".join(piece for section in sections if (piece := section(facts)))
    data = {"decisions": facts["decisions"], "shares": _moved_shares(facts)}
    return page(f"What predicts {facts['settings']['target']}?", body, data)


def page(title: str, body: str, data: Any) -> str:
    """Return a whole page: style and script inside, nothing loaded from elsewhere."""
    parts = {part: files("smaller.app.report").joinpath(part).read_text("utf-8") for part in ("page.css", "page.js")}
    template = Template(files("smaller.app.report").joinpath("template.html").read_text("utf-8"))
    return template.substitute(
        title=name(title), style=parts["page.css"], script=parts["page.js"], body=body, data=_script_data(data)
    )


def _script_data(value: Any) -> str:
    """Return JSON that cannot end its script element, whatever names it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _moved_shares(facts: Facts) -> list[float]:
    """Return the training share of every class that the slider can move."""
    shares = [count / facts["rows"] for count in facts["class_counts"]]
    return shares[1:] if len(shares) == 2 else shares


def _answer(facts: Facts) -> str:
    target = name(facts["settings"]["target"])
    judged = facts["performance"]
    lead, size = _lead(facts, target)
    error, interval = estimate(judged["error"], judged["error_interval"])
    certainty = "no interval: see above" if facts["verdict"]["state"] == WITHHELD else f"{interval} with 95% confidence"
    cards = [
        *_cost_cards(facts),
        card(error, f"of new cases wrong ({certainty})"),
        card(percent(judged["baseline_error"]), "wrong by always guessing the commonest class"),
        *_luck_card(facts),
        size,
        *_class_cards(facts),
        card(f"{judged['log_loss']:.3f}", f"log-loss; {judged['baseline_log_loss']:.3f} without any feature"),
    ]
    return (
        f"<h1>What predicts {target}?</h1><p class='soft'>{facts['rows']:,} rows, {facts['columns']:,} columns, "
        f"{len(facts['classes'])} classes. Model: {escape(facts['summary'])}.</p>"
        + (
            f"<p class='caution' role='alert'><b>Caution.</b> {escape(facts['caution'])}</p>"
            if facts["caution"]
            else ""
        )
        + f'<p>{lead}</p><div class="cards">{"".join(cards)}</div>'
        + _table_box(facts)
    )


def _cost_cards(facts: Facts) -> list[str]:
    """Return what the decisions cost, first where mistakes are not all the same."""
    cost = facts["performance"]["cost"]
    if cost is None:
        return []
    low, high = cost["interval"]
    certain = "" if facts["verdict"]["state"] == WITHHELD else f"{low:.3g} to {high:.3g} with 95% confidence; "
    best = f"{cost['baseline']:.3g} by always deciding for {name(facts['classes'][cost['baseline_decision']], 24)}"
    return [card(f"{cost['value']:.3g}", f"{cost['name']} per row ({certain}{best})")]


def _luck_card(facts: Facts) -> list[str]:
    luck = facts["shuffled"]
    return [] if luck is None else [card(percent(luck["error"]), "wrong after learning from shuffled labels")]


def _class_cards(facts: Facts) -> list[str]:
    """Return what the error hides: the class that is found least, where it is found much less than all rows."""
    whole, found = facts["by_class"], facts["operation"]
    cards = []
    if found is not None:
        share, interval = estimate(found["sensitivity"], found["interval"])
        ends = "" if facts["verdict"]["state"] == WITHHELD else f" ({interval})"
        cards.append(card(share, f"of {name(found['positive'], 24)} found at {found['wanted']:.0%} specificity{ends}"))
    shares = [(one["found"], label) for one, label in zip(whole["classes"], facts["classes"], strict=True)]
    least, label = min((share for share in shares if share[0] is not None), default=(1.0, ""))
    if least < 1.0 - facts["performance"]["error"] - WORTH_A_CARD:
        cards.append(card(percent(least), f"of class {name(label, 24)} found, the least of all classes"))
    return cards


def _table_box(facts: Facts) -> str:
    """Return what the table itself makes doubtful, and what was done with it."""
    found = "".join(f"<li>{escape(finding['sentence'])}</li>" for finding in facts["audit"])
    box = f"<section class='audit'><h3>Look at the table first</h3><ul>{found}</ul></section>" if found else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in facts["notes"][:SHOWN_NOTES])
    if len(facts["notes"]) > SHOWN_NOTES:
        notes += f"<li>... and {len(facts['notes']) - SHOWN_NOTES} more, in report.json.</li>"
    return box + (
        f"<details><summary>What was done with the table</summary><ul>{notes}</ul></details>" if notes else ""
    )


def _lead(facts: Facts, target: str) -> tuple[str, str]:
    """Return the first sentences and the card that says how small the model is."""
    start = f"<b>{escape(facts['verdict']['sentence'])}</b>"
    if facts["together"]:
        start += f" {escape(facts['together'])}"
    if facts["chosen"] is None:
        scales = facts["scales"]
        basis = f"in {len(scales):,} of {facts['features']:,} features" if scales else "in all features"
        return (
            f"{start} New cases are compared with {facts['points']} rows of the table, {basis}.",
            card(str(facts["points"]), f"rows used as reference points, of {facts['rows']:,}"),
        )
    used = facts["chosen"]["features"]
    size = card(str(len(used)), f"features used, of {facts['features']:,}")
    if not used:
        return f"{start} The model uses no feature and falls back on the class shares of <b>{target}</b>.", size
    first = ", ".join(name(row["name"], 40) for row in used[:3])
    if facts["verdict"]["state"] == BETTER:
        return f"{start} The strongest: {first}.", size
    return f"{start} The model below uses {len(used):,} of {facts['features']:,} features ({first}).", size


def card(value: str, text: str) -> str:
    """Return a number with what it is."""
    return f'<div class="card"><b>{value}</b><span>{text}</span></div>'
