"""Text for a paper: methods, results, references, and the items of the TRIPOD+AI checklist that a study knows.

The items are those of Collins et al. (2024), BMJ 385: e078378. What a program cannot know (setting, participants,
ethics, intended use, ...) is left to the authors, and named.
"""

from __future__ import annotations

from html import escape

from smaller.app.study.schema import Facts
from smaller.app.study.verdict import WITHHELD

__all__ = ["citations", "for_your_paper", "methods", "results", "tripod"]

_SHAH_2013 = (
    "Shah, Samworth (2013). Variable selection with error control: another look at stability selection. JRSS B 75(1)."
)
_COX_1958 = "Cox (1958). Two further applications of a model for binary regression. Biometrika 45(3/4)."
_VICKERS_2006 = (
    "Vickers, Elkin (2006). Decision curve analysis: a novel method for evaluating prediction models. Medical Decision "
    "Making 26(6)."
)
_COLLINS_2024 = (
    "Collins et al. (2024). TRIPOD+AI statement: updated guidance for reporting clinical prediction models that use "
    "regression or machine learning methods. BMJ 385: e078378."
)
_LEFT = (
    "Left to the authors: items 1-6 (title, abstract, background, objectives, data, participants), 8 "
    "(outcome), 14 (fairness), 16-19 (differences of the data, ethics, open science, involvement), 20 (participants), "
    "24-27 (updating, interpretation, limitations, usability)."
)


def citations(facts: Facts) -> list[str]:
    """Return the papers behind what the report says."""
    found = [facts["citation"]]
    found += [_SHAH_2013] * bool(facts["stability"]["top"])
    found += [_COX_1958] * bool(facts["recalibration"])
    return found + [_VICKERS_2006] * bool(facts["benefit"])


def for_your_paper(facts: Facts) -> str:
    """Return the section: three texts that can be copied."""
    items = "\n".join(f"{number}  {title}: {text}" for number, title, text in tripod(facts))
    references = "\n".join([*citations(facts), _software(facts)])
    texts = (
        ("Methods and results", f"{methods(facts)}\n\n{results(facts)}"),
        ("References", references),
        (
            "TRIPOD+AI: what is known here",
            f"{items}\n\n{_LEFT}\n{_COLLINS_2024}",
        ),
    )
    body = "".join(
        f"<details><summary>{title}</summary><pre class='copy'>{escape(text)}</pre></details>" for title, text in texts
    )
    return f"<h2>For your paper</h2><p>Text to copy and to check: a click marks all of it.</p>{body}"


