"""The algorithms as published are reached by name, and with their options by objects, from every estimator."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from smaller import RMLR, SBMLR, SMLR, SMLRCV, load, save, smlr_path
from smaller.papers import Block, Componentwise
from smaller.problem import Status

OBJECTS = [
    Block(over_relaxation=False),
    Componentwise(bound="printed", random_state=0),
    Componentwise(visitation="adaptive", decay=0.5, random_state=0),
]
every_object = pytest.mark.parametrize("solver", OBJECTS, ids=repr)


@pytest.fixture(scope="module")
def iris() -> tuple[Any, Any]:
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@every_object
@pytest.mark.parametrize("cls", [SMLR, RMLR])
def test_estimators_take_solver_objects(cls: Any, solver: Any, iris: tuple[Any, Any]) -> None:
    best = cls(alpha=5.0).fit(*iris).solution_
    found = cls(alpha=5.0, solver=solver, tol=1e-5).fit(*iris).solution_
    assert found.converged
    assert found.solver == solver().name
    assert found.objective == pytest.approx(best.objective, rel=1e-4)


def test_paths_and_cross_validation_take_solver_objects(iris: tuple[Any, Any]) -> None:
    solver = Componentwise(bound="printed", random_state=0)
    path = smlr_path(*iris, alphas=[20.0, 10.0], solver=solver, tol=1e-4)
    assert all(gap <= 1e-4 * 150 * np.log(3) for gap in path.gaps)
    assert SMLRCV(alphas=[10.0], cv=2, solver=solver, tol=1e-3).fit(*iris).solution_.solver == "componentwise"


@every_object
def test_a_solver_object_is_a_plain_value(solver: Any, iris: tuple[Any, Any], tmp_path: Path) -> None:
    """Fits leave it alone; it can be cloned, pickled, printed, and stored with the model."""
    model = SMLR(alpha=20.0, solver=solver, tol=1e-4).fit(*iris)
    assert model.solver is solver
    assert clone(model).solver == solver
    assert pickle.loads(pickle.dumps(model)).solver == solver
    assert repr(solver) in " ".join(repr(model).split())
    save(model, tmp_path / "model.smaller")
    assert load(tmp_path / "model.smaller").solver == solver


def test_the_class_in_place_of_an_object_is_refused_with_advice(iris: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match=r"write solver=Block\(\)"):
        SMLR(solver=Block).fit(*iris)


def test_the_two_bounds_are_one_for_two_classes(iris: tuple[Any, Any]) -> None:
    X, y = iris[0][50:], iris[1][50:]
    fits = [SMLR(alpha=2.0, solver=Componentwise(bound=b, random_state=0)).fit(X, y) for b in ("single", "printed")]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].n_iter_ == fits[1].n_iter_


def test_the_papers_way_of_counting_is_an_argument() -> None:
    """Four classes: at a fixed point the strength is W / E_W of the weights as found; at a kink W is in doubt."""
    fixed_points = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 6)), np.repeat(np.arange(4), 30)
        X[:, :2] += 1.5 * np.column_stack([y % 2, y // 2])
        found = SBMLR(count="as_found").fit(X, y)
        assert found.n_active_ == np.count_nonzero(found.coef_)
        if found.solution_.status is Status.CONVERGED:
            fixed_points += 1
            assert found.alpha_ == pytest.approx(found.n_active_ / np.abs(found.coef_).sum(), rel=0.01)
        else:
            assert found.solution_.status is Status.KINK
    assert fixed_points
    with pytest.raises(ValueError, match="count must be"):
        SBMLR(count="all").fit(X, y)
