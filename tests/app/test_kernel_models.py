"""Kernel models of a study choose width and strengths by themselves, and keep together what belongs together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smaller.app.report import render
from smaller.app.study import Procedure, Question, available_models, prepare, run_study
from smaller.app.study.models import fit_model
from smaller.app.tables import Table
from smaller.datasets import make_rings


def rings(n: int = 60) -> tuple[Any, Any]:
    return make_rings(n, n_features=2, random_state=0)


@pytest.mark.parametrize("name", ["ivm", "rvm", "sbmlr-rbf"])
def test_the_width_is_one_of_those_tried(name: str) -> None:
    X, y = rings()
    model = fit_model(X, y, Procedure(model=name))[0][-1]
    assert model.gamma_ in model.gammas_
    assert len(model.gammas_) >= 7
    assert model.score(X / X.std(axis=0), y) > 0.8


def test_jcfo_chooses_both_strengths_and_keeps_groups_together() -> None:
    X, y = rings()
    model = fit_model(X, y, Procedure(model="jcfo", rule="min"))[0][-1]
    assert model.scores_.shape == (3, 2, 3)
    assert model.alpha_ in model.alphas
    assert model.alpha_scales_ in model.alphas_scales
    units = np.arange(len(y)) // 2
    grouped = fit_model(X, y, Procedure(model="jcfo"), units)[0][-1]
    seen = [np.isin(units[test], units[train]).any() for train, test in grouped.cv.split(X, y, units)]
    assert seen == [False] * 3


def test_a_relevance_machine_has_a_report() -> None:
    assert {"rvm", "sbmlr-rbf"} <= set(available_models())
    X, y = rings()
    data = prepare(
        Table({"a": X[:, 0], "b": X[:, 1], "ring": np.array(["in", "out"], dtype=object)[y]}), Question("ring")
    )
    study = run_study(data, Procedure(model="rvm", repeats=1, shuffle=False))
    assert "relevance vector machine" in study.facts["summary"]
    assert study.facts["import_path"] is None
    assert "relevance vector machine" in render(study.facts)
