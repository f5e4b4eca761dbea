"""The compiled loops against a page of NumPy; this file needs nothing else of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from smaller import _core

Array = Any


@dataclass
class Quadratic:
    """``<g, dw> + <gb, db> + 1/2 sum_i delta_i' (diag(d_i) - u_i u_i') delta_i + penalty``, in the core's layout."""

    X: Array
    first: Array
    column: Array
    gradient: Array
    slope: Array
    ridge: Array
    start: Array
    d: Array  # (q, n)
    u: Array | None
    gb: Array | None
    outputs: Array = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = np.repeat(np.arange(len(self.d)), np.diff(self.first))

    def hessian(self) -> tuple[Array, Array]:
        """Return the dense Hessian over (weights, intercepts) and the gradient at entry."""
        columns = [np.asarray(self.X[:, j], dtype=np.float64) for j in self.column]
        outputs, gradient = self.outputs, self.gradient
        if self.gb is not None:
            columns += [np.ones(self.d.shape[1])] * len(self.gb)
            outputs, gradient = np.append(outputs, np.arange(len(self.gb))), np.append(gradient, self.gb)
        m = len(columns)
        H = np.zeros((m, m))
        for a in range(m):
            for c in range(m):
                k, l = outputs[a], outputs[c]  # noqa: E741
                entry = (self.d[k] if k == l else 0.0) - (0.0 if self.u is None else self.u[k] * self.u[l])
                H[a, c] = np.sum(columns[a] * columns[c] * entry)
        return H, gradient


def random_quadratic(
    seed: int, *, q: int = 3, n: int = 37, p: int = 8, intercept: bool = True, coupled: bool = True, dtype: str = "d"
) -> Quadratic:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.6) + 0.3 * (rng.random(p) < 0.3)
    X = np.asfortranarray(X.astype(dtype))
    members = [np.sort(rng.permutation(p)[: rng.integers(1, p + 1)]) for _ in range(q)]
    column = np.concatenate(members).astype(np.int64)
    m = len(column)
    P = rng.dirichlet(np.ones(q + 1), size=n).T[:q]  # softmax with one class pinned: strictly convex rows
    return Quadratic(
        X,
        np.cumsum([0, *map(len, members)]).astype(np.int64),
        column,
        rng.standard_normal(m) * 3,
        rng.random(m) * 2,
        rng.random(m) * (rng.random(m) < 0.5),
        rng.standard_normal(m) * (rng.random(m) < 0.5),
        np.ascontiguousarray(P),
        np.ascontiguousarray(P) if coupled else None,
        rng.standard_normal(q) if intercept else None,
    )


def plain_descent(H: Array, g: Array, slope: Array, ridge: Array, start: Array, sweeps: int = 3000) -> Array:
    """Cyclic coordinate descent, one coordinate and one line at a time; trailing coordinates are intercepts."""
    m, extra = len(start), len(g) - len(start)
    x = np.append(start, np.zeros(extra))
    origin = x.copy()
    slope, ridge = np.append(slope, np.zeros(extra)), np.append(ridge, np.zeros(extra))
    for _ in range(sweeps):
        before = x.copy()
        for j in range(m + extra):
            target = H[j, j] * x[j] - (g[j] + H[j] @ (x - origin))
            x[j] = np.sign(target) * max(abs(target) - slope[j], 0.0) / (H[j, j] + ridge[j])
        if np.max(np.abs(x - before)) < 1e-14:
            break
    return x


