"""The path of small problems in the core: same answers and same certificates as the general way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from smaller import _core
from smaller.designs import as_design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet
from smaller.problem import Certificate, Problem, Status
from smaller.searches import path as path_module
from smaller.searches.path import alpha_grid, trace_path
from smaller.solvers.small import Small


def make(
    storage: str = "f8",
    K: int = 3,
    coding: str = "symmetric",
    ridge: float = 0.0,
    factors: bool = False,
    weighted: bool = False,
    fit_intercept: bool = True,
) -> Problem:
    rng = np.random.default_rng(0)
    n, d = 60, 40
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) + 0.3
    codes = rng.permutation(np.arange(n) % K)
    X[np.arange(n), codes] += 1.0
    if storage == "f4":
        X = X.astype(np.float32)
    elif storage in ("i4", "i8"):
        X = sparse.csc_array(X)
        X.indices, X.indptr = X.indices.astype(storage), X.indptr.astype(storage)
    likelihood = Multinomial(K, coding)
    weight = np.where(rng.random(n) < 0.2, 0.0, rng.random(n)) if weighted else None
    slope = rng.random((d, 1)) + 0.5 if factors else 1.0
    return Problem(as_design(X), likelihood.encode(codes), weight, likelihood, ElasticNet(slope, ridge), fit_intercept)


CASES = [
    {},
    {"storage": "f4"},
    {"storage": "i4"},
    {"storage": "i8", "K": 2},
    {"K": 2},
    {"coding": "reference"},
    {"ridge": 0.3},
    {"factors": True},
    {"weighted": True},
    {"fit_intercept": False},
    {"K": 4, "ridge": 0.1, "factors": True, "weighted": True, "coding": "reference", "storage": "i4"},
]


def general(problem: Problem, alphas: np.ndarray, monkeypatch: pytest.MonkeyPatch, **options: float) -> list:
    with monkeypatch.context() as patch:
        patch.setattr(path_module.Small, "suits", staticmethod(lambda problem: False))
        return trace_path(problem, alphas, **options)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_agrees_with_the_general_way_and_its_certificate(settings: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make(**settings)
    assert Small.suits(problem)
    alphas = alpha_grid(problem.alpha_max(), 25, 0.02)
    found = trace_path(problem, alphas, tol=1e-9)
    expected = general(problem, alphas, monkeypatch, tol=1e-9)
    scale = problem.null().loss
    for one, other in zip(found, expected, strict=True):
        assert one.status is Status.CONVERGED
        assert_allclose(one.objective, other.objective, rtol=1e-8)
        scaled = problem.with_prior(problem.prior.times(one.alpha))
        point = scaled.at(one.w, one.b)
        judged = scaled.certify(point, scaled.gradient(point))
        assert_allclose(one.objective, judged.objective, rtol=1e-12)
        assert_allclose(one.loss, point.loss, rtol=1e-12)
        assert judged.gap <= 1e-9 * scale + 1e-12
        assert_allclose(one.violation, judged.violation, atol=1e-10 * scale)
        assert judged.gap <= one.gap + 1e-12 * scale  # less where the canonical intercepts are smaller
    assert found[0].n_active == 0
    assert found[-1].n_active > 5


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_the_certificate_far_from_the_optimum(settings: dict) -> None:
    """After one rough round the gap is large, and still the same as in Python."""
    problem = make(**settings)
    alpha = 0.1 * problem.alpha_max()
    small = Small(problem)
    seen: list[Certificate] = []
    small.solve(alpha, 0.0, 0.0, aim=-1.0, max_iter=1, progress=lambda i, certificate: seen.append(certificate))
    scaled = problem.with_prior(problem.prior.times(alpha))
    point = scaled.at(small.w, small.b)
    judged = scaled.certify(point, scaled.gradient(point))
    assert_allclose(seen[0].gap, judged.gap, rtol=1e-9, atol=1e-10)
    assert_allclose(seen[0].violation, judged.violation, rtol=1e-9, atol=1e-10)


def test_not_everything_is_small() -> None:
    problem = make()
    free = np.ones((problem.n_columns, 1))
    free[3] = 0.0
    assert not Small.suits(problem.with_prior(ElasticNet(free)))  # a free column is settled exactly, in Python


def test_strength_twice_is_solved_twice() -> None:
    problem = make()
    alpha = problem.alpha_max()
    first, second, third = trace_path(problem, np.array([0.5, 0.5, 0.3]) * alpha)
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    assert third.status is Status.CONVERGED


def test_limits_and_callbacks_are_kept() -> None:
    problem = make()
    alphas = alpha_grid(problem.alpha_max(), 4, 0.01)
    assert {point.status for point in trace_path(problem, alphas, tol=1e-14, max_iter=1)} >= {Status.MAX_ITER}
    calls: list[int] = []
    stopped = trace_path(problem, alphas, tol=1e-15, progress=lambda i, certificate: calls.append(i) or True)
    assert stopped[-1].status is Status.STOPPED
    assert calls


def test_correlated_columns_are_left_to_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    common = rng.standard_normal((80, 1))
    X = common + 1e-3 * rng.standard_normal((80, 60))
    codes = (common[:, 0] + 0.5 * rng.standard_normal(80) > 0).astype(int)
    likelihood = Multinomial(2)
    problem = Problem(as_design(X), likelihood.encode(codes), None, likelihood, ElasticNet(1.0))
    gave_up = []
    solve = Small.solve

    def watched(self: Small, *arguments: float, **options: object) -> object:
        found = solve(self, *arguments, **options)  # type: ignore[arg-type]
        gave_up.append(found is None)
        return found

    monkeypatch.setattr(Small, "solve", watched)
    alphas = alpha_grid(problem.alpha_max(), 30, 1e-4)
    found = trace_path(problem, alphas)
    assert gave_up[-1]
    assert len(gave_up) < len(alphas)
    assert all(point.status is Status.CONVERGED for point in found)
    scale = problem.null().loss
    for one in found:
        scaled = problem.with_prior(ElasticNet(one.alpha))
        point = scaled.settle(scaled.at(one.w, one.b), tol=1e-10)
        assert scaled.certify(point, scaled.gradient(point)).gap <= 1.1e-6 * scale


def test_the_core_checks_shapes() -> None:
    X = np.asfortranarray(np.ones((5, 3)))
    good = {
        "y": np.zeros((2, 5)),
        "weight": np.ones(5),
        "slope": np.ones(3),
        "ridge": np.zeros(3),
        "b": np.zeros(2),
        "pinned": False,
        "intercept": True,
    }
    _core.path(X, **good)
    for name in ("weight", "slope", "ridge", "b"):
        with pytest.raises(ValueError, match="must"):
            _core.path(X, **(good | {name: good[name][:-1]}))
    with pytest.raises(ValueError, match="column by column"):
        _core.path(np.ones((5, 3)), **good)


@pytest.mark.parametrize("q", [1, 3])
def test_gradients_in_single_precision_prove_nothing_wrong(q: int) -> None:
    """Columns of all sizes, beyond what single precision can hold too, many of them almost equal to the steepest."""
    rng = np.random.default_rng(q)
    n, d = 61, 1503
    X = rng.standard_normal((n, d))
    X[:, 100:] = X[:, 6:7] * (1.0 - 2e-8 * rng.random(d - 100)) + 1e-9 * rng.standard_normal((n, d - 100))
    scales = 2.0 ** rng.integers(-40, 40, d)
    scales[:6] = 2.0 ** np.array([-600, 500, -150, 130, -60, 60])
    likelihood = Multinomial(q + 1, "reference")
    y = likelihood.encode(np.digitize(X[:, 6] + 0.3 * rng.standard_normal(n), [0.0] if q == 1 else [-0.5, 0.0, 0.5]))
    problem = Problem(as_design(X * scales), y, None, likelihood, ElasticNet(scales[:, None], 0.0 * scales[:, None]))
    for one in trace_path(problem, alpha_grid(problem.alpha_max(), 12, 0.1), tol=1e-8):
        scaled = problem.with_prior(problem.prior.times(one.alpha))
        point = scaled.at(one.w, one.b)
        judged = scaled.certify(point, scaled.gradient(point))
        assert one.status is Status.CONVERGED
        assert_allclose(one.gap, judged.gap, atol=1e-11 * problem.null().loss)
