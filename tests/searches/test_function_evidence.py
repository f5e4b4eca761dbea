"""Evidence of kernel logistic regression against the n x n formula and an independent Laplace code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.factors import pivoted_cholesky
from smaller.kernels import RBF
from smaller.likelihoods import Multinomial
from smaller.searches.function_evidence import climb, log_evidence
from smaller.searches.marginal import Classes
from smaller.searches.submodel import Submodel

Array = Any


def model(classes: int, alpha: float, fit_intercept: bool, weight: Array | None = None) -> tuple[Submodel, Array]:
    rng = np.random.default_rng(classes)
    X, codes = rng.normal(size=(25, 2)), np.arange(25) % classes
    K = RBF(0.7)(X, X)
    order, L = pivoted_cholesky(K)
    phi = np.empty_like(L)
    phi[order] = L
    likelihood = Multinomial(classes)
    fitted = Submodel(likelihood, likelihood.encode(codes), weight, alpha, fit_intercept=fit_intercept, phi=phi)
    fitted.refit(1e-25, 100, renewing=True)
    return fitted, K


@pytest.mark.parametrize("alpha", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("weight", [None, np.arange(25) % 3 + 0.5])
def test_two_classes_by_the_covariance_of_the_function(alpha: float, weight: Any) -> None:
    """log Z = -F - 1/2 log|I + W^1/2 K W^1/2 / a| - 1/2 log 1'(K/a + W^-1)^-1 1 + 1/2 log 2 pi."""
    fitted, K = model(2, alpha, True, weight)
    p = 1 / (1 + np.exp(-fitted.eta[:, 0]))
    W = p * (1 - p) * (1.0 if weight is None else weight)
    root = np.sqrt(W)
    whole = np.linalg.slogdet(np.eye(25) + root[:, None] * K * root / alpha)[1]
    level = np.linalg.inv(K / alpha + np.diag(1 / W)).sum()
    expected = -fitted.objective - 0.5 * whole - 0.5 * np.log(level) + 0.5 * np.log(2 * np.pi)
    assert log_evidence(fitted) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_several_classes_by_laplace_over_all_pairs(classes: int, fit_intercept: bool) -> None:
    fitted, _ = model(classes, 0.5, fit_intercept)
    other = Classes(fitted.phi, fitted.likelihood, fitted.y, None, fit_intercept=fit_intercept)
    pairs = np.arange(fitted.phi.shape[1] * fitted.q)
    expected = other.refit(pairs, np.full(len(pairs), 0.5), None).log_evidence
    assert log_evidence(fitted) == pytest.approx(expected, abs=1e-7)


@given(top=st.tuples(st.integers(-3, 3), st.integers(-3, 3)), tilt=st.floats(-0.9, 0.9))
def test_climb_ends_where_no_neighbour_is_higher(top: tuple[int, int], tilt: float) -> None:
    calls = []

    def value(place: tuple[int, int]) -> float:
        calls.append(place)
        a, b = place[0] - top[0], place[1] - top[1]
        return -(a * a + b * b + tilt * a * b)

    moves = ((-1, 0), (1, 0), (0, 1), (0, -1))
    seen = climb(value, starts=((0, 0), (2, -2)), moves=moves, most=200)
    best = max(seen, key=lambda place: seen[place])
    assert len(calls) == len(set(calls)) == len(seen)
    for move in moves:
        assert seen[(best[0] + move[0], best[1] + move[1])] <= seen[best]
    assert len(climb(value, starts=((9, 9),), moves=moves, most=4)) == 4