class Run:
    """The core's working arrays for one descent."""

    def __init__(self, problem: Quadratic) -> None:
        q, n = problem.d.shape
        m = len(problem.column)
        self.problem = problem
        self.w, self.square, self.mean = problem.start.copy(), np.zeros(m), np.zeros(m)
        self.delta, self.b = np.zeros((q, n)), np.zeros(q)
        self.s = None if problem.u is None else np.zeros(n)
        self.progress = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])

    def arguments(self, **changes: Any) -> dict[str, Any]:
        p = self.problem
        return {
            "first": p.first,
            "column": p.column,
            "gradient": p.gradient,
            "slope": p.slope,
            "ridge": p.ridge,
            "w": self.w,
            "square": self.square,
            "mean": self.mean,
            "d": p.d,
            "u": p.u,
            "delta": self.delta,
            "s": self.s,
            "gb": p.gb,
            "b": self.b,
            "progress": self.progress,
            "max_sweeps": 100000,
            "tol": 1e-13,
            "budget": 1e9,
        } | changes

    def dense(self, **changes: Any) -> bool:
        return bool(_core.descend(**({"X": self.problem.X} | self.arguments(**changes))))

    def sparse(self, index: str, **changes: Any) -> bool:
        S = sparse.csc_array(self.problem.X)
        return bool(
            _core.descend_sparse(S.data, S.indices.astype(index), S.indptr.astype(index), **self.arguments(**changes))
        )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("storage", ["dense", "i4", "i8"])
@pytest.mark.parametrize("seed", range(3))
def test_descent_matches_plain_numpy(dtype: str, intercept: bool, coupled: bool, storage: str, seed: int) -> None:
    problem = random_quadratic(seed, dtype=dtype, intercept=intercept, coupled=coupled)
    run = Run(problem)
    assert run.dense() if storage == "dense" else run.sparse(storage)
    expected = plain_descent(*problem.hessian(), problem.slope, problem.ridge, problem.start)
    m = len(problem.start)
    np.testing.assert_allclose(run.w, expected[:m], atol=1e-9)
    np.testing.assert_array_equal(run.w == 0, np.abs(expected[:m]) < 1e-12)
    if intercept:
        np.testing.assert_allclose(run.b, expected[m:], atol=1e-9)
    # What the descent leaves behind is the step in eta, and its projection on u.
    eta = np.zeros_like(run.delta)
    for k in range(len(eta)):
        mine = problem.outputs == k
        eta[k] = problem.X[:, problem.column[mine]].astype(float) @ (run.w - problem.start)[mine] + run.b[k]
    np.testing.assert_allclose(run.delta, eta, atol=1e-9)
    if coupled:
        np.testing.assert_allclose(run.s, np.sum(problem.u * eta, axis=0), atol=1e-9)


@pytest.mark.parametrize("storage", ["dense", "i4"])
@pytest.mark.parametrize("budget", [0.0, 200.0, 1000.0])
def test_a_budget_only_interrupts(storage: str, budget: float) -> None:
    problem = random_quadratic(7)
    whole, pieces = Run(problem), Run(problem)
    descend = {"dense": Run.dense, "i4": lambda run, **options: run.sparse("i4", **options)}[storage]
    assert descend(whole)
    calls = 1
    while calls < 2000 and not descend(pieces, budget=budget):
        calls += 1
    assert 1 < calls < 2000
    np.testing.assert_allclose(pieces.w, whole.w, atol=1e-11)
    np.testing.assert_allclose(pieces.delta, whole.delta, atol=1e-11)


def test_max_sweeps_is_obeyed() -> None:
    run = Run(random_quadratic(3))
    assert run.dense(max_sweeps=2, tol=0.0)
    assert run.progress[2] == 2


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("storage", ["dense", "i8"])
def test_zero_and_constant_columns_get_no_weight(value: float, storage: str) -> None:
    problem = random_quadratic(5, q=1)
    problem.X[:, problem.column[0]] = value
    problem.start[0] = 0.7
    problem.slope[0] = 0.1
    run = Run(problem)
    run.dense() if storage == "dense" else run.sparse(storage)
    assert run.w[0] == 0.0
    assert np.isfinite(run.w).all()
    assert np.isfinite(run.b).all()


