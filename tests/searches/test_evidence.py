"""The strength integrated out: the identity behind it, the equation its result satisfies, and the evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, special

from smaller.designs import Csc, Dense, as_design
from smaller.likelihoods import Multinomial
from smaller.papers import find_greedily
from smaller.priors import ElasticNet, Laplace
from smaller.problem import Problem, Status
from smaller.searches.evidence import count_weights, find_strength, log_evidence
from smaller.solvers import solve

Array = Any
SEARCHES = pytest.mark.parametrize("search", [find_strength, find_greedily])


def problem(
    X: Array, labels: Array, *, factors: Array | None = None, intercept: bool = True, weight: Array | None = None
) -> Problem:
    likelihood = Multinomial(int(labels.max()) + 1)
    return Problem(as_design(X), likelihood.encode(labels), weight, likelihood, Laplace(1.0, factors), intercept)


def drawn(seed: int, K: int, n: int = 90, d: int = 6, signal: float = 2.0) -> tuple[Array, Array]:
    """Rows of which two features tell the classes apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = signal * np.column_stack([np.cos(k) * X[:, 0] + np.sin(k) * X[:, 1] for k in 2 * np.pi * np.arange(K) / K])
    labels = np.argmax(scores + rng.gumbel(size=(n, K)), axis=1)
    labels[:K] = np.arange(K)
    return X, labels


def noise(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(500, 20)), rng.integers(0, 3, 500)


def f(case: Problem, alpha: float) -> float:
    """Solve afresh and return alpha E_W / W."""
    solution = solve(case.with_prior(case.prior.times(alpha)), tol=1e-10)
    n_active, total = count_weights(case, solution.w, solution.b)
    return alpha * total / n_active if n_active else 0.0


# --- marginalising alpha is optimising the evidence (section 2.1.2) ---


@given(seed=st.integers(0, 10**6), W=st.integers(1, 30))
def test_the_strength_integrated_out(seed: int, W: int) -> None:
    """int prod alpha/2 exp(-alpha |w|) d alpha / alpha = Gamma(W) / (2 E_W)^W."""
    E = np.abs(np.random.default_rng(seed).laplace(size=W)).sum()
    # In t = log alpha the integrand is exp(W t - W log 2 - exp(t) E), with its mode at log(W / E).
    mode = np.log(W / E)
    height = W * mode - W
    value, _ = integrate.quad(lambda t: np.exp(W * t - np.exp(t) * E - height), mode - 60 / np.sqrt(W), mode + 10)
    expected = special.gammaln(W) - W * np.log(2 * E)
    assert np.log(value) + height - W * np.log(2) == pytest.approx(expected, rel=1e-8, abs=1e-8)


@given(seed=st.integers(0, 10**6), W=st.integers(1, 30))
def test_integrating_and_optimising_give_one_strength(seed: int, W: int) -> None:
    """The gradient of W log E_W is that of alpha E_W at the alpha that maximises the evidence at fixed weights."""
    w = np.random.default_rng(seed).laplace(size=W)
    E = np.abs(w).sum()
    best = W / E

    def minus_log_evidence(alpha: float) -> float:  # the terms with alpha: the Hessian of the loss has none
        return float(alpha * E - W * np.log(alpha / 2))

    for factor in (0.5, 0.9, 1.1, 2.0):
        assert minus_log_evidence(best) < minus_log_evidence(factor * best)
    h = 1e-6
    for j in range(W):
        step = h * (np.arange(W) == j)
        marginal = W * (np.log(np.abs(w + step).sum()) - np.log(np.abs(w - step).sum())) / (2 * h)
        if abs(w[j]) > h:
            assert marginal == pytest.approx(best * np.sign(w[j]), rel=1e-5)


def test_the_strength_found_maximises_the_evidence_at_its_weights() -> None:
    X, labels = drawn(1, 3)
    found = find_strength(problem(X, labels), tol=1e-10)
    assert found.solution.status is Status.CONVERGED
    _, total = count_weights(problem(X, labels), found.solution.w, found.solution.b)
    grid = found.alpha * np.linspace(0.5, 2.0, 3001)
    best = grid[np.argmin(grid * total - found.n_active * np.log(grid))]
    assert best == pytest.approx(found.alpha, rel=2e-3)


# --- the equation ---


