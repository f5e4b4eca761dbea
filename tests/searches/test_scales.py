"""JCFO's search: gradients, phases that only fall, and an end that is stationary in weights and scales."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from smaller.bases import Kernel
from smaller.kernels import RBF, Linear, Polynomial
from smaller.likelihoods import Multinomial, Probit
from smaller.problem import Status
from smaller.searches.projected import projected_newton
from smaller.searches.scales import Journal, ScaledProblem, State, newton, polish, search_scales, warm_up

Array = Any
KERNELS = [RBF(), Linear(), Polynomial(1), Polynomial(2), Polynomial(3)]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__ + str(getattr(k, "degree", "")))


def ring(n: int = 80, p: int = 6, seed: int = 0) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).normal(size=(n, p))
    squared = X[:, 0] ** 2 + X[:, 1] ** 2
    return X, (squared > np.median(squared)).astype(np.int64)


def problem(
    n: int = 80,
    p: int = 6,
    seed: int = 0,
    kernel: Any = None,
    alpha: float = 1.0,
    rate: float = 1.0,
    classes: int = 2,
    **options: Any,
) -> ScaledProblem:
    X, y = ring(n, p, seed)
    if classes > 2:
        y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, classes + 1)[1:-1]))
    likelihood = Probit() if classes == 2 else Multinomial(classes)
    basis = Kernel(RBF() if kernel is None else kernel, X)
    return ScaledProblem(X, basis, likelihood.encode(y), None, likelihood, alpha, rate, **options)


def difference(f: Any, x: Array, i: int) -> float:
    """Central difference; where a scale is zero, the one-sided one of second order."""
    h = 1e-5

    def at(t: float) -> float:
        moved = x.copy()
        moved[i] += t
        return float(f(moved))

    if x[i] == 0.0:
        return (-3.0 * at(0.0) + 4.0 * at(h) - at(2.0 * h)) / (2.0 * h)
    return (at(h) - at(-h)) / (2.0 * h)


@kernels
@pytest.mark.parametrize("penalized", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@given(seed=st.integers(0, 10**6))
def test_gradients_by_differences(kernel: Any, penalized: bool, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scaled = problem(12, 4, seed, kernel, 0.7, 0.4, classes, penalize_intercept=penalized)
    scaled = replace(scaled, weight=rng.integers(0, 3, 12).astype(float))
    q = scaled.y.shape[1]
    theta = 0.3 * rng.exponential(size=4) * (rng.uniform(size=4) < 0.6)
    w = rng.normal(size=(12 + penalized, q)) * (rng.uniform(size=(12 + penalized, 1)) < 0.5)
    b = rng.normal(size=q) * (not penalized)
    loss, G, slope, free = scaled.gradients(theta, w, b)
    assert scaled.state(theta, w, b).objective == pytest.approx(loss + 0.7 * np.abs(w).sum() + 0.4 * theta.sum())
    # Kernels of degree 3 reach the thousands: what differences can resolve grows with the gradient.
    close = {"rtol": 2e-5, "atol": 2e-5 * (1.0 + abs(loss))}
    by_theta = [difference(lambda t: scaled.state(t, w, b).objective, theta, k) for k in range(4)]
    assert_allclose(slope, by_theta, **close)
    rows = range(0, len(w), 4)
    by_w = [difference(lambda v: scaled.gradients(theta, v.reshape(w.shape), b)[0], w.ravel(), i * q) for i in rows]
    assert_allclose(G.ravel()[[i * q for i in rows]], by_w, **close)
    if not penalized:
        assert_allclose(free, [difference(lambda v: scaled.gradients(theta, w, v)[0], b, k) for k in range(q)], **close)


@kernels
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("penalized", [False, True])
def test_phases_fall_and_end_stationary(kernel: Any, classes: int, penalized: bool) -> None:
    scaled = problem(60, 5, 1, kernel, 0.5, 0.8, classes, penalize_intercept=penalized)
    solution = search_scales(scaled, [np.full(5, 0.2)], tol=1e-6)
    assert solution.status is Status.STATIONARY
    for name, values in solution.phases.items():
        slack = 1e-6 if name == "warm-up" else 1e-12  # pruning may cost that much
        assert np.all(np.diff(values) <= slack * np.abs(values[:-1])), name
    ends = [values[-1] for values in solution.phases.values()]
    assert np.all(np.diff(ends) <= 1e-12 * ends[0])
    state = State(solution.scales, solution.w, solution.b, solution.objective)
    weights, scales, slope = scaled.violations(state)
    assert (weights, scales) == pytest.approx((solution.weights_violation, solution.scales_violation), abs=1e-7)
    assert max(weights, scales) <= 1e-6
    assert np.all(solution.scales >= 0)
    assert np.all(slope[solution.scales == 0] >= -1e-6 * scaled.rate)
    assert scaled.state(state.theta, state.w, state.b).objective == pytest.approx(solution.objective, rel=1e-12)


@cache
def solved() -> tuple[ScaledProblem, Any]:
    scaled = problem(50, 4, 2, rate=2.0)
    return scaled, search_scales(scaled, [np.full(4, 0.25)])


@given(seed=st.integers(0, 10**6))
def test_no_small_move_lowers_the_objective(seed: int) -> None:
    scaled, solution = solved()
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-5, -3)
    theta = np.maximum(solution.scales + size * rng.normal(size=4), 0.0)
    w = solution.w + size * rng.normal(size=solution.w.shape) * (rng.uniform(size=solution.w.shape) < 0.2)
    moved = scaled.state(theta, w, solution.b + size * rng.normal(size=1))
    assert moved.objective >= solution.objective - 1e-9


def test_em_rests_where_the_map_point_is() -> None:
    """The ridge of (13) is alpha/|w| and not alpha^2/|w|: only then is the end of the descent a fixed point of EM."""
    scaled = problem(60, 4, 3, alpha=0.4, rate=3.0)
    solution = search_scales(scaled, [np.full(4, 0.25)], tol=1e-9)
    state = State(solution.scales, solution.w, solution.b, solution.objective)
    assert 0 < len(scaled.used(state.w)) < 60
    moved = warm_up(scaled, state, 3, Journal())
    assert_allclose(moved.theta, state.theta, atol=1e-5)
    assert_allclose(moved.w, state.w, atol=1e-4)


def test_linear_kernel_knows_only_the_product_of_the_strengths() -> None:
    one = problem(60, 5, 4, Linear(), alpha=2.0, rate=2.0)
    start = np.full(5, 0.2)
    plain = search_scales(one, [start], tol=1e-9, em_iter=0)
    other = search_scales(replace(one, alpha=8.0, rate=0.5), [4.0 * start], tol=1e-9, em_iter=0)
    assert other.objective == pytest.approx(plain.objective, rel=1e-7)
    assert_allclose(other.scales / 4.0, plain.scales, atol=1e-5)
    assert_allclose(4.0 * (one.X.T @ other.w), one.X.T @ plain.w, atol=1e-4)


def test_order_of_rows_and_features_does_not_matter() -> None:
    scaled = problem(70, 6, 5, rate=2.0)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(70), rng.permutation(6)
    X = scaled.X[rows][:, columns]
    shuffled = replace(scaled, X=X, basis=Kernel(RBF(), X), y=scaled.y[rows])
    plain, other = (search_scales(each, [np.full(6, 1 / 6)], tol=1e-8) for each in (scaled, shuffled))
    assert other.objective == pytest.approx(plain.objective, rel=1e-8)
    assert_allclose(other.scales, plain.scales[columns], atol=1e-5)


def test_both_relevant_features_are_found_and_most_others_are_exactly_zero() -> None:
    solution = search_scales(problem(150, 30, 0, rate=10.0), [np.full(30, 1 / 30)])
    assert {0, 1} <= set(np.argsort(-solution.scales)[:2].tolist())
    assert np.count_nonzero(solution.scales == 0.0) >= 15
    assert np.count_nonzero(solution.w) <= 15


@pytest.mark.parametrize("penalized", [False, True])
def test_em_then_descent_is_as_good_as_the_better_of_both(penalized: bool) -> None:
    sums = np.zeros(3)
    for seed in range(3):
        scaled = problem(100, 20, seed, rate=5.0, penalize_intercept=penalized)
        theta = np.full(20, 0.05)
        sums += (
            warm_up(scaled, scaled.start(theta), 60, Journal()).objective,
            search_scales(scaled, [theta], em_iter=0).objective,
            search_scales(scaled, [theta]).objective,
        )
    assert sums[2] <= 1.01 * min(sums[:2])


def test_more_starts_never_end_higher() -> None:
    scaled = problem(60, 8, 6, rate=2.0)
    rng = np.random.default_rng(1)
    starts = [np.full(8, 0.125), *(0.125 * rng.exponential(size=(3, 8)))]
    assert search_scales(scaled, starts).objective <= search_scales(scaled, starts[:1]).objective


def test_descent_revives_what_is_zero() -> None:
    """From one relevant scale alone the other one comes back: its slope at zero is below minus the rate."""
    scaled = problem(150, 4, 0, rate=1.0)
    start = scaled.start(np.array([0.5, 0.0, 0.0, 0.0]))
    moved = polish(scaled, start, Journal())
    assert moved.theta[1] > 0.05
    assert moved.objective < start.objective


def test_newton_keeps_what_it_cannot_improve() -> None:
    scaled = problem(40, 3, 0)
    empty = scaled.state(np.zeros(3), np.zeros((40, 1)), np.zeros(1))
    assert newton(scaled, empty, tol=1e-8).objective <= empty.objective
    far = scaled.start(np.full(3, 0.3))
    assert newton(scaled, far, tol=1e-8).objective <= far.objective


@given(seed=st.integers(0, 10**6))
def test_projected_newton_solves_quadratics_within_an_orthant(seed: int) -> None:
    """Against non-negative least squares: fixed signs are a change of sign of the columns."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 5)
    A, target = rng.normal(size=(9, 5)), rng.normal(size=9)

    def evaluate(x: Array) -> tuple[float, Array]:
        r = A @ x - target
        return 0.5 * float(r @ r), A.T @ r

    x = projected_newton(evaluate, signs * rng.uniform(0.5, 1.0, 5), signs, np.ones(5), tol=1e-8)
    assert_allclose(x, signs * nnls(A * signs, target)[0], atol=1e-5)


