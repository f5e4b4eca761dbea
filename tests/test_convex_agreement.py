"""Groups, limits, offsets, soft labels, weights: 200 problems against a general convex solver (cvxpy, Clarabel)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from smaller.solvers import solve
from structured import Structured, judge, loss_and_gradient, penalty, random_structured

cp = pytest.importorskip("cvxpy")

Array = Any
BATCH, BATCHES = 20, 10


def made(seed: int) -> Structured:
    """Return a random problem; half of them have an offset, half soft labels."""
    case = random_structured(seed)
    rng = np.random.default_rng(10_000 + seed)
    n, K = case.Y.shape
    if seed % 2:
        case = replace(case, offset=rng.normal(size=(n, K)))
    if seed // 2 % 2:
        case = replace(case, Y=0.5 * case.Y + 0.5 * rng.dirichlet(np.ones(K), n))
    return case


def by_cones(case: Structured) -> tuple[Array, Array]:
    """Return weights and intercepts of the same problem, written as a cone program."""
    (n, d), K = case.X.shape, case.Y.shape[1]
    columns = np.arange(K)[case.outputs]
    w, b = cp.Variable((d, len(columns))), cp.Variable(len(columns))
    place = np.eye(K)[columns]
    eta = (case.X @ w + np.ones((n, 1)) @ cp.reshape(b, (1, len(columns)), order="C")) @ place + case.offset
    loss = case.weight @ (cp.log_sum_exp(eta, axis=1) - cp.sum(cp.multiply(case.Y, eta), axis=1))
    parts = [cp.vec(w[np.flatnonzero(case.group == g)], order="C") for g in range(len(case.norm))]
    cost = sum(norm * cp.norm(part) for norm, part in zip(case.norm, parts, strict=True) if norm)
    cost += case.slope @ cp.sum(cp.abs(w), axis=1) + 0.5 * case.ridge @ cp.sum(cp.square(w), axis=1)
    limits = [w[j] >= case.lower[j] for j in range(d) if np.isfinite(case.lower[j])]
    limits += [w[j] <= case.upper[j] for j in range(d) if np.isfinite(case.upper[j])]
    limits += [] if case.fit_intercept else [b == 0]
    if case.outputs.stop == K and K > 2:
        limits.append(cp.sum(b) == 0)  # a common shift changes nothing
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cvxpy about reduced accuracy: what was found is judged below
        cp.Problem(cp.Minimize(loss + cost), limits).solve(solver=cp.CLARABEL, **tight)
    values = np.clip(w.value, case.lower[:, None], case.upper[:, None])
    return values, b.value


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_same_optimum_to_eight_digits(batch: int) -> None:
    for seed in range(BATCH * batch, BATCH * (batch + 1)):
        case = made(seed)
        mine = solve(case.problem("csc" if seed % 3 == 0 else "dense"), tol=1e-10)
        judged = judge(case, mine.w, mine.b)
        w, b = by_cones(case)
        theirs = loss_and_gradient(case, w, b)[0] + penalty(case, w)
        assert mine.converged, seed
        assert judged.gap <= 1e-9 * judged.objective + judged.imbalance * np.abs(mine.b).sum(), seed
        assert mine.objective == pytest.approx(judged.objective, rel=1e-12), seed
        assert abs(judged.objective - theirs) <= 1e-8 * theirs, seed
