"""The sum, its certificate and its free block, against plain NumPy."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import Case, evaluate, penalties, probabilities, random_case
from smaller import problem as problem_module
from smaller import threads
from smaller.designs import as_design
from smaller.likelihoods import Gaussian, Multinomial, Probit
from smaller.priors import ElasticNet, Jeffreys, Laplace, Normal
from smaller.problem import Problem, Status
from smaller.solvers import core, solve

seeds = st.integers(0, 2**32 - 1)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"coding": "reference"},
    {"K": 2},
    {"K": 4},
    {"l1_ratio": 0.5},
    {"l1_ratio": 0.0},
    {"factors": [1, 0, 2, 1, 0, 1]},
    {"factors": [1, 0, 2, 1, 0, 1], "l1_ratio": 0.3, "coding": "reference"},
    {"fit_intercept": False},
    {"storage": "csc"},
]
every_setting = pytest.mark.parametrize("options", SETTINGS, ids=str)


def random_point(case: Case, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    q = len(case.classes_with_output)
    w = rng.standard_normal((case.X.shape[1], q)) * (rng.random((case.X.shape[1], q)) < 0.5)
    return w, rng.standard_normal(q) if case.fit_intercept else np.zeros(q)


@every_setting
@settings(max_examples=8)
@given(seed=seeds, weighted=st.booleans())
def test_objective_violation_and_gap_at_random_points(options: dict[str, Any], seed: int, weighted: bool) -> None:
    case = random_case(seed % 1000, **options)
    if weighted:
        case = case.but(weight=np.random.default_rng(seed).random(len(case.X)) + 0.1)
    problem = case.problem()
    w, b = random_point(case, seed)
    point = problem.settle(problem.at(w, b), tol=1e-12)
    certificate = problem.certify(point, problem.gradient(point))
    judged = evaluate(case, point.w, point.b)
    assert judged.imbalance < 1e-7  # the free block is settled, so the dual point is feasible
    assert certificate.objective == pytest.approx(judged.objective, rel=1e-12)
    assert certificate.violation == pytest.approx(judged.violation, rel=1e-9, abs=1e-9)
    assert certificate.gap == pytest.approx(judged.gap, rel=1e-9, abs=1e-6)
    best = solve(problem, tol=1e-9)
    assert certificate.gap >= point.objective - best.objective - 1e-9 * abs(best.objective)


@every_setting
def test_the_gap_closes_at_the_optimum(options: dict[str, Any]) -> None:
    case = random_case(1, **options)
    problem = case.problem()
    for tol in (1e-2, 1e-5, 1e-10):
        solution = solve(problem, tol=tol)
        judged = evaluate(case, solution.w, solution.b)
        assert solution.status is Status.CONVERGED
        assert solution.gap <= tol * solution.scale
        assert judged.gap <= 1.01 * tol * solution.scale + 1e-10
        # F - D = (a sum of Fenchel-Young terms >= 0) + <what is left in the free block, its values>.
        slack = judged.imbalance * (np.abs(solution.b).sum() + np.abs(solution.w[problem.prior.free(6)]).sum())
        assert judged.gap >= -1e-10 * solution.scale - slack


@every_setting
@settings(max_examples=8)
@given(seed=seeds)
def test_settle_zeroes_the_gradient_of_the_free_block(options: dict[str, Any], seed: int) -> None:
    case = random_case(seed % 1000, **options)
    problem = case.problem()
    w, b = random_point(case, seed)
    before = problem.at(w, b)
    after = problem.settle(before, tol=1e-12)
    free = problem.prior.free(6)
    assert after.objective <= before.objective + 1e-12 * abs(before.objective)
    np.testing.assert_allclose(problem.gradient(after)[free], 0.0, atol=1e-7)
    if case.fit_intercept:
        np.testing.assert_allclose(after.residual.sum(axis=0), 0.0, atol=1e-7)
    held = np.setdiff1d(np.arange(6), free)
    np.testing.assert_array_equal(after.w[held], w[held])
    np.testing.assert_allclose(after.eta, case.X @ after.w + after.b, atol=1e-9)


@every_setting
def test_null_is_the_model_without_weights(options: dict[str, Any]) -> None:
    case = random_case(2, **options)
    problem = case.problem()
    null = problem.null()
    assert not null.w.any()
    log_p, P = probabilities(case, null.w, null.b)
    frequency = np.bincount(case.labels, minlength=case.n_classes) / len(case.labels)
    expected = frequency if case.fit_intercept else np.full(case.n_classes, 1 / case.n_classes)
    np.testing.assert_allclose(P, np.broadcast_to(expected, P.shape), rtol=1e-12)
    assert null.loss == pytest.approx(-log_p[np.arange(len(P)), case.labels].sum(), rel=1e-12)
    assert null.objective == null.loss


@pytest.mark.parametrize("K", [3, 4, 5, 6])
@pytest.mark.parametrize(
    "options", [{}, {"l1_ratio": 0.5}, {"l1_ratio": 0.0}, {"factors": [0, 1, 1, 2, 1, 1]}], ids=str
)
@settings(max_examples=5)
@given(seed=seeds)
def test_the_canonical_point_is_the_same_model(K: int, options: dict[str, Any], seed: int) -> None:
    case = random_case(seed % 1000, K=K, **options)
    problem = case.problem()
    w, b = solve(problem, tol=1e-9).w, np.zeros(K)
    moved = w + 0.0
    free = problem.prior.free(6)
    moved[free] += 3.0  # a common shift of a free column, and of the intercepts, means nothing
    canonical = problem.canonical(moved, b + 5.0)
    before, after = evaluate(case, w, b), evaluate(case, *canonical)
    assert after.objective == pytest.approx(before.objective, rel=1e-12)
    np.testing.assert_allclose(probabilities(case, *canonical)[1], probabilities(case, w, b)[1], atol=1e-9)
    assert canonical[1].sum() == pytest.approx(0.0, abs=1e-12)
    again = problem.canonical(*canonical)
    np.testing.assert_allclose(again[0], canonical[0], atol=1e-12)


def test_reference_coding_is_canonical_as_it_is() -> None:
    case = random_case(0, coding="reference")
    w, b = random_point(case, 0)
    again = case.problem().canonical(w, b)
    assert again[0] is w
    assert again[1] is b


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coding": "reference"},
        {"K": 2},
        {"fit_intercept": False},
        {"factors": [1, 0, 2, 1, 0, 1]},
        {"l1_ratio": 0.5},
        {"storage": "csc"},
    ],
    ids=str,
)
@settings(max_examples=5)
@given(seed=seeds)
def test_alpha_max_is_exact(options: dict[str, Any], seed: int) -> None:
    case = random_case(seed % 1000, **options)
    limit = case.problem().alpha_max()

    def at(factor: float) -> Any:
        return solve(
            case.but(slope=factor * limit * case.slope, ridge=factor * limit * case.ridge).problem(), tol=1e-12
        )

    held = (case.slope > 0).ravel()
    assert not at(1.0 + 1e-9).w[held].any()
    assert at(0.99).w[held].any()


def test_alpha_max_by_the_formula() -> None:
    case = random_case(3, factors=[1, 2, 1, 1, 1, 0.5])
    Y = np.eye(3)[case.labels]
    G = np.abs(case.X.T @ (Y.mean(axis=0) - Y))
    assert case.problem().alpha_max() == pytest.approx((G / case.slope).max(), rel=1e-12)
    assert random_case(3, l1_ratio=0.0).problem().alpha_max() == np.inf
    assert case.but(slope=0 * case.slope).problem().alpha_max() == 0.0


def test_alpha_max_needs_a_slope() -> None:
    case = random_case(3)
    with pytest.raises(TypeError, match="alpha_max"):
        case.problem().with_prior(Jeffreys()).alpha_max()


@pytest.mark.parametrize("coding", ["symmetric", "reference"])
@pytest.mark.parametrize("storage", ["dense", "csc"])
def test_a_penalised_intercept_is_a_column_of_ones(coding: str, storage: str) -> None:
    case = random_case(4, coding=coding, storage=storage)
    problem = case.problem()
    penalised = Problem(
        problem.design.with_ones(), problem.y, None, problem.likelihood, Laplace(0.8), fit_intercept=False
    )
    solution = solve(penalised, tol=1e-11)
    by_hand = case.but(X=np.column_stack([case.X, np.ones(len(case.X))]), fit_intercept=False, **penalties(7, 0.8))
    judged = evaluate(by_hand, solution.w, solution.b)
    assert not solution.b.any()
    assert judged.gap <= 1e-10 * solution.scale
    assert judged.violation <= 1e-7
    # alpha_max starts from equal probabilities, since nothing is free.
    G = by_hand.X.T @ (1 / 3 - np.eye(3)[case.labels])[:, case.classes_with_output]
    assert penalised.alpha_max() == pytest.approx(np.abs(G).max() / 0.8, rel=1e-12)


def test_without_the_settled_free_block_the_gap_would_be_wrong() -> None:
    """The slack of an unbalanced intercept enters the gap, so that it stays an upper bound."""
    case = random_case(5)
    problem = case.problem()
    best = solve(problem, tol=1e-11)
    point = problem.at(best.w, best.b + np.array([0.3, -0.1, 0.0]))
    certificate = problem.certify(point, problem.gradient(point))
    assert certificate.gap >= point.objective - best.objective
    assert certificate.violation > 0.1


def test_likelihoods_without_a_dual_have_no_gap() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)
    probit = Probit(1)
    problem = Problem(as_design(X), probit.encode(labels), None, probit, Laplace(1.0))
    point = problem.settle(problem.null(), tol=1e-10)
    assert problem.certify(point, problem.gradient(point)).gap is None
    gaussian = Problem(as_design(X), Gaussian().encode(X[:, 0]), None, Gaussian(), Jeffreys())
    point = gaussian.null()
    assert gaussian.certify(point, gaussian.gradient(point)).gap is None


@settings(max_examples=10)
@given(seed=seeds, ridge=st.sampled_from([0.0, 0.7]))
def test_gaussian_gap(seed: int, ridge: float) -> None:
    """Least squares: the gap at a random point bounds the distance to the optimum, and closes there."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((25, 4)), rng.standard_normal(25)
    likelihood = Gaussian(0.6)
    problem = Problem(as_design(X), likelihood.encode(y), None, likelihood, ElasticNet(2.0, ridge))
    best = solve(problem, tol=1e-11)
    point = problem.settle(problem.at(rng.standard_normal((4, 1)), np.zeros(1)), tol=1e-13)
    certificate = problem.certify(point, problem.gradient(point))
    assert best.gap <= 1e-10 * best.scale
    assert certificate.gap >= point.objective - best.objective - 1e-9


