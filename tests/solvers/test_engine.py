"""The engine asks rows for sums only: it succeeds on the mandatory questions, certifies over all rows, asks little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from tests.rows.fakes import Ordinal, Poisson, Strict

from smaller.arrays import Array
from smaller.designs import as_design
from smaller.likelihoods import Gaussian, Multinomial, Probit
from smaller.priors import ElasticNet, Limited
from smaller.problem import Problem, Solution, Status
from smaller.row_problem import RowProblem
from smaller.rows import Blocks, Fold, HostRows, Place
from smaller.solvers import engine, sampled, solve

N, D = 3000, 30


@pytest.fixture(autouse=True)
def few_sampled(monkeypatch: Any) -> None:
    """A sample of a tenth of the rows: the model is then as rough as that of large data."""
    monkeypatch.setattr(sampled, "_ROWS", N // 10)


def matrix(kind: str = "dense") -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    X[:, 5] = np.arange(N) % 300 == 0  # a rare column
    if kind == "sparse":
        return sparse.csc_array(X * (rng.random((N, D)) < 0.1))
    return np.asfortranarray(X, dtype=np.float32 if kind == "float32" else np.float64)


def codes(X: Any, n_classes: int) -> Array:
    rng = np.random.default_rng(1)
    w = np.zeros((D, n_classes))
    w[:8] = rng.standard_normal((8, n_classes))
    return np.argmax(X @ w + rng.gumbel(size=(N, n_classes)), axis=1)


def weights() -> Array:
    return np.random.default_rng(2).choice([0.0, 0.5, 1.0, 3.0], N)


def blocks_of(rows: HostRows) -> Strict:
    return Strict(Blocks.cut(rows, 7))


def plain_gap(rows: HostRows, X: Any, prior: ElasticNet, found: Solution) -> float:
    """Return the duality gap of a softmax by dense formulas; the dual point is made feasible by its scale alone."""
    X = X.toarray() if sparse.issparse(X) else X.astype(np.float64)
    c = np.ones(N) if rows.weight is None else rows.weight
    offset = np.zeros((N, found.b.size)) if rows.offset is None else rows.offset
    eta = X @ found.w + offset + found.b
    pinned = not rows.likelihood.shift_invariant
    full = np.column_stack([eta, np.zeros(N)]) if pinned else eta
    Y = np.column_stack([rows.y, 1.0 - rows.y.sum(axis=1)]) if pinned else rows.y
    lse = logsumexp(full, axis=1)
    P = np.exp(full - lse[:, None])
    loss = c @ (lse - np.sum(Y * full, axis=1))
    slope, ridge = (np.broadcast_to(part, (D, 1)) for part in (prior.slope, prior.ridge))
    R = c[:, None] * (P - Y)[:, : eta.shape[1]]
    G = X.T @ R
    bounded = np.broadcast_to((ridge == 0) & (slope > 0), G.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(bounded & (np.abs(G) > slope), slope / np.abs(G), 1.0)
        s = min(1.0, ratio.min())
        M = Y + s * (P - Y)  # probabilities at the scaled residual; minus their entropies are the conjugates
        dual = -c @ np.sum(np.where(M > 0, M * np.log(np.where(M > 0, M, 1.0)), 0.0), axis=1)
        dual += s * np.sum(R * offset)
        excess = np.maximum(np.abs(s * G) - slope, 0.0)
        conjugate = np.sum(np.where(ridge > 0, excess**2 / (2.0 * np.where(ridge > 0, ridge, 1.0)), 0.0))
    primal = loss + np.sum(slope * np.abs(found.w)) + 0.5 * np.sum(ridge * found.w**2)
    assert found.objective == pytest.approx(primal, rel=1e-12)
    free = np.flatnonzero((slope + ridge)[:, 0] == 0)
    units = 1.0 / np.sqrt(c @ X[:, free] ** 2 / c.sum())
    slack = np.abs(R.sum(axis=0)) @ np.abs(found.b) + np.sum(np.abs(G[free]) * (np.abs(found.w[free]) + units[:, None]))
    return primal - dual + conjugate + slack


FACTORS = np.linspace(0.5, 2.0, D)[:, None]
UNPENALISED = np.where(np.arange(D) < 3, 0.0, 1.0)[:, None]

CASES: dict[str, dict[str, Any]] = {
    "two classes": {"n_classes": 2},
    "symmetric": {"n_classes": 4},
    "reference": {"n_classes": 4, "coding": "reference"},
    "weights": {"n_classes": 3, "weight": True},
    "offset": {"n_classes": 3, "offset": True},
    "float32": {"n_classes": 3, "kind": "float32"},
    "sparse": {"n_classes": 3, "kind": "sparse"},
    "factors": {"n_classes": 3, "slope": FACTORS},
    "free columns": {"n_classes": 3, "slope": UNPENALISED},
    "elastic net": {"n_classes": 3, "ridge": 2.0},
    "ridge": {"n_classes": 3, "slope": 0.0, "ridge": 1.0},
    "no intercept": {"n_classes": 3, "fit_intercept": False},
    "everything": {"n_classes": 3, "kind": "float32", "weight": True, "slope": UNPENALISED * FACTORS, "ridge": 0.5},
}


def case(
    n_classes: int,
    kind: str = "dense",
    coding: str = "symmetric",
    weight: bool = False,
    offset: bool = False,
    slope: Any = 1.0,
    ridge: Any = 0.0,
    fit_intercept: bool = True,
) -> tuple[HostRows, Any, ElasticNet, bool]:
    X = matrix(kind)
    likelihood = Multinomial(n_classes, coding)
    y = likelihood.encode(codes(X, n_classes))
    o = 0.5 * np.random.default_rng(3).standard_normal((N, likelihood.n_outputs)) if offset else None
    rows = HostRows(as_design(X), y, weights() if weight else None, likelihood, o)
    alpha = 20.0 if np.any(slope) else 1.0
    return rows, X, ElasticNet(alpha * slope, ridge), fit_intercept


@pytest.mark.parametrize("name", CASES)
def test_a_fit_by_questions_is_the_fit_in_memory(name: str) -> None:
    rows, X, prior, fit_intercept = case(**CASES[name])
    asked = blocks_of(rows)
    found = engine.solve_rows(RowProblem(asked, prior, fit_intercept), tol=1e-10)
    assert found.status is Status.CONVERGED
    assert found.gap is not None
    assert found.gap <= 1e-10 * found.scale
    if fit_intercept:
        gap = plain_gap(rows, X, prior, found)
        assert gap <= 2e-10 * found.scale
        assert abs(gap - found.gap) <= 1e-11 * found.scale
    if rows.offset is None:
        same = solve(Problem(rows.design, rows.y, rows.weight, rows.likelihood, prior, fit_intercept), tol=1e-10)
        assert abs(found.objective - same.objective) <= 1e-9 * same.scale
        assert found.scale == pytest.approx(same.scale, rel=1e-12)
    assert asked.rounds["outputs"] == 0


@pytest.mark.parametrize("name", CASES)
def test_few_rounds_at_the_usual_tolerance(name: str) -> None:
    rows, _, prior, fit_intercept = case(**CASES[name])
    asked = blocks_of(rows)
    found = engine.solve_rows(RowProblem(asked, prior, fit_intercept))
    assert found.status is Status.CONVERGED
    assert sum(asked.rounds.values()) <= 20


def test_all_rows_in_the_sample_leave_one_look_to_be_taken(monkeypatch: Any) -> None:
    monkeypatch.setattr(sampled, "_ROWS", N)
    rows, _, prior, _ = case(3)
    asked = blocks_of(rows)
    found = engine.solve_rows(RowProblem(asked, prior))
    assert found.status is Status.CONVERGED
    assert asked.rounds["at"] == 1
    assert sum(asked.rounds.values()) <= 4


def test_the_bits_do_not_depend_on_who_holds_the_blocks() -> None:
    rows, _, prior, _ = case(3)
    cut = Blocks.cut(rows, 8)
    shelves = Blocks(tuple(Blocks(cut.holders[i : i + 2]) for i in range(0, 8, 2)))
    one, two = (engine.solve_rows(RowProblem(holder, prior)) for holder in (cut, shelves))
    assert np.array_equal(one.w, two.w)
    assert np.array_equal(one.b, two.b)


def test_folds_are_fitted_side_by_side() -> None:
    rows, _, prior, _ = case(3, weight=True)
    asked = blocks_of(rows)
    problems = [RowProblem(asked, prior, fold=Fold(i, 3)) for i in range(3)]
    model = sampled.draw(asked, asked.totals())

    def fit(problem: RowProblem) -> engine.Asking[Solution]:
        own = sampled.SampledModel(model.sample)
        scale, point = yield from engine.begin(problem, own, tol=1e-9)
        run = yield from engine.descend(problem, own, point, scale, tol=1e-9, max_iter=100)
        return run.solution(problem, scale)

    found = engine.lockstep(asked, [fit(problem) for problem in problems])
    looks = asked.rounds["at"]
    assert looks <= max(solution.n_iter for solution in found) + 10
    for i, solution in enumerate(found):
        inside = np.flatnonzero(Fold(i, 3).member(np.arange(N)))
        part = rows.subset(inside)
        same = solve(Problem(part.design, part.y, part.weight, part.likelihood, prior), tol=1e-9)
        assert solution.objective == pytest.approx(same.objective, rel=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "n_classes"), [(Probit(), 2), (Gaussian(), 0), (Poisson(), 0), (Ordinal(), 4)], ids=str
)
def test_any_likelihood_of_the_protocol(likelihood: Any, n_classes: int) -> None:
    X = 0.3 * matrix()
    rng = np.random.default_rng(4)
    signal = X[:, :4].sum(axis=1)
    if isinstance(likelihood, Poisson):
        labels: Array = rng.poisson(np.exp(0.5 * signal)).astype(np.float64)
    elif isinstance(likelihood, Ordinal):
        labels = np.digitize(signal + rng.logistic(size=N), [-1.0, 0.0, 1.0])
    else:
        labels = signal + rng.standard_normal(N)
    if n_classes == 2:
        labels = (labels > 0).astype(np.int64)
    rows = HostRows(as_design(X), np.asfortranarray(likelihood.encode(labels)), None, likelihood)
    prior = ElasticNet(20.0)
    asked = blocks_of(rows)
    problem = RowProblem(asked, prior)
    found = engine.solve_rows(problem, tol=1e-8)
    assert found.status is Status.CONVERGED
    assert sum(asked.rounds.values()) <= 40
    # stationary by the gradients of all rows at once
    [reply] = rows.at([Place.of(found.w, found.b)])
    assert np.abs(reply.gb).max() <= 1e-5 * N
    assert prior.violation(found.w, reply.G).max() <= 1e-5 * N
    if not isinstance(likelihood, Ordinal):
        same = solve(Problem(rows.design, rows.y, None, likelihood, prior), tol=1e-8)
        assert found.objective == pytest.approx(same.objective, rel=1e-7)


def test_bounds_of_the_gap_hold_it() -> None:
    rows, _, prior, _ = case(3, weight=True)
    problem = RowProblem(rows, prior)
    rng = np.random.default_rng(5)
    for size in (1e-3, 1e-2, 1e-1, 1.0):
        w, b = size * rng.standard_normal((D, 3)), rng.standard_normal(3)
        [reply] = rows.at([problem.place(w, b)])
        point = problem.point(w, b, reply)
        bounds = problem.bounds(point)
        exact = problem.certificate(point, bounds, exact=True).gap
        assert exact is not None
        assert bounds.scale < 1.0
        assert bounds.low * (1.0 - 1e-12) <= exact <= bounds.high * (1.0 + 1e-12)


def test_no_weights_is_where_the_largest_strength_ends() -> None:
    for name in ("symmetric", "free columns", "weights"):
        rows, _, prior, _ = case(**CASES[name])
        problem = RowProblem(blocks_of(rows), prior)
        same = Problem(rows.design, rows.y, rows.weight, rows.likelihood, prior)
        assert prior.critical(engine.no_weights(problem).G) == pytest.approx(same.alpha_max(), rel=1e-5)


def test_a_callback_stops_and_a_limit_is_kept() -> None:
    rows, _, prior, _ = case(3)
    seen: list[Any] = []

    def stop(iteration: int, certificate: Any) -> bool:
        seen.append(certificate)
        return iteration == 1

    found = engine.solve_rows(RowProblem(blocks_of(rows), prior), tol=1e-12, progress=stop)
    assert found.status is Status.STOPPED
    assert found.n_iter == 1
    found = engine.solve_rows(RowProblem(blocks_of(rows), prior), tol=1e-12, max_iter=2)
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 2
    assert found.gap is not None
    assert found.gap == pytest.approx(plain_gap(rows, matrix(), prior, found), rel=1e-6)


def test_separable_data_without_a_penalty_end_in_a_sentence() -> None:
    X = np.asfortranarray(np.linspace(-1.0, 1.0, N)[:, None])
    likelihood = Multinomial(2)
    rows = HostRows(as_design(X), likelihood.encode((X[:, 0] > 0).astype(np.int64)), None, likelihood)
    found = engine.solve_rows(RowProblem(rows, ElasticNet(0.0)), tol=1e-12, max_iter=200)
    assert found.status is Status.SEPARABLE


def test_penalties_that_the_engine_does_not_know_are_refused_by_a_sentence() -> None:
    rows, _, _, _ = case(3)
    with pytest.raises(ValueError, match="penalties of single weights without limits"):
        engine.solve_rows(
            RowProblem(rows, Limited(np.ones((D, 1)), np.zeros((D, 1)), np.zeros((D, 1)), np.ones((D, 1))))
        )
