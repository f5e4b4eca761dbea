"""The sections below the answer. Each is a function of the facts that returns a piece of HTML, or nothing."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from smaller.app.report.svg import bars, calibration_chart, import_chart, path_chart, score_chart
from smaller.app.report.words import count, estimate, name, percent, weighted_classes
from smaller.app.study.schema import Facts
from smaller.app.study.verdict import WITHHELD

__all__ = ["Facts", "certificate", "decisions", "errors", "features", "kernel", "method", "path", "settings"]

SHOWN_FEATURES, SHOWN_PER_CLASS = 20, 10  # the second where there are more than three classes
SHOWN_CLASSES = 12
TABLE_FEATURES = 100
CONFUSION_CLASSES = 30

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
        f"be chosen.</p>{charts}{_weights_table(facts)}{_stability(facts)}"
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


# ---- how good it is -------------------------------------------------------------------------------------------------


def errors(facts: Facts) -> str:
    """Say how the error was found, which classes are taken for which, and whether probabilities can be trusted."""
    judged, ece = facts["performance"], facts["calibration"]["expected_calibration_error"]
    error, interval = estimate(judged["error"], judged["error_interval"])
    mean = f"On average over {judged['repeats']} repeats " if judged["repeats"] > 1 else ""
    where = f"{mean}{count(judged['wrong'])} of {judged['rows']:,} rows were predicted wrongly: an error of {error}"
    if facts["verdict"]["state"] == WITHHELD:
        certainty = ". An interval is withheld until it is said which rows belong together."
    else:
        draws = "rows" if judged["units"] is None else f"{judged['units']:,} groups of rows that stay together"
        certainty = f", with 95% confidence from {interval} (the interval takes the {draws} as independent draws)."
    if judged["repeats"] > 1:
        low, high = (percent(share, exact=True) for share in judged["error_range"])
        certainty += f" The repeats lay between {low} and {high}; the interval covers them."
    return (
        f"<h2>How good is it?</h2><p>{escape(facts['plan'])}</p><p>{where}{certainty} Brier score "
        f"{judged['brier']:.3f}.</p>{_yardsticks(facts)}{_confusion(facts)}"
        f"<h3>Can the probabilities be trusted?</h3><p>On the diagonal, stated probabilities are right; below it the "
        f"model is too sure of itself, above it too careful. Mean distance: {100 * ece:.1f} percentage points.</p>"
        f"<div class='half'>{calibration_chart(facts['calibration']['bins'])}</div>"
    )


def _yardsticks(facts: Facts) -> str:
    """Set the error beside what luck gives, and beside what all features give."""
    pieces = []
    if facts["shuffled"] is not None:
        luck, error = facts["shuffled"], percent(facts["shuffled"]["error"])
        pieces.append(
            f"<b>Shuffled labels.</b> The whole procedure, on the same table with labels permuted between "
            f"{'groups' if facts['together'] else 'rows'}, is wrong in {error} of the rows and uses {luck['size']}: "
            "that is luck and selection. It cannot show leaks: identifiers, copies of the target or groups nobody "
            "declared vanish with the labels; the data audit looks for those."
        )
    pieces.append(f"<b>All features.</b> {escape(facts['all_features']['sentence'])}")
    return "".join(f"<p>{piece}</p>" for piece in pieces)


def _confusion(facts: Facts) -> str:
    labels = facts["classes"]
    if len(labels) > CONFUSION_CLASSES:
        return ""
    lines = []
    for i, (label, counts) in enumerate(zip(labels, facts["confusion"], strict=True)):
        styles = ["right" if i == j else "wrong" if count else "" for j, count in enumerate(counts)]
        cells = "".join(f'<td class="{style}">{count(value)}</td>' for style, value in zip(styles, counts, strict=True))
        found = percent(counts[i] / sum(counts)) if sum(counts) else ""
        lines.append(f"<tr><td>{name(label, 30)}</td>{cells}<td>{found}</td></tr>")
    head = "".join(f"<th>{name(label, 18)}</th>" for label in labels)
    return (
        f"<div class='scroll'><table><thead><tr><th>true class / predicted</th>{head}<th>found</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def decisions(facts: Facts) -> str:
    """Offer the sliders, and as much of them as fits into a table for paper."""
    if facts["decisions"] is None:
        return ""
    classes = facts["classes"]
    if len(classes) == 2:
        choice = f"<b>{name(classes[1])}</b>"
    else:
        options = "".join(f'<option value="{k}">{name(label, 40)}</option>' for k, label in enumerate(classes))
        choice = f'<select id="which" aria-label="class">{options}</select>'
    return (
        '<h2>Use it: when to say "I do not know"</h2><p>Let the model answer only when it is sure enough, and tell it '
        "how common the classes are where it will be used. Numbers are from rows that were not learnt from.</p>"
        '<div class="controls" id="decisions"><label for="threshold">Answer only if the decision is at least '
        '<output id="threshold-value"></output> probable</label><input type="range" id="threshold" min="0" step="1">'
        f'<label for="prior">Share of {choice} where the model is used: <output id="prior-value"></output></label>'
        '<input type="range" id="prior" min="0" step="1"><p class="result" id="result" aria-live="polite"></p></div>'
        f"{_reject_table(facts['decisions'])}"
    )


def _reject_table(tables: Part) -> str:
    thresholds, rows = tables["thresholds"], tables["tables"][0][0]  # shares as in training
    near = [min(range(len(thresholds)), key=lambda j: abs(thresholds[j] - risk)) for risk in (0.2, 0.1, 0.05)]
    lines = "".join(
        f"<tr><td>{'always' if j == len(rows) - 1 else 'if at least ' + percent(1 - thresholds[j]) + ' probable'}</td>"
        f"<td>{percent(1 - rows[j][0])}</td><td>{percent(rows[j][1])}</td></tr>"
        for j in (len(rows) - 1, *near)
        if rows[j][0] < 1
    )
    return (
        "<table><thead><tr><th>the model answers</th><th>cases answered</th><th>of those wrong</th></tr></thead>"
        f"<tbody>{lines}</tbody></table>"
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
    return "".join(pieces)


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
    return f"<h2>{heading}</h2><p>{escape(proof['status'])} {text} Solver: {escape(proof['solver'])}.</p>{promise}"


def method(facts: Facts) -> str:
    """Name the method and whom to cite."""
    citations = [facts["citation"]]
    if facts["stability"]["top"]:
        citations.append(
            "Shah, Samworth (2013). Variable selection with error control: another look at stability selection. JRSS B "
            "75(1)."
        )
    lines = "".join(f"<li>{escape(citation)}</li>" for citation in citations)
    return (
        f"<h2>Method and citation</h2><p>{escape(facts['summary'][0].upper() + facts['summary'][1:])}.</p>"
        f"<ul>{lines}</ul>"
    )


def settings(facts: Facts) -> str:
    """Print everything needed to do it again."""
    command = facts.get("command")
    shown = json.dumps(facts["settings"] | {"seconds": facts["seconds"]}, indent=1)
    text = f"{command}\n\n{shown}" if command else shown
    return f"<h2>To reproduce</h2><pre>{escape(text)}</pre>"