def test_a_problem_without_columns_is_its_null_model() -> None:
    likelihood = Multinomial(3)
    labels = np.array([0, 1, 2, 2])
    problem = Problem(as_design(np.zeros((4, 0))), likelihood.encode(labels), None, likelihood, Normal(1.0))
    solution = solve(problem)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(likelihood.predict(solution.b[None, :]), [[0.25, 0.25, 0.5]], rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_rows_estimates_the_sum(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3))
    X[:, 0] = 0.0
    X[:4, 0] = 1.0
    case = random_case(0, n=5000, d=3).but(X=X, weight=rng.random(5000) if weighted else None)
    problem = case.problem()
    rows, part = problem.sample(500)
    assert 350 < len(rows) < 650
    assert set(range(4)) <= set(rows)  # all there is of the first column
    w, b = random_point(case, 1)
    assert part.at(w, b).loss == pytest.approx(problem.at(w, b).loss, rel=0.15)
    every, whole = problem.sample(10**9)
    assert len(every) == 5000
    assert whole.at(w, b).loss == pytest.approx(problem.at(w, b).loss, rel=1e-12)


@every_setting
def test_one_pass_is_the_same_as_its_parts(options: dict[str, Any]) -> None:
    case = random_case(2, n=3000, **options).but(weight=np.random.default_rng(0).random(3000))
    problem = case.problem()
    w, b = random_point(case, 3)
    change = random_point(case, 4)[0]
    start, there = problem.at(w, b), problem.at(w + change, b)
    eta = start.eta.copy(order="F")
    loss, residual, G = core.evaluate(problem, eta, problem.design, change)
    assert loss == pytest.approx(there.loss, rel=1e-12)
    np.testing.assert_allclose(eta, there.eta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(residual, there.residual, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(G, problem.gradient(there), rtol=1e-10, atol=1e-9)


def test_the_environment_says_how_many_threads_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    for value, expected in (("4", 4), ("0", 1), ("", 2), ("4,2", 16)):  # nested levels are not ours to interpret
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert threads.count() == expected


def test_the_number_of_threads_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(3, n=40_000, d=200)
    problem = case.problem()
    change = random_point(case, 0)[0]
    found = []
    for count in (1, 3, None):
        if count is None:
            monkeypatch.setenv("OMP_NUM_THREADS", "2")
        found.append(core.evaluate(problem, problem.null().eta.copy(order="F"), problem.design, change, count))
    for other in found[1:]:
        assert found[0][0] == other[0]
        np.testing.assert_array_equal(found[0][2], other[2])


def test_a_limit_of_threads_holds_here_and_where_it_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    before = dict(os.environ)
    with threads.limited(7), threads.limited(None), ThreadPoolExecutor(1) as pool:
        assert threads.count() == 7
        assert pool.submit(threads.carried(threads.count)).result() == 7
        assert pool.submit(threads.count).result() == 3  # another thread is not concerned
    assert threads.count() == threads.carried(threads.count)() == 3
    assert dict(os.environ) == before


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"factors": [0, 1, 1, 0, 2, 1]}], ids=str)
def test_free_columns_are_settled_with_and_without_an_intercept(options: dict[str, Any], fit_intercept: bool) -> None:
    case = random_case(6, fit_intercept=fit_intercept, **options)
    solution = solve(case.problem(), tol=1e-10)
    judged = evaluate(case, solution.w, solution.b)
    assert solution.status is Status.CONVERGED
    assert judged.violation <= 1e-6
    assert judged.gap <= 1e-9 * solution.scale


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("factors", [[0.0] * 6, [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]], ids=["all free", "some"])
@pytest.mark.parametrize("solver", ["auto", "coordinate", "proximal"])
def test_what_is_not_settled_enters_the_gap(
    scale: float, factors: list[float], solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A free block too large for one exact solve: zero weights must not hide a gradient, in whatever units."""
    monkeypatch.setattr(problem_module, "_LARGEST_FREE_BLOCK", 3)
    case = random_case(7, factors=factors)
    slope = case.slope * scale  # features in other units: weights, penalty and gradient change together
    problem = case.but(X=case.X * scale, slope=slope, ridge=0.0 * slope).problem()
    if solver == "auto" and any(factors):
        solver = "coordinate"
    null = problem.settle(problem.null(), tol=1e-12)
    best = solve(case.problem(), "coordinate", tol=1e-11)
    assert problem.certify(null, problem.gradient(null)).gap >= null.objective - best.objective
    solution = solve(problem, solver, tol=1e-8, max_iter=3000)
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(best.objective, abs=1e-7 * solution.scale)