@pytest.mark.parametrize("seed", range(10))
def test_gram_descent_matches_plain_numpy(seed: int) -> None:
    problem = random_quadratic(seed, intercept=False)
    H, g = problem.hessian()
    w, gradient = problem.start.copy(), g.copy()
    sweeps = _core.descend_gram(H, gradient, problem.slope, problem.ridge, w, 100000, 1e-13)
    assert 1 < sweeps < 100000
    np.testing.assert_allclose(w, plain_descent(H, g, problem.slope, problem.ridge, problem.start), atol=1e-9)
    np.testing.assert_allclose(gradient, g + H @ (w - problem.start), atol=1e-9)


BAD_SHAPES = {
    "first": lambda run: run.problem.first[:-1],
    "column": lambda run: run.problem.column + 100,
    "gradient": lambda run: run.problem.gradient[:-1],
    "slope": lambda run: run.problem.slope[:-1],
    "ridge": lambda run: np.append(run.problem.ridge, 1.0),
    "w": lambda run: run.w[:-1],
    "square": lambda run: run.square[:-1],
    "mean": lambda run: run.mean[:-1],
    "d": lambda run: np.ascontiguousarray(run.problem.d[:, :-1]),
    "u": lambda run: np.ascontiguousarray(run.problem.u[:-1]),
    "delta": lambda run: np.ascontiguousarray(run.delta[:, :-1]),
    "s": lambda run: None,
    "gb": lambda run: run.problem.gb[:-1],
    "b": lambda run: run.b[:-1],
    "progress": lambda run: run.progress[:-1],
}


@pytest.mark.parametrize("name", sorted(BAD_SHAPES))
@pytest.mark.parametrize("storage", ["dense", "i4"])
def test_bad_shapes_raise(name: str, storage: str) -> None:
    run = Run(random_quadratic(0))
    changes = {name: BAD_SHAPES[name](run)}
    with pytest.raises(ValueError, match=r"must|range"):
        run.dense(**changes) if storage == "dense" else run.sparse(storage, **changes)


def test_indices_outside_raise() -> None:
    run = Run(random_quadratic(0))
    for column in (-1, run.problem.X.shape[1]):
        wrong = run.problem.column.copy()
        wrong[0] = column
        with pytest.raises(ValueError, match="range"):
            run.dense(column=wrong)
    decreasing = run.problem.first.copy()
    decreasing[1] = decreasing[-1] + 1
    with pytest.raises(ValueError, match="decrease"):
        run.dense(first=decreasing)


@pytest.mark.parametrize("name", ["w", "square", "mean", "delta", "s", "b", "progress"])
def test_read_only_outputs_raise(name: str) -> None:
    run = Run(random_quadratic(0))
    frozen = getattr(run, name).copy()
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        run.dense(**{name: frozen})


@pytest.mark.parametrize("name", ["gradient", "w", "d", "delta"])
def test_wrong_types_are_refused_not_copied(name: str) -> None:
    run = Run(random_quadratic(0))
    with pytest.raises(TypeError):
        run.dense(**{name: run.arguments()[name].astype(np.float32)})


def test_rows_first_is_refused() -> None:
    run = Run(random_quadratic(0))
    with pytest.raises((ValueError, TypeError)):
        run.dense(X=np.ascontiguousarray(run.problem.X))


def test_read_only_inputs_are_welcome() -> None:
    problem = random_quadratic(0)
    for array in (problem.X, problem.gradient, problem.slope, problem.ridge, problem.d, problem.u, problem.gb):
        array.flags.writeable = False
    assert Run(problem).dense()


def test_gram_bad_shapes_raise() -> None:
    H, v = np.eye(3), np.ones(3)
    with pytest.raises(ValueError, match="square"):
        _core.descend_gram(np.ones((3, 2)), v.copy(), v, v, v.copy(), 10, 0.0)
    for place in range(1, 5):
        arguments = [H, v.copy(), v, v, v.copy()]
        arguments[place] = np.ones(2)
        with pytest.raises(ValueError, match="length"):
            _core.descend_gram(*arguments, 10, 0.0)


