"""The refit of a support, and how far to trust it: each against formulas that share no code with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, special

from smaller.designs import Csc, as_design
from smaller.likelihoods import Multinomial
from smaller.priors import ElasticNet, Laplace
from smaller.problem import Problem
from smaller.searches.blend import blend_weights
from smaller.searches.refit import Active, inverse, refit
from smaller.solvers import solve

Array = Any


def problem(
    seed: int, K: int, *, coding: str = "symmetric", factors: Array | None = None, weighted: bool = False
) -> Any:
    """A problem of unit strength with signal in two of six columns, and its solution at strength 3."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 6))
    scores = 2.0 * np.column_stack([np.cos(k) * X[:, 0] + np.sin(k) * X[:, 1] for k in 2 * np.pi * np.arange(K) / K])
    labels = np.argmax(scores + rng.gumbel(size=(80, K)), axis=1)
    labels[:K] = np.arange(K)
    likelihood = Multinomial(K, coding)
    weight = rng.integers(1, 4, 80).astype(float) if weighted else None
    prior = Laplace(1.0, None if factors is None else factors[:, None])
    case = Problem(as_design(X), likelihood.encode(labels), weight, likelihood, prior)
    solution = solve(case.with_prior(prior.times(3.0)), tol=1e-10)
    return case, solution.w, solution.b


def loss_of(case: Any, columns: Array, outputs: Array, theta: Array) -> Any:
    """Negative log-likelihood, gradient and Hessian in the coordinates, straight from the softmax."""
    X = np.column_stack([case.design.X, np.ones(len(case.y))])
    q = case.likelihood.n_outputs
    pinned = q < case.likelihood.n_classes
    W = np.zeros((X.shape[1], q))
    W[columns, outputs] = theta
    eta = X @ W
    full = np.column_stack([eta, np.zeros(len(eta))]) if pinned else eta
    P = special.softmax(full, axis=1)[:, :q]
    c = np.ones(len(eta)) if case.weight is None else case.weight
    loss = float(c @ (special.logsumexp(full, axis=1) - (case.y * eta).sum(axis=1)))
    gradient = (X.T @ (c[:, None] * (P - case.y)))[columns, outputs]
    H = np.zeros((len(theta),) * 2)
    for i, (j, k) in enumerate(zip(columns, outputs, strict=True)):
        for m, (g, h) in enumerate(zip(columns, outputs, strict=True)):
            H[i, m] = np.sum(c * X[:, j] * X[:, g] * P[:, k] * ((k == h) - P[:, h]))
    return loss, gradient, H


CASES = pytest.mark.parametrize(
    ("K", "coding", "factors", "weighted"),
    [
        (2, "symmetric", None, False),
        (2, "symmetric", np.array([1.0, 2.0, 0.0, 1.0, 0.5, 1.0]), True),
        (3, "symmetric", None, True),
        (3, "symmetric", np.array([1.0, 0.5, 1.0, 0.0, 1.0, 1.0]), False),
        (4, "reference", None, False),
        (4, "symmetric", None, False),
    ],
)


@CASES
def test_a_refit_is_the_ridge_on_the_support_with_a_self_consistent_strength(
    K: int, coding: str, factors: Array | None, weighted: bool
) -> None:
    case, w, b = problem(K, K, coding=coding, factors=factors, weighted=weighted)
    found = refit(case, w, b)
    active = Active.of(case, w, b)
    again = Active.of(case, found.w, found.b)
    assert (active.columns.tolist(), active.outputs.tolist()) == (again.columns.tolist(), again.outputs.tolist())
    columns = np.append(active.used, case.n_columns)[active.columns]
    r = (np.ones(6) if factors is None else factors)[columns[: active.n_weights]]
    ridge = np.append(found.strength * r**2, np.zeros(len(columns) - active.n_weights))
    _, gradient, H = loss_of(case, columns, active.outputs, again.theta)
    assert_allclose(gradient + ridge * again.theta, 0.0, atol=1e-5 * len(case.y))
    determined = active.n_weights - np.trace(np.linalg.inv(H + np.diag(ridge)) @ np.diag(ridge))
    size = np.sum((r * again.theta[: active.n_weights]) ** 2)
    assert found.strength == pytest.approx(determined / size, rel=3e-3)


def test_sparse_columns_give_the_same_refit() -> None:
    from scipy import sparse

    case, w, b = problem(1, 3)
    thin = Problem(Csc(sparse.csc_array(case.design.X)), case.y, None, case.likelihood, case.prior)
    assert_allclose(refit(thin, w, b).w, refit(case, w, b).w, atol=1e-9)


def test_a_support_on_which_the_classes_are_separable_stays_finite() -> None:
    X = np.r_[np.linspace(-2, -1, 10), np.linspace(1, 2, 10)][:, None]
    likelihood = Multinomial(2)
    case = Problem(as_design(X), likelihood.encode((X[:, 0] > 0).astype(int)), None, likelihood, Laplace(1.0))
    found = refit(case, np.array([[1.0]]), np.zeros(1))
    assert 1.0 < found.w[0, 0] < 30.0


