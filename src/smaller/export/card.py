"""A card of whole points: add them up, read the probability off a table.

A linear score of two classes is a sum of one contribution per feature. Numbers are cut into a few ranges and every
contribution is rounded to whole points; then ``p(total) = 1 / (1 + exp(-(a + b total)))`` is fitted to the rows. What
rounding costs is measured on these rows and printed on the card.

The rounding is searched: at several scales every entry is rounded up or down, and one or two entries at once are
rounded the other way while that lowers the loss. What comes out need not be the best card there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy import special

from smaller.arrays import Array
from smaller.export.columns import columns_in, evaluate, is_missing
from smaller.export.formula import ExportError, Feature, Formula
from smaller.export.reading import formula_of

__all__ = ["Card", "Entry", "card_of", "to_card"]

_ARITHMETIC = {"subtract", "divide", "multiply", "add", "fill", "clip"}
_SCALES = 8  # starts of the search
_MOST_PAIRS = 2000  # flips of two entries; with more of them only single ones are tried


@dataclass(frozen=True)
class Entry:
    """A line of the card: a feature, the names of its ranges or answers, and their points."""

    feature: Feature
    cuts: tuple[float, ...]  # between ranges; of the column for numbers, of the feature else
    of_column: bool
    names: tuple[str, ...]
    points: tuple[int, ...]

    def place(self, columns: dict[str, Array]) -> Array:
        """Return which range every row falls into."""
        values = columns[self.feature.column]
        if not self.of_column:
            values = evaluate(self.feature, values)
        else:
            for verb, argument in self.feature.steps[:1]:
                values = np.where(np.isnan(values), argument, values) if verb == "fill" else values
        if is_missing(values).any():
            raise ExportError(f"Column {self.feature.column!r:.60} has missing values that the model does not fill.")
        return np.searchsorted(np.asarray(self.cuts), values, side="right")


@dataclass(frozen=True)
class Card:
    """A points score of two classes; ``str(card)`` is the table to pin to a wall.

    Attributes
    ----------
    entries : tuple of Entry
        Features with the points of each of their ranges or answers; without those that are worth no point.
    classes : tuple
        The two classes; probabilities are those of the second.
    intercept, slope : float
        ``p = 1 / (1 + exp(-(intercept + slope * total)))``.
    loss, model_loss, null_loss : float
        Mean log-loss on the same rows: of the card, of the model with intercept and slope of its score fitted as those
        of the card are, and of the class shares alone.
    rounded_loss : float
        That of the best plain rounding, before the search.
    rows : int
        How many rows these are.

    See Also
    --------
    to_card : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from smaller import SMLR
    >>> from smaller.export import to_card
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["worst radius", "worst texture"]]
    >>> card = to_card(SMLR().fit(X, y), X, y)
    >>> card.predict_proba(X).shape
    (569, 2)
    """

    entries: tuple[Entry, ...]
    classes: tuple[Any, Any]
    intercept: float
    slope: float
    loss: float
    model_loss: float
    null_loss: float
    rounded_loss: float
    rows: int
    formula: Formula

    def totals(self, X: Any) -> Array:
        """Return the points (n,) of every row of ``X``."""
        columns = columns_in(X, self.formula)
        n = len(next(iter(columns.values()))) if columns else len(X)
        total = np.zeros(n, dtype=np.int64)
        for entry in self.entries:
            total += np.asarray(entry.points)[entry.place(columns)]
        return total

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities (n, 2) of the classes, by the points."""
        p = special.expit(self.intercept + self.slope * self.totals(X))
        return np.column_stack([1.0 - p, p])

    @property
    def table(self) -> list[tuple[int, float]]:
        """Return every total that can occur, with the probability of the second class."""
        low = sum(min(entry.points) for entry in self.entries)
        high = sum(max(entry.points) for entry in self.entries)
        return [(t, float(special.expit(self.intercept + self.slope * t))) for t in range(low, high + 1)]

    def __str__(self) -> str:
        width = max([len(name) for entry in self.entries for name in entry.names] + [8]) + 4
        lines = [f"Points for {self.classes[1]} (else {self.classes[0]})", ""]
        for entry in self.entries:
            lines.append(entry.feature.name)
            lines += [f"  {name:<{width}}{points:>3}" for name, points in zip(entry.names, entry.points, strict=True)]
        lines += ["", f"{'total':>7}  probability of {self.classes[1]}"]
        lines += [f"{total:>7}  {_percent(p)}" for total, p in self.table]
        return "\n".join([*lines, "", *self._costs(), ""])

    def _costs(self) -> list[str]:
        more, gain = self.loss - self.model_loss, self.null_loss - self.model_loss
        share = f", {more / gain:.0%} of what the model gains over the class shares" if more > 0 and gain > 0 else ""
        told = (
            f"costs {more:.4f} a row{share}" if more > 0 else f"gains {-more:.4f} a row, as ranges need not be linear"
        )
        return [
            f"Log-loss on the {self.rows} rows that chose the points: card {self.loss:.4f} (plain rounding "
            f"{self.rounded_loss:.4f}), model {self.model_loss:.4f}, class shares {self.null_loss:.4f}.",
            f"Ranges and rounding: {told}. On other rows, measure it anew.",
        ]


