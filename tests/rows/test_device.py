"""Rows on a device answer as rows on the host do, and nothing but weights and answers crosses."""

from __future__ import annotations

import importlib.util
from typing import Any

import array_api_compat
import array_api_strict
import numpy as np
import pytest
from tests.rows.test_rows import SCALE, SHIFT, D, N, holder, matrix, place

from smaller.arrays import Array, from_host, to_host
from smaller.designs import Dense
from smaller.likelihoods import ALL_LIKELIHOODS, Multinomial
from smaller.rows import Fold, HostRows, Place
from smaller.rows.device import DeviceRows
from smaller.rows.device_matrix import DeviceMatrix

AWAY = array_api_strict.Device("device1")  # NumPy cannot read what is there: `__array__` raises


def strict(a: Array) -> Array:
    return array_api_strict.asarray(np.ascontiguousarray(a), device=AWAY)


def torch(a: Array) -> Array:
    import torch  # type: ignore[import-not-found, unused-ignore]

    torch.set_num_threads(1)
    return torch.asarray(np.ascontiguousarray(a))


def same(a: Array) -> Array:
    return np.array(a)


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
MOVES = [strict, pytest.param(torch, marks=needs_torch), same]


def moved(rows: HostRows, move: Any) -> DeviceRows:
    """Return the rows elsewhere."""
    weight, offset = (None if part is None else move(part) for part in (rows.weight, rows.offset))
    return DeviceRows(DeviceMatrix(move(rows.design.matrix)), move(rows.y), weight, rows.likelihood, offset)


def close(mine: Any, theirs: Any) -> None:
    np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda one: f"{type(one).__name__}{one.n_outputs}")
@pytest.mark.parametrize(
    ("scaled", "full", "dtype"), [(False, False, np.float64), (False, True, np.float32), (True, True, np.float64)]
)
def test_every_question_is_answered_as_on_the_host(
    move: Any, likelihood: Any, scaled: bool, full: bool, dtype: Any
) -> None:
    host = holder(likelihood, Dense(np.asfortranarray(matrix().astype(dtype))), weight=full, offset=full)
    rows = moved(host, move)
    if scaled:
        host, rows = host.scaled(SHIFT, SCALE), rows.scaled(SHIFT, SCALE)
    assert rows.dtype == dtype
    for here in (place(likelihood), place(likelihood, Fold(1, 3)), Place.of(np.zeros((D, host.y.shape[1])), [0.1])):
        if len(here.b) != likelihood.n_free:
            continue
        there = Place.of(place(likelihood, seed=4).weights(D), here.b, here.fold)
        for asked in (None, np.array([0, 4]), np.array([], dtype=np.int64)):
            for mine, theirs in zip(rows.at([here, there], asked), host.at([here, there], asked), strict=True):
                for a, b in zip(mine, theirs, strict=True):
                    assert isinstance(a, np.ndarray | float)
                    close(a, b)
        close(rows.dual(here, 0.7), host.dual(here, 0.7))
        close(rows.squares(here), host.squares(here))
        close(rows.squares(here, np.array([2, 5])), host.squares(here, np.array([2, 5])))
        close(to_host(rows.outputs(here)), host.outputs(here))
        steps = np.array([0.0, 0.25, 1.0])
        close(rows.line(here, there, steps), host.line(here, there, steps))
        q, m = likelihood.n_outputs, likelihood.n_free
        every = np.append(np.repeat(np.arange(D), q), np.full(m, D)), np.append(np.tile(np.arange(q), D), np.arange(m))
        some = np.array([3, D, 0, 5, 3]), np.array([q - 1, m - 1, 0, 0, 0])
        close(rows.hessian(here, every), host.hessian(here, every))
        close(rows.hessian(here, every, some), host.hessian(here, every, some))
        close(to_host(rows.gram(here, some)), host.hessian(here, some))
        for a, b in zip(rows.curve(here, there), host.curve(here, there), strict=True):
            close(a, b)


