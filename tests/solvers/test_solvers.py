"""Every solver reaches the same optimum, judged by arithmetic of its own (tests/reference.py)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression

from reference import Case, evaluate, penalties, probabilities, random_case
from smaller.arrays import to_host
from smaller.designs import Dense, as_design
from smaller.likelihoods import Gaussian, Multinomial, Probit
from smaller.papers import SOLVERS, Block, Componentwise
from smaller.papers.componentwise import Components
from smaller.priors import ElasticNet, Laplace, Normal
from smaller.problem import Problem, Solution, Status
from smaller.solvers import ALL_SOLVERS, choose
from smaller.solvers import solve as solve_by
from smaller.solvers.driver import drive

seeds = st.integers(0, 2**32 - 1)
every_solver = pytest.mark.parametrize("solver", [*ALL_SOLVERS, *SOLVERS])
EXACT = 1e-11
SETTINGS: list[dict[str, Any]] = [
    {},
    {"coding": "reference"},
    {"K": 2},
    {"K": 4},
    {"l1_ratio": 0.4},
    {"l1_ratio": 0.4, "coding": "reference"},
    {"l1_ratio": 0.0},
    {"l1_ratio": 0.0, "coding": "reference"},
    {"factors": [1, 0, 2, 1, 0.5, 1]},
    {"factors": [1, 0, 2, 1, 0.5, 1], "coding": "reference"},
    {"fit_intercept": False},
    {"storage": "csc"},
    {"storage": "csc", "factors": [1, 0, 2, 1, 0.5, 1]},
]


def solve(problem: Problem, method: str = "auto", **options: Any) -> Solution:
    """Solve by the name of a method, the published ones included."""
    return solve_by(problem, SOLVERS.get(method, method), **options)


def fits(solver: str, case: Case) -> bool:
    """Newton needs a smooth penalty: a weight that starts at zero never leaves it under an l1 majoriser."""
    return solver != "newton" or not case.slope.any()


# --- agreement on small problems ---


@every_solver
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_solvers_agree_on_small_problems(solver: str, weighted: bool, options: dict[str, Any]) -> None:
    case = random_case(11, **options)
    if weighted:
        case = case.but(weight=np.random.default_rng(0).random(len(case.X)) * 2)
    if not fits(solver, case):
        with pytest.raises(ValueError, match=r"needs a smooth penalty.*Use 'auto' or 'coordinate'"):
            solve(case.problem(), solver, tol=EXACT)
        return
    best = solve(case.problem(), "proximal", tol=1e-13)
    solution = solve(case.problem(), solver, tol=EXACT)
    judged = evaluate(case, solution.w, solution.b)
    assert solution.solver == solver
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(judged.objective, rel=1e-12)
    assert judged.objective == pytest.approx(best.objective, rel=1e-9)
    assert judged.imbalance <= 1e-8
    # A ridge makes the gap quadratic in the violation: gap = violation^2 / (2 ridge).
    assert judged.violation <= 1e-6 + np.sqrt(2.0 * case.ridge.max() * EXACT * solution.scale)
    assert abs(judged.gap) <= 2 * EXACT * solution.scale


@settings(max_examples=10)
@given(seed=seeds, K=st.integers(2, 5), n=st.integers(8, 40), d=st.integers(1, 12), alpha=st.floats(0.05, 5.0))
def test_the_default_is_certified_on_random_shapes(seed: int, K: int, n: int, d: int, alpha: float) -> None:
    case = random_case(seed, n=n, d=d, K=K, alpha=alpha)
    solution = solve(case.problem(), tol=1e-10)
    judged = evaluate(case, solution.w, solution.b)
    assert solution.status is Status.CONVERGED
    assert judged.imbalance <= 1e-7
    assert -1e-9 * solution.scale <= judged.gap <= 1.1e-10 * solution.scale + 1e-9 * judged.imbalance


@settings(max_examples=10)
@given(seed=seeds)
def test_properties_of_the_optimum(seed: int) -> None:
    """Score equation, class permutation, weight = repetition, dense = sparse."""
    case = random_case(seed, n=30, d=5)
    rng = np.random.default_rng(seed)
    solution = solve(case.problem(), tol=EXACT)
    P = probabilities(case, solution.w, solution.b)[1]
    np.testing.assert_allclose(P.sum(axis=0), np.bincount(case.labels, minlength=3), atol=1e-7)

    order = rng.permutation(3)
    renamed = solve(case.but(labels=np.argsort(order)[case.labels]).problem(), tol=EXACT)
    np.testing.assert_allclose(renamed.w, solution.w[:, order], atol=1e-5)

    sparse_solution = solve(case.but(storage="csc").problem(), tol=EXACT)
    np.testing.assert_allclose(sparse_solution.w, solution.w, atol=1e-5)
    assert sparse_solution.objective == pytest.approx(solution.objective, rel=1e-10)

    times = rng.integers(1, 4, 30)
    again = np.repeat(np.arange(30), times)
    repeated = solve(case.but(X=case.X[again], labels=case.labels[again]).problem(), tol=EXACT)
    weighted = solve(case.but(weight=times.astype(float)).problem(), tol=EXACT)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-10)
    np.testing.assert_allclose(weighted.w, repeated.w, atol=1e-5)


@settings(max_examples=8)
@given(seed=seeds, K=st.integers(2, 4))
def test_no_more_nonzeros_than_rows_allow(seed: int, K: int) -> None:
    case = random_case(seed, n=10, d=60, K=K, alpha=0.01)
    solution = solve(case.problem(), tol=EXACT)
    assert solution.n_active <= 10 * (K - 1)


@pytest.mark.parametrize("storage", ["dense", "csc"])
def test_float32_data_reach_their_tolerance(storage: str) -> None:
    case = random_case(3, storage=storage)
    wide = case.but(X=case.X.astype(np.float32).astype(np.float64))
    narrow = case.but(X=case.X.astype(np.float32))
    solution = solve(narrow.problem(), tol=1e-5)
    assert solution.status is Status.CONVERGED
    assert solution.w.dtype == np.float64
    assert evaluate(wide, solution.w, solution.b).gap <= 1.1e-5 * solution.scale


def test_another_array_namespace_goes_to_the_proximal_solver() -> None:
    case = random_case(4)
    problem = case.problem()
    there = Problem(
        Dense(array_api_strict.asarray(case.X)),
        array_api_strict.asarray(np.ascontiguousarray(problem.y)),
        None,
        problem.likelihood,
        Laplace(1.0),
    )
    assert choose(there) == "proximal"
    solution = solve(there, tol=1e-9)
    assert solution.converged
    judged = evaluate(case, to_host(solution.w), to_host(solution.b))
    assert judged.gap <= 1.1e-9 * solution.scale


# --- the data sets of the acceptance list ---


def standardised(X: Any) -> Any:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def named(name: str) -> tuple[Any, Any]:
    X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    return standardised(X), y


def on(name: str, alpha: float, **options: Any) -> Case:
    return case_of(*named(name), alpha, **options)


def case_of(X: Any, labels: Any, alpha: float, **options: Any) -> Case:
    parts = penalties(X.shape[1], alpha, options.pop("l1_ratio", 1.0), options.pop("factors", None))
    return Case(X, labels, int(labels.max()) + 1, **parts, **options)


def check_default(case: Case) -> float:
    solution = solve(case.problem(), "coordinate", tol=EXACT)
    judged = evaluate(case, solution.w, solution.b)
    assert solution.status is Status.CONVERGED
    assert -1e-10 * solution.scale <= judged.gap <= 1e-10 * solution.scale
    assert judged.imbalance <= 1e-9
    return judged.objective


BUDGET = {"proximal": 100, "block": 120, "componentwise": 60}  # certificates, not sweeps


def check_agreement(case: Case, best: float, solver: str) -> None:
    solution = solve(case.problem(), solver, tol=EXACT, max_iter=BUDGET[solver])
    judged = evaluate(case, solution.w, solution.b)
    assert judged.objective == pytest.approx(best, rel=1e-9)
    assert judged.objective >= best * (1 - 1e-10)


@pytest.mark.parametrize("name", ["iris", "wine"])
@pytest.mark.parametrize("alpha", [10.0, 1.0, 0.1])
@pytest.mark.parametrize("coding", ["symmetric", "reference"])
def test_iris_and_wine(name: str, alpha: float, coding: str) -> None:
    case = on(name, alpha, coding=coding)
    best = check_default(case)
    check_agreement(case, best, "proximal")
    check_agreement(case, best, "block")
    if alpha == 10.0 or (alpha == 1.0 and coding == "symmetric"):
        check_agreement(case, best, "componentwise")


@pytest.mark.parametrize("name", ["iris", "wine"])
@pytest.mark.parametrize(
    "options", [{"l1_ratio": 0.5}, {"factors": "one free"}, {"fit_intercept": "penalised"}], ids=str
)
def test_iris_and_wine_with_other_penalties(name: str, options: dict[str, Any]) -> None:
    d = named(name)[0].shape[1]
    if "factors" in options:
        options = {"factors": [0.0, *[1.0] * (d - 1)]}
    case = on(name, 1.0, **({} if "fit_intercept" in options else options))
    if "fit_intercept" in options:
        X = np.column_stack([case.X, np.ones(len(case.X))])
        case = case.but(X=X, fit_intercept=False, **penalties(d + 1, 1.0))
    best = check_default(case)
    check_agreement(case, best, "proximal")
    check_agreement(case, best, "block")


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_componentwise_admits_that_it_did_not_converge(name: str) -> None:
    case = on(name, 0.1)
    solution = solve(case.problem(), "componentwise", tol=EXACT, max_iter=8)
    assert solution.status is Status.MAX_ITER
    assert not solution.converged
    judged = evaluate(case, solution.w, solution.b)
    assert judged.gap > EXACT * solution.scale
    assert solution.gap >= judged.gap * (1.0 - 1e-12)


@pytest.mark.data
@pytest.mark.parametrize("alpha", [10.0, 1.0, 0.1])
def test_fglass(alpha: float, load_data: Callable[[str], Any]) -> None:
    glass = load_data("fglass")
    X, labels = standardised(np.asarray(glass.data, dtype=float)), np.unique(glass.target, return_inverse=True)[1]
    case = case_of(X, labels, alpha)
    best = check_default(case)
    check_agreement(case, best, "proximal")
    if alpha == 10.0:
        check_agreement(case, best, "block")
        check_agreement(case, best, "componentwise")


@pytest.mark.parametrize("name", ["iris", "wine"])
@pytest.mark.parametrize("alpha", [10.0, 1.0])
def test_saga_is_never_lower(name: str, alpha: float) -> None:
    case = on(name, alpha)
    best = check_default(case)
    options: dict[str, Any] = {"l1_ratio": 1.0}
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        options["penalty"] = "elasticnet"
    saga = LogisticRegression(C=1 / alpha, solver="saga", tol=1e-12, max_iter=1500, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its convergence is not what is tested
        saga.fit(case.X, case.labels)
    theirs = evaluate(case, saga.coef_.T, saga.intercept_).objective
    assert theirs >= best - 1e-9
    assert theirs == pytest.approx(best, rel=1e-2)  # the same problem, though


# --- the paper's updates ---


def assert_falls(objectives: list[float]) -> None:
    values = np.array(objectives)
    assert np.all(np.diff(values) <= 1e-12 * np.abs(values[:-1]))
    assert values[-1] < values[0]


def bound_matrix(case: Case) -> Any:
    """(8), class by class: B = -1/2 [I - 11'/K] (x) X'X in reference coding without intercept."""
    q = case.n_classes - 1
    return -0.5 * np.kron(np.eye(q) - 1.0 / case.n_classes, case.X.T @ case.X)


def printed_case(alpha: float, l1_ratio: float) -> Case:
    return random_case(8, d=4, alpha=alpha, l1_ratio=l1_ratio, coding="reference", fit_intercept=False)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_block_updates_are_the_printed_ones(alpha: float, l1_ratio: float) -> None:
    """(7) for alpha = 0, (10) for the ridge, (13) for l1."""
    case = printed_case(alpha, l1_ratio)
    problem = case.problem()
    w = np.random.default_rng(0).standard_normal((4, 2))
    moved = Block(over_relaxation=False)().update(problem, problem.at(w, np.zeros(2)))
    flat, B = w.T.ravel(), bound_matrix(case)  # class-major
    g = -(case.X.T @ (probabilities(case, w, np.zeros(2))[1] - np.eye(3)[case.labels])[:, :2]).T.ravel()
    if alpha == 0.0:
        expected = flat - np.linalg.solve(B, g)
    elif l1_ratio == 0.0:
        expected = np.linalg.solve(B - alpha * np.eye(8), B @ flat - g)
    else:
        root = np.diag(np.sqrt(np.abs(flat)))
        expected = root @ np.linalg.solve(root @ B @ root - alpha * np.eye(8), root @ (B @ flat - g))
    np.testing.assert_allclose(moved.w.T.ravel(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bound", ["printed", "single"])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_component_updates_with_either_bound(l1_ratio: float, bound: str) -> None:
    """(15) for l1, (16) for the ridge: with the diagonal of (8) for three classes, or with 1/4 for a single weight."""
    case = printed_case(0.7, l1_ratio)
    problem = case.problem()
    w = np.random.default_rng(0).standard_normal((4, 2))
    state = Components(problem, problem.at(w, np.zeros(2)), problem.design.X, bound)
    j, k = 2, 1
    beta = 0.25 * np.sum(case.X[:, j] ** 2) if bound == "single" else -bound_matrix(case)[4 * k + j, 4 * k + j]
    g = -case.X[:, j] @ (probabilities(case, w, np.zeros(2))[1][:, k] - (case.labels == k))
    target = w[j, k] + g / beta
    if l1_ratio == 1.0:
        expected = np.sign(target) * max(abs(target) - 0.7 / beta, 0.0)
    else:
        expected = beta / (beta + 0.7) * target
    state.update(j, k)
    assert state.w[j, k] == pytest.approx(expected, rel=1e-12)
    others = np.ones_like(w, dtype=bool)
    others[j, k] = False
    np.testing.assert_array_equal(state.w[others], w[others])


@pytest.mark.parametrize("coding", ["symmetric", "reference"])
@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0.0, 0.0), (0.7, 0.0), (0.7, 1.0), (0.7, 0.5)])
@settings(max_examples=3)
@given(seed=seeds)
def test_block_updates_never_rise(coding: str, relaxed: bool, alpha: float, l1_ratio: float, seed: int) -> None:
    case = random_case(seed, alpha=alpha, l1_ratio=l1_ratio, coding=coding)
    problem = case.problem()
    stepper = Block(over_relaxation=relaxed)()
    start = np.random.default_rng(seed).standard_normal((6, len(case.classes_with_output)))
    point = problem.at(start, np.zeros(start.shape[1]))
    objectives = [point.objective]
    for _ in range(40):
        point = stepper.update(problem, point)
        objectives.append(evaluate(case, point.w, point.b).objective)
    assert_falls(objectives)


@pytest.mark.parametrize("visit", ["cyclic", "steepest"])
@pytest.mark.parametrize("coding", ["symmetric", "reference"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@settings(max_examples=3)
@given(seed=seeds)
def test_component_updates_never_rise(visit: str, coding: str, l1_ratio: float, seed: int) -> None:
    case = random_case(seed, l1_ratio=l1_ratio, coding=coding, weight=np.linspace(0.1, 3.0, 40))
    problem = case.problem()
    start = 3 * np.random.default_rng(seed).standard_normal((6, len(case.classes_with_output)))
    state = Components(problem, problem.at(start, np.zeros(start.shape[1])), problem.design.X)
    cycle = [(j, k) for j in range(6) for k in range(start.shape[1])] * 4
    objectives = [evaluate(case, state.w, state.b).objective]
    for place in cycle:
        state.update(*(place if visit == "cyclic" else state.steepest()))
        objectives.append(evaluate(case, state.w, state.b).objective)
    state.balance()
    objectives.append(evaluate(case, state.w, state.b).objective)
    assert_falls(objectives)
    np.testing.assert_allclose(state.eta, case.X @ state.w + state.b, atol=1e-10)


def test_component_updates_survive_huge_steps() -> None:
    """Features of size 1e3 move eta by more than exp can take; the running sums are rebuilt."""
    case = random_case(0)
    case = case.but(X=1e3 * case.X)
    problem = case.problem()
    state = Components(problem, problem.at(np.full((6, 3), 5.0) * np.arange(3), np.zeros(3)), problem.design.X)
    objectives = [evaluate(case, state.w, state.b).objective]
    for j, k in [(j, k) for j in range(6) for k in range(3)] * 10:
        state.update(j, k)
        objectives.append(evaluate(case, state.w, state.b).objective)
    assert np.isfinite(objectives).all()
    assert_falls(objectives)


@pytest.mark.parametrize("options", [{"visitation": "adaptive"}, {"decay": 0.3}, {"bound": "printed"}])
def test_visitation_schedules_reach_the_optimum(options: dict[str, Any]) -> None:
    case = random_case(6, d=12)
    best = solve(case.problem(), tol=EXACT)
    solution = drive(case.problem(), Componentwise(**options)(), tol=EXACT)
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(best.objective, rel=1e-10)
    np.testing.assert_array_equal(solution.w != 0, best.w != 0)


def test_adaptive_visitation_picks_the_greatest_decrease() -> None:
    case = random_case(6, d=5)
    problem = case.problem()
    point = problem.at(0.3 * np.ones((5, 3)), np.zeros(3))

    def bound_decrease(j: int, k: int) -> float:
        beta = 0.25 * np.sum(case.X[:, j] ** 2)
        state = Components(problem, point, problem.design.X)
        state.update(j, k)
        step = state.w[j, k] - 0.3
        return float(-(problem.gradient(point)[j, k] * step + beta * step**2 / 2 + abs(state.w[j, k]) - 0.3))

    decreases = np.array([[bound_decrease(j, k) for k in range(3)] for j in range(5)])
    best = np.unravel_index(np.argmax(decreases), decreases.shape)
    assert Components(problem, point, problem.design.X).steepest() == tuple(map(int, best))


@pytest.mark.parametrize("options", [{"visitation": "random"}, {"bound": "tight"}, {"decay": 0.0}, {"decay": 1.1}])
def test_unknown_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        Componentwise(**options)


def test_componentwise_is_for_the_softmax_only() -> None:
    X = np.random.default_rng(0).standard_normal((10, 2))
    problem = Problem(as_design(X), Gaussian().encode(X[:, 0]), None, Gaussian(), Laplace(0.1))
    with pytest.raises(ValueError, match="multinomial likelihood only: use"):
        solve(problem, "componentwise")


@pytest.mark.parametrize("solver", ["coordinate", "block", "componentwise"])
def test_a_solver_for_host_arrays_says_so(solver: str) -> None:
    case = random_case(4)
    y = array_api_strict.asarray(np.ascontiguousarray(case.problem().y))
    there = Problem(Dense(array_api_strict.asarray(case.X)), y, None, case.problem().likelihood, Laplace(1.0))
    with pytest.raises(ValueError, match=f"solver='{solver}' works on NumPy and SciPy data only: use 'auto'"):
        solve(there, solver)


# --- other likelihoods ---


@pytest.mark.parametrize("solver", ["coordinate", "proximal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_probit_lasso_equals_an_independent_solver(solver: str, weighted: bool) -> None:
    """L-BFGS-B on w = u - v with u, v >= 0."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 5))
    labels = (X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0).astype(int)
    sign, c = 2.0 * labels - 1.0, rng.random(60) + 0.5 if weighted else np.ones(60)
    alpha = 2.0

    def split(x: Any) -> tuple[float, Any]:
        w, b = x[:5] - x[5:10], x[10]
        margin = sign * (X @ w + b)
        log_cdf = special.log_ndtr(margin)
        slope = -c * sign * np.exp(-(margin**2) / 2 - log_cdf) / np.sqrt(2 * np.pi)
        G = X.T @ slope
        return -np.sum(c * log_cdf) + alpha * x[:10].sum(), np.concatenate([G + alpha, alpha - G, [slope.sum()]])

    bounds = [(0, None)] * 10 + [(None, None)]
    reference = optimize.minimize(
        split, np.full(11, 0.1), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}
    )
    probit = Probit(1)
    problem = Problem(as_design(X), probit.encode(labels), c if weighted else None, probit, Laplace(alpha))
    solution = solve(problem, solver, tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert solution.gap is None
    assert solution.objective == pytest.approx(reference.fun, rel=1e-9)
    np.testing.assert_allclose(solution.w[:, 0], (reference.x[:5] - reference.x[5:10]), atol=1e-4)
    value, gradient = split(
        np.concatenate([np.maximum(solution.w[:, 0], 0), np.maximum(-solution.w[:, 0], 0), solution.b])
    )
    assert solution.objective == pytest.approx(value, rel=1e-12)
    G = gradient[:5] - alpha
    w = solution.w[:, 0]
    kkt = np.where(w != 0, np.abs(G + alpha * np.sign(w)), np.maximum(np.abs(G) - alpha, 0.0))
    assert max(kkt.max(), abs(gradient[10])) <= 1e-6


@pytest.mark.parametrize("solver", ["coordinate", "proximal", "newton"])
def test_gaussian_ridge_is_a_linear_system(solver: str) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    likelihood = Gaussian(0.5)
    problem = Problem(as_design(X), likelihood.encode(y), None, likelihood, Normal(3.0))
    solution = solve(problem, solver, tol=1e-12)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    expected = np.linalg.solve(Xc.T @ Xc / 0.5 + 3.0 * np.eye(4), Xc.T @ yc / 0.5)
    np.testing.assert_allclose(solution.w[:, 0], expected, rtol=1e-5, atol=1e-7)


# --- how a fit ends ---


@pytest.mark.parametrize("solver", ["proximal", "block", "componentwise"])
def test_a_budget_that_ends_too_early_is_admitted(solver: str) -> None:
    solution = solve(random_case(0).problem(), solver, tol=1e-13, max_iter=1)
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 1
    assert not solution.converged
    assert "max_iter" in solution.status.value


def test_progress_may_stop_a_fit() -> None:
    seen: list[int] = []

    def progress(iteration: int, certificate: Any) -> bool:
        seen.append(iteration)
        return iteration == 2

    solution = solve(random_case(0).problem(), "componentwise", tol=1e-13, progress=progress)
    assert seen == [0, 1, 2]
    assert solution.status is Status.STOPPED


@pytest.mark.parametrize("solver", ["auto", "coordinate", "newton"])
@pytest.mark.parametrize("K", [2, 3])
def test_separable_data_without_a_penalty(solver: str, K: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(30) % K
    X = rng.standard_normal((30, 3)) + 20 * np.eye(3)[labels]
    solution = solve(Case(X, labels, K, **penalties(3, 0.0)).problem(), solver)
    assert solution.status is Status.SEPARABLE
    assert not solution.converged
    assert "alpha > 0" in solution.status.value
    assert np.isfinite(solution.w).all()


@pytest.mark.parametrize("solver", [name for name in (*ALL_SOLVERS, *SOLVERS) if name != "newton"])
@pytest.mark.parametrize("factor", [1.0 + 1e-9, 2.0, 1e6])
def test_beyond_alpha_max_the_null_model_is_returned_at_once(solver: str, factor: float) -> None:
    case = random_case(0)
    problem = case.problem()
    alpha = factor * problem.alpha_max()
    solution = solve(problem.with_prior(Laplace(alpha)), solver, tol=1e-10)
    assert solution.status is Status.CONVERGED
    assert solution.n_iter == 0
    assert not solution.w.any()
    assert solution.gap <= 1e-12 * solution.scale
    assert solution.objective == pytest.approx(solution.scale, rel=1e-14)


@every_solver
def test_a_solution_is_a_start(solver: str) -> None:
    case = random_case(0, l1_ratio=0.0)
    first = solve(case.problem(), solver, tol=1e-9)
    again = solve(case.problem(), solver, tol=1e-8, start=first)
    assert again.n_iter == 0
    assert again.objective == pytest.approx(first.objective, rel=1e-9)
    harmful = solve(
        case.problem(), solver, tol=1e-9, start=case.problem().at(np.full((6, 3), 50.0) * np.eye(6, 3), np.zeros(3))
    )
    assert harmful.objective == pytest.approx(first.objective, rel=1e-8)


@every_solver
def test_history_never_rises(solver: str) -> None:
    case = random_case(0, l1_ratio=0.0 if solver == "newton" else 1.0)
    history = np.array(solve(case.problem(), solver, tol=EXACT).history)
    assert np.all(np.diff(history) <= 1e-12 * history[:-1])


def test_auto_says_what_it_chose() -> None:
    assert solve(random_case(0).problem()).solver == "coordinate"
    assert solve(random_case(0, l1_ratio=0.0).problem()).solver == "newton"


def test_unknown_solvers_are_refused() -> None:
    with pytest.raises(ValueError, match="solver must be 'auto' or one of"):
        solve(random_case(0).problem(), "lbfgs")


def test_duplicate_and_constant_columns_do_not_disturb() -> None:
    case = random_case(9)
    best = solve(case.problem(), tol=EXACT)
    wide = case.but(X=np.column_stack([case.X, case.X[:, 0], np.ones(40), np.zeros(40)]), **penalties(9, 1.0))
    for storage in ("dense", "csc"):
        solution = solve(wide.but(storage=storage).problem(), tol=EXACT)
        assert solution.status is Status.CONVERGED
        assert solution.objective == pytest.approx(best.objective, rel=1e-10)
        assert not solution.w[7:].any()


def test_elastic_net_with_a_lasso_column() -> None:
    """Slope and ridge may differ by column; the certificate uses each where it applies."""
    case = random_case(10).but(
        slope=np.array([[1.0], [0.5], [0.0], [1.0], [1.0], [0.0]]),
        ridge=np.array([[0.0], [1.0], [2.0], [0.0], [0.1], [0.0]]),
    )
    solutions = [solve(case.problem(), solver, tol=EXACT) for solver in ("coordinate", "proximal", "block")]
    for solution in solutions:
        judged = evaluate(case, solution.w, solution.b)
        assert judged.gap <= 1e-9 * solution.scale
        assert judged.objective == pytest.approx(solutions[0].objective, rel=1e-10)
    assert isinstance(case.problem().prior, ElasticNet)
    assert isinstance(case.problem().likelihood, Multinomial)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_ones_among_many_zeros_are_not_missed(seed: int) -> None:
    """A Hessian made of a sample of rows is flat in a column whose few ones the sample misses."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40_000, 8))
    X[:, :3] = 0.0
    for j, ones in enumerate((3, 8, 400)):
        X[rng.choice(len(X), ones, replace=False), j] = 1.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = np.argmax(0.5 * X @ rng.standard_normal((8, 4)) + rng.gumbel(size=(len(X), 4)), axis=1)
    case = Case(X, labels, 4, **penalties(8, 20.0))
    solution = solve(case.problem(), tol=1e-8)
    assert solution.status is Status.CONVERGED
    assert evaluate(case, solution.w, solution.b).gap <= 1e-8 * solution.scale


def test_weight_on_a_few_rows() -> None:
    case = random_case(3, n=40_000)
    weight = np.full(40_000, 1e-3)
    weight[::4000] = 1e4
    case = case.but(weight=weight)
    solution = solve(case.problem(), tol=1e-8)
    assert solution.status is Status.CONVERGED
    assert evaluate(case, solution.w, solution.b).gap <= 1e-8 * solution.scale
