"""The sections on rows that were not learnt from: how good the answers are, for whom, and how to use them."""

from __future__ import annotations

from html import escape
from typing import Any

from smaller.app.report.certainty import relaxed
from smaller.app.report.confusion import confusion_chart
from smaller.app.report.curves import benefit_chart
from smaller.app.report.svg import calibration_chart
from smaller.app.report.words import count, estimate, name, percent
from smaller.app.study.schema import Facts
from smaller.app.study.verdict import WITHHELD

__all__ = ["calibration_sentences", "decisions", "errors", "looked_for", "probabilities"]

Part = dict[str, Any]  # of the facts


def errors(facts: Facts) -> str:
    """Say how the error was found, what luck and all features give, and how every class fares."""
    judged = facts["performance"]
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
        f"{judged['brier']:.3f}.</p>{_cost(facts)}{_yardsticks(facts)}{looked_for(facts)}{_classes(facts)}"
        f"<h3>Which class is taken for which?</h3>{confusion_chart(facts['classes'], facts['confusion'])}"
    )


def _cost(facts: Facts) -> str:
    """Say what the decisions cost, where mistakes are not all the same."""
    cost = facts["performance"]["cost"]
    if cost is None:
        return ""
    low, high = cost["interval"]
    always = name(facts["classes"][cost["baseline_decision"]])
    text = f"<p><b>{cost['name'].capitalize()}</b> per row: {cost['value']:.3g}"
    if facts["verdict"]["state"] != WITHHELD:
        text += f" (95%: {low:.3g} to {high:.3g})"
    text += f"; always deciding for {always}: {cost['baseline']:.3g}. "
    if facts["settings"]["class_weight"] == "balanced":
        return text + (
            "Every class counts the same in the fit and in the decisions, however rare it is. Probabilities are "
            "those of the class shares in the table.</p>"
        )
    head = "".join(f"<th>{name(label, 24)}</th>" for label in facts["classes"])
    rows = "".join(
        f"<tr><td>{name(label, 24)}</td>{''.join(f'<td>{value:g}</td>' for value in line)}</tr>"
        for label, line in zip(facts["classes"], cost["matrix"], strict=True)
    )
    return text + (
        "Each row gets the decision of least expected cost, so that its class need not be the most probable one.</p>"
        f"<details><summary>What each decision costs</summary><div class='scroll'><table><thead><tr><th>true / decided"
        f"</th>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _yardsticks(facts: Facts) -> str:
    """Set the error beside what luck gives, and beside what all features give."""
    pieces = []
    if facts["shuffled"] is not None:
        luck, error = facts["shuffled"], percent(facts["shuffled"]["error"])
        paid = "" if luck["cost"] is None else f"has the {luck['cost']['name']} {luck['cost']['value']:.3g}, "
        pieces.append(
            f"<b>Shuffled labels.</b> The whole procedure, on the same table with labels permuted between "
            f"{'groups' if facts['together'] else 'rows'}, {paid}is wrong in {error} of the rows and uses "
            f"{luck['size']}: that is luck and selection. It cannot show leaks: identifiers, copies of the target or "
            "groups nobody declared vanish with the labels; the data audit looks for those."
        )
    pieces.append(f"<b>All features.</b> {escape(facts['all_features']['sentence'])}")
    if facts["cap"] is not None:
        pieces.append(f"<b>The cap.</b> {escape(facts['cap']['sentence'])}")
    if facts["always"]:
        pieces.append(f"<b>Always in the model</b>, without a penalty: {', '.join(map(name, facts['always']))}.")
    return "".join(f"<p>{piece}</p>" for piece in pieces)


def looked_for(facts: Facts) -> str:
    """Say how many cases of the class that is looked for are found, at the chosen specificity."""
    found = facts["operation"]
    if found is None:
        return ""
    value, interval = estimate(found["sensitivity"], found["interval"])
    certainty = "" if facts["verdict"]["state"] == WITHHELD else f" (95%: {interval})"
    if found["threshold"] is None:
        return f"<p>No probability separates a share of {name(found['positive'])} at this specificity.</p>"
    return (
        f"<p><b>Looked for: {name(found['positive'])}.</b> Called so from a probability of {found['threshold']:.3g} on"
        f", {value} of these cases are found{certainty}, at a specificity of {found['specificity']:.1%} (asked for: "
        f"{found['wanted']:.0%}). The threshold was chosen on these held-out rows; the interval draws the rows again "
        "and chooses it anew.</p>"
    )


def _classes(facts: Facts) -> str:
    """Show how each class fares against all others."""
    whole = facts["by_class"]
    lines = []
    for label, one in zip(facts["classes"], whole["classes"], strict=True):
        shares = "".join(f"<td>{_share(one[key])}</td>" for key in ("found", "precision", "f1"))
        areas = "".join(f"<td>{_three(one[key])}</td>" for key in ("area", "average_precision", "brier"))
        lines.append(f"<tr><td>{name(label, 30)}</td><td>{one['rows']:,}</td>{shares}{areas}</tr>")
    heads = ("rows", "found (recall)", "precision", "F1", "AUC", "PR area", "Brier")
    head = "".join(f"<th>{text}</th>" for text in heads)
    return (
        f"<h3>How does each class fare?</h3><p>Balanced accuracy (the mean share found): "
        f"{percent(whole['balanced_accuracy'], exact=True)}.{_area(whole)}</p><div class='scroll'><table><thead><tr>"
        f"<th>class</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div><p><small>Each class against "
        "all others. AUC: the chance that a row of the class is given a higher probability of it than another row. PR "
        "area: average precision; a class's share is what guessing gives.</small></p>"
    )


def _area(whole: Part) -> str:
    if len(whole["classes"]) != 2 or whole["area"] is None:
        return ""
    interval = whole["classes"][1]["area_interval"]
    ends = "" if interval is None else f" (95%: {interval[0]:.3f} to {interval[1]:.3f})"
    return f" Area under the ROC curve: {whole['area']:.3f}{ends}."


def _share(value: float | None) -> str:
    return "" if value is None else percent(value, exact=True)


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def probabilities(facts: Facts) -> str:
    """Say whether probabilities can be trusted, and what acting on them brings."""
    ece = facts["calibration"]["expected_calibration_error"]
    said = calibration_sentences(facts["recalibration"], facts["classes"], facts["verdict"]["state"] != WITHHELD)
    return (
        f"<h2>Can the probabilities be trusted?</h2><p>On the diagonal, stated probabilities are right; below it the "
        f"model is too sure of itself, above it too careful. Mean distance: {100 * ece:.1f} percentage points. "
        f"{escape(said)}</p>{relaxed(facts)}"
        f"<div class='half'>{calibration_chart(facts['calibration']['bins'])}</div>{_benefit(facts)}"
    )


def calibration_sentences(fit: Part | None, classes: list[str], certain: bool = True) -> str:
    """Return slope and intercept in words."""
    if fit is None:
        return "Slope and intercept cannot be estimated: a class is missing, or nothing overlaps."
    said, interval = f"Calibration slope {fit['slope']:.2f}", fit["slope_interval"] if certain else None
    if interval is None:
        said += " (1 is right, less is too bold, more too cautious)."
    else:
        low, high = interval
        meaning = "too cautious" if low > 1.0 else "too bold" if high < 1.0 else "not to be told from right"
        said += f" (95%: {low:.2f} to {high:.2f}): the probabilities are {meaning}."
    if len(classes) == 2:
        intervals = fit["intercept_intervals"] if certain else None
        ends = "" if intervals is None else f" ({intervals[0][0]:+.2f} to {intervals[0][1]:+.2f})"
        said += f" In the large, the log-odds of {classes[1]} are {fit['intercepts'][0]:+.2f}{ends} from what is said."
    return said


def _benefit(facts: Facts) -> str:
    curve = facts["benefit"]
    if curve is None:
        return ""
    positive = name(curve["positive"])
    return (
        f"<h3>Is it worth acting on?</h3><p>To act on {positive} from a probability t on is to take one needless "
        "action as t / (1 - t) of a needed one. Net benefit is what is gained then, in needed actions a row: acting on "
        "the model, on everybody, or on nobody (0). The model is of use where its line is the highest.</p>"
        f"{benefit_chart(curve)}"
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
        "how common the classes are where it will be used. Numbers are from rows that were not learnt from."
        f"{_plain(facts)}</p>"
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


def _plain(facts: Facts) -> str:
    if facts["performance"]["cost"] is None:
        return ""
    return " Here every row is given its most probable class, whatever mistakes cost."
