"""A study from Python: one call from a table to the answer that `smaller fit` gives, by the same engine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from smaller.app.frames import from_frame
from smaller.app.report import render
from smaller.app.study import Facts, Procedure, Question, Study, TableModel, prepare, run_study
from smaller.app.study.costs import checked_costs, cost_matrix
from smaller.app.study.demands import graded
from smaller.app.tables import Table, read_table
from smaller.arrays import Array

__all__ = ["Answer", "study"]


class Answer:
    """What a study found: facts, a page about them, and a model that predicts rows of tables.

    Parameters
    ----------
    made : Study
        From `smaller.study`.
    """

    def __init__(self, made: Study) -> None:
        self._made = made

    @property
    def model(self) -> TableModel:
        """The model; `smaller.save` writes it to a file that `smaller predict` reads."""
        return self._made.model

    def to_dict(self) -> Facts:
        """Return all facts as plain values, as in report.json."""
        return copy.deepcopy(self._made.facts)

    def report(self, path: str | Path) -> Path:
        """Write the report as one HTML page, and return its path."""
        path = Path(path)
        path.write_text(render(self._made.facts), encoding="utf-8")
        return path

    def predict_proba(self, data: Any) -> Array:
        """Return class probabilities (n_rows, n_classes) of the rows of a table."""
        return self.model.predict_proba(_table(data))

    def predict(self, data: Any) -> Array:
        """Return the class decided for in every row: the cheapest one where mistakes have costs."""
        proba, costs = self.predict_proba(data), self.model.costs
        return np.asarray(self.model.classes[proba.argmax(axis=1) if costs is None else costs.decide(proba)])

    def __repr__(self) -> str:
        judged = self._made.facts["performance"]
        low, high = judged["error_interval"]
        return (
            f"{self._made.facts['verdict']['sentence']} Error {judged['error']:.1%} on {judged['rows']:,} rows not "
            f"learnt from, {low:.1%} to {high:.1%}."
        )

    def _repr_html_(self) -> str:
        """Show the report in a frame of its own, so that neither its style nor its script reaches the notebook."""
        page = escape(render(self._made.facts), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:42rem;border:0" title="report"></iframe>'


def study(
    data: Any,
    target: str,
    *,
    groups: str | None = None,
    ids: Sequence[str] = (),
    order: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    always: Sequence[str] = (),
    drop_rare: int | None = None,
    merge_rare: int | None = None,
    missing: str = "fill",
    model: str = "smlr",
    ordinal: Sequence[Any] | None = None,
    rule: str = "1se",
    alphas: int = 50,
    eps: float | None = None,
    features: int | None = None,
    relax: bool = True,
    class_weight: str | None = None,
    costs: Any = None,
    positive: Any = None,
    specificity: float = 0.9,
    repeats: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> Answer:
    """Fit a model to a table, judge it on rows it has not seen, and say what the evidence allows.

    The engine is that of ``smaller fit``; its page on the command line says how gaps, texts and groups are treated.

    Parameters
    ----------
    data : data frame, dict of columns, Table, or path of a file
        pandas, polars, Arrow, DuckDB, ...; one row a case.
    target : str
        Column to predict.
    groups : str, optional
        Column whose rows belong together; "none": rows stand alone, copies too.
    ids : sequence of str
        Columns that name rows: no features.
    order : str, optional
        Column of times: the future is predicted from the past.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns to use although they look like identifiers.
    always : sequence of str
        Columns that are in the model in any case, without a penalty.
    drop_rare : int, optional
        Classes with fewer rows than this are left out.
    merge_rare : int, optional
        Classes with fewer rows than this become one class "other".
    missing : {"fill", "refuse"}, default="fill"
        What to do with gaps.
    model : str, default="smlr"
        "smlr", "sbmlr" or "sparse-probit"; kernels: "ivm", "jcfo", "rvm" or "sbmlr-rbf"; or "auto".
    ordinal : sequence, optional
        The classes from lowest to highest, where they are grades; the model is then `smaller.OrdinalSMLR`.
    rule, alphas, eps, relax
        How "smlr" chooses its strength, and whether the shrinkage is taken out of its probabilities, as in
        `smaller.SMLRCV`.
    features : int, optional
        The most features that "smlr" may use.
    class_weight : {"balanced"}, optional
        Let every class count the same, however rare: in the fit, in decisions and in the verdict.
    costs : dict of dicts, matrix or path, optional
        What mistakes cost: ``costs[true][decided]``, or a matrix in the order of the sorted classes, or a table.
    positive : optional
        Of two classes the one looked for; its sensitivity is told.
    specificity : float, default=0.9
        The share of the other class that must not be taken for it.
    repeats : int, optional
        Times cross-validation is done; by the size of the table if left out.
    shuffle : bool, default=True
        Do the whole procedure once more with shuffled labels.
    seed : int, default=0
        Of every random choice.

    Returns
    -------
    Answer
        With `report`, `to_dict`, `model`, `predict` and `predict_proba`; in a notebook it shows the report.

    See Also
    --------
    SMLRCV : The model alone.
    load : Reads a model file that ``smaller fit`` wrote.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from smaller import study
    >>> table = load_wine(as_frame=True).frame
    >>> answer = study(table, target="target", repeats=1, shuffle=False)
    >>> answer.to_dict()["verdict"]["state"]
    'better'
    >>> answer.predict(table)[:3].tolist()
    [0, 0, 0]
    """
    question = Question(
        target, tuple(drop), missing, groups, tuple(ids), order, tuple(keep), tuple(always), drop_rare, merge_rare
    )
    ready = prepare(_table(data), question)
    grades = None if ordinal is None else graded(ordinal, ready.y, model)
    how = Procedure(
        "ordinal" if grades is not None else model, rule, seed, repeats, shuffle, relax, alphas, eps, features,
        class_weight, _costs(costs, np.unique(ready.y) if grades is None else grades),
        None if positive is None else str(positive), specificity, grades=grades,
    )  # fmt: skip
    return Answer(run_study(ready, how))


def _table(data: Any) -> Table:
    return read_table(data) if isinstance(data, str | Path) else from_frame(data)


def _costs(given: Any, classes: Any) -> tuple[tuple[float, ...], ...] | None:
    """Return costs as a matrix in the order of the classes."""
    if given is None:
        return None
    if isinstance(given, str | Path):
        return cost_matrix(read_table(given), classes)
    if isinstance(given, dict):
        labels = [str(label) for label in np.asarray(classes).tolist()]
        named = {str(true): {str(decided): cost for decided, cost in row.items()} for true, row in given.items()}
        columns = {label: np.array([row.get(label, np.nan) for row in named.values()], dtype=float) for label in labels}
        extra = {label: np.zeros(len(named)) for row in named.values() for label in row if label not in labels}
        return cost_matrix(Table({"true": np.array(list(named), dtype=object)} | columns | extra), classes)
    return checked_costs(given, len(classes))
