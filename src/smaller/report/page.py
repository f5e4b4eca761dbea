"""The page itself: facts of a study in, HTML out. Sections are functions; each returns a piece or nothing."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from smaller.report.svg import bars, calibration_chart, path_chart, score_chart

__all__ = ["render"]

SHOWN_FEATURES = 20
SHOWN_CLASSES = 12

Facts = dict[str, Any]


def render(facts: Facts) -> str:
    """Return the report of a study as one HTML page.

    Parameters
    ----------
    facts : dict
        `Study.facts`: plain values.
    """
    sections = [_answer, _features, _errors, _decisions, _path, _kernel, _certificate, _how, _settings]
    body = "\n".join(piece for section in sections if (piece := section(facts)))
    parts = {name: files("smaller.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")}
    template = Template(files("smaller.report").joinpath("template.html").read_text("utf-8"))
    return template.substitute(
        title=f"What predicts {_name(facts['settings']['target'])}?",
        style=parts["page.css"],
        script=parts["page.js"],
        body=body,
        data=_script_data({"decisions": facts["decisions"], "shares": _moved_shares(facts)}),
    )


def _script_data(value: Any) -> str:
    """Return JSON that cannot end its script element, whatever names it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _moved_shares(facts: Facts) -> list[float]:
    """Return the training share of every class that the slider can move."""
    shares = [count / facts["rows"] for count in facts["class_counts"]]
    return shares[1:] if len(shares) == 2 else shares


def _name(text: Any, length: int = 80) -> str:
    shown = " ".join(str(text).split())
    return escape(shown if len(shown) <= length else shown[: length - 1] + "…")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if 0 < share < 0.0995 else f"{100 * share:.0f}%"


def _interval(pair: list[float]) -> str:
    return f"{_percent(pair[0])} to {_percent(pair[1])}"


def _card(value: str, text: str) -> str:
    return f'<div class="card"><b>{value}</b><span>{text}</span></div>'


def _answer(facts: Facts) -> str:
    judged, chosen = facts["performance"], facts["chosen"]
    target = _name(facts["settings"]["target"])
    if chosen is not None:
        count = len(chosen["features"])
        first = ", ".join(_name(row["name"], 40) for row in chosen["features"][:3])
        lead = (
            f"{count} of {facts['features']} features are enough to predict <b>{target}</b>"
            + (f"; the strongest: {first}." if first else ".")
            if count
            else f"No feature helps to predict <b>{target}</b>: the model falls back on the class shares."
        )
        card = _card(str(count), f"features used, of {facts['features']}")
    else:
        lead = f"<b>{target}</b> is predicted by {facts['points']} rows of the table, compared with each new case."
        card = _card(str(facts["points"]), f"rows used as reference points, of {facts['rows']}")
    cards = [
        _card(
            _percent(judged["error"]), f"of new cases wrong ({_interval(judged['error_interval'])} with 95% confidence)"
        ),
        _card(_percent(judged["baseline_error"]), "wrong by always guessing the commonest class"),
        card,
        _card(f"{judged['log_loss']:.3f}", f"log-loss; {judged['baseline_log_loss']:.3f} without any feature"),
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in facts["notes"][:40])
    return (
        f"<h1>What predicts {target}?</h1><p class='soft'>{facts['rows']} rows, {facts['columns']} columns, "
        f"{len(facts['classes'])} classes. Model: {escape(facts['summary'])}.</p><p>{lead}</p>"
        f'<div class="cards">{"".join(cards)}</div>'
        + (f"<details open><summary>What was done with the table</summary><ul>{notes}</ul></details>" if notes else "")
    )


def _features(facts: Facts) -> str:
    chosen = facts["chosen"]
    if not chosen or not chosen["features"]:
        return ""
    classes = facts["classes"]
    if len(classes) == 2:
        charts = _class_chart(chosen["features"], 0, f"towards {classes[1]} (right) or {classes[0]} (left)")
    else:
        charts = "".join(
            f"<h3>{_name(label)}</h3>{_class_chart(chosen['features'], k, f'for or against {label}')}"
            for k, label in enumerate(classes[:SHOWN_CLASSES])
            if any(row["weights"][k] for row in chosen["features"])
        )
        if len(classes) > SHOWN_CLASSES:
            charts += f"<p class='soft'>The other {len(classes) - SHOWN_CLASSES} classes are in features.csv.</p>"
    direction = (
        f"Bars to the right speak for <b>{_name(classes[1])}</b>, to the left for <b>{_name(classes[0])}</b>"
        if len(classes) == 2
        else "Bars to the right speak for the class, to the left against it"
    )
    return (
        f"<h2>The features and their direction</h2><p>{direction}; lengths are comparable, because every feature was "
        f"brought to the same spread. The percentage says how often the feature was chosen again on halves of the rows."
        f"</p>{charts}<p><small>{escape(facts['stability']['note'])} Weights show association, not cause; of features "
        f"that say the same, only one may be chosen.</small></p>{_weights_table(facts)}"
    )


def _class_chart(rows: list[Facts], k: int, title: str) -> str:
    shown = sorted((row for row in rows if row["weights"][k]), key=lambda row: -abs(row["weights"][k]))[:SHOWN_FEATURES]

    def note(i: int) -> str:
        frequency = shown[i]["frequency"]
        return f"{shown[i]['weights'][k]:+.3g}" + ("" if frequency is None else f" · {100 * frequency:.0f}%")

    return bars(title, [row["name"] for row in shown], [row["weights"][k] for row in shown], note)


