"""The search for import points: its formulas against explicit solves, its rules against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smaller.designs import Dense
from smaller.kernels import RBF, FromCallable, Precomputed
from smaller.likelihoods import Multinomial
from smaller.papers.selection import _after_one_step, by_one_step, exactly
from smaller.priors import Normal
from smaller.problem import Problem
from smaller.searches.candidates import Candidates
from smaller.searches.forward import Choice, Forward, by_promise, select
from smaller.searches.shortlist import by_joint_promise, promises
from smaller.searches.submodel import Submodel
from smaller.solvers import solve

KERNEL = RBF(0.5)
EVERYTHING = 1 << 30


def sample(n: int = 60, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    angle = 2.0 * np.pi * labels / classes
    return np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(n, 2)), labels


def partly_fitted(classes: int, points: int = 3, seed: int = 0, weight: Any = None) -> tuple[Submodel, Candidates]:
    """A model on a few points, not converged, and its candidates."""
    X, labels = sample(classes=classes, seed=seed)
    likelihood = Multinomial(classes)
    model = Submodel(likelihood, likelihood.encode(labels), weight, 0.3)
    candidates = Candidates(KERNEL, X, np.arange(len(X)), EVERYTHING)
    for index in range(points):
        psi = candidates.whitened(model, np.array([index]))
        model.append(psi)
        candidates.forget(psi)
    model.refit(1e-9)
    model.renew()
    model._beta[: model.d] += 0.1 * np.random.default_rng(seed).normal(size=model.beta.shape)
    model.eta = model.D @ model.beta
    model.loss, model.residual = model.likelihood.evaluate(model.eta, model.y, model.weight)
    candidates.renew(model)
    return model, candidates


def quadratic_minimum(model: Submodel, candidates: Candidates, chosen: Any, k: int) -> float:
    """The decrease of the quadratic model of output k with some columns, beyond that of the submodel alone."""
    rows, h, d = candidates.rows[chosen], 0 if model.shared else k, model.d
    columns = candidates.column(rows)
    D = np.hstack([model.D, columns])
    P = np.zeros((D.shape[1], D.shape[1]))
    P[range(1, d), range(1, d)] = model.alpha
    P[d:, 1:d] = model.alpha * model.phi[rows]
    P[1:d, d:] = P[d:, 1:d].T
    P[d:, d:] = model.alpha * columns[rows]
    A = D.T @ (model.W[:, h, None] * D) + P
    g = D.T @ model.residual[:, k] + P[:, :d] @ model.beta[:, k]
    own = g[:d] @ np.linalg.solve(A[:d, :d], g[:d])
    return float(0.5 * (g @ np.linalg.solve(A, g) - own))


@given(index=st.integers(3, 59), seed=st.integers(0, 100), classes=st.sampled_from([2, 3, 6]))
def test_predicted_decrease_is_that_of_the_explicit_solve(index: int, seed: int, classes: int) -> None:
    model, candidates = partly_fitted(classes, seed=seed)
    num, s = candidates.numerators(model, model.gradient()), candidates.curvatures(model)
    for k in range(model.q):
        predicted = 0.5 * num[index, k] ** 2 / s[0 if model.shared else k, index]
        assert predicted == pytest.approx(
            quadratic_minimum(model, candidates, np.array([index]), k), rel=1e-5, abs=1e-9
        )


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_extended_factors_equal_those_from_scratch(classes: int) -> None:
    model, candidates = partly_fitted(classes)
    for index in ([10], [20, 30, 40], [50]):
        candidates.extend(model, *model.append(candidates.whitened(model, np.array(index))))
    extended = candidates.V[:, : model.d].copy(), candidates.s.copy()
    for k, inverse in enumerate(model.factors):
        A = model.D.T @ (model.W[:, k, None] * model.D) + np.diag([0.0] + [model.alpha] * (model.d - 1))
        np.testing.assert_allclose(inverse @ A @ inverse.T, np.eye(model.d), atol=1e-7)
    candidates.renew(model)
    np.testing.assert_allclose(extended[0], candidates.V[:, : model.d], atol=1e-9)
    np.testing.assert_allclose(extended[1], candidates.s, rtol=1e-7, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 100), classes=st.sampled_from([2, 3, 6]), listed=st.sampled_from([12, 60]))
def test_a_block_promises_what_the_explicit_solve_says(seed: int, classes: int, listed: int) -> None:
    model, candidates = partly_fitted(classes, seed=seed)
    g = model.gradient()
    chosen, first = by_joint_promise(model, candidates, g, 4, 0.0)
    assert len(np.unique(chosen)) == 4
    alone = promises(model, candidates, g)[0]
    assert alone[chosen[0]] == first == alone.max()
    together = sum(quadratic_minimum(model, candidates, chosen, k) for k in range(model.q))
    for k in range(3):  # every point is the best on the shortlist after those before it
        before = sum(quadratic_minimum(model, candidates, chosen[:k], k_) for k_ in range(model.q)) if k else 0.0
        best = [
            sum(quadratic_minimum(model, candidates, np.append(chosen[:k], one), k_) for k_ in range(model.q)) - before
            for one in chosen[k:]
        ]
        assert best[0] >= max(best) * (1.0 - 1e-6)
    assert together >= first


def test_a_block_takes_no_copies_and_nothing_that_is_worth_little() -> None:
    X, labels = sample(40)
    X, labels = np.repeat(X, 3, axis=0), np.repeat(labels, 3)
    likelihood = Multinomial(2)
    model = Submodel(likelihood, likelihood.encode(labels), None, 0.3)
    candidates = Candidates(KERNEL, X, np.arange(len(X)), EVERYTHING)
    candidates.renew(model)
    chosen, first = by_joint_promise(model, candidates, model.gradient(), 8, 0.0)
    assert len(np.unique(X[chosen], axis=0)) == 8
    assert len(by_joint_promise(model, candidates, model.gradient(), 8, 2.0 * first)[0]) == 1


def test_blocks_reach_what_points_one_by_one_reach() -> None:
    X, labels = sample(300, 3)
    single, path, _ = run(X, labels, eps=0.0, max_points=40, block=1)
    blocked, other, _ = run(X, labels, eps=0.0, max_points=40, block=4)
    assert len(np.unique(other.points)) == 40
    np.testing.assert_array_equal(other.points[:16], path.points[:16])  # the first four blocks' worth are alike
    assert len(np.unique(other.objective[16:20])) == 1  # known at the end of a block only
    drop = path.objective[0] - single.objective
    assert blocked.objective - single.objective < 0.02 * drop


def test_whitened_columns_reproduce_the_kernel() -> None:
    model, candidates = partly_fitted(2, points=5)
    K = KERNEL(candidates.X, candidates.X)
    np.testing.assert_allclose(model.phi @ model.phi[:5].T, K[:, :5], atol=1e-12)
    np.testing.assert_allclose(candidates.rho, 1.0 - np.sum(model.phi**2, axis=1), atol=1e-12)
    assert not candidates.admissible()[:5].any()
    assert candidates.admissible()[5:].all()


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_refit_reaches_the_certified_optimum(classes: int) -> None:
    weight = np.random.default_rng(0).uniform(0.0, 2.0, 60)
    model, _ = partly_fitted(classes, weight=weight)
    model.refit(1e-14)
    problem = Problem(Dense(model.phi), model.y, weight, model.likelihood, Normal(model.alpha))
    assert model.objective == pytest.approx(solve(problem, tol=1e-12).objective, rel=1e-10)


def test_trying_a_column_leaves_the_model_alone() -> None:
    model, candidates = partly_fitted(3)
    model.refit(1e-12)
    before = model.d, model.beta.copy(), model.objective
    assert model.try_column(candidates.whitened(model, np.array([7])), 1e-12) < before[2]
    assert model.d == before[0]
    assert model.objective == before[2]
    np.testing.assert_array_equal(model.beta, before[1])


def test_one_step_objective_is_that_of_the_explicit_step() -> None:
    model, candidates = partly_fitted(2)
    g, index = model.gradient(), 40
    num, s = candidates.numerators(model, g), candidates.curvatures(model)
    c = -num[index] / s[:, index]
    found = _after_one_step(model, candidates, index, c, model.precondition(g), candidates._held[index])
    psi = candidates.whitened(model, np.array([index]))
    model.append(psi)
    A = model.D.T @ (model.W * model.D) + np.diag([0.0] + [model.alpha] * (model.d - 1))
    beta = model.beta - np.linalg.solve(A, model.gradient())
    loss, _ = model.likelihood.evaluate(model.D @ beta, model.y, None)
    assert found == pytest.approx(loss + 0.5 * model.alpha * float(np.sum(beta[1:] ** 2)), rel=1e-7)


def run(X: Any, labels: Any, alphas: Any = (0.3,), weight: Any = None, kernel: Any = KERNEL, **options: Any) -> Any:
    likelihood = Multinomial(int(labels.max()) + 1)
    options = {"window": 1} | options
    extra = {name: options.pop(name) for name in ("watched", "fit_intercept", "rng", "rows") if name in options}
    return select(kernel, X, likelihood, likelihood.encode(labels), weight, alphas, Forward(**options), **extra)


def test_exact_selection_is_the_best_of_all_refits() -> None:
    X, labels = sample(30)
    _, path, _ = run(X, labels, choose=exactly, refresh=1, max_points=1)
    likelihood, objectives = Multinomial(2), []
    for column in KERNEL(X, X).T:
        problem = Problem(Dense(column[:, None]), likelihood.encode(labels), None, likelihood, Normal(0.3))
        objectives.append(solve(problem, tol=1e-10).objective)
    assert path.points[0] == int(np.argmin(objectives))
    assert path.objective[0] == pytest.approx(min(objectives), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize(("choose", "refresh"), [(by_promise, 10), (by_one_step, 1), (exactly, 1)])
def test_selections_agree(classes: int, choose: Choice, refresh: int) -> None:
    X, labels = sample(48, classes)
    model, path, _ = run(X, labels, choose=choose, refresh=refresh)
    reference, other, _ = run(X, labels, refresh=1)
    assert model.objective == pytest.approx(reference.objective, rel=5e-3)
    assert abs(len(path.points) - len(other.points)) <= 3


@pytest.mark.parametrize("kernel", [KERNEL, Precomputed(), FromCallable(lambda A, B: KERNEL(A, B))])
def test_blocks_choose_as_held_columns_do(kernel: Any) -> None:
    X, labels = sample(50)
    data = KERNEL(X, X) if isinstance(kernel, Precomputed) else X
    _, held, _ = run(X, labels)
    _, blocked, _ = run(data, labels, kernel=kernel, memory_limit=1000, n_candidates=50)
    np.testing.assert_array_equal(held.points, blocked.points)


def test_what_does_not_fit_the_memory_is_sampled() -> None:
    X, labels = sample(50)
    _, path, _ = run(X, labels, memory_limit=4 * 50 * 10, eps=0.0, rng=np.random.default_rng(0))
    assert len(path.points) == 10
    _, again, _ = run(X, labels, memory_limit=4 * 50 * 10, eps=0.0, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(path.points, again.points)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_no_row_twice_and_none_without_weight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, labels = sample(20, seed=seed)
    X, labels = np.repeat(X, 3, axis=0), np.repeat(labels, 3)
    weight = rng.integers(0, 3, 60).astype(float)
    weight[:2], weight[3:5] = 1.0, 1.0
    _, path, _ = run(X, labels, weight=weight, eps=0.0)
    assert len(np.unique(X[path.points], axis=0)) == len(path.points)
    assert (weight[path.points] > 0).all()


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_order_of_rows_does_not_matter(seed: int) -> None:
    X, labels = sample(40, 3)
    order = np.random.default_rng(seed).permutation(40)
    _, path, _ = run(X, labels)
    _, shuffled, _ = run(X[order], labels[order])
    np.testing.assert_array_equal(path.points, order[shuffled.points])


def test_weight_is_repetition() -> None:
    X, labels = sample(30)
    count = np.random.default_rng(0).integers(1, 4, 30)
    weighted, path, _ = run(X, labels, weight=count.astype(float))
    repeated, other, _ = run(np.repeat(X, count, axis=0), np.repeat(labels, count))
    np.testing.assert_allclose(X[path.points], np.repeat(X, count, axis=0)[other.points])
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-9)


@pytest.mark.parametrize("window", [1, 3])
def test_stopping_rule(window: int) -> None:
    X, labels = sample(80)
    _, path, _ = run(X, labels, eps=1e-2, window=window)
    H = path.objective
    assert (np.diff(H) < 0).all()
    lag = np.abs(H[window:] - H[:-window]) / H[window:]
    assert (lag[:-1] >= 1e-2).all()
    _, longer, _ = run(X, labels, eps=1e-4, window=window)
    np.testing.assert_array_equal(longer.points[: len(path.points)], path.points)
    assert len(run(X, labels, eps=0.0, max_points=4)[1].points) == 4


def test_nothing_is_added_when_nothing_is_promised() -> None:
    X, labels = sample(80)
    model, path, _ = run(X, labels, alphas=[1e6])
    assert len(path.points) == 0
    assert model.objective == pytest.approx(80 * np.log(2.0))


@pytest.mark.parametrize("alpha", [1e-3, 1e-9, 1e-14])
def test_separable_data_terminate(alpha: float) -> None:
    X, labels = sample(80)
    X[:, 0] += np.where(labels == 1, 6.0, -6.0)
    model, path, _ = run(X, labels, alphas=[alpha])
    assert len(path.points) < 80
    assert np.isfinite(model.beta).all()
    assert model.objective < 1.0


def test_decreasing_strengths_carry_the_points_over() -> None:
    X, labels = sample(120)
    watched = np.arange(0, 120, 4)
    weight = np.ones(120)
    weight[watched] = 0.0
    alphas = np.exp(np.arange(4.0, -4.0, -1.0))
    model, path, stages = run(X, labels, alphas=alphas, weight=weight, watched=watched)
    counts = [stage.n_points for stage in stages]
    assert counts == sorted(counts)
    assert counts[-1] == len(path.points) == len(np.unique(path.points))
    assert not np.isin(path.points, watched).any()
    assert (np.diff(path.alphas) <= 0).all()
    proba = model.likelihood.predict(model.eta[watched])
    assert stages[-1].validation_error == np.mean(proba.argmax(axis=1) != labels[watched])
    chosen = proba[np.arange(len(watched)), labels[watched]]
    assert stages[-1].validation_loss == pytest.approx(-np.mean(np.log(chosen)))
    # The last stage is as good as a run of its own.
    alone, _, _ = run(X, labels, alphas=alphas[-1:], weight=weight)
    assert model.objective <= alone.objective * 1.005


def test_single_precision_chooses_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = sample(200)
    double, _, _ = run(X, labels)
    monkeypatch.setattr("smaller.searches.candidates.DOUBLE_BYTES", 0)
    single, path, _ = run(X, labels)
    assert single.objective == pytest.approx(double.objective, rel=2e-3)
    assert len(np.unique(path.points)) == len(path.points)


def test_indefinite_kernel_is_an_error() -> None:
    X, labels = sample(40)
    with pytest.raises(ValueError, match="positive semi-definite"):
        run(X, labels, kernel=FromCallable(lambda A, B: np.tanh(A @ B.T - 1.0)), eps=0.0)
    with pytest.raises(ValueError, match="positive semi-definite"):
        run(X, labels, kernel=FromCallable(lambda A, B: KERNEL(A, B) - 0.2), eps=0.0)
