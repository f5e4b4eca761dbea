"""An estimator written from the recipe of CONTRIBUTING.md passes every general test; none is missing from them."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator

import general
import smaller
from registry import ALL_ESTIMATORS, WRAPPERS
from smaller.bases import Basis
from smaller.estimators.assembly import Assembly
from smaller.estimators.base import Fitted, KernelOrLinearClassifier
from smaller.estimators.fields import checked, number, with_fields
from smaller.estimators.smlr import assemble
from smaller.solvers import solve


@with_fields
class HalfAndHalf(KernelOrLinearClassifier):
    """Multinomial logistic regression with half a Laplace and half a Normal prior::

    sum_i c_i log-loss(y_i, X_i w + b) + alpha/2 * (|w|_1 + |w|_2^2 / 2)
    """

    alpha: float = number(1.0, least=0.0)
    tol: float = number(1e-10, least=0.0, open_left=True)

    def _search(self, data: Any, basis: Basis, centers: Any, progress: Any) -> Fitted:
        assembly: Assembly = assemble(
            data,
            basis,
            alpha=checked(self, "alpha"),
            l1_ratio=0.5,
            coding="symmetric",
            fit_intercept=True,
            penalize_intercept=False,
            factors=None,
        )
        solution = solve(assembly.problem, "auto", tol=checked(self, "tol"), progress=progress)
        w, b = assembly.to_user(solution.w, solution.b)
        return Fitted(basis, centers, w, b, assembly.problem.likelihood, solution)


@pytest.mark.filterwarnings("ignore")
def test_an_estimator_from_the_recipe_passes_the_checks_of_scikit_learn() -> None:
    for estimator, check in estimator_checks_generator(HalfAndHalf()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(estimator)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_estimator_from_the_recipe_passes_our_general_tests() -> None:
    for model in (HalfAndHalf(), HalfAndHalf(kernel="rbf")):
        general.pickles_and_clones(model)
        general.survives_skops(model)


def public_estimators() -> set[str]:
    classes = {name for name in smaller.__all__ if inspect.isclass(getattr(smaller, name))}
    return {name for name in classes if issubclass(getattr(smaller, name), BaseEstimator)}


def test_every_public_estimator_takes_part_in_the_general_tests() -> None:
    # TableFeatures takes tables, and has scikit-learn's checks in tests/app.
    assert public_estimators() - {"TableFeatures"} <= {type(model).__name__ for model in [*ALL_ESTIMATORS, *WRAPPERS]}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("model", [*ALL_ESTIMATORS, *WRAPPERS], ids=repr)
def test_every_estimator_is_the_same_after_a_model_file(model: Any) -> None:
    general.survives_model_file(model)