def test_projected_newton_leaves_a_saddle_downhill() -> None:
    def evaluate(x: Array) -> tuple[float, Array]:
        return float(x[0] ** 4 - x[0] ** 2 + x[1] ** 2), np.array([4 * x[0] ** 3 - 2 * x[0], 2 * x[1]])

    x = projected_newton(evaluate, np.array([0.1, 1.0]), np.zeros(2), np.ones(2), tol=1e-10)
    assert_allclose(x, [np.sqrt(0.5), 0.0], atol=1e-8)


def test_a_warm_start_is_the_only_one_unless_it_ends_empty() -> None:
    scaled = problem(60, 5, 1, rate=3.0)
    first = search_scales(scaled, [np.full(5, 0.2)])
    again = search_scales(scaled, [], warm=first)
    assert again.objective == pytest.approx(first.objective, rel=1e-10)
    assert list(again.phases) == ["alternation"]  # nothing else is needed
    collapsed = search_scales(replace(scaled, alpha=100.0), [np.full(5, 0.2)])
    revived = search_scales(scaled, [np.full(5, 0.2)], warm=collapsed)
    assert revived.objective == pytest.approx(first.objective, rel=1e-10)


def test_restriction_is_the_same_function_with_zeros_left_out() -> None:
    scaled = problem(40, 5, 7, penalize_intercept=True)
    rng = np.random.default_rng(0)
    centers, features = np.array([3, 8, 20]), np.array([1, 4])
    w, theta, b = np.zeros((41, 1)), np.zeros(5), np.zeros(1)
    rows = scaled.rows(centers)
    assert_array_equal(rows, [3, 8, 20, 40])
    w[rows], theta[features] = rng.normal(size=(4, 1)), [0.2, 0.5]
    part = scaled.restrict(centers, features).state(theta[features], w[rows], b)
    assert part.objective == pytest.approx(scaled.state(theta, w, b).objective, rel=1e-12)