@SEARCHES
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4), intercept=st.booleans())
def test_every_result_is_a_fixed_point_or_a_kink(search: Any, seed: int, K: int, intercept: bool) -> None:
    X, labels = drawn(seed, K)
    case = problem(X, labels, intercept=intercept)
    found = search(case, tol=1e-9)
    n_active, total = count_weights(case, found.solution.w, found.solution.b)
    assert found.n_active == n_active
    ratio = found.alpha * total / n_active
    if found.solution.status is Status.CONVERGED:
        assert ratio == pytest.approx(1.0, abs=1e-2)
        # Certified: these are the weights of the L1 problem at this strength.
        fresh = solve(case.with_prior(Laplace(found.alpha)), tol=1e-9)
        assert found.solution.objective == pytest.approx(fresh.objective, rel=1e-8)
    elif found.solution.status is Status.KINK and search is find_strength:
        assert ratio > 1.0 >= f(case, found.alpha * (1 - 1e-4))
    elif found.solution.status is Status.KINK:
        assert ratio == pytest.approx(1.0, abs=1e-2)
    else:
        assert found.solution.status is Status.NO_FIXED_POINT
        assert np.isnan(found.log_evidence)


def test_a_kink_is_a_valid_result() -> None:
    fits = [find_strength(problem(*drawn(seed, 4, n=60, d=8))) for seed in range(10)]
    kinks = [fit for fit in fits if fit.solution.status is Status.KINK]
    assert kinks
    assert all(fit.solution.converged and np.isfinite(fit.log_evidence) for fit in kinks)


@pytest.mark.parametrize("seed", [0, 1])
@SEARCHES
def test_noise_has_no_fixed_point(search: Any, seed: int) -> None:
    X, labels = noise(seed)
    found = search(problem(X, labels))
    assert found.solution.status is Status.NO_FIXED_POINT
    assert not found.solution.converged
    assert np.isnan(found.log_evidence)
    null = search(problem(X, labels), fallback="null")
    assert null.n_active == 0
    assert not null.solution.w.any()
    assert null.solution.gap == pytest.approx(0.0, abs=1e-9 * null.solution.scale)


def test_without_a_fixed_point_the_nearest_model_is_returned() -> None:
    X, labels = noise(0)
    case = problem(X, labels)
    found = find_strength(case)
    largest = max(f(case, alpha) for alpha in case.alpha_max() * 10.0 ** (-np.arange(1, 30) / 15))
    assert f(case, found.alpha) == pytest.approx(largest, rel=0.02)
    assert largest < 1


def test_features_that_say_nothing() -> None:
    labels = np.arange(20) % 2
    found = find_strength(problem(np.zeros((20, 3)), labels))
    assert found.solution.status is Status.NO_FIXED_POINT
    assert found.n_active == 0


@SEARCHES
@pytest.mark.parametrize("seed", range(3))
def test_weights_may_be_counted_as_found(search: Any, seed: int) -> None:
    """Three classes have one optimum; of four, one that was not shifted to a zero has more weights, and a larger W."""
    X, labels = drawn(seed, 3)
    assert search(problem(X, labels), canonical=False).alpha == search(problem(X, labels)).alpha
    case = problem(*drawn(seed, 4))
    found = search(case, canonical=False)
    n_active, total = count_weights(case, found.solution.w, found.solution.b, canonical=False)
    assert found.n_active == n_active >= count_weights(case, found.solution.w, found.solution.b)[0]
    assert found.solution.status in (Status.CONVERGED, Status.KINK)
    if found.solution.status is Status.CONVERGED:
        assert found.alpha * total / n_active == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("seed", range(4))
def test_both_modes_agree(seed: int) -> None:
    X, labels = drawn(seed, 3, n=150)
    path, greedy = (search(problem(X, labels), tol=1e-8) for search in (find_strength, find_greedily))
    if path.solution.status is greedy.solution.status is Status.CONVERGED and path.n_active == greedy.n_active:
        assert greedy.alpha == pytest.approx(path.alpha, rel=1e-3)
        assert greedy.log_evidence == pytest.approx(path.log_evidence, abs=1e-2)
    else:  # at a kink each keeps a neighbour
        assert greedy.alpha == pytest.approx(path.alpha, rel=0.3)


def test_the_greedy_objective_is_certified_by_its_gap() -> None:
    X, labels = drawn(1, 3)
    found = find_greedily(problem(X, labels), tol=1e-6)
    assert found.solution.status is Status.CONVERGED
    assert found.solution.gap is not None
    assert found.solution.gap <= 1e-6 * found.solution.scale
    assert found.solution.solver == "greedy"


@SEARCHES
def test_a_callback_can_stop_the_search(search: Any) -> None:
    X, labels = drawn(0, 3)
    found = search(problem(X, labels), tol=1e-12, progress=lambda iteration, certificate: True)
    assert found.solution.status is Status.STOPPED
    assert not found.solution.converged


def test_the_greedy_budget_is_kept_and_said() -> None:
    X, labels = drawn(0, 3)
    found = find_greedily(problem(X, labels), tol=1e-12, max_iter=1)
    assert found.solution.status is Status.MAX_ITER
    assert not found.solution.converged