@pytest.mark.parametrize("storage", ["dense", "i4"])
def test_nothing_to_do(storage: str) -> None:
    problem = random_quadratic(0, q=2)
    empty = np.zeros(0)
    nothing = Quadratic(
        problem.X,
        np.zeros(3, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        empty,
        empty,
        empty,
        empty,
        problem.d,
        problem.u,
        None,
    )
    run = Run(nothing)
    assert run.dense() if storage == "dense" else run.sparse(storage)
    assert not run.delta.any()


def test_correct_is_two_rank_one_updates() -> None:
    rng = np.random.default_rng(0)
    H, a, b = rng.standard_normal((7, 7)), rng.standard_normal(7), rng.standard_normal(7)
    expected = H + np.outer(a, a) / 3.0 - np.outer(b, b) / 0.5
    _core.correct(H, a, 3.0, b, 0.5)
    np.testing.assert_allclose(H, expected, rtol=1e-14, atol=1e-14)
    for arguments in ((H[:, :6].copy(), a, b), (H, a[:6], b), (H, a, b[:6])):
        with pytest.raises(ValueError, match="H must be"):
            _core.correct(arguments[0], arguments[1], 1.0, arguments[2], 1.0)


# --- the softmax, alone and in a pass over dense columns ---


def reference_softmax(eta: Array, y: Array, weight: Array | None, pinned: bool) -> tuple[float, Array]:
    """Loss and residual in extended precision."""
    wide = np.asarray(eta, dtype=np.longdouble)
    padded = np.hstack([wide, np.zeros((len(wide), 1))]) if pinned else wide
    shifted = padded - padded.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    targets = np.hstack([y, 1.0 - y.sum(axis=1, keepdims=True)]) if pinned else y
    c = np.ones(len(y)) if weight is None else weight
    loss = -(c[:, None] * targets * log_p).sum()
    return float(loss), np.asarray(c[:, None] * (np.exp(log_p) - targets), dtype=float)[:, : y.shape[1]]


def rows_of_softmax(seed: int, n: int, q: int, pinned: bool) -> tuple[Array, Array, Array]:
    """Random eta, one-hot targets (column by column) and weights."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, q + pinned, n)
    y = np.asfortranarray((labels[:, None] == np.arange(q)).astype(float))
    return np.asfortranarray(3.0 * rng.standard_normal((n, q))), y, rng.random(n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(("n", "q"), [(1, 1), (7, 2), (255, 3), (256, 5), (600, 9)])
def test_softmax_is_exact(n: int, q: int, pinned: bool, weighted: bool) -> None:
    eta, y, weight = rows_of_softmax(n + q, n, q, pinned)
    c = weight if weighted else None
    residual = np.empty_like(eta)
    loss = _core.softmax(eta, y, c, residual, pinned)
    expected, gradient = reference_softmax(eta, y, c, pinned)
    assert loss == pytest.approx(expected, rel=1e-14, abs=1e-13)
    np.testing.assert_allclose(residual, gradient, rtol=0.0, atol=1e-15)


def test_softmax_of_extreme_numbers() -> None:
    steps = np.linspace(-740.0, 0.0, 4001)
    eta = np.asfortranarray(np.column_stack([steps, np.zeros_like(steps)]))
    y = np.asfortranarray(np.tile([1.0, 0.0], (len(steps), 1)))
    residual = np.empty_like(eta)
    _core.softmax(eta, y, None, residual, False)
    found, expected = residual[:, 0] + 1.0, np.exp(steps) / (1.0 + np.exp(steps))
    np.testing.assert_allclose(found[steps > -36.0], expected[steps > -36.0], rtol=1e-13, atol=2.3e-16)
    plain = np.zeros_like(y)  # without targets the residual is the probability, down to the smallest
    _core.softmax(eta, plain, None, residual, False)
    inside = steps > -707.0
    np.testing.assert_allclose(residual[inside, 0], expected[inside], rtol=3e-15)
    assert np.all(residual[~inside, 0] < 1e-307)
    for huge in (1e5, 1e300):
        eta = np.array([[huge, -huge, 0.0]])
        loss = _core.softmax(eta, np.array([[0.0, 1.0, 0.0]]), None, residual := np.empty((1, 3)), False)
        assert loss == 2.0 * huge
        np.testing.assert_allclose(residual, [[1.0, -1.0, 0.0]], atol=1e-300)


def test_softmax_of_a_slice_leaves_the_rest_alone() -> None:
    eta, y, _ = rows_of_softmax(0, 50, 3, False)
    residual = np.full_like(eta, 7.0)
    _core.softmax(eta[10:30], y[10:30], None, residual[10:30], False)
    np.testing.assert_allclose(residual[10:30], reference_softmax(eta[10:30], y[10:30], None, False)[1], atol=1e-15)
    assert np.all(residual[:10] == 7.0)
    assert np.all(residual[30:] == 7.0)


@pytest.mark.parametrize(("parts", "threads"), [(1, 1), (3, 1), (5, 3), (2, 4)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("n", "d", "q"), [(1, 1, 1), (3, 2, 2), (257, 5, 3), (1000, 9, 4), (601, 17, 5), (300, 8, 6), (513, 3, 13)]
)
def test_a_pass_is_two_products_and_a_softmax(n: int, d: int, q: int, dtype: str, parts: int, threads: int) -> None:
    rng = np.random.default_rng(n + d + q)
    X = np.asfortranarray(rng.standard_normal((n, d)).astype(dtype))
    change = np.ascontiguousarray(rng.standard_normal((d, q)) * (rng.random((d, 1)) < 0.7))
    pinned = q == 1
    eta, y, weight = rows_of_softmax(1, n, q, pinned)
    wide = X.astype(float)
    for step, c in ((change, None), (None, weight), (0.0 * change, None), (change, weight)):
        moved, residual, G = eta.copy(order="F"), np.empty_like(eta), np.empty((d, q))
        loss = _core.pass_over(X, step, moved, y, c, residual, G, pinned, parts, threads)
        target = eta if step is None else eta + wide @ step
        np.testing.assert_allclose(moved, target, rtol=1e-13, atol=1e-13)
        expected, gradient = reference_softmax(target, y, c, pinned)
        assert loss == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(residual, gradient, atol=1e-13)
        np.testing.assert_allclose(G, wide.T @ gradient, rtol=1e-11, atol=1e-11)


def test_a_pass_checks_shapes_and_layout() -> None:
    X = np.asfortranarray(np.ones((6, 2)))
    good = {
        "X": X,
        "change": np.ones((2, 3)),
        "eta": np.zeros((6, 3), order="F"),
        "y": np.zeros((6, 3), order="F"),
        "weight": np.ones(6),
        "residual": np.zeros((6, 3), order="F"),
        "G": np.zeros((2, 3)),
        "pinned": False,
        "parts": 1,
        "threads": 1,
    }
    _core.pass_over(**good)
    wrong = {
        "X": np.ones((6, 2)),
        "change": np.ones((3, 3)),
        "eta": np.zeros((6, 3)),
        "y": np.zeros((5, 3), order="F"),
        "weight": np.ones(5),
        "residual": np.zeros((6, 2), order="F"),
        "G": np.zeros((3, 2)),
        "parts": 0,
        "threads": 0,
    }
    for name, value in wrong.items():
        with pytest.raises(ValueError, match="must"):
            _core.pass_over(**(good | {name: value}))
    with pytest.raises(ValueError, match="must"):
        _core.softmax(good["eta"], good["y"][:5], None, good["residual"], False)
    with pytest.raises(ValueError, match="must"):
        _core.softmax(np.zeros((6, 3)), good["y"], None, good["residual"], False)


# --- the whole Newton iteration, for softmax ---


class Softmax:
    """A random multinomial problem over all coordinates, in the core's layout."""

    def __init__(self, seed: int, *, pinned: bool, dtype: str = "f8", q: int = 3, n: int = 40, p: int = 6) -> None:
        rng = np.random.default_rng(seed)
        self.pinned, self.q = pinned, q
        X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.7)
        self.X = np.asfortranarray(X.astype(dtype))
        labels = rng.permutation(np.arange(n) % (q + pinned))
        self.y = np.ascontiguousarray((labels[None, :] == np.arange(q)[:, None]).astype(float))
        self.weight = rng.random(n) + 0.5
        self.first = np.arange(q + 1, dtype=np.int64) * p
        self.column = np.tile(np.arange(p), q).astype(np.int64)
        self.slope, self.ridge = rng.random(q * p) + 0.5, rng.random(q * p) * (rng.random(q * p) < 0.5)
        self.w, self.b = np.zeros(q * p), np.zeros(q)
        self.eta, self.residual = np.zeros((q, n)), np.zeros((q, n))

    def run(self, storage: str = "dense", *, intercept: bool = True, **changes: Any) -> tuple[Any, ...]:
        arguments: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("first", "column", "slope", "ridge", "w", "b", "eta", "residual", "y", "weight", "pinned")
        }
        arguments |= {"intercept": intercept, "damping": 0.0, "target": 1e-10, "max_steps": 100, "max_sweeps": 10000}
        if storage == "dense":
            return _core.newton(**({"X": self.X} | arguments | changes))
        S = sparse.csc_array(self.X)
        indices, indptr = S.indices.astype(storage), S.indptr.astype(storage)
        return _core.newton_sparse(S.data, indices, indptr, **(arguments | changes))

    def judge(self, intercept: bool, weight: Array) -> tuple[float, Array, float]:
        """Return violation, residual and loss at (w, b), from the formulas."""
        X = self.X.astype(float)
        eta = self.w.reshape(self.q, -1) @ X.T + self.b[:, None]
        full = np.vstack([eta, np.zeros((1, eta.shape[1]))]) if self.pinned else eta
        log_p = full - np.log(np.exp(full).sum(axis=0))
        residual = weight * (np.exp(log_p)[: self.q] - self.y)
        hit = np.vstack([self.y, 1 - self.y.sum(axis=0)]) if self.pinned else self.y
        G = (residual @ X).ravel() + self.ridge * self.w
        at_zero = np.maximum(np.abs(G) - self.slope, 0.0)
        violation = np.where(self.w == 0, at_zero, np.abs(G + self.slope * np.sign(self.w))).max()
        if intercept:
            violation = max(violation, np.abs(residual.sum(axis=1)).max())
        return float(violation), residual, float(-np.sum(weight * hit * log_p))