def methods(facts: Facts) -> str:
    """Return what was done, as a paragraph."""
    made, versions = facts["settings"], facts["settings"]["versions"]
    sentences = [
        f"We predicted {made['target']} ({_counts(facts)}) from {facts['columns']:,} columns of {facts['rows']:,} rows "
        f"by {facts['summary']} ({_short(facts['citation'])}).",
        _preparation(facts),
        _strength(facts),
        *_demands(facts),
        facts["plan"].split(" (Rule:")[0],
        f"Computed with smaller {versions['smaller']} (Python {versions['python']}, NumPy {versions['numpy']}, SciPy "
        f"{versions['scipy']}, scikit-learn {versions['scikit-learn']}), random seed {made['seed']}.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def results(facts: Facts) -> str:
    """Return what was found, as a paragraph; no interval where it is withheld."""
    judged, certain = facts["performance"], facts["verdict"]["state"] != WITHHELD
    sentences = [
        facts["verdict"]["sentence"],
        f"On rows not learnt from, {judged['error']:.1%} were classified wrongly"
        f"{_ends(judged['error_interval'], certain)}; guessing the commonest class is wrong in "
        f"{judged['baseline_error']:.1%}.",
        f"The balanced accuracy was {facts['by_class']['balanced_accuracy']:.1%}, the log-loss "
        f"{judged['log_loss']:.3f} ({judged['baseline_log_loss']:.3f} without features), the Brier score "
        f"{judged['brier']:.3f}.",
    ]
    cost, found, fit = judged["cost"], facts["operation"], facts["recalibration"]
    if cost is not None:
        low, high = cost["interval"]
        ends = f" (95% confidence interval {low:.3g} to {high:.3g})" if certain else ""
        sentences.append(f"The {cost['name']} was {cost['value']:.3g} a row{ends}; of the best single answer "
                         f"{cost['baseline']:.3g}.")  # fmt: skip
    if len(facts["classes"]) == 2 and facts["by_class"]["area"] is not None:
        sentences.append(f"The area under the ROC curve was {facts['by_class']['area']:.3f}.")
    if found is not None:
        sentences.append(
            f"At a specificity of {found['specificity']:.1%}, {found['sensitivity']:.1%} of {found['positive']} were "
            f"found{_ends(found['interval'], certain)}."
        )
    if fit is not None:
        sentences.append(f"The calibration slope was {fit['slope']:.2f}.")
    if facts["shuffled"] is not None:
        sentences.append(f"With shuffled labels, the same procedure was wrong in {facts['shuffled']['error']:.1%}.")
    return " ".join(sentences)


def tripod(facts: Facts) -> list[tuple[str, str, str]]:
    """Return number, title and text of every item of the checklist that the study knows something of."""
    made, judged = facts["settings"], facts["performance"]
    counts = _counts(facts)
    used = len(facts["chosen"]["features"]) if facts["chosen"] else None
    balance = {None: "not taken into account in the fit"}.get(made["class_weight"], "every class weighed the same")
    specification = (
        "weights in original units and intercepts are in the report and in features.csv; the model itself is "
        "model.smaller (smaller export writes it as JSON, SQL or ONNX)"
        if used is not None
        else f"{facts['points']} reference rows and their weights are in model.smaller"
    )
    events = f"{facts['rows']:,} rows ({counts})"
    return [
        ("7", "Data preparation", " ".join(facts["notes"]) or "columns were used as they are."),
        ("9", "Predictors", f"{facts['features']:,} candidate features from {facts['columns']:,} columns."),
        ("10", "Sample size", f"{events}; it was given, not planned by the program."),
        ("11", "Missing data", _preparation(facts)),
        ("12a", "How the data were used", facts["plan"]),
        ("12b", "Handling of predictors", "linear, each scaled to one standard deviation; texts as indicators."
         if used is not None else "each scaled to one standard deviation; texts as indicators."),
        ("12c", "Type of model, tuning and validation", f"{facts['summary']}. {_strength(facts)}".strip()),
        ("12d", "Clusters", facts["together"] or "rows were taken as independent."),
        ("12e", "Measures of performance", "error, log-loss, Brier score, balanced accuracy, areas under ROC and "
         "precision-recall curves, calibration (curve, slope, intercept)"
         + (", net benefit." if facts["benefit"] else ".")),
        ("13", "Class imbalance", f"{counts}; {balance}."),
        ("15", "Output of the model", "probabilities of all classes; " + _decision(facts)),
        ("21", "Rows and events in the analysis", f"{events}; {judged['rows']:,} rows were predicted without having "
         "been learnt from."),
        ("22", "Specification of the model", f"{specification}."),
        ("23a", "Performance", results(facts)),
    ]  # fmt: skip


def _counts(facts: Facts) -> str:
    pairs = zip(facts["classes"], facts["class_counts"], strict=True)
    return "; ".join(f"{label}: {count:,}" for label, count in pairs)


def _decision(facts: Facts) -> str:
    cost = facts["performance"]["cost"]
    return f"the answer has the least {cost['name']}." if cost else "the most probable class is answered."


def _preparation(facts: Facts) -> str:
    if facts["settings"]["gaps"]:
        return "Gaps were filled with the median, features scaled to one standard deviation, both of rows learnt from."
    return "There were no gaps; features were scaled to one standard deviation of the rows learnt from."


def _strength(facts: Facts) -> str:
    """Say how the strength of the penalty was chosen, where cross-validation did it."""
    if facts["path"] is None:
        return ""
    rule = (
        "the sparsest model within one standard error of the best"
        if facts["settings"]["rule"] == "1se"
        else "the best held-out log-loss"
    )
    relaxed = " The shrinkage of the penalty was then taken out as far as rows left out confirmed it."
    chosen = f"The strength of the penalty was chosen by cross-validation: {rule}."
    return chosen + relaxed if facts["relaxed"] else chosen


def _demands(facts: Facts) -> list[str]:
    """Say what was asked of the model beyond predicting."""
    made, said = facts["settings"], []
    if facts["always"]:
        said.append(f"{', '.join(facts['always'])} were always in the model, without a penalty.")
    if facts["cap"] is not None:
        said.append(f"At most {facts['cap']['most']} features were allowed.")
    if made["class_weight"] == "balanced":
        said.append("The classes weighed the same in the fit; probabilities were moved back to their shares.")
    if made["costs"] is not None:
        said.append("Decisions were those of least expected cost.")
    return said


def _ends(interval: list[float], certain: bool) -> str:
    return f" (95% confidence interval {interval[0]:.1%} to {interval[1]:.1%})" if certain else ""


def _short(citation: str) -> str:
    """Return authors and year as they stand in a text."""
    authors, year = citation.split(" (")[0].split(", "), citation.split("(")[1][:4]
    named = f"{authors[0]} et al." if len(authors) > 2 else " and ".join(authors)
    return f"{named} {year}"


def _software(facts: Facts) -> str:
    version = facts["settings"]["versions"]["smaller"]
    return f"smaller, version {version}: small probabilistic classifiers for Python [computer software]."
