"""The answer to a study: the fitted model, and everything the report says about it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import sparse

from smaller.app.columns import TableEncoder
from smaller.app.labels import RareClasses
from smaller.app.study import facts as say
from smaller.app.study.certainty import ranges_of_probabilities
from smaller.app.study.costs import Costs
from smaller.app.study.dependence import partial_dependence
from smaller.app.study.honest import HeldOut
from smaller.app.study.judged import judge, scored
from smaller.app.study.models import MODELS, Procedure
from smaller.app.study.observed import ADVICE, Observed, observe
from smaller.app.study.question import Data
from smaller.app.study.relaxing import relaxing
from smaller.app.study.schema import SCHEMA, Facts
from smaller.app.study.verdict import cost_of_sparsity, verdict
from smaller.app.tables import Table
from smaller.arrays import Array

__all__ = ["Study", "TableModel", "facts_of", "run_study"]


@dataclass(frozen=True)
class TableModel:
    """A model that predicts rows of a table: what `smaller fit` writes and `smaller predict` reads.

    Parameters
    ----------
    encoder : TableEncoder
        From columns to features.
    pipeline : Pipeline
        From features to probabilities.
    train_priors : ndarray of shape (n_classes,)
        Class shares in training.
    settings : dict
        How it was made.
    """

    encoder: TableEncoder
    pipeline: Any
    train_priors: Array
    settings: dict[str, Any]

    @property
    def classes(self) -> Array:
        """Labels, in the order of the probabilities."""
        return np.asarray(self.pipeline.classes_)

    @property
    def costs(self) -> Costs | None:
        """What its decisions are judged by; None: all mistakes are the same."""
        given = self.settings.get("costs")
        return Procedure(costs=given, class_weight=self.settings.get("class_weight")).costs_at(self.train_priors)

    @property
    def rare(self) -> RareClasses:
        """The classes of the training table that were left out or made one."""
        return RareClasses.remembered(self.settings.get("rare"))

    @property
    def unused(self) -> set[str]:
        """The columns that a linear model has no weight for: a table to predict may lack them."""
        if not hasattr(self.pipeline[-1], "coef_") or self.encoder.block_names:
            return set()
        used = iter(np.any(self.pipeline[-1].coef_, axis=0).tolist())
        return {column.name for column in self.encoder.columns if not sum(next(used) for _ in column.features)}

    def features(self, table: Table) -> Any:
        """Return the features (n, d) of the rows, as the pipeline takes them."""
        X = self.encoder.transform(table, optional=self.unused)
        if "fill" not in self.pipeline.named_steps and not sparse.issparse(X) and np.isnan(X.sum()):
            X = np.where(np.isnan(X), self.pipeline.named_steps["scale"].mean_, X)  # training had no gaps: the mean
        return X

    def predict_proba(self, table: Table) -> Array:
        """Return class probabilities (n, n_classes)."""
        return np.asarray(self.pipeline.predict_proba(self.features(table)))

    def probability_interval(self, table: Table, level: float = 0.9) -> tuple[Array, Array]:
        """Return a range (low, high) for every class probability, both (n, n_classes), where the model keeps them."""
        ends: tuple[Array, Array] = self.pipeline[-1].probability_interval(
            self.pipeline[:-1].transform(self.features(table)), level
        )
        return ends


@dataclass(frozen=True)
class Study:
    """A fitted table model, and the facts about it as plain values (ready for JSON)."""

    model: TableModel
    facts: Facts


def run_study(
    data: Data,
    how: Procedure | None = None,
    *,
    tick: Callable[[str], None] = lambda stage: None,
    announce: Callable[[str], None] = lambda sentence: None,
) -> Study:
    """Fit a model, judge it on rows it has not seen, and say which features are found again on other rows.

    Parameters
    ----------
    data : Data
        A table made ready by `prepare`.
    how : Procedure, optional
        What is done to it.
    tick : callable
        Called with the name of every stage that begins.
    announce : callable
        Called with a sentence about the time that repeats and the run with shuffled labels will take.
    """
    start = time.perf_counter()
    seen = observe(data, how or Procedure(), tick=tick, announce=announce)
    farthest = float(say.farthest(seen.pipeline, data.X[seen.learnt], data.encoder).max())
    settings = _settings(seen.how, data) | {"farthest": farthest}
    model = TableModel(data.encoder, seen.pipeline, seen.counts / seen.counts.sum(), settings)
    facts = facts_of(seen, model)
    return Study(model, facts | {"seconds": round(time.perf_counter() - start, 2)})


def facts_of(seen: Observed, model: TableModel) -> Facts:
    """Return what a study has observed as plain values; ``seconds`` are for the caller to fill in."""
    data, how, held_out, n_features = seen.data, seen.how, seen.held_out, int(seen.data.X.shape[1])
    last, names, groups = seen.pipeline[-1], data.encoder.features, seen.groups_of(held_out)
    costs = how.costs_at(model.train_priors)
    judged = scored(held_out, costs, groups)
    luck = None if seen.shuffled is None else _luck(seen.shuffled, costs, seen.groups_of(seen.shuffled))
    chosen = say.chosen(seen.pipeline, names, seen.stability.frequencies)
    used = None if chosen is None else [row["name"] for row in chosen["features"]]
    size = None if used is None else len(used)
    proof, labels = say.certificate(last), [str(label) for label in seen.classes.tolist()]
    return {
        "schema": SCHEMA,
        "settings": model.settings,
        "summary": MODELS[how.model].summary,
        "citation": MODELS[how.model].citation,
        "rows": int(data.X.shape[0]),
        "features": n_features,
        "columns": len(data.encoder.columns) + len(data.encoder.block_names),
        "classes": labels,
        "graded": how.grades is not None,
        "class_counts": seen.counts.tolist(),
        "plan": seen.plan.sentence,
        "nested": seen.plan.nested,
        "together": data.units.sentence,
        "verdict": verdict(judged, luck, data.likely_group, size, n_features),
        "performance": judged,
        "shuffled": luck,
        "audit": [
            {"kind": finding.kind, "columns": list(finding.columns), "sentence": finding.sentence}
            for finding in data.findings
        ],
        "all_features": cost_of_sparsity(
            held_out.codes, held_out.proba[0], seen.all_features.proba[0], groups, n_features, size, costs
        ),
        "cap": say.cap(seen.search, how.features, how.rule),
        "always": [names[j] for j in how.free],
        **judge(held_out, how, labels, groups, model.train_priors),
        "sizes_per_fold": held_out.sizes,
        "chosen": chosen,
        "stability": seen.stability.facts(names, used or []),
        "path": say.path(seen.search, names),
        "certificate": proof,
        "relaxed": relaxing(held_out),
        "caution": _caution(proof),
        "bound": seen.bound,
        "effects": seen.effects,
        "ranges": ranges_of_probabilities(last),
        "dependence": None
        if chosen is not None
        else partial_dependence(seen.pipeline, data.X, data.y, names, how.seed),
        "reference": say.reference_rows(last, data.y, seen.learnt, data.numbers),
        "points": len(getattr(last, "support_", ())) or None,
        "import_path": say.import_path(last),
        "scales": say.feature_scales(last, names),
        "notes": seen.notes,
        "seconds": 0.0,
        "command": None,
    }


def _luck(shuffled: HeldOut, costs: Costs | None, groups: Array | None) -> dict[str, Any]:
    """Return what the same procedure finds where there is nothing to find."""
    judged = scored(shuffled, costs, groups)
    keys = ("error", "error_interval", "log_loss", "baseline_error", "cost")
    return {key: judged[key] for key in keys} | {"size": shuffled.size}


def _settings(how: Procedure, data: Data) -> dict[str, Any]:
    versions = {name: version(name) for name in ("smaller", "numpy", "scipy", "scikit-learn")}
    versions["python"] = platform.python_version()
    made = {key: _plain(value) for key, value in asdict(how).items() if key != "ranges"}
    return made | {"target": data.encoder.target, "rare": data.rare.facts, "versions": versions}


def _plain(value: Any) -> Any:
    """Return tuples as lists, which is what they come back as from JSON."""
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _caution(proof: dict[str, Any]) -> str | None:
    """Return what a user must know before anything else; None if the final model is what it was meant to be."""
    if proof["converged"]:
        return None
    away = (
        "" if proof["gap"] is None else f" (at most {proof['gap'] / proof['scale']:.2g} of the loss without features)"
    )
    return (
        f"The final model is not certified as the best one{away}. {proof['status']} The error was measured on rows not "
        f"learnt from and holds all the same; small weights may be off. To do better, {ADVICE}"
    )