@pytest.mark.parametrize("storage", ["dense", "i4", "i8"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("pinned", "q"), [(False, 3), (True, 3), (True, 1)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_newton_ends_at_a_stationary_point(
    storage: str, dtype: str, pinned: bool, q: int, intercept: bool, weighted: bool
) -> None:
    problem = Softmax(0, pinned=pinned, q=q, dtype=dtype)
    weight = problem.weight if weighted else np.ones(40)
    reported, loss, *_, slow = problem.run(storage, intercept=intercept, weight=problem.weight if weighted else None)
    violation, residual, expected = problem.judge(intercept, weight)
    assert not slow
    assert reported <= 1e-10
    assert violation <= 1e-9
    assert problem.w.any()
    assert (problem.w == 0).any()
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(problem.residual, residual, atol=1e-11)
    assert intercept or not problem.b.any()


def test_newton_bad_shapes_raise() -> None:
    problem = Softmax(0, pinned=False)
    for name in ("first", "slope", "ridge", "w", "b", "weight"):
        with pytest.raises(ValueError, match="must"):
            problem.run(**{name: getattr(problem, name)[:-1]})
    for name in ("eta", "residual", "y"):
        with pytest.raises(ValueError, match="must"):
            problem.run(**{name: np.ascontiguousarray(getattr(problem, name)[:, :-1])})
    with pytest.raises(ValueError, match="range"):
        problem.run(column=problem.column + 1)
    for name in ("w", "b", "eta", "residual"):
        frozen = getattr(problem, name).copy()
        frozen.flags.writeable = False
        with pytest.raises(TypeError):
            problem.run(**{name: frozen})
