"""The contracts of the parts, driven by two methods that are awkward for them, before anything is built on top.

An import vector machine changes the basis while it solves; JCFO differentiates through it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smaller.bases import Kernel, Whitened
from smaller.kernels import RBF
from smaller.likelihoods import Multinomial, Probit
from smaller.priors import Laplace, Normal
from smaller.problem import Problem, Solution
from smaller.solvers import solve

ALPHA = 0.5
KERNEL = RBF(0.8)


def moons(n: int = 24) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    angle = np.pi * rng.random(n)
    labels = np.arange(n) % 2
    X = np.column_stack([np.cos(angle) + labels, np.where(labels == 1, 0.4 - np.sin(angle), np.sin(angle))])
    return X + 0.25 * rng.standard_normal((n, 2)), labels


class ForwardSearch:
    """IVM Algorithm 1: add the row that lowers the penalised loss most; a Whitened basis, a Normal prior, ``solve``."""

    def __init__(self, X: Any, labels: Any) -> None:
        self.X, self.likelihood = X, Multinomial(2)
        self.y = self.likelihood.encode(labels)
        self.basis = Whitened.empty(KERNEL, X)
        self.chosen: list[int] = []
        self.solution = self._fit(self.basis, None)

    def _fit(self, basis: Whitened, start: Solution | None) -> Solution:
        problem = Problem(basis.expand(self.X), self.y, None, self.likelihood, Normal(ALPHA))
        if start is not None:  # old columns keep their weights: only the new one starts at zero
            w = np.vstack([start.w, np.zeros((1, 1))])
            return solve(problem, start=problem.at(w, start.b), tol=1e-11)
        return solve(problem, tol=1e-11)

    def step(self) -> float:
        """Try every remaining row and keep the best; return the objective."""
        phi = self.basis.expand(self.X).X
        new = self.basis.remainder(self.X, phi) > 1e-10
        trials = {}
        for i in np.flatnonzero(new):
            grown = self.basis.append(self.X[i : i + 1])
            trials[int(i)] = (grown, self._fit(grown, self.solution))
        best = min(trials, key=lambda i: trials[i][1].objective)
        self.basis, self.solution = trials[best]
        self.chosen.append(best)
        return self.solution.objective


def direct_klr(X: Any, labels: Any, subset: list[int]) -> tuple[float, Any, float]:
    """Minimise sum log(1 + exp(-y f)) + alpha/2 a' K_SS a over (a, b) by Newton on the plain kernel columns (3.9)."""
    K, K_SS = KERNEL(X, X[subset]), KERNEL(X[subset], X[subset])
    Z = np.column_stack([K, np.ones(len(X))])
    penalty = np.zeros((len(subset) + 1,) * 2)
    penalty[:-1, :-1] = ALPHA * K_SS
    x = np.zeros(len(subset) + 1)
    for _ in range(50):
        p = 1 / (1 + np.exp(-(Z @ x)))
        gradient = Z.T @ (p - labels) + penalty @ x
        x = x - np.linalg.solve(Z.T @ ((p * (1 - p))[:, None] * Z) + penalty, gradient)
    f = Z @ x
    return float(np.sum(np.logaddexp(0, f) - labels * f) + x @ penalty @ x / 2), x[:-1], float(x[-1])


def direct_search(X: Any, labels: Any, steps: int) -> tuple[list[int], list[float]]:
    chosen: list[int] = []
    objectives = []
    for _ in range(steps):
        trials = {i: direct_klr(X, labels, [*chosen, i])[0] for i in range(len(X)) if i not in chosen}
        chosen.append(min(trials, key=trials.__getitem__))
        objectives.append(trials[chosen[-1]])
    return chosen, objectives


def test_an_import_vector_machine_runs_through_the_contracts() -> None:
    X, labels = moons()
    search = ForwardSearch(X, labels)
    objectives = [search.step() for _ in range(4)]
    chosen, expected = direct_search(X, labels, 4)
    assert search.chosen == chosen
    np.testing.assert_allclose(objectives, expected, rtol=1e-8)
    assert np.all(np.diff(objectives) < 0)
    # The same function, in the kernel's own coefficients.
    _, a, b = direct_klr(X, labels, chosen)
    np.testing.assert_allclose(search.basis.dual_coef(search.solution.w)[:, 0], a, atol=1e-5)
    assert search.solution.b[0] == pytest.approx(b, abs=1e-5)


def test_all_rows_are_kernel_logistic_regression() -> None:
    X, labels = moons(12)
    basis = Whitened.empty(KERNEL, X)
    for i in range(12):
        basis = basis.append(X[i : i + 1])
    likelihood = Multinomial(2)
    problem = Problem(basis.expand(X), likelihood.encode(labels), None, likelihood, Normal(ALPHA))
    solution = solve(problem, tol=1e-11)
    assert solution.solver == "newton"
    assert solution.objective == pytest.approx(direct_klr(X, labels, list(range(12)))[0], rel=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(1), Multinomial(2), Multinomial(3), Probit(3)], ids=repr)
def test_the_gradient_in_the_feature_scales(likelihood: Any) -> None:
    """JCFO: d/d theta of the loss at fixed (w, b), through Problem.at and Kernel.pullback, by differences."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((15, 3))
    labels = np.arange(15) % max(2, likelihood.n_outputs)
    w = rng.standard_normal((6, likelihood.n_outputs)) * (rng.random((6, 1)) < 0.7)
    b, weight = rng.standard_normal(likelihood.n_outputs), rng.random(15) + 0.5

    def at(theta: Any) -> tuple[Kernel, Any]:
        basis = Kernel(RBF(theta), X[:6])
        problem = Problem(basis.expand(X), likelihood.encode(labels), weight, likelihood, Laplace(0.3))
        return basis, problem.at(w, b)

    theta = np.array([0.3, 0.0, 0.9])  # a scale at zero, its bound, included
    basis, point = at(theta)
    gradient = basis.pullback(X, point.residual, w)
    h = 1e-6
    expected = [(at(theta + h * e)[1].objective - at(theta)[1].objective) / h for e in np.eye(3)]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)
    inside = np.array([0.3, 0.2, 0.9])
    basis, point = at(inside)
    central = [(at(inside + h * e)[1].objective - at(inside - h * e)[1].objective) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(basis.pullback(X, point.residual, w), central, rtol=1e-7, atol=1e-7)


def test_scales_that_move_downhill_lower_the_optimum() -> None:
    """The gradient at the optimum of (w, b) is that of the profiled objective (envelope theorem)."""
    X, labels = moons()
    X = np.column_stack([X, np.random.default_rng(1).standard_normal(len(X))])
    likelihood = Probit(1)

    def profiled(theta: Any) -> tuple[float, Any]:
        basis = Kernel(RBF(theta), X[::3])
        problem = Problem(basis.expand(X), likelihood.encode(labels), None, likelihood, Laplace(0.5))
        solution = solve(problem, tol=1e-10)
        point = problem.at(solution.w, solution.b)
        return solution.objective, basis.pullback(X, point.residual, solution.w)

    theta = np.full(3, 0.5)
    value, gradient = profiled(theta)
    h = 1e-4
    expected = [(profiled(theta + h * e)[0] - profiled(theta - h * e)[0]) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-4)
    assert profiled(theta - 0.01 * gradient)[0] < value