@SEARCHES
def test_sparse_columns_give_the_same(search: Any) -> None:
    from scipy import sparse

    X, labels = drawn(5, 3)
    X[np.abs(X) < 0.5] = 0.0
    dense, thin = (search(problem(matrix, labels), tol=1e-10) for matrix in (X, sparse.csc_array(X)))
    assert isinstance(as_design(X), Dense)
    assert isinstance(as_design(sparse.csc_array(X)), Csc)
    assert thin.alpha == pytest.approx(dense.alpha, rel=1e-6)
    assert_allclose(thin.solution.w, dense.solution.w, atol=1e-4)


# --- the evidence ---


def direct_evidence(X: Array, labels: Array, w: Array) -> float:
    """Evaluate the formula for weights without a free block, with the Hessian by finite differences."""
    used = np.flatnonzero(w)
    Y = np.eye(w.shape[1])[labels]

    def nll(values: Array) -> float:
        full = w.copy().ravel()
        full[used] = values
        eta = X @ full.reshape(w.shape)
        return float(np.sum(special.logsumexp(eta, axis=1) - np.sum(Y * eta, axis=1)))

    x, h, W = w.ravel()[used], 1e-4, len(used)
    A = np.empty((W, W))
    for i, ei in enumerate(h * np.eye(W)):
        for j, ej in enumerate(h * np.eye(W)):
            A[i, j] = (nll(x + ei + ej) - nll(x + ei - ej) - nll(x - ei + ej) + nll(x - ei - ej)) / (4 * h * h)
    E = np.abs(x).sum()
    minus = nll(x) + W * np.log(E) - special.gammaln(W) + W * np.log(2)
    return -(minus + 0.5 * np.linalg.slogdet(A)[1] - W / 2 * np.log(2 * np.pi))


@pytest.mark.parametrize("K", [3, 4])
def test_evidence_against_its_formula(K: int) -> None:
    X, labels = drawn(7, K)
    case = problem(X, labels, intercept=False)
    found = find_strength(case, tol=1e-10)
    assert found.log_evidence == pytest.approx(direct_evidence(X, labels, found.solution.w), abs=1e-4)


@given(seed=st.integers(0, 1000))
@settings(max_examples=8)
def test_evidence_does_not_depend_on_units_or_names(seed: int) -> None:
    """A column in other units with its factor adjusted, rows and classes in another order: one and the same model."""
    X, labels = drawn(seed, 3)
    found = find_strength(problem(X, labels), tol=1e-11)
    expected = log_evidence(problem(X, labels), found.solution.w, found.solution.b)
    units = 10.0 ** np.arange(-3.0, 3.0)[:, None]
    rescaled = problem(X / units.T, labels, factors=1.0 / units)
    assert log_evidence(rescaled, units * found.solution.w, found.solution.b) == pytest.approx(expected, abs=1e-6)
    order = np.array([2, 0, 1])
    renamed = problem(X[::-1], np.argsort(order)[labels[::-1]])
    value = log_evidence(renamed, found.solution.w[:, order], found.solution.b[order])
    assert value == pytest.approx(expected, abs=1e-6)


def test_the_canonical_point_decides_for_even_numbers_of_classes() -> None:
    """Equivalent weights: the objective is the same, the Hessian of the one that is not canonical is singular."""
    X, labels = drawn(11, 4)
    case = problem(X, labels, intercept=False)
    w = np.zeros((6, 4))
    w[0] = [1.0, 0.5, -0.5, -1.0]
    shifted = w - 0.5
    shifted[1:] = 0.0
    assert count_weights(case, w, np.zeros(4))[0] == count_weights(case, shifted, np.zeros(4))[0] == 3
    assert log_evidence(case, w, np.zeros(4)) == pytest.approx(log_evidence(case, shifted, np.zeros(4)))


def test_dependent_columns_have_no_evidence() -> None:
    X, labels = drawn(0, 3)
    w = np.zeros((6, 3))
    w[:2, 0] = 1.0
    assert np.isnan(log_evidence(problem(X[:, [0, 0, 1, 2, 3, 4]], labels), w, np.zeros(3)))


def test_unpenalised_columns_are_not_counted() -> None:
    X, labels = drawn(2, 3)
    factors = np.array([[0.0], [1], [1], [1], [1], [1]])
    case = problem(X, labels, factors=factors)
    found = find_strength(case)
    w = found.solution.w
    assert isinstance(case.prior, ElasticNet)
    assert w[0].any()
    assert found.n_active == np.count_nonzero(w[1:])
    assert found.alpha * np.abs(w[1:]).sum() == pytest.approx(found.n_active, rel=0.3)
