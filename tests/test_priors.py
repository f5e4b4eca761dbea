"""Every prior obeys the contract: majorisers, shrinkage, optimality, duality, canonical points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.priors import ALL_PRIORS, ElasticNet, Jeffreys, Laplace, Normal

seeds = st.integers(0, 2**32 - 1)
FACTORS = np.array([[1.0], [0.0], [2.0], [0.5]])
CONVEX = [
    *(prior for prior in ALL_PRIORS if isinstance(prior, ElasticNet)),
    Laplace(0.7, FACTORS),
    Normal(1.3, FACTORS),
    ElasticNet(0.4 * FACTORS, 0.9 * FACTORS[::-1]),
]
every_prior = pytest.mark.parametrize("prior", [*CONVEX, Jeffreys()], ids=repr)
every_convex = pytest.mark.parametrize("prior", CONVEX, ids=repr)


def weights(seed: int, q: int = 3, zeros: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((4, q)) * 10.0 ** rng.integers(-2, 2, (4, q))
    return w * (rng.random(w.shape) < 0.6) if zeros else w


@every_convex
@given(seed=seeds)
def test_penalty_is_its_formula(prior: Any, seed: int) -> None:
    w = weights(seed, zeros=True)
    expected = np.sum(prior.slope * np.abs(w)) + np.sum(prior.ridge * w**2) / 2
    assert prior.penalty(w) == pytest.approx(expected, rel=1e-13)


@every_prior
@pytest.mark.parametrize("form", ["l1", "l2"])
@given(seed=seeds)
def test_the_majoriser_lies_above_and_touches(prior: Any, form: str, seed: int) -> None:
    w, elsewhere = weights(seed), weights(seed + 1)
    slope, ridge = prior.linearise(w, form)
    assert slope.shape == ridge.shape == w.shape
    if form == "l2":
        assert not slope.any()

    def majoriser(v: Any) -> float:
        return float(np.sum(slope * np.abs(v) + ridge * v**2 / 2))

    constant = prior.penalty(w) - majoriser(w)  # touching at w fixes the constant
    above = majoriser(elsewhere) + constant
    assert above >= prior.penalty(elsewhere) - 1e-10 * (abs(above) + abs(constant))
    h = 1e-6  # and it is tangent there, or it would cross
    bump = h * np.random.default_rng(seed).standard_normal(w.shape) * np.abs(w)
    ahead, behind = (majoriser(v) - prior.penalty(v) + constant for v in (w + bump, w - bump))
    assert abs(ahead - behind) <= 1e-9 * (1.0 + abs(prior.penalty(w)) + abs(constant))


@every_prior
def test_zero_weights_stay_zero_under_an_l2_majoriser(prior: Any) -> None:
    w = np.zeros((4, 2))
    _, ridge = prior.linearise(w, "l2")
    absorbing = np.broadcast_to(getattr(prior, "slope", 1.0) > np.zeros((4, 2)), w.shape)
    assert np.isinf(ridge[absorbing]).all()
    assert np.isfinite(ridge[~absorbing]).all()


@every_convex
@given(seed=seeds, step=st.floats(1e-2, 1e2))
def test_shrink_is_the_best_point_of_a_fine_grid(prior: Any, seed: int, step: float) -> None:
    a = weights(seed, q=1)
    best = prior.shrink(a, step)
    grid = np.linspace(-1.2, 1.2, 4801)[None, :] * np.abs(a).max()
    slope, ridge = np.zeros_like(a) + prior.slope, np.zeros_like(a) + prior.ridge

    def cost(v: Any) -> Any:
        return (v - a) ** 2 / (2 * step) + slope * np.abs(v) + ridge * v**2 / 2

    assert np.all(cost(best) <= cost(grid).min(axis=1, keepdims=True) * (1 + 1e-12) + 1e-300)


@given(seed=seeds, step=st.floats(1e-3, 1e1))
def test_jeffreys_shrinks_to_the_larger_root_or_zero(seed: int, step: float) -> None:
    a = weights(seed)
    w = Jeffreys().shrink(a, step)
    dead = a**2 < 4 * step
    np.testing.assert_array_equal(w == 0, dead)
    alive = ~dead
    np.testing.assert_allclose((w - a + step / np.where(alive, w, 1.0))[alive], 0.0, atol=1e-10 * np.abs(a).max())
    assert np.all(np.abs(w[alive]) >= np.abs(a[alive]) / 2)  # the minimum, not the maximum
    assert np.all(w * a >= 0)


@every_prior
@given(seed=seeds, step=st.floats(1e-2, 1e1))
def test_no_violation_at_a_fixed_point_of_shrink(prior: Any, seed: int, step: float) -> None:
    a = weights(seed)
    w = prior.shrink(a, step)
    G = (w - a) / step  # gradient of the quadratic whose minimiser with the penalty is w
    scale = np.abs(a).max() / step + 1.0
    assert prior.violation(w, G).max() <= 1e-10 * scale
    alive = w != 0
    if alive.any():
        assert prior.violation(w, G + 0.1 * alive)[alive].min() == pytest.approx(0.1, rel=1e-6, abs=1e-8 * scale)


@every_convex
@given(seed=seeds)
def test_violation_is_the_distance_to_the_subdifferential(prior: Any, seed: int) -> None:
    w, G = weights(seed, zeros=True), weights(seed + 1)
    slope, ridge = (np.zeros_like(w) + part for part in (prior.slope, prior.ridge))
    low = np.where(w == 0, -slope, slope * np.sign(w)) + ridge * w
    high = np.where(w == 0, slope, slope * np.sign(w)) + ridge * w
    np.testing.assert_allclose(prior.violation(w, G), np.abs(-G - np.clip(-G, low, high)), atol=1e-12)


@every_convex
@given(seed=seeds)
def test_fenchel_young(prior: Any, seed: int) -> None:
    w, G = weights(seed, zeros=True), weights(seed + 1)
    free = prior.free(4)
    G[free] = 0.0  # a free column is feasible only there
    s = prior.feasible(G)
    assert 0.0 < s <= 1.0
    inside = s * G
    scale = 1.0 + abs(float(np.sum(inside * w)))
    assert prior.penalty(w) + prior.conjugate(inside) >= np.sum(inside * w) - 1e-12 * scale
    slope, ridge = (np.zeros_like(w) + part for part in (prior.slope, prior.ridge))
    subgradient = slope * np.sign(w) + ridge * w
    total = prior.penalty(w) + prior.conjugate(subgradient)
    assert total == pytest.approx(float(np.sum(subgradient * w)), rel=1e-12, abs=1e-12)


@every_convex
@given(seed=seeds)
def test_feasible_is_the_largest_scale(prior: Any, seed: int) -> None:
    G = weights(seed)
    s = prior.feasible(G)
    slope, ridge = (np.zeros_like(G) + part for part in (prior.slope, prior.ridge))
    boxed = (ridge == 0) & (slope > 0)
    ratio = np.max((np.abs(G) / np.where(boxed, slope, 1.0))[boxed], initial=0.0)
    assert s == pytest.approx(min(1.0, 1.0 / ratio) if ratio > 0 else 1.0, rel=1e-14)


def test_jeffreys_has_no_dual() -> None:
    G = weights(0)
    assert Jeffreys().feasible(G) == 0.0
    assert np.isinf(Jeffreys().conjugate(G))


@every_convex
@pytest.mark.parametrize("q", [2, 3, 4, 5, 6])
@given(seed=seeds, zeros=st.booleans())
def test_the_canonical_point(prior: Any, q: int, seed: int, zeros: bool) -> None:
    w = weights(seed, q, zeros)
    centred = prior.center(w)
    shift = w - centred
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape), atol=1e-13 * np.abs(w).max())
    np.testing.assert_allclose(prior.center(centred), centred, atol=1e-13 * np.abs(w).max())
    slope, ridge = (np.broadcast_to(part, (4, 1)).ravel() for part in (prior.slope, prior.ridge))
    both = (slope > 0) & (ridge > 0)
    np.testing.assert_array_equal(centred[both], w[both])
    assert prior.penalty(centred) <= prior.penalty(w) * (1 + 1e-14)
    lasso = (slope > 0) & (ridge == 0)
    assert np.all((centred[lasso] == 0).any(axis=1))  # an exact zero, not a small number
    np.testing.assert_allclose(centred[slope == 0].sum(axis=1), 0.0, atol=1e-12 * np.abs(w).max())
    # No other common shift is cheaper.
    for step in (-0.3, 0.1, 1.0):
        other = np.where(both[:, None], centred, centred + step)
        assert prior.penalty(other) >= prior.penalty(centred) * (1 - 1e-13)


def test_an_even_number_of_outputs_loses_a_weight() -> None:
    """Two weights up and two down: every shift between the middle ones costs the same; the canonical one has a zero."""
    w = np.array([[3.0, 0.5, -0.2, -2.0]])
    prior = Laplace(1.0)
    centred = prior.center(w)
    np.testing.assert_allclose(centred, [[3.2, 0.7, 0.0, -1.8]])
    assert prior.penalty(centred) == pytest.approx(prior.penalty(w), rel=1e-15)


@every_prior
def test_take_is_the_prior_of_the_columns(prior: Any) -> None:
    w = weights(5)
    columns = np.array([3, 1])
    parts = prior.take(columns)
    rest = prior.take(np.array([0, 2]))
    assert parts.penalty(w[columns]) + rest.penalty(w[[0, 2]]) == pytest.approx(prior.penalty(w), rel=1e-13)
    np.testing.assert_allclose(parts.shrink(w[columns], 0.3), prior.shrink(w, 0.3)[columns], rtol=1e-14)


def test_free_names_the_columns_without_any_penalty() -> None:
    np.testing.assert_array_equal(Laplace(1.0, FACTORS).free(4), [1])
    np.testing.assert_array_equal(Normal(1.0, FACTORS).free(4), [1])
    np.testing.assert_array_equal(ElasticNet(0.4 * FACTORS, 0.9 * FACTORS[::-1]).free(4), [])
    np.testing.assert_array_equal(Laplace(0.0).free(3), [0, 1, 2])
    np.testing.assert_array_equal(Laplace(0.1).free(3), [])
    np.testing.assert_array_equal(Jeffreys().free(3), [])
