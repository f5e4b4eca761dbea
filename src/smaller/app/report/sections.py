"""The sections below the answer. Each is a function of the facts that returns a piece of HTML, or nothing."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from smaller.app.report.certainty import effects
from smaller.app.report.curves import dependence_chart
from smaller.app.report.paper import citations
from smaller.app.report.svg import bars, import_chart, path_chart, score_chart
from smaller.app.report.words import name, percent, weighted_classes
from smaller.app.study.schema import Facts

__all__ = ["Facts", "certificate", "features", "kernel", "method", "path", "settings"]

SHOWN_FEATURES, SHOWN_PER_CLASS = 20, 10  # the second where there are more than three classes
SHOWN_CLASSES = 12
TABLE_FEATURES = 100
SHOWN_ROWS = 100

Part = dict[str, Any]  # of the facts


# ---- what was found -------------------------------------------------------------------------------------------------


def features(facts: Facts) -> str:
    """Say which features speak for which class, and which of them are found again on other rows."""
    if not facts["chosen"] or not facts["chosen"]["features"]:
        return ""
    classes, rows = facts["classes"], facts["chosen"]["features"]
    longest = max(abs(weight) for row in rows for weight in row["weights"])
    if facts["graded"]:
        steps = " → ".join(name(label) for label in classes)
        direction = (
            f"A bar to the right raises the odds of <b>each step up</b> ({steps}) alike, to the left it lowers them"
        )
        charts = _class_chart(rows, 0, "each step up", longest)
    elif len(classes) == 2:
        direction = f"Bars to the right speak for <b>{name(classes[1])}</b>, to the left for <b>{name(classes[0])}</b>"
        charts = _class_chart(rows, 0, f"towards {classes[1]} (right) or {classes[0]} (left)", longest)
    else:
        direction = "Bars to the right speak for the class, to the left against it"
        charts = "".join(
            f"<h3>{name(label)}</h3>{_class_chart(rows, k, f'for or against {label}', longest)}"
            for k, label in enumerate(classes[:SHOWN_CLASSES])
            if any(row["weights"][k] for row in rows)
        )
        if len(classes) > SHOWN_CLASSES:
            charts += f"<p class='soft'>The other {len(classes) - SHOWN_CLASSES} classes are in features.csv.</p>"
    return (
        f"<h2>The features and their direction</h2><p>{direction}; lengths are comparable, because every feature was "
        f"brought to the same spread. Weights show association, not cause; of features that say the same, only one may "
        f"be chosen.</p>{charts}{_weights_table(facts)}{effects(facts)}{_stability(facts)}"
    )


def _class_chart(rows: list[Part], k: int, title: str, longest: float) -> str:
    count = SHOWN_FEATURES if len(rows[0]["weights"]) <= 3 else SHOWN_PER_CLASS
    shown = sorted((row for row in rows if row["weights"][k]), key=lambda row: -abs(row["weights"][k]))[:count]
    weights = [row["weights"][k] for row in shown]
    return bars(title, [row["name"] for row in shown], weights, lambda i: f"{weights[i]:+.3g}", limit=longest)


def _stability(facts: Facts) -> str:
    stability = facts["stability"]
    top = stability["top"]
    if not top:
        return ""
    chart = bars(
        "selection frequencies",
        [row["name"] for row in top],
        [row["frequency"] for row in top],
        lambda i: f"{top[i]['frequency']:.0%}",
        limit=1.0,
        muted=[not row["used"] for row in top],
        mark=stability["threshold"],
    )
    return (
        "<h3>Would other rows have given the same features?</h3><p>How often each feature was chosen again on random "
        f"halves of the rows: a feature near 100% does not hang on a few cases. Grey: not in the model.</p>{chart}"
        f"<p><small>{escape(stability['note'])}</small></p>"
    )


def _weights_table(facts: Facts) -> str:
    chosen = facts["chosen"] or {"features": [], "intercepts": []}
    classes = weighted_classes(facts)[:SHOWN_CLASSES]
    head = "".join(f"<th>{name(label, 24)}</th>" for label in classes)
    lines = []
    for row in chosen["features"][:TABLE_FEATURES]:
        cells = "".join(f"<td>{value:.4g}</td>" if value else "<td></td>" for value in row["original"][: len(classes)])
        lines.append(f"<tr><td>{name(row['name'])}</td>{cells}</tr>")
    if facts["graded"]:
        steps = zip(facts["classes"][1:], chosen["intercepts"], strict=True)
        rest = "".join(f"<tr><td>(step up to {name(label)})</td><td>{value:.4g}</td></tr>" for label, value in steps)
    else:
        cells = "".join(f"<td>{value:.4g}</td>" for value in chosen["intercepts"][: len(classes)])
        rest = f"<tr><td>(intercept)</td>{cells}</tr>"
    return (
        "<details><summary>Weights in original units</summary><div class='scroll'><table><thead><tr><th>unit of</th>"
        f"{head}</tr></thead><tbody>{''.join(lines)}{rest}</tbody></table></div>"
        "<p><small>Change of the log-odds for one unit of the feature as it is in the table.</small></p></details>"
    )


# ---- what it rests on -----------------------------------------------------------------------------------------------


def path(facts: Facts) -> str:
    """Draw what every strength of the penalty would have given."""
    traced = facts["path"]
    if traced is None or not traced["lines"]:
        return ""
    return (
        "<h2>How many features?</h2><p>The stronger the penalty, the fewer features. Cross-validation says how well "
        "each strength predicts: the best one, and the sparsest one within one standard error (1 s.e.) of it.</p>"
        f"{score_chart(traced)}<p>The weights of the strongest features, from the strongest penalty to the weakest:</p>"
        f"{path_chart(traced)}"
    )


def kernel(facts: Facts) -> str:
    """Draw what kernel models have instead of weights: reference points, and scales of the features."""
    pieces = []
    if facts["import_path"]:
        pieces.append(
            "<h2>How many reference points?</h2><p>Rows were taken in one at a time, each the one that helps most, "
            "until another would hardly have changed the model. This was done on a part of the rows, from a strong "
            "penalty to weak ones (where the objective drops); the strength with the smallest error on the other rows, "
            f"alpha = {facts['certificate']['alpha']:g}, was then used on all of them and needed {facts['points']} "
            "points.</p>"
            f"{import_chart(facts['import_path'])}"
        )
    if facts["scales"]:
        rows = facts["scales"][:SHOWN_FEATURES]
        scales = [row["scale"] for row in rows]
        chart = bars("feature scales", [row["name"] for row in rows], scales, lambda i: f"{scales[i]:.3g}")
        pieces.append(
            f"<h2>Which features count?</h2><p>{len(facts['scales'])} of {facts['features']} features are used. The "
            f"scale says how fast the answer changes with a feature; all others have a scale of zero.</p>{chart}"
        )
    return "".join(pieces) + _dependence(facts) + _reference(facts)


def _dependence(facts: Facts) -> str:
    """Draw what the strongest features do to the probabilities of a kernel model."""
    if not facts["dependence"]:
        return ""
    classes = facts["classes"]
    what = f"of {name(classes[1])}" if len(classes) == 2 else "of each class"
    charts = "".join(f"<div>{dependence_chart(one, classes)}</div>" for one in facts["dependence"])
    return (
        f"<h2>What do the strongest features do?</h2><p>The mean probability {what} when one feature is set to a value "
        "in all rows and the others stay as they are (partial dependence). Where features go together, this asks about "
        f"rows that may not exist. The strongest of {facts['features']:,} features first.</p>"
        f"<div class='charts'>{charts}</div>"
    )


def _reference(facts: Facts) -> str:
    """List the rows that a kernel model compares with, by number: nothing of what is in them."""
    if not facts["reference"]:
        return ""
    lines = []
    for label in facts["classes"]:
        rows = [one["row"] for one in facts["reference"] if one["class"] == label]
        more = f" and {len(rows) - SHOWN_ROWS:,} more, in report.json" if len(rows) > SHOWN_ROWS else ""
        shown = ", ".join(map(str, rows[:SHOWN_ROWS])) or "none"
        lines.append(f"<li><b>{name(label)}</b> ({len(rows):,}): {shown}{more}</li>")
    return (
        "<details><summary>The rows used as reference points</summary><p>Numbers of rows of the table, from 1.</p>"
        f"<ul>{''.join(lines)}</ul></details>"
    )


def certificate(facts: Facts) -> str:
    """State how far the fit can be from the optimum, and what can be promised without held-out rows."""
    proof, bound = facts["certificate"], facts["bound"]
    text = f"The objective is {proof['objective']:.6g}."
    if proof["gap"] is not None:
        text = (
            f"The objective is {proof['objective']:.6g}; no other weights can lower it by more than {proof['gap']:.3g} "
            f"({proof['gap'] / max(proof['scale'], 1e-300):.1e} of the loss without features)."
        )
    if bound is None:
        promise = ""
    else:
        promise = (
            f"<p>Bound: from the training rows alone, with probability {bound['confidence']:.0%}, at most "
            f"{percent(bound['error'])} of new cases are wrong (PAC-Bayes; taking the scaling of the features as fixed "
            "beforehand). It is loose by nature; the measured error above is the better estimate.</p>"
        )
    heading = "Certificate and bound" if bound else "Certificate"
    if facts["relaxed"]:
        text += " This is about the penalised fit; the blend that the model uses has no certificate."
    return f"<h2>{heading}</h2><p>{escape(proof['status'])} {text} Solver: {escape(proof['solver'])}.</p>{promise}"


def method(facts: Facts) -> str:
    """Name the method and whom to cite."""
    lines = "".join(f"<li>{escape(citation)}</li>" for citation in citations(facts))
    return (
        f"<h2>Method and citation</h2><p>{escape(facts['summary'][0].upper() + facts['summary'][1:])}.</p>"
        f"<ul>{lines}</ul>"
    )


def settings(facts: Facts) -> str:
    """Print everything needed to do it again."""
    command = facts["command"]
    shown = json.dumps(facts["settings"] | {"seconds": facts["seconds"]}, indent=1)
    text = f"{command}\n\n{shown}" if command else shown
    return f"<h2>To reproduce</h2><pre>{escape(text)}</pre>"
