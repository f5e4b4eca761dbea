"""A formula as JSON: words for people, numbers for a program of thirty lines in any language."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from smaller.export.formula import Formula, log_erfcx_coefficients
from smaller.export.reading import formula_of

__all__ = ["FORMAT", "as_json", "to_json", "words"]

FORMAT = "smaller-formula"

_LINKS = {
    "logistic": "The score s is that of the second class; its probability is 1 / (1 + exp(-s)).",
    "softmax": "Every class has a score; its probability is exp(score), divided by the sum of all exp(score).",
    "cumulative": (
        "The classes are grades. Every grade but the first has a score s, and 1 / (1 + exp(-s)) is the probability "
        "that it, or a higher one, is reached. A grade's own probability is that of reaching it (the first: 1) less "
        "that of reaching the next (after the last: 0)."
    ),
    "probit": (
        "Phi is the normal distribution function: log Phi(-u) = log(t/2) - u^2/2 + c0 + c1 t + c2 t^2 + ..., where "
        "u >= 0, t = 1 / (1 + u / sqrt(8)), c is log_erfcx; Phi(u) = 1 - Phi(-u)."
    ),
}


def to_json(model: Any) -> str:
    """Return a fitted classifier as JSON text: what it says in words, and the numbers to evaluate it anywhere.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this package, alone or at the end of a `Pipeline`; see `formula_of`.

    Returns
    -------
    str
        JSON. ``words`` explains the other fields; docs/export.md has an evaluator.

    See Also
    --------
    to_sql : For databases.
    to_onnx : For runtimes.
    smaller.save : For Python.

    Examples
    --------
    >>> import json
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> made = json.loads(to_json(SMLR(alpha=20).fit(X, y)))
    >>> made["link"], list(made["scores"][0]["weights"])
    ('softmax', ['petal length (cm)'])
    """
    return as_json(formula_of(model))


def as_json(formula: Formula) -> str:
    """Return a formula as JSON text."""
    tree: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "made_of": formula.made_of,
        "made_with": f"smaller {version('smaller')}",
        "words": words(formula),
        "columns": [
            {"name": name, "type": "text" if name in formula.text_columns else "number"}
            for name in formula.used_columns
        ],
        "features": [
            {"name": feature.name, "column": feature.column, "steps": [dict([step]) for step in feature.steps]}
            for feature in formula.features
        ],
        "kernel": _kernel(formula),
        "classes": list(formula.classes),
        "scores": _scores(formula),
        "link": formula.link,
    }
    if formula.link == "probit":
        tree["log_erfcx"] = list(log_erfcx_coefficients())
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def words(formula: Formula) -> list[str]:
    """Return sentences that say how the numbers are to be used."""
    said = [
        f"{formula.made_of} for {len(formula.classes)} classes; it uses {len(formula.used_columns)} of "
        f"{len(formula.columns)} columns.",
        "A feature is the value of its column after its steps, in order. A missing value stays missing until fill, "
        "one_of or code speaks of it; null in one_of stands for missing. one_of gives 1 or 0; code gives the number "
        "beside the value, or its second part for any other value.",
    ]
    if formula.kernel is None:
        said.append("A score is the intercept plus the sum of weight times feature.")
    else:
        form = {
            "rbf": "exp(-sum of scale * (feature - centre)^2)",
            "poly": "(coef0 + sum of scale * feature * centre) to the power of degree",
        }[formula.kernel.kind]
        said.append(
            f"A centre's value is {form}; scales and centres follow the order of the features. A score is the "
            "intercept plus the sum of weight times centre's value."
        )
    if formula.link == "probit":
        several = "the one score s of the second class: its probability is Phi(s)."
        if len(formula.intercept) > 1:
            several = "a score for every class: its probability is Phi(score), divided by the sum of all Phi(score)."
        said.append(f"There is {several}")
    return [*said, _LINKS[formula.link], *formula.notes]


def _kernel(formula: Formula) -> dict[str, Any] | None:
    kernel = formula.kernel
    if kernel is None:
        return None
    power = {"degree": kernel.degree, "coef0": kernel.coef0} if kernel.kind == "poly" else {}
    return {"kind": kernel.kind, **power, "scales": kernel.scales.tolist(), "centers": kernel.centers.tolist()}


def _scores(formula: Formula) -> list[dict[str, Any]]:
    """Return a score per output: weights by the name of the feature, or in the order of the centres."""
    owners = formula.classes[-len(formula.intercept) :]
    scores = []
    for k, owner in enumerate(owners):
        values = formula.weights[:, k].tolist()
        weights: Any = values
        if formula.kernel is None:
            named = zip(formula.features, values, strict=True)
            weights = {feature.name: value for feature, value in named if value}
        scores.append({"class": owner, "intercept": float(formula.intercept[k]), "weights": weights})
    return scores