def to_card(model: Any, X: Any, y: Any, *, sample_weight: Any = None, largest: int = 5, ranges: int = 4) -> Card:
    """Return a card of whole points for a linear logistic model of two classes.

    Parameters
    ----------
    model : estimator
        A fitted linear classifier of this package with two classes, alone or at the end of a `Pipeline`.
    X : data frame, array or mapping of names to values
        Rows on which points are chosen and their cost is measured, with the columns of training.
    y : array-like of shape (n,)
        Their classes.
    sample_weight : array-like of shape (n,), default=None
        Their weights.
    largest : int, default=5
        Most points between two answers of one feature.
    ranges : int, default=4
        How many ranges a number is cut into, at its quantiles.

    Returns
    -------
    Card
        ``print(card)`` shows it; ``card.predict_proba`` judges it on other rows.

    See Also
    --------
    to_sql, to_json : Without rounding.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from smaller import SMLR
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> card = to_card(make_pipeline(StandardScaler(), SMLR(alpha=40)).fit(X, y), X, y)
    >>> card.loss <= card.rounded_loss < card.null_loss
    True
    """
    return card_of(formula_of(model), X, y, sample_weight=sample_weight, largest=largest, ranges=ranges)


def card_of(formula: Formula, X: Any, y: Any, *, sample_weight: Any = None, largest: int = 5, ranges: int = 4) -> Card:
    """Return the card of a formula."""
    _check_askable(formula, largest, ranges)
    columns = columns_in(X, formula)
    positive, weight = _targets(formula, y, sample_weight)
    H = np.column_stack([evaluate(feature, columns[feature.column]) for feature in formula.features])
    if np.isnan(H).any():
        raise ExportError("X has missing values that the model does not fill: leave these rows out.")
    eta = formula.intercept[0] + H @ formula.weights[:, 0]
    parts = [
        _contribution(feature, columns, h, weight, w, ranges)
        for feature, h, w in zip(formula.features, H.T, formula.weights[:, 0], strict=True)
    ]
    entries, values = [entry for entry, _ in parts], [value for _, value in parts]
    places = np.column_stack([entry.place(columns) for entry in entries])
    fit = _Fit(places, positive, weight)
    rounded, points = _search(fit, values, largest)
    loss, a, b = fit.loss(points)
    share = float(weight @ positive / weight.sum())
    return Card(
        entries=tuple(
            replace(entry, points=tuple(int(p) for p in own))
            for entry, own in zip(entries, points, strict=True)
            if own.any()
        ),
        classes=(formula.classes[0], formula.classes[1]),
        intercept=a,
        slope=b,
        loss=float(loss),
        model_loss=float(_Fit(np.arange(len(eta))[:, None], positive, weight).loss([eta])[0]),
        null_loss=float(special.entr(share) + special.entr(1.0 - share)),
        rounded_loss=float(rounded),
        rows=len(positive),
        formula=formula,
    )


