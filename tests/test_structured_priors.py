"""Priors with groups and limits obey the contract, judged against the plain formulas of tests/structured.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.priors import GroupNorm, Laplace, Limited

seeds = st.integers(0, 2**32 - 1)
COLUMN = np.array([[0.7], [0.4], [1.5], [0.9]])
LABEL = np.array([1, 0, 1, 2])
PRIORS = [
    Limited(COLUMN, 0.0 * COLUMN, 0.0 * COLUMN, np.full((4, 1), np.inf)),
    Limited(
        COLUMN, 0.5 * COLUMN, np.array([[-0.1], [-np.inf], [0.0], [-2.0]]), np.array([[0.0], [0.3], [np.inf], [1.0]])
    ),
    Limited(0.0 * COLUMN, 0.0 * COLUMN, -COLUMN, 2.0 * COLUMN),
    GroupNorm(LABEL, np.array([1.0, 1.4, 0.5]), np.zeros(3), np.zeros(3)),
    GroupNorm(LABEL, np.array([1.0, 1.4, 0.5]), np.array([0.2, 0.5, 1.0]), np.zeros(3)),
    GroupNorm(LABEL, np.array([1.0, 0.0, 0.5]), np.array([0.0, 0.5, 1.0]), np.array([0.3, 1.0, 0.0])),
]
every_prior = pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)


def weights(seed: int, q: int = 3, zeros: bool = True) -> Any:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((4, q)) * 10.0 ** rng.integers(-2, 2, (4, q))
    return w * (rng.random(w.shape) < 0.6) if zeros else w


def inside(prior: Any, w: Any) -> Any:
    return np.clip(w, prior.lower, prior.upper) if prior.limited else w


def formula(prior: Any, w: Any) -> float:
    if prior.limited:
        outside = (w < prior.lower) | (w > prior.upper)
        return np.inf if outside.any() else float(np.sum(prior.slope * np.abs(w) + prior.ridge * w**2 / 2))
    total = 0.0
    for g in range(3):
        part = w[prior.label == g]
        total += prior.norm[g] * np.sqrt(np.sum(part**2))
        total += np.sum(prior.slope[g] * np.abs(part) + prior.ridge[g] * part**2 / 2)
    return float(total)


@every_prior
@given(seed=seeds)
def test_penalty_and_its_change_are_the_formula(prior: Any, seed: int) -> None:
    old, new = inside(prior, weights(seed)), inside(prior, weights(seed + 1))
    assert prior.penalty(old) == pytest.approx(formula(prior, old), rel=1e-13)
    expected = formula(prior, new) - formula(prior, old)
    assert prior.change(old, new) == pytest.approx(expected, rel=1e-10, abs=1e-12 * formula(prior, old))
    assert prior.times(2.5).penalty(old) == pytest.approx(2.5 * prior.penalty(old), rel=1e-13)


@every_prior
def test_small_changes_do_not_drown_in_rounding(prior: Any) -> None:
    old = inside(prior, np.full((4, 2), 0.25))
    step = 1e-14 * np.ones((4, 2)) * (old != 0)
    here = prior.change(old, old + step)
    large = prior.change(old, old + 1e8 * step) * 1e-8
    assert here == pytest.approx(large, rel=0.05, abs=1e-18)


@every_prior
@given(seed=seeds, step=st.floats(1e-2, 1e1))
def test_shrink_cannot_be_improved(prior: Any, seed: int, step: float) -> None:
    a = weights(seed)
    best = prior.shrink(a, step)

    def cost(w: Any) -> float:
        return float(np.sum((w - a) ** 2)) / (2 * step) + formula(prior, w)

    rng = np.random.default_rng(seed)
    for size in (1e-4, 1e-2, 1.0):
        other = inside(prior, best + size * rng.standard_normal(best.shape) * np.abs(a).max())
        assert cost(best) <= cost(other) * (1 + 1e-12) + 1e-13
    for j in range(4):  # and towards zero, one column at a time
        other = best.copy()
        other[j] = 0.0
        assert cost(best) <= cost(other) * (1 + 1e-12) + 1e-13


@every_prior
@given(seed=seeds, step=st.floats(1e-2, 1e1))
def test_no_violation_at_a_fixed_point_of_shrink_and_some_beside_it(prior: Any, seed: int, step: float) -> None:
    a = weights(seed)
    w = prior.shrink(a, step)
    G = (w - a) / step
    scale = np.abs(a).max() / step + 1.0
    assert prior.violation(w, G).max() <= 1e-9 * scale
    moves = w != 0
    if prior.limited:
        moves &= (w > prior.lower) & (w < prior.upper)
    if moves.any():
        assert prior.violation(w, G + 0.1 * moves).max() == pytest.approx(0.1, rel=1e-6, abs=1e-8 * scale)


@every_prior
@given(seed=seeds)
def test_fenchel_young(prior: Any, seed: int) -> None:
    """penalty(w) + conjugate(-G) >= -<w, G>, with equality at a fixed point of shrink."""
    w, G = inside(prior, weights(seed)), weights(seed + 1)
    feasible = prior.feasible(G) * G
    scale = 1.0 + np.abs(feasible * w).sum()
    assert prior.penalty(w) + prior.conjugate(feasible) >= -np.sum(feasible * w) - 1e-12 * scale
    a = weights(seed + 2)
    best = prior.shrink(a, 1.0)
    G = best - a
    total = prior.penalty(best) + prior.conjugate(G)
    assert total == pytest.approx(-float(np.sum(G * best)), rel=1e-9, abs=1e-10 * (1.0 + np.abs(a).max() ** 2))


@every_prior
@given(seed=seeds)
def test_feasible_and_critical_are_sharp(prior: Any, seed: int) -> None:
    G = weights(seed, zeros=False)
    zero = np.zeros_like(G)
    largest = prior.critical(G)
    if 0.0 < largest < np.inf:
        assert prior.times(largest * (1 + 1e-9)).violation(zero, G).max() <= 1e-7 * np.abs(G).max()
        assert prior.times(largest * 0.99).violation(zero, G).max() > 0.0
    elif largest == 0.0:
        assert prior.violation(zero, G).max() == 0.0
    s = prior.feasible(G)
    assert 0.0 < s <= 1.0
    if isinstance(prior, GroupNorm) and not prior.ridge.any():
        assert s == pytest.approx(min(1.0, 1.0 / largest), rel=1e-12)


def test_limits_of_zero_hold_any_gradient() -> None:
    prior = Limited(np.ones((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    G = np.array([[50.0, -70.0]])
    assert prior.critical(G) == 0.0
    assert prior.feasible(G) == 1.0
    assert prior.violation(np.zeros((1, 2)), G).max() == 0.0
    assert prior.conjugate(G) == 0.0


@given(seed=seeds)
def test_the_canonical_point_of_groups(seed: int) -> None:
    w = weights(seed)
    pure, mixed = PRIORS[3], PRIORS[4]
    centred = pure.center(w)
    np.testing.assert_allclose(centred.sum(axis=1), 0.0, atol=1e-12 * np.abs(w).max())
    assert pure.penalty(centred) <= pure.penalty(w) * (1 + 1e-14)
    np.testing.assert_array_equal(mixed.center(w), w)


@every_prior
def test_take_is_the_prior_where_the_other_weights_are_zero(prior: Any) -> None:
    w = inside(prior, weights(5, zeros=False))
    columns = np.array([3, 1])
    alone = w.copy()
    alone[[0, 2]] = 0.0
    assert prior.take(columns).penalty(w[columns]) == pytest.approx(prior.penalty(alone), rel=1e-13)


@given(seed=seeds)
def test_groups_of_one_weight_are_absolute_values(seed: int) -> None:
    w, G = weights(seed, q=1), weights(seed + 1, q=1)
    grouped = GroupNorm(np.arange(4), COLUMN[:, 0], np.zeros(4), np.zeros(4))
    plain = Laplace(1.0, COLUMN)
    assert grouped.penalty(w) == pytest.approx(plain.penalty(w), rel=1e-14)
    np.testing.assert_allclose(grouped.violation(w, G), plain.violation(w, G), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(grouped.shrink(w, 0.3), plain.shrink(w, 0.3), rtol=1e-12, atol=1e-14)
    assert grouped.feasible(G) == pytest.approx(plain.feasible(G), rel=1e-14)
    assert grouped.critical(G) == pytest.approx(plain.critical(G), rel=1e-14)


def test_free_columns_are_those_without_penalty_and_limits() -> None:
    np.testing.assert_array_equal(GroupNorm(LABEL, np.array([1.0, 0.0, 0.5]), np.zeros(3), np.zeros(3)).free(4), [0, 2])
    nothing, endless = np.zeros((3, 1)), np.full((3, 1), np.inf)
    lower = np.array([[-np.inf], [0.0], [-np.inf]])
    np.testing.assert_array_equal(Limited(nothing, nothing, lower, endless).free(3), [0, 2])