def test_a_callback_stops_the_search() -> None:
    calls = []

    def progress(iteration: int, certificate: Any) -> bool:
        calls.append(certificate.objective)
        return len(calls) >= 3

    solution = search_scales(problem(60, 5), [np.full(5, 0.2)], progress=progress)
    assert solution.status is Status.MAX_ITER
    assert len(calls) <= 6


def test_a_strength_that_allows_nothing_gives_the_null_model() -> None:
    scaled = problem(50, 4, alpha=100.0)
    solution = search_scales(scaled, [np.full(4, 0.25)])
    assert not solution.w.any()
    assert not solution.scales.any()
    assert solution.objective == pytest.approx(50 * np.log(2.0), rel=1e-8)


@pytest.mark.parametrize("penalized", [False, True])
def test_a_first_stage_with_few_centres_leads_to_the_same_end(penalized: bool) -> None:
    scaled = problem(180, 8, 2, rate=5.0, penalize_intercept=penalized)
    few = np.sort(np.random.default_rng(0).choice(180, 60, replace=False))
    whole, staged = (search_scales(scaled, [np.full(8, 0.125)], few=some) for some in (None, few))
    assert staged.status is Status.STATIONARY
    # Stationary among all centres and all features, not only those of the first stage.
    weights, scales, _ = scaled.violations(State(staged.scales, staged.w, staged.b, staged.objective))
    assert max(weights, scales) <= 1e-6
    assert staged.objective <= 1.001 * whole.objective
    assert len(np.setdiff1d(scaled.used(staged.w), few)) > 0
    assert list(staged.phases) == ["warm-up", "polish", "alternation"]


def test_an_empty_first_stage_gives_way_to_a_search_with_all_centres() -> None:
    scaled = problem(60, 4, alpha=2.0, rate=0.5)
    empty = problem(60, 4, alpha=50.0, rate=0.5)
    few = np.arange(2)
    assert not empty.used(search_scales(empty, [np.full(4, 0.25)], few=few).w).size
    staged, whole = (search_scales(scaled, [np.full(4, 0.25)], few=some) for some in (few, None))
    assert staged.objective <= whole.objective * (1.0 + 1e-3)


def test_a_warm_start_ends_where_its_own_start_does() -> None:
    scaled = problem(80, 6, 3, rate=2.0)
    here = search_scales(scaled, [np.full(6, 1 / 6)])
    there = search_scales(replace(scaled, alpha=1.3, rate=4.0), [np.full(6, 1 / 6)], warm=here)
    assert there.status is Status.STATIONARY
    assert list(there.phases) == ["alternation"]
    alone = search_scales(replace(scaled, alpha=1.3, rate=4.0), [np.full(6, 1 / 6)])
    assert there.objective <= 1.02 * alone.objective
