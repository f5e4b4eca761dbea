"""A formula as one SQL query: stages from columns to features, scores and probabilities.

Nothing is repeated: a stage is a common table expression that computes each of its values once (MATERIALIZED, else
SQLite would put the expressions of one stage into the next, over and over). Names and texts of the
model are quoted, numbers are written so that every database reads them back to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smaller.export.formula import ExportError, Feature, Formula, log_erfcx_coefficients
from smaller.export.reading import formula_of

__all__ = ["DIALECTS", "as_sql", "to_sql"]

# The largest of several numbers. All three know CASE, COALESCE, NULLIF, exp, ln, abs and power.
DIALECTS = {"duckdb": "greatest", "sqlite": "max", "postgresql": "greatest"}
_MOST_ARGUMENTS = 50  # of one function; SQLite allows 100
_SMALLEST_EXPONENT = -700.0  # PostgreSQL takes exp of less for an error

Stage = list[tuple[str, str]]  # name and expression of every value


def to_sql(model: Any, *, table: str = "data", keep: Sequence[str] = (), dialect: str = "duckdb") -> str:
    """Return a fitted classifier as one SQL query: a column ``p(class)`` for every class.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this package, alone or at the end of a `Pipeline`; see `formula_of`.
    table : str, default="data"
        The table with the columns the model was fitted with. It is quoted as one name.
    keep : sequence of str
        Columns of the table that the result repeats before the probabilities, such as a key.
    dialect : {"duckdb", "sqlite", "postgresql"}
        Tested in DuckDB and SQLite; never run in PostgreSQL.

    Returns
    -------
    str
        The query. A row in which a value is missing that the model does not fill has NULL for probabilities.

    See Also
    --------
    to_json : Numbers that any language can evaluate.
    to_onnx : For runtimes.

    Examples
    --------
    >>> import sqlite3
    >>> from sklearn.datasets import load_iris
    >>> from smaller import SMLR
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = SMLR(alpha=5).fit(X, y)
    >>> base = sqlite3.connect(":memory:")
    >>> _ = X.to_sql("iris", base, index_label="row")
    >>> query = to_sql(model, table="iris", keep=["row"], dialect="sqlite")
    >>> row, *p = base.execute(query + " ORDER BY 1").fetchone()
    >>> row, [round(value, 6) for value in p] == model.predict_proba(X)[0].round(6).tolist()
    (0, True)
    """
    return as_sql(formula_of(model), table=table, keep=keep, dialect=dialect)


def as_sql(formula: Formula, *, table: str = "data", keep: Sequence[str] = (), dialect: str = "duckdb") -> str:
    """Return a formula as one SQL query."""
    if dialect not in DIALECTS:
        raise ExportError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r:.60}.")
    kept: Stage = [(f"c{i}", f"t.{_quoted(name)}") for i, name in enumerate(keep, 1)]
    largest = DIALECTS[dialect]
    stages: list[tuple[str, Stage]] = [("features", _features(formula))]
    stages += _kernel_stages(formula)
    stages.append(("scores", _scores(formula)))
    q = len(formula.intercept)
    if formula.link == "cumulative":
        return _query(stages + _cumulative_stages(q), formula, kept, keep, table)
    if formula.link == "probit":
        stages += _probit_stages(q)
    elif q == 1:
        stages.append(("pair", [("s1", "0.0"), ("s2", "s1")]))
    names = [f"s{k}" for k in range(1, max(q, 2) + 1)]
    stages.append(("shifted", [*_carried(names), ("top", _largest(largest, names))]))
    stages.append(("powers", [(f"e{k}", _exp(f"s{k} - top")) for k in range(1, len(names) + 1)]))
    powers = [f"e{k}" for k in range(1, len(names) + 1)]
    stages.append(("shares", [*_carried(powers), ("total", _sum(powers))]))
    return _query(stages, formula, kept, keep, table)


def _query(stages: list[tuple[str, Stage]], formula: Formula, kept: Stage, keep: Sequence[str], table: str) -> str:
    prefix = "smaller_"
    while table.lower().startswith(prefix):
        prefix = f"{prefix}_"
    source, carried, parts = f"{_quoted(table)} AS t", kept, []
    for name, values in stages:
        listed = ",\n".join(f"    {expression} AS {value}" for value, expression in carried + values) or "    1 AS one"
        parts.append(f"{prefix}{name} AS MATERIALIZED (\n  SELECT\n{listed}\n  FROM {source}\n)")
        source, carried = f"{prefix}{name}", _carried([value for value, _ in kept])
    out = [f"  c{i} AS {_quoted(name)}" for i, name in enumerate(keep, 1)]
    out += [f"  e{k} / total AS {_quoted(f'p({label})')}" for k, label in enumerate(formula.classes, 1)]
    return "WITH " + ",\n".join(parts) + "\nSELECT\n" + ",\n".join(out) + f"\nFROM {source}"


# ---- stages ---------------------------------------------------------------------------------------------------------


def _features(formula: Formula) -> Stage:
    text = formula.text_columns
    return [(f"f{j}", _feature(feature, feature.column in text)) for j, feature in enumerate(formula.features, 1)]


def _feature(feature: Feature, is_text: bool) -> str:
    value = f"t.{_quoted(feature.column)}"
    value = f"CAST({value} AS TEXT)" if is_text else f"NULLIF(CAST({value} AS DOUBLE PRECISION), 'NaN')"
    for verb, argument in feature.steps:
        value = _STEPS[verb](value, argument)
    return value


def _one_of(value: str, levels: list[Any]) -> str:
    known = ", ".join(_literal(level) for level in levels if level is not None)
    tests = [f"{value} IN ({known})"] * bool(known) + [f"{value} IS NULL"] * (None in levels)
    return f"CASE WHEN {' OR '.join(tests)} THEN 1.0 ELSE 0.0 END"


def _code(value: str, argument: list[Any]) -> str:
    pairs, other = argument
    cases = " ".join(
        f"WHEN {value} {'IS NULL' if level is None else f'= {_literal(level)}'} THEN {_literal(number)}"
        for level, number in pairs
    )
    return f"CASE {cases} ELSE {_literal(other)} END"


def _clip(value: str, limits: list[float]) -> str:
    low, high = map(_literal, limits)
    return f"CASE WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} ELSE {value} END"


_STEPS: dict[str, Callable[[str, Any], str]] = {
    "fill": lambda value, a: f"COALESCE({value}, {_literal(a)})",
    "subtract": lambda value, a: f"({value} - {_literal(a)})",
    "divide": lambda value, a: f"({value} / {_literal(a)})",
    "multiply": lambda value, a: f"({value} * {_literal(a)})",
    "add": lambda value, a: f"({value} + {_literal(a)})",
    "clip": _clip,
    "one_of": _one_of,
    "code": _code,
}


def _kernel_stages(formula: Formula) -> list[tuple[str, Stage]]:
    kernel = formula.kernel
    if kernel is None:
        return []
    inner: Stage = []
    for i, center in enumerate(kernel.centers, 1):
        terms = []
        for j, (scale, at) in enumerate(zip(kernel.scales, center, strict=True), 1):
            apart = f"(f{j} - {_literal(at)})"
            terms.append(
                f"{_literal(scale)} * {apart} * {apart}" if kernel.kind == "rbf" else f"{_literal(scale * at)} * f{j}"
            )
        inner.append((f"d{i}", _sum(terms)))
    if kernel.kind == "rbf":
        values = [(f"h{i}", _exp(f"0.0 - {name}")) for i, (name, _) in enumerate(inner, 1)]
    else:
        values = [
            (f"h{i}", f"power({_literal(kernel.coef0)} + {name}, {kernel.degree})")
            for i, (name, _) in enumerate(inner, 1)
        ]
    return [("inner", inner), ("kernels", values)]


def _scores(formula: Formula) -> Stage:
    name = "f" if formula.kernel is None else "h"
    stage: Stage = []
    for k, (intercept, weights) in enumerate(zip(formula.intercept, formula.weights.T, strict=True), 1):
        terms = [f"{_literal(weight)} * {name}{j}" for j, weight in enumerate(weights, 1) if weight]
        stage.append((f"s{k}", _sum([_literal(intercept), *terms])))
    return stage


def _cumulative_stages(q: int) -> list[tuple[str, Stage]]:
    """Return the probability of reaching every grade but the first, and the differences of neighbours."""
    names = range(1, q + 1)
    tails: Stage = [(f"l{k}", _exp(f"-abs(s{k})")) for k in names]
    reached: Stage = [(f"r{k}", f"CASE WHEN s{k} < 0.0 THEN l{k} ELSE 1.0 END / (1.0 + l{k})") for k in names]
    edges = ["1.0", *(f"r{k}" for k in names), "0.0"]
    shares: Stage = [(f"e{k}", f"{edges[k - 1]} - {edges[k]}") for k in range(1, q + 2)]
    tails = _carried([f"s{k}" for k in names]) + tails
    return [("tails", tails), ("reached", reached), ("shares", [*shares, ("total", "1.0")])]


def _probit_stages(q: int) -> list[tuple[str, Stage]]:
    """Log of the normal distribution function of every score (of -s and s if there is one), by exp and ln alone."""
    scores = [f"s{k}" for k in range(1, q + 1)]
    t: Stage = [(f"t{k}", f"1.0 / (1.0 + abs(s{k}) / {_literal(np.sqrt(8.0))})") for k in range(1, q + 1)]
    tails: Stage = []
    for k in range(1, q + 1):
        polynomial = "0.0"
        for c in reversed(log_erfcx_coefficients()):
            polynomial = f"({_literal(c)} + t{k} * {polynomial})"
        tails.append((f"l{k}", f"ln(0.5 * t{k}) - 0.5 * s{k} * s{k} + {polynomial}"))
    rest: Stage = [(f"r{k}", f"ln(1.0 - {_exp(f'l{k}')})") for k in range(1, q + 1)]

    def log_phi(k: int, sign: str) -> str:
        return f"CASE WHEN s{k} {sign} 0.0 THEN l{k} ELSE r{k} END"

    logs: Stage = [(f"s{k}", log_phi(k, "<")) for k in range(1, q + 1)]
    if q == 1:
        logs = [("s1", log_phi(1, ">")), ("s2", log_phi(1, "<"))]
    names = [*scores, *(name for name, _ in tails)]
    return [("ratios", _carried(scores) + t), ("tails", _carried(scores) + tails), ("rests", _carried(names) + rest),
            ("logs", logs)]  # fmt: skip


# ---- words of the language ------------------------------------------------------------------------------------------


def _carried(names: Sequence[str]) -> Stage:
    return [(name, name) for name in names]


def _exp(expression: str) -> str:
    return f"CASE WHEN {expression} < {_literal(_SMALLEST_EXPONENT)} THEN 0.0 ELSE exp({expression}) END"


def _sum(terms: Sequence[str]) -> str:
    """Return a sum in balanced parentheses: databases limit the depth of expressions."""
    if len(terms) <= 8:
        return "(" + " + ".join(terms or ["0.0"]) + ")"
    middle = len(terms) // 2
    return f"({_sum(terms[:middle])} + {_sum(terms[middle:])})"


def _largest(function: str, names: Sequence[str]) -> str:
    if len(names) <= _MOST_ARGUMENTS:
        return f"{function}({', '.join(names)})"
    parts = [names[i : i + _MOST_ARGUMENTS] for i in range(0, len(names), _MOST_ARGUMENTS)]
    return f"{function}({', '.join(_largest(function, part) if len(part) > 1 else part[0] for part in parts)})"


def _literal(value: Any) -> str:
    """Return text in quotes, or a number with an exponent, which no database reads as a decimal of few digits."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + _printable(value).replace("'", "''") + "'"
    number = float(value)
    text = np.format_float_scientific(number, trim="0")
    return f"({text})" if number < 0 or text.startswith("-") else text


def _quoted(name: str) -> str:
    """Return an identifier in quotes, whatever it holds."""
    return '"' + _printable(name).replace('"', '""') + '"'


def _printable(text: str) -> str:
    if "\0" in text:
        raise ExportError(f"{text!r:.60} holds a NUL character, which SQL cannot hold: rename it.")
    return text