def _weights_table(facts: Facts) -> str:
    classes = facts["classes"][1:] if len(facts["classes"]) == 2 else facts["classes"][:SHOWN_CLASSES]
    head = "".join(f"<th>{_name(label, 24)}</th>" for label in classes)
    lines = []
    for row in facts["chosen"]["features"][:100]:
        cells = "".join(f"<td>{value:.4g}</td>" if value else "<td></td>" for value in row["original"][: len(classes)])
        lines.append(f"<tr><td>{_name(row['name'])}</td>{cells}</tr>")
    intercepts = "".join(f"<td>{value:.4g}</td>" for value in facts["chosen"]["intercepts"][: len(classes)])
    return (
        "<details><summary>Weights in original units</summary><div class='scroll'><table><thead><tr><th>unit of</th>"
        f"{head}</tr></thead><tbody>{''.join(lines)}<tr><td>(intercept)</td>{intercepts}</tr></tbody></table></div>"
        "<p><small>Change of the log-odds for one unit of the feature as it is in the table.</small></p></details>"
    )


def _errors(facts: Facts) -> str:
    labels = facts["classes"]
    judged, ece = facts["performance"], facts["calibration"]["expected_calibration_error"]
    table = ""
    if len(labels) <= 30:
        head = "".join(f"<th>{_name(label, 18)}</th>" for label in labels)
        body = "".join(
            f"<tr><td>{_name(label, 30)}</td>"
            + "".join(
                f"<td class='{'right' if i == j else 'wrong' if count else ''}'>{count}</td>"
                for j, count in enumerate(row)
            )
            + "</tr>"
            for i, (label, row) in enumerate(zip(labels, facts["confusion"], strict=True))
        )
        table = (
            f"<div class='scroll'><table><thead><tr><th>true class / predicted</th>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )
    return (
        f"<h2>How good is it?</h2><p>{escape(facts['plan'])}</p><p>{judged['wrong']} of {judged['rows']} rows were "
        f"predicted wrongly: an error of {_percent(judged['error'])}, with 95% confidence from "
        f"{_interval(judged['error_interval'])}"
        + (
            " (the interval takes the rows as independent)."
            if facts["nested"]
            else ": a bound that holds for any data."
        )
        + f" Brier score {judged['brier']:.3f}.</p>{table}<h3>Can the probabilities be trusted?</h3>"
        f"<p>On the diagonal, stated probabilities are right; below it the model is too sure of itself. Mean distance: "
        f"{100 * ece:.1f} percentage points.</p>"
        f"<div class='half'>{calibration_chart(facts['calibration']['bins'])}</div>"
    )


def _decisions(facts: Facts) -> str:
    if facts["decisions"] is None:
        return ""
    classes = facts["classes"]
    if len(classes) == 2:
        choice = f"<b>{_name(classes[1])}</b>"
    else:
        options = "".join(f'<option value="{k}">{_name(label, 40)}</option>' for k, label in enumerate(classes))
        choice = f'<select id="which" aria-label="class">{options}</select>'
    return (
        '<h2>Use it: when to say "I do not know"</h2><p>Let the model answer only when it is sure enough, and tell it '
        "how common the classes are where it will be used. Numbers are from rows that were not learnt from.</p>"
        '<div class="controls" id="decisions"><label for="threshold">Answer only if the decision is at least '
        '<output id="threshold-value"></output> probable</label><input type="range" id="threshold" min="0" step="1">'
        f'<label for="prior">Share of {choice} where the model is used: <output id="prior-value"></output></label>'
        '<input type="range" id="prior" min="0" step="1"><p class="result" id="result" aria-live="polite"></p></div>'
    )


def _path(facts: Facts) -> str:
    path = facts["path"]
    if path is None or not path["lines"]:
        return ""
    return (
        "<h2>How many features?</h2><p>The stronger the penalty, the fewer features. Cross-validation says how well "
        "each strength predicts: the best one, and the sparsest one within one standard error (1 s.e.) of it.</p>"
        f"{score_chart(path)}{path_chart(path)}"
    )


def _kernel(facts: Facts) -> str:
    if not facts["scales"]:
        return ""
    rows = facts["scales"][:SHOWN_FEATURES]
    chart = bars(
        "feature scales", [r["name"] for r in rows], [r["scale"] for r in rows], lambda i: f"{rows[i]['scale']:.3g}"
    )
    return f"<h2>Feature scales</h2><p>Features with a scale of zero are not used.</p>{chart}"


def _certificate(facts: Facts) -> str:
    proof = facts["certificate"]
    if proof["gap"] is not None:
        text = (
            f"The objective is {proof['objective']:.6g}; no other weights can lower it by more than {proof['gap']:.3g} "
            f"({proof['gap'] / max(proof['scale'], 1e-300):.1e} of the loss without features)."
        )
    else:
        text = f"The objective is {proof['objective']:.6g}."
    return f"<h2>Certificate</h2><p>{escape(proof['status'])} {text} Solver: {escape(proof['solver'])}.</p>"


def _how(facts: Facts) -> str:
    return (
        f"<h2>Method and citation</h2><p>{escape(facts['summary'][0].upper() + facts['summary'][1:])}.</p>"
        f"<p>{escape(facts['citation'])}</p><p>Stability: Shah, Samworth (2013). Variable selection with error "
        "control: another look at stability selection. JRSS B 75(1).</p>"
    )


def _settings(facts: Facts) -> str:
    settings = facts["settings"]
    command = facts.get("command")
    shown = (f"{command}\n\n" if command else "") + json.dumps(settings | {"seconds": facts["seconds"]}, indent=1)
    return f"<h2>To reproduce</h2><pre>{escape(shown)}</pre>"
