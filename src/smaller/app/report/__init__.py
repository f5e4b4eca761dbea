"""The report of a study: one HTML page that needs nothing else, one JSON file, one CSV of features.

Everything in the page is an aggregate: of rows there are numbers at most, never contents. Every name from the table is
escaped.
"""

from __future__ import annotations

import json

from smaller.app.delimited import csv_text
from smaller.app.report.page import render
from smaller.app.report.words import weighted_classes
from smaller.app.study.schema import Facts

__all__ = ["features_csv", "render", "report_json"]


def report_json(facts: Facts) -> str:
    """Return the facts of a study as JSON: plain ASCII, no NaN."""
    return json.dumps(facts, indent=1, allow_nan=False) + "\n"


def features_csv(facts: Facts) -> str:
    """Return the chosen features as CSV, one line per feature and class."""
    lines = [["feature", "class", "weight_per_standard_deviation", "weight_per_unit", "selection_frequency"]]
    classes = weighted_classes(facts)
    for row in facts["chosen"]["features"] if facts["chosen"] else []:
        for label, scaled, original in zip(classes, row["weights"], row["original"], strict=True):
            if scaled:
                frequency = "" if row["frequency"] is None else f"{row['frequency']:.4g}"
                lines.append([row["name"], label, repr(scaled), repr(original), frequency])
    lines += [[row["name"], "", repr(row["scale"]), "", ""] for row in facts["scales"] or []]
    return csv_text(lines)