def test_an_empty_support_is_the_null_model() -> None:
    case, w, b = problem(2, 3)
    found = refit(case, 0.0 * w, b)
    assert not found.w.any()
    assert np.isnan(found.strength)
    assert_allclose(found.b, b - b.mean())


def test_an_elastic_net_and_a_ridge_have_a_refit_too() -> None:
    case, w, b = problem(3, 2)
    mixed = case.with_prior(ElasticNet(0.5, 0.5))
    ridge = case.with_prior(ElasticNet(0.0, 1.0))
    assert refit(mixed, w, b).strength == pytest.approx(4.0 * refit(case, w, b).strength, rel=1e-2)
    assert refit(ridge, np.where(w == 0, 0.1, w), b).w.all()


# statsmodels 0.15.0, Logit and MNLogit(...).fit(tol=1e-14): standard errors of rows() with columns 0, 2 and a constant
LOGIT = [0.5064948470904864, 0.4654668718335747, 0.31247016776062414]
MNLOGIT = [
    [0.46351291809561507, 0.4454501634170747],
    [0.458422756554174, 0.44145468997431836],
    [0.3282412313784098, 0.31500623792017435],
]


def rows() -> tuple[Array, Array, Array]:
    i = np.arange(60)
    X = np.column_stack([np.sin(i), np.cos(2.0 * i), np.sin(0.7 * i + 1.0)])
    return X, (np.sin(i) + np.cos(5.0 * i) > 0).astype(int), (i * 7 + (3 * np.sin(i)).astype(int)) % 3


def standard_errors(K: int) -> Array:
    X, two, three = rows()
    likelihood = Multinomial(K, "reference")
    y = likelihood.encode(two if K == 2 else three)
    case = Problem(as_design(X), y, None, likelihood, Laplace(1.0))
    q = likelihood.n_outputs
    w = np.zeros((3, q))
    w[[0, 2]] = 0.1
    found = refit(case, w, np.zeros(q), strength=0.0)
    active = Active.of(case, found.w, found.b)
    curvature = likelihood.curvature(active.eta(active.theta), y, None)
    errors = np.zeros((4, q))
    errors[np.append(active.used, 3)[active.columns], active.outputs] = np.sqrt(
        np.diag(inverse(active.hessian(curvature)))
    )
    return errors[[0, 2, 3]]


def test_without_a_ridge_standard_errors_are_those_of_maximum_likelihood() -> None:
    assert_allclose(standard_errors(2)[:, 0], LOGIT, rtol=1e-10)
    assert_allclose(standard_errors(3), MNLOGIT, rtol=1e-10)


def test_standard_errors_against_statsmodels_itself() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    X, two, three = rows()
    X = api.add_constant(X[:, [0, 2]], prepend=False)
    exact = {"disp": 0, "maxiter": 100, "method": "newton", "tol": 1e-14}
    assert_allclose(standard_errors(2)[:, 0], api.Logit(two, X).fit(**exact).bse, rtol=1e-10)
    # statsmodels pins the first class, the library the last: the labels are turned round, and the columns with them.
    assert_allclose(standard_errors(3), api.MNLogit(2 - three, X).fit(**exact).bse[:, ::-1], rtol=1e-10)


# --- the blend ---


def outputs(seed: int, K: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    E0, E1 = rng.normal(size=(2, 40, K)) * rng.uniform(0.1, 4.0)
    return E0, E1, np.eye(K)[rng.integers(0, K, 40)]


def value(x: Array, E0: Array, E1: Array, Y: Array) -> float:
    eta = x[0] * E0 + x[1] * E1
    nll = special.logsumexp(eta, axis=1) - (Y * eta).sum(axis=1)
    return float(nll.sum() + 2.0 * ((x[0] - 1.0) ** 2 + x[1] ** 2))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), K=st.integers(2, 4))
def test_the_blend_is_the_constrained_minimum(seed: int, K: int) -> None:
    E0, E1, Y = outputs(seed, K)
    found = np.array(blend_weights(E0, E1, Y))
    best = optimize.minimize(value, [0.5, 0.5], (E0, E1, Y), method="L-BFGS-B", bounds=[(0, None)] * 2)
    assert (found >= 0).all()
    assert value(found, E0, E1, Y) <= best.fun + 1e-8


def test_rows_may_be_shifted_weighted_and_repeated() -> None:
    E0, E1, Y = outputs(3, 3)
    plain = blend_weights(E0, E1, Y)
    assert_allclose(blend_weights(E0 + np.arange(40)[:, None], E1 - 3.0, Y), plain, rtol=1e-6, atol=1e-9)
    count = 1 + np.arange(40) % 3
    repeated = (np.repeat(part, count, axis=0) for part in (E0, E1, Y))
    assert_allclose(blend_weights(E0, E1, Y, count.astype(float)), blend_weights(*repeated), rtol=1e-6, atol=1e-9)