@pytest.mark.parametrize("move", MOVES)
def test_totals_samples_and_views_are_those_of_the_host(move: Any) -> None:
    likelihood = Multinomial(3)
    X = matrix()
    X[:, 2], X[7, 4], X[8, 5] = 3.0, np.nan, np.inf
    broken = Dense(np.asfortranarray(X))
    for host in (holder(likelihood), holder(likelihood, weight=False), holder(likelihood, broken)):
        here, there = moved(host, move), moved(host, move).scaled(SHIFT, SCALE)
        for mine, theirs in ((here, host), (there, host.scaled(SHIFT, SCALE))):
            totals = mine.totals()
            for name, value in vars(theirs.totals()).items():
                close(getattr(totals, name), value)
            if not totals.finite.all():
                continue
            one, other = mine.sample(15, totals, 3), theirs.sample(15, totals, 3)
            assert isinstance(one, HostRows)
            close(one.design.matrix, other.design.matrix)
            close(one.weight, other.weight)
            close(one.y, other.y)
    host, at = holder(likelihood), place(likelihood)
    rows, narrow = moved(host, move), Place.of(at.weights(D)[[0, 2]], at.b)
    close(rows.take(np.array([0, 2])).at([narrow])[0].G, host.take(np.array([0, 2])).at([narrow])[0].G)
    for some in (np.array([1, 5, 6, 30]), Fold(2, 3, seed=1)):
        close(rows.subset(some).at([at])[0].G, host.subset(some).at([at])[0].G)
    again, part = Fold(0, 2), np.arange(5, 35)  # rows keep their numbers
    close(rows.subset(part).subset(again).at([at])[0].G, host.subset(part).subset(again).at([at])[0].G)
    factors = np.random.default_rng(0).random(N)
    close(rows.weighted(factors).at([at])[0].G, host.weighted(factors).at([at])[0].G)
    twice = rows.weighted(lambda y: 1.0 + y[:, 0])
    close(twice.at([at])[0].G, host.weighted(lambda y: 1.0 + y[:, 0]).at([at])[0].G)
    twofold = rows.scaled(SHIFT, SCALE).scaled(SCALE, 1.0 + SCALE)
    close(twofold.at([at])[0].G, host.scaled(SHIFT, SCALE).scaled(SCALE, 1.0 + SCALE).at([at])[0].G)


def test_blocks_of_rows_change_nothing(monkeypatch: Any) -> None:
    from smaller.rows import device_matrix

    likelihood, here = Multinomial(3), place(Multinomial(3))
    rows = moved(holder(likelihood, Dense(np.asfortranarray(matrix().astype(np.float32)))), same)
    every = np.arange(D + 1), np.arange(D + 1) % 3
    whole = rows.at([here])[0].G, rows.hessian(here, every), rows.squares(here), rows.totals().M2
    monkeypatch.setattr(device_matrix, "_BYTES", 7 * 8 * D)
    for mine, theirs in zip(
        (rows.at([here])[0].G, rows.hessian(here, every), rows.squares(here), rows.totals().M2), whole, strict=True
    ):
        close(mine, theirs)


@pytest.fixture
def crossings(monkeypatch: Any) -> list[int]:
    """Sizes of the arrays that leave the device."""
    sizes: list[int] = []
    leave = type(strict(np.zeros(1))).to_device

    def recorded(self: Any, device: Any, /, **options: Any) -> Any:
        if device != AWAY:
            sizes.append(int(np.prod(self.shape)))
        return leave(self, device, **options)

    monkeypatch.setattr(type(strict(np.zeros(1))), "to_device", recorded)
    return sizes


@pytest.mark.parametrize("likelihood", [Multinomial(2), Multinomial(3)], ids=["two", "three"])
def test_no_more_than_weights_and_gradients_leave_the_device(likelihood: Any, crossings: list[int]) -> None:
    host = holder(likelihood)
    rows, here = moved(host, strict), place(likelihood)
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        np.asarray(rows.design.X)
    rows.totals()
    rows.at([here, place(likelihood, Fold(0, 2), seed=5)])
    rows.at([here], np.array([], dtype=np.int64))
    rows.line(here, place(likelihood, seed=4), np.array([0.5]))
    rows.dual(here, 0.5)
    rows.squares(here)
    rows.curve(here, here)
    q = likelihood.n_outputs
    assert crossings
    assert max(crossings) <= 1 + D * q + max(q, q * q)
    assert array_api_compat.device(rows.outputs(here)) == AWAY
    assert array_api_compat.device(rows.gram(here, (np.array([0]), np.array([0])))) == AWAY
    assert array_api_compat.device(from_host(np.zeros(2), rows.y)) == AWAY