def _check_askable(formula: Formula, largest: int, ranges: int) -> None:
    """Refuse models and arguments of which no card can be made."""
    if formula.kernel is not None or formula.link != "logistic":
        raise ExportError(
            "A card needs a linear model of two classes with logistic probabilities, such as SMLR or SMLRCV."
        )
    if largest < 1 or ranges < 2:
        raise ExportError(f"largest must be at least 1 and ranges at least 2, got {largest} and {ranges}.")
    if not formula.features:
        raise ExportError("The model uses no feature: there is nothing to give points for.")


def _targets(formula: Formula, y: Any, sample_weight: Any) -> tuple[Array, Array]:
    labels = np.asarray(y)
    positive = labels == formula.classes[1]
    if not (positive | (labels == formula.classes[0])).all():
        raise ExportError(f"y holds labels other than {formula.classes[0]!r} and {formula.classes[1]!r}.")
    if positive.all() or not positive.any():
        raise ExportError("y must hold both classes.")
    weight = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return positive.astype(np.float64), weight


def _contribution(
    feature: Feature, columns: dict[str, Array], h: Array, weight: Array, w: float, ranges: int
) -> tuple[Entry, Array]:
    """Return the entry of a feature, points unset, and what every range adds to the score, on average."""
    of_column = all(verb in _ARITHMETIC for verb, _ in feature.steps)
    entry = Entry(feature, (), of_column, ("",), (0,))
    seen = columns[feature.column] if of_column else h
    known = seen[~np.isnan(seen)]
    levels = np.unique(known)
    if len(levels) <= 2:
        cuts, names = tuple(levels[1:].tolist()), _answers(levels, feature, of_column)
    else:
        cuts = _readable_cuts(known, ranges)
        names = _range_names(cuts)
    entry = replace(entry, cuts=cuts, names=names, points=(0,) * len(names))
    place = entry.place(columns)
    total = np.bincount(place, weight, minlength=len(names))
    means = np.bincount(place, weight * h, minlength=len(names)) / np.where(total > 0, total, 1.0)
    return entry, w * np.where(total > 0, means, h.mean())


def _answers(levels: Array, feature: Feature, of_column: bool) -> tuple[str, ...]:
    if not of_column and set(levels.tolist()) <= {0.0, 1.0} and len(levels) == 2:
        return ("no", "yes")
    return tuple(f"{level:g}" for level in levels)


def _readable_cuts(x: Array, ranges: int) -> tuple[float, ...]:
    """Return quantiles with few digits; ranges that would be empty are merged."""
    inner = np.quantile(x, np.arange(1, ranges) / ranges)
    low, high = np.quantile(x, [0.05, 0.95])
    spread = (high - low) or np.ptp(x)
    digits = 1 - int(np.floor(np.log10(spread)))
    cuts = sorted({float(round(cut, digits)) for cut in inner})
    return tuple(cut for cut in cuts if x.min() < cut <= x.max()) or (float(np.median(x)),)


def _range_names(cuts: Sequence[float]) -> tuple[str, ...]:
    middle = [f"{low:g} to below {high:g}" for low, high in pairwise(cuts)]
    return (f"below {cuts[0]:g}", *middle, f"{cuts[-1]:g} or more")


