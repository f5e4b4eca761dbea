"""Every question against plain NumPy; answers add; what is remembered has the bits of what is computed."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.rows.fakes import Full, Ordinal, Poisson, Strict

from smaller.arrays import Array
from smaller.bases import Kernel
from smaller.designs import Dense, Design, KernelBlocks, as_design
from smaller.kernels import make_kernel
from smaller.likelihoods import ALL_LIKELIHOODS, Curvature, Likelihood
from smaller.rows import Blocks, Fold, HostRows, Place, Rows, Totals
from smaller.rows.blocks import tree_sum
from smaller.rows.protocol import hash64, uniform

LIKELIHOODS: tuple[Any, ...] = (*ALL_LIKELIHOODS, Poisson(), Ordinal())
N, D = 40, 6
SHIFT, SCALE = np.linspace(-1.0, 2.0, D), np.linspace(0.5, 3.0, D)


def matrix() -> Array:
    rng = np.random.default_rng(1)
    return rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7)


def labels(likelihood: Likelihood, rng: np.random.Generator) -> Array:
    if isinstance(likelihood, Poisson):
        return rng.poisson(2.0, N).astype(np.float64)
    if getattr(likelihood, "n_classes", None) is None and likelihood.n_outputs == 1:
        return (
            likelihood.encode(rng.integers(0, 2, N))[:, 0] if "Probit" in type(likelihood).__name__ else matrix()[:, 0]
        )
    return rng.integers(0, getattr(likelihood, "n_classes", likelihood.n_outputs), N)


def holder(likelihood: Any, design: Design | None = None, *, weight: bool = True, offset: bool = True) -> HostRows:
    rng = np.random.default_rng(2)
    codes = labels(likelihood, rng)
    y = codes[:, None] if codes.dtype == np.float64 else likelihood.encode(codes)
    c = rng.integers(0, 3, N) * 0.5
    o = 0.3 * rng.standard_normal((N, likelihood.n_outputs))
    design = as_design(matrix()) if design is None else design
    return HostRows(design, np.asfortranarray(y), c if weight else None, likelihood, o if offset else None)


def place(likelihood: Likelihood, fold: Fold | None = None, seed: int = 3) -> Place:
    rng = np.random.default_rng(seed)
    w = 0.3 * rng.standard_normal((D, likelihood.n_outputs))
    w[[1, 4]] = 0.0
    b = np.sort(rng.standard_normal(likelihood.n_free))[::-1]
    return Place.of(w, b, fold)


DESIGNS: dict[str, tuple[Any, Array]] = {
    "dense": (Dense(np.asfortranarray(matrix())), matrix()),
    "rows": (Dense(np.ascontiguousarray(matrix())), matrix()),
    "float32": (Dense(np.asfortranarray(matrix().astype(np.float32))), matrix().astype(np.float32).astype(np.float64)),
    "sparse": (as_design(sparse.csr_array(matrix())), matrix()),
    "lazy": (KernelBlocks(lambda columns: np.asfortranarray(matrix()[:, columns]), (N, D)), matrix()),
}


def blocks_of(curvature: Curvature) -> Array:
    """Return the Hessians of all rows (n, m, m)."""
    m = curvature.d.shape[1]
    return np.stack([np.stack([curvature.block(k, l) for l in range(m)], axis=1) for k in range(m)], axis=1)  # noqa: E741


class Plain:
    """The answers by dense formulas."""

    def __init__(self, rows: HostRows, X: Array) -> None:
        self.rows, self.X, self.likelihood = rows, X, rows.likelihood

    def weight(self, place: Place) -> Array:
        c = np.ones(N) if self.rows.weight is None else self.rows.weight
        return c if place.fold is None else c * place.fold.member(np.arange(N))

    def eta(self, place: Place) -> Array:
        eta = self.X @ place.weights(D) + (0.0 if self.rows.offset is None else self.rows.offset)
        return eta + place.b

    def evaluate(self, place: Place) -> tuple[float, Array]:
        return self.likelihood.evaluate(self.eta(place), self.rows.y, self.weight(place))

    def hessian(self, place: Place) -> Array:
        """Return the Hessian of all coordinates: weights by column and output, then the free numbers."""
        q, m = self.likelihood.n_outputs, self.likelihood.n_free
        inner = blocks_of(self.likelihood.curvature(self.eta(place), self.rows.y, self.weight(place)))
        maps = np.zeros((N, m, D * q + m))  # how a row's columns of eta depend on all coordinates
        for k in range(m):
            maps[:, k, k if q == m else 0 : D * q : q] = self.X
            maps[:, k, D * q + k] = 1.0
        return np.einsum("nkp,nkl,nlr->pr", maps, inner, maps)


CASES = list(product(LIKELIHOODS, DESIGNS))


def names(case: Any) -> str:
    return case if isinstance(case, str) else f"{type(case).__name__}{case.n_outputs}"


@pytest.mark.parametrize(("likelihood", "kind"), CASES, ids=names)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("full", [False, True], ids=["bare", "weight+offset"])
def test_every_question_against_plain_numpy(likelihood: Any, kind: str, scaled: bool, full: bool) -> None:
    design, X = DESIGNS[kind]
    rows = holder(likelihood, design, weight=full, offset=full)
    if scaled:
        rows, X = rows.scaled(SHIFT, SCALE), (X - SHIFT) / SCALE
    plain, close = Plain(rows, X), {"rtol": 1e-10, "atol": 1e-10}
    q, m = likelihood.n_outputs, likelihood.n_free
    for here in (place(likelihood), place(likelihood, Fold(1, 3)), place(likelihood, Fold(1, 3, outside=False))):
        loss, R = plain.evaluate(here)
        narrow = R if m == q else R.sum(axis=1, keepdims=True)
        (reply,) = rows.at([here])
        np.testing.assert_allclose(reply.loss, loss, **close)
        np.testing.assert_allclose(reply.gb, R.sum(axis=0), **close)
        np.testing.assert_allclose(reply.G, X.T @ narrow, **close)
        assert np.isnan(reply.Hb).all()
        (some,) = rows.at([here], np.array([0, 4]))
        np.testing.assert_allclose(some.G, (X.T @ narrow)[[0, 4]], **close)
        (free,) = rows.at([here], np.array([], dtype=np.int64))
        H = plain.hessian(here)
        np.testing.assert_allclose(free.Hb, H[D * q :, D * q :], **close)
        assert free.G.shape == (0, q)
        np.testing.assert_allclose(rows.squares(here), np.diag(H)[: D * q].reshape(D, q), **close)
        np.testing.assert_allclose(
            rows.squares(here, np.array([2, 5])), np.diag(H)[: D * q].reshape(D, q)[[2, 5]], **close
        )
        np.testing.assert_allclose(rows.outputs(here), plain.eta(here), **close)
        every = (
            np.append(np.repeat(np.arange(D), q), np.full(m, D)),
            np.append(np.tile(np.arange(q), D), np.arange(m)),
        )
        some_of = (np.array([3, D, 0]), np.array([q - 1, m - 1, 0]))
        at = np.array([3 * q + q - 1, D * q + m - 1, 0])
        np.testing.assert_allclose(rows.hessian(here, every), H, **close)
        np.testing.assert_allclose(rows.hessian(here, every, some_of), H[:, at], **close)
        direction = place(likelihood, seed=4)
        V = np.append(direction.weights(D).ravel(), direction.b)
        curved = rows.curve(here, direction)
        np.testing.assert_allclose(np.append(curved[0].ravel(), curved[1]), H @ V, **close)
        known = likelihood.dual(0.7 * R, rows.y, plain.weight(here))
        linear = 0.0 if rows.offset is None else float(np.sum(R * rows.offset))
        if known is None:
            assert np.isnan(rows.dual(here, 0.7))
            assert np.isnan(reply.entropy)
        else:
            np.testing.assert_allclose(rows.dual(here, 0.7), known + 0.7 * linear, **close)
            np.testing.assert_allclose(reply.entropy, likelihood.dual(R, rows.y, plain.weight(here)) + linear, **close)
        there, steps = replace(direction, fold=here.fold), np.array([0.0, 0.25, 1.0])
        expected = [
            likelihood.evaluate((1 - t) * plain.eta(here) + t * plain.eta(there), rows.y, plain.weight(here))[0]
            for t in steps
        ]
        np.testing.assert_allclose(rows.line(here, there, steps), expected, **close)


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_totals_against_plain_numpy(kind: str, scaled: bool) -> None:
    design, X = DESIGNS[kind]
    rows = holder(ALL_LIKELIHOODS[1], design)
    if scaled:
        rows, X = rows.scaled(SHIFT, SCALE), (X - SHIFT) / SCALE
    c = rows.weight
    assert c is not None
    totals = rows.totals()
    mean = np.average(X, axis=0, weights=c)
    np.testing.assert_allclose(totals.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(totals.M2, c @ (X - mean) ** 2, rtol=1e-12)
    np.testing.assert_allclose(totals.low, X[c > 0].min(axis=0), rtol=1e-15)
    np.testing.assert_allclose(totals.high, X[c > 0].max(axis=0), rtol=1e-15)
    assert totals.finite.all()
    assert not totals.constant.any()
    assert totals.n == N
    assert totals.weight == c.sum()
    assert totals.entropy == 0.0
    np.testing.assert_allclose(totals.targets, c @ rows.y, rtol=1e-15)


def test_totals_find_constant_and_broken_columns_in_any_storage() -> None:
    X = matrix()
    X[:, 2] = 3.0
    X[:, 3] = 0.0
    X[7, 4], X[8, 5] = np.nan, np.inf
    for stored in (X, sparse.csc_array(X)):
        whole = holder(ALL_LIKELIHOODS[0], as_design(stored), weight=False)
        for rows in (whole, Blocks.cut(whole, 5)):
            totals = rows.totals()
            assert list(np.flatnonzero(totals.constant & totals.finite)) == [2, 3]
            assert list(np.flatnonzero(~totals.finite)) == [4, 5]


def test_totals_merge_without_losing_digits() -> None:
    """At mean/sd = 1e8 the sum of squares less n times the squared mean would keep no digit."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((N, D))
    rows = holder(ALL_LIKELIHOODS[0], Dense(np.asfortranarray(noise + 1e8)), weight=False)
    whole, parts = rows.totals(), Blocks.cut(rows, 7).totals()
    np.testing.assert_allclose(parts.M2, whole.M2, rtol=1e-6)
    np.testing.assert_allclose(whole.M2, ((noise - noise.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=names)
def test_targets_alone_determine_the_free_numbers(likelihood: Any) -> None:
    rows = holder(likelihood)
    expected = likelihood.null(rows.y, rows.weight)
    # Logarithms of shares that are known to 1e-16: one that is zero is so to that.
    np.testing.assert_allclose(likelihood.null(rows.totals().target_means, None), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(("likelihood", "kind"), CASES, ids=names)
def test_answers_add_over_blocks(likelihood: Any, kind: str) -> None:
    whole = holder(likelihood, DESIGNS[kind][0])
    here = [place(likelihood), place(likelihood, Fold(0, 4), seed=5)]
    every = (np.repeat(np.arange(D + 1), 1), np.zeros(D + 1, dtype=np.int64))
    edges = [0, 0, 1, 2, 17, 17, N]  # blocks without rows, or with one, are blocks
    uneven = Blocks(tuple(whole.subset(np.arange(a, b)) for a, b in pairwise(edges)))
    for blocks in (Blocks.cut(whole, 1), uneven):
        close = {"rtol": 1e-10, "atol": 1e-10}
        for mine, theirs in zip(whole.at(here), blocks.at(here), strict=True):
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(a, b, **close)
        np.testing.assert_allclose(whole.dual(here[0], 0.4), blocks.dual(here[0], 0.4), **close)
        np.testing.assert_allclose(whole.squares(here[1]), blocks.squares(here[1]), **close)
        np.testing.assert_allclose(whole.hessian(here[1], every), blocks.hessian(here[1], every), **close)
        np.testing.assert_allclose(whole.outputs(here[0]), blocks.outputs(here[0]), **close)
        np.testing.assert_allclose(whole.curve(*here)[0], blocks.curve(*here)[0], **close)
        steps = np.array([0.5, 1.0])
        np.testing.assert_allclose(whole.line(*here, steps), blocks.line(*here, steps), **close)
        for name, value in vars(whole.totals()).items():
            np.testing.assert_allclose(value, getattr(blocks.totals(), name), **close)


@pytest.mark.parametrize("kind", DESIGNS)
def test_views_see_the_same_rows(kind: str) -> None:
    likelihood = ALL_LIKELIHOODS[1]
    design, X = DESIGNS[kind]
    whole = holder(likelihood, design)
    here, columns, index = place(likelihood), np.array([0, 2, 3]), np.array([1, 5, 6, 30])
    factors = np.random.default_rng(0).random(N)
    for rows in (whole, Blocks.cut(whole, 3)):
        narrow = Place.of(here.weights(D)[columns], here.b)
        full = np.zeros((D, 3))
        full[columns] = narrow.weights(3)
        np.testing.assert_allclose(
            rows.take(columns).outputs(narrow), whole.outputs(Place.of(full, here.b)), atol=1e-12
        )
        np.testing.assert_allclose(rows.subset(index).outputs(here), whole.outputs(here)[index], atol=1e-12)
        fold = Fold(2, 3, seed=1)
        inside = np.flatnonzero(fold.member(np.arange(N)))
        np.testing.assert_allclose(rows.subset(fold).outputs(here), whole.outputs(here)[inside], atol=1e-12)
        (part,), (masked,) = rows.subset(fold).at([here]), rows.at([replace(here, fold=fold)])
        np.testing.assert_allclose(part.G, masked.G, atol=1e-12)
        assert whole.weight is not None
        heavier = replace(whole, weight=whole.weight * factors)
        np.testing.assert_allclose(rows.weighted(factors).at([here])[0].G, heavier.at([here])[0].G, atol=1e-12)
        basis = Kernel(make_kernel("rbf", gamma=0.5, degree=3, coef0=1.0, kernel_params=None, X=X), X[:4])
        there = Place.of(np.ones((4, 3)), here.b)
        expected = np.exp(-0.5 * ((X[:, None, :] - X[:4]) ** 2).sum(axis=2)) @ np.ones((4, 3)) + here.b + whole.offset
        if kind != "sparse":
            np.testing.assert_allclose(rows.expanded(basis).outputs(there), expected, atol=1e-6)
        assert rows.with_likelihood(likelihood).likelihood is likelihood


def test_the_memo_has_the_bits_of_a_recomputation() -> None:
    for likelihood, kind in CASES:
        rows = holder(likelihood, DESIGNS[kind][0])
        here, there, other = (place(likelihood, seed=seed) for seed in (3, 4, 5))
        (first,) = rows.at([here])  # computed
        (again,) = rows.at([here])  # remembered
        rows.at([there, other])
        (fresh,) = rows.at([here])  # computed anew
        for a, b, c in zip(first, again, fresh, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
            assert np.array_equal(a, c, equal_nan=True)
        unread = replace(rows)
        assert np.array_equal(unread.squares(here), rows.squares(here))
        copy = pickle.loads(pickle.dumps(holder(likelihood, DESIGNS[kind][0]))) if kind != "lazy" else unread
        assert np.array_equal(copy.at([here])[0].G, first.G)


def test_bits_of_a_sum_do_not_depend_on_who_adds() -> None:
    """Runs of 1, 2 and 4 blocks are nodes of one tree."""
    parts = list(np.random.default_rng(0).standard_normal(11))
    whole = tree_sum(parts, lambda a, b: a + b)
    for size in (1, 2, 4, 8):
        nodes = [tree_sum(parts[i : i + size], lambda a, b: a + b) for i in range(0, len(parts), size)]
        assert tree_sum(nodes, lambda a, b: a + b) == whole


def test_a_sample_is_unbiased_and_the_same_whatever_the_blocks() -> None:
    rng = np.random.default_rng(0)
    n = 600
    X = rng.standard_normal((n, 4)) * (rng.random((n, 4)) < [1.0, 1.0, 0.3, 0.005])
    likelihood = ALL_LIKELIHOODS[1]
    y = np.asfortranarray(likelihood.encode(rng.integers(0, 3, n)))
    for c in (None, rng.integers(0, 4, n) * 1.0):
        rows = HostRows(Dense(np.asfortranarray(X)), y, c, likelihood)
        totals, blocks = rows.totals(), Blocks.cut(rows, 7)
        assert c is None or (rows.weight is not None)
        weight = np.ones(n) if c is None else c
        estimates, counts, rare = [], [], 0
        for seed in range(200):
            part = rows.sample(90, totals, seed)
            assert part.weight is not None
            estimates.append(np.append(part.weight @ part.local.design.matrix**2, part.weight.sum()))
            counts.append(part.n_rows)
            rare += bool(part.local.design.matrix[:, 3].any())
        exact = np.append(weight @ X**2, weight.sum())
        mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0) / np.sqrt(200)
        assert (np.abs(mean - exact) <= 5 * error).all()
        assert 60 < np.mean(counts) <= 100
        assert rare == 200  # three entries among 600 rows hold all of a column's variance
        theirs, mine = blocks.sample(90, blocks.totals(), 3), rows.sample(90, totals, 3)
        assert np.array_equal(theirs.design.matrix, mine.design.matrix)
        np.testing.assert_allclose(theirs.weight, mine.weight, rtol=1e-12)


def test_lots_are_fair_and_folds_tell_nothing_about_samples() -> None:
    numbers = np.arange(20_000)
    lots = uniform(numbers, 0)
    counts = np.histogram(lots, 20, (0.0, 1.0))[0]
    assert (np.abs(counts - 1000) < 5 * np.sqrt(1000)).all()
    assert len(np.unique(hash64(numbers, 0))) == len(numbers)
    folds = np.array([Fold(i, 5, outside=False).member(numbers) for i in range(5)])
    assert (folds.sum(axis=0) == 1).all()
    assert (np.abs(folds.sum(axis=1) - 4000) < 5 * np.sqrt(3200)).all()
    chosen = lots < 0.1
    assert (np.abs((folds & chosen).sum(axis=1) - 400) < 5 * np.sqrt(400)).all()


def test_the_strict_fake_answers_as_the_rows_it_wraps() -> None:
    rows = holder(ALL_LIKELIHOODS[1])
    here = place(rows.likelihood)
    strict: Rows = Strict(rows)
    full: Rows = Full(rows)
    assert strict.offers == frozenset()
    assert full.offers == rows.offers
    assert np.array_equal(strict.at([here])[0].G, rows.at([here])[0].G)
    view = strict.take(np.array([0, 1]))
    view.totals()
    assert isinstance(strict, Strict)
    assert strict.rounds == {"at": 1, "totals": 1}
    with pytest.raises(AssertionError, match="not offered"):
        strict.curve(here, here)
    np.testing.assert_array_equal(full.curve(here, here)[0], rows.curve(here, here)[0])


def test_merging_with_nothing_changes_nothing() -> None:
    rows = holder(ALL_LIKELIHOODS[1])
    nothing: Totals = rows.subset(np.array([], dtype=np.int64)).totals()
    for merged in (rows.totals().merged(nothing), nothing.merged(rows.totals())):
        for name, value in vars(rows.totals()).items():
            np.testing.assert_array_equal(value, getattr(merged, name))
