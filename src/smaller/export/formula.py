"""A fitted model as plain values: columns, features, scores, link. Writers know this, and nothing of estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy import special

from smaller.arrays import Array

__all__ = ["ExportError", "Feature", "Formula", "Kernel", "Step", "log_erfcx_coefficients", "plain"]

Step = tuple[str, Any]


class ExportError(ValueError):
    """A model cannot be written in a format; the message says why and what to do.

    See Also
    --------
    formula_of : Raises it.
    to_json, to_sql, to_onnx, to_card : Raise it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smaller.export import ExportError, formula_of
    >>> model = LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True))
    >>> try:
    ...     formula_of(model)
    ... except ExportError:
    ...     print("not a model of this package")
    not a model of this package
    """


@dataclass(frozen=True)
class Feature:
    """A number made of one column, step by step.

    Steps: ``fill`` a missing value; ``subtract``, ``divide``, ``multiply``, ``add`` a number; ``clip`` to two limits;
    ``one_of`` a list (1 or 0; None in it stands for missing); ``code`` by a list of pairs ``value, number`` and the
    number of everything else. Missing stays missing until a step speaks of it.
    """

    name: str
    column: str
    steps: tuple[Step, ...] = ()

    def then(self, *steps: Step, name: str | None = None) -> Feature:
        """Return the feature with further steps."""
        return replace(self, name=self.name if name is None else name, steps=(*self.steps, *steps))

    @property
    def is_text(self) -> bool:
        """Whether the column holds text: the first step that speaks of values does so in words."""
        for verb, value in self.steps:
            if verb in ("fill", "one_of", "code"):
                spoken = [value] if verb == "fill" else value if verb == "one_of" else [pair[0] for pair in value[0]]
                known = [item for item in spoken if item is not None]
                if known:
                    return isinstance(known[0], str)
            else:
                return False
        return False


@dataclass(frozen=True)
class Kernel:
    """``kind`` "rbf": exp(-D), D the scaled squared distance; "poly": (coef0 + S)^degree, S the scaled product."""

    kind: str
    scales: Array  # (d,), one per feature of the formula
    centers: Array  # (m, d)
    degree: int = 1
    coef0: float = 0.0


@dataclass(frozen=True)
class Formula:
    """Class probabilities of a row: ``link(intercept + weights' h)``, h the features or their kernel values.

    ``weights`` is (d, q), or (m, q) for a kernel with m centres. One output is the score of the second of two classes.
    ``link``: "logistic", "softmax", "probit" (one output: Phi; more: Phi of each, divided by their sum), "cumulative"
    (a score for every class but the first: whether the class or a higher one is reached).

    See Also
    --------
    formula_of : Makes it of a fitted model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> from smaller.export import formula_of
    >>> formula_of(SMLR(alpha=20).fit(*load_iris(return_X_y=True))).link
    'softmax'
    """

    made_of: str
    columns: tuple[str, ...]  # that the model was fitted with, in order
    named: bool  # whether these are names of the user, not x0, x1, ...
    features: tuple[Feature, ...]
    kernel: Kernel | None
    weights: Array
    intercept: Array
    link: str
    classes: tuple[Any, ...]
    notes: tuple[str, ...] = ()

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns that take part, in order."""
        used = {feature.column for feature in self.features}
        return tuple(column for column in self.columns if column in used)

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns that hold text."""
        return frozenset(feature.column for feature in self.features if feature.is_text)

    def reduced(self) -> Formula:
        """Return the same formula without features that change nothing; the names of the others are unique."""
        kernel = self.kernel
        if kernel is None:
            used = np.flatnonzero(self.weights.any(axis=1))
            return replace(self, features=self._named(used), weights=self.weights[used])
        used = np.flatnonzero(kernel.scales)
        if len(used) and len(kernel.centers):
            smaller = replace(kernel, scales=kernel.scales[used], centers=kernel.centers[:, used])
            return replace(self, features=self._named(used), kernel=smaller)
        constant = 1.0 if kernel.kind == "rbf" else kernel.coef0**kernel.degree
        intercept = self.intercept + constant * self.weights.sum(axis=0)
        return replace(self, features=(), kernel=None, weights=self.weights[:0], intercept=intercept)

    def _named(self, used: Array) -> tuple[Feature, ...]:
        taken: set[str] = set()
        made = []
        for j in used:
            name = self.features[j].name
            for i in count(2):
                if name not in taken:
                    break
                name = f"{self.features[j].name} ({i})"
            taken.add(name)
            made.append(replace(self.features[j], name=name))
        return tuple(made)


@cache
def log_erfcx_coefficients() -> tuple[float, ...]:
    """Return c_0, c_1, ... of a polynomial in ``t = 1 / (1 + z/2)``, z >= 0: ``log(erfcx(z) / t)`` to 1e-9.

    So ``erfc(z) = t exp(-z^2 + polynomial)``: the normal distribution function where there are only exp and log.
    """

    def target(t: Array) -> Array:
        t = np.maximum(t, 1e-8)
        return np.log(special.erfcx(2.0 * (1.0 / t - 1.0)) / t)

    fit = Chebyshev.interpolate(target, 16, domain=[0.0, 1.0])
    return tuple(float(c) for c in fit.convert(kind=Polynomial).coef)


def plain(value: Any) -> Any:
    """Return a label or level as a value that JSON has; a missing one is None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    if type(value).__name__ == "NAType":  # pandas
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, str | bool | int | float):
        raise ExportError(
            f"The value {value!r:.60} of type {type(value).__name__} cannot be exported: use text or numbers."
        )
    return value