class _Fit:
    """The loss of points: total by row, then the two numbers that turn totals into probabilities."""

    def __init__(self, places: Array, positive: Array, weight: Array) -> None:
        self.places, self._which = np.unique(places, axis=0, return_inverse=True)
        which = self._which.ravel()
        self.yes = np.bincount(which, weight * positive)
        self.no = np.bincount(which, weight * (1.0 - positive))

    def loss(self, points: Sequence[Array]) -> tuple[float, float, float]:
        """Return mean log-loss, intercept and slope at the best two numbers (Newton, halved steps)."""
        t = np.zeros(len(self.places))
        for own, place in zip(points, self.places.T, strict=True):
            t += own[place]
        totals, which = np.unique(t, return_inverse=True)
        yes, no = np.bincount(which, self.yes), np.bincount(which, self.no)
        middle, spread = totals.mean(), totals.std() or 1.0
        Z = np.column_stack([np.ones(len(totals)), (totals - middle) / spread])
        ridge = 1e-9 * (yes.sum() + no.sum())  # separable totals have no best slope
        theta = np.zeros(2)

        def value(theta: Array) -> float:
            eta = Z @ theta
            return float(yes @ np.logaddexp(0.0, -eta) + no @ np.logaddexp(0.0, eta) + 0.5 * ridge * theta @ theta)

        now = value(theta)
        for _ in range(50):
            p = special.expit(Z @ theta)
            gradient = Z.T @ (no * p - yes * (1.0 - p)) + ridge * theta
            H = (Z.T * ((yes + no) * p * (1.0 - p))) @ Z + ridge * np.eye(2)
            step = np.linalg.solve(H, gradient)
            while (then := value(theta - step)) > now and np.abs(step).max() > 1e-12:
                step *= 0.5
            theta, before, now = theta - step, now, min(now, then)
            if before - now <= 1e-12 * before:
                break
        b = theta[1] / spread
        plain = now - 0.5 * ridge * float(theta @ theta)
        return plain / float(yes.sum() + no.sum()), float(theta[0] - b * middle), float(b)


def _search(fit: _Fit, values: list[Array], largest: int) -> tuple[float, list[Array]]:
    """Return the loss of the best plain rounding, and the points of the best scale after all flips that help."""
    values = [value - value.min() for value in values]
    span = max(float(value.max()) for value in values) or 1.0
    tried = [
        _descend(fit, [value * top / span for value in values]) for top in np.arange(1, _SCALES + 1) * largest / _SCALES
    ]
    _, best = min(((loss, i) for i, (_, loss, _) in enumerate(tried)))
    return min(rounded for rounded, _, _ in tried), tried[best][2]


def _descend(fit: _Fit, exact: list[Array]) -> tuple[float, float, list[Array]]:
    """Return the loss of plain rounding, and loss and points after the flips, of one entry or two, that lower it."""
    points = [np.round(own).astype(int) for own in exact]
    rounded = now = fit.loss(points)[0]
    entries = [(j, v) for j, own in enumerate(exact) for v in range(len(own)) if own[v] % 1.0]
    singles = [(entry,) for entry in entries]
    pairs = list(combinations(entries, 2))
    while True:
        for flips in (singles, pairs if len(pairs) <= _MOST_PAIRS else []):
            loss, flipped = _best_flip(fit, points, exact, flips)
            if loss < now - 1e-12:
                now, points = loss, flipped
                break
        else:
            return rounded, now, points


def _best_flip(
    fit: _Fit, points: list[Array], exact: list[Array], flips: Sequence[Sequence[tuple[int, int]]]
) -> tuple[float, list[Array]]:
    """Return loss and points of the best of some flips; infinite where none can be made."""
    candidates = [made for flip in flips if (made := _flipped(points, exact, flip)) is not None]
    tried = [(fit.loss(made)[0], i) for i, made in enumerate(candidates)]
    loss, i = min(tried, default=(np.inf, 0))
    return loss, candidates[i] if candidates else points


def _flipped(points: list[Array], exact: list[Array], flips: Sequence[tuple[int, int]]) -> list[Array] | None:
    """Return points with some entries rounded the other way; None where the order of a feature's ranges would turn."""
    made = list(points)
    for j, v in flips:
        made[j] = made[j].copy()
        made[j][v] = 2 * np.floor(exact[j][v]) + 1 - made[j][v]
    for j, _ in flips:
        order = np.argsort(exact[j], kind="stable")
        if (np.diff(made[j][order]) < 0).any():
            return None
    return made


def _percent(p: float) -> str:
    return "below 1%" if p < 0.01 else "above 99%" if p > 0.99 else f"{p:.0%}"
