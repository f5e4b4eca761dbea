"""From a seed, a problem that somebody could meet: data, weights, storage and an estimator, each odd in its way.

Every draw is independent, so that any combination may come; sizes stay small, for oddness needs no size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import smaller

Array = Any
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    seed: int
    model: Any  # unfitted
    X: Any  # as the user has it
    y: Array
    weight: Array | None
    dense: Array  # the numbers in X, float64
    traits: tuple[str, ...]
    path: dict[str, Any] = field(default_factory=dict)  # arguments of smlr_path, where that is called
    offset: Array | None = None

    def __str__(self) -> str:
        n, d = self.dense.shape
        model = " ".join(repr(self.model).split())
        return f"seed {self.seed}: {model}, {n} x {d}, {', '.join(self.traits)}"


def pick(rng: Rng, *options: Any, p: Any = None) -> Any:
    return options[int(rng.choice(len(options), p=p))]


# --- data ---


def sizes(rng: Rng) -> tuple[int, int]:
    shape = pick(rng, "tiny", "small", "wide", "tall", p=[0.15, 0.5, 0.25, 0.1])
    if shape == "tiny":
        return int(rng.integers(2, 9)), int(rng.integers(1, 5))
    if shape == "wide":
        return int(rng.integers(8, 40)), int(rng.integers(40, 160))
    if shape == "tall":
        return int(rng.integers(150, 400)), int(rng.integers(1, 5))
    return int(rng.integers(10, 90)), int(rng.integers(1, 20))


def columns(rng: Rng, n: int, d: int) -> tuple[Array, list[str]]:
    """Return Gaussian columns, some of them spoilt."""
    X, traits = rng.standard_normal((n, d)), []
    for _ in range(int(rng.choice([0, 1, 2, 3], p=[0.25, 0.4, 0.25, 0.1]))):
        some = np.flatnonzero(rng.random(d) < pick(rng, 0.1, 0.5, 1.0))
        if not len(some):
            some = rng.integers(d, size=1)
        name, spoil = pick(rng, *SPOILS)
        X[:, some] = spoil(rng, X[:, some])
        traits.append(f"{name} ({len(some)})")
    return X, traits


def _offset(rng: Rng, X: Array) -> Array:
    return X + 10.0 ** rng.uniform(2, 8)


def _scaled(rng: Rng, X: Array) -> Array:
    return X * 10.0 ** rng.uniform(-8, 8, X.shape[1])


def _extreme(rng: Rng, X: Array) -> Array:
    return X * pick(rng, 1e-310, 1e-300, 1e-150, 1e-30, 1e30, 1e155, 1e200)


def _constant(rng: Rng, X: Array) -> Array:
    return np.full_like(X, pick(rng, 0.0, 1.0, 0.1, 1e8))


def _rare(rng: Rng, X: Array) -> Array:
    out = np.zeros_like(X)
    out[rng.integers(len(X), size=X.shape[1]), np.arange(X.shape[1])] = 1.0
    return out


def _counts(rng: Rng, X: Array) -> Array:
    return rng.poisson(1.0, X.shape).astype(float)


def _heavy(rng: Rng, X: Array) -> Array:
    return np.clip(rng.standard_cauchy(X.shape), -1e6, 1e6)


def _copies(rng: Rng, X: Array) -> Array:
    return X[:, :1] + pick(rng, 0.0, 1e-9, 1e-3) * X


def _thin(rng: Rng, X: Array) -> Array:
    return X * (rng.random(X.shape) < 0.1)


def _repeated(rng: Rng, X: Array) -> Array:
    return X[rng.integers(max(1, len(X) // 3), size=len(X))]


SPOILS: list[tuple[str, Callable[[Rng, Array], Array]]] = [
    ("offset", _offset),
    ("offset", _offset),
    ("scaled", _scaled),
    ("extreme", _extreme),
    ("constant", _constant),
    ("rare ones", _rare),
    ("counts", _counts),
    ("heavy tails", _heavy),
    ("copies", _copies),
    ("thin", _thin),
    ("repeated rows", _repeated),
]


def labels(rng: Rng, Z: Array, K: int) -> tuple[Array, list[str]]:
    """Return class labels of some type; at least two classes."""
    n, d = Z.shape
    kind = pick(rng, "model", "noise", "separable", "rare class", p=[0.5, 0.2, 0.15, 0.15])
    scores = Z @ (rng.standard_normal((d, K)) * (rng.random((d, K)) < 3 / d) * 2.0)
    if kind == "noise":
        codes = rng.integers(K, size=n)
    elif kind == "rare class":
        codes = np.zeros(n, dtype=int)
        codes[rng.integers(n, size=K - 1)] = np.arange(1, K)
    else:
        codes = np.argmax(scores + (kind == "model") * rng.gumbel(size=(n, K)), axis=1)
    order = rng.permutation(n)[:K]
    codes[order] = np.arange(len(order))
    names: Any = pick(
        rng, np.arange(K), np.arange(K) * 7 - 3, np.array([f"class {k}" for k in range(K)]), np.arange(K) + 0.0
    )
    if K == 2 and rng.random() < 0.1:
        names = np.array([False, True])
    return names[codes], [kind, f"K={K}"]


def weights(rng: Rng, n: int) -> tuple[Array | None, list[str]]:
    kind = pick(
        rng,
        "none",
        "ones",
        "repeats",
        "uniform",
        "decades",
        "tiny",
        "zero block",
        "constant",
        p=[0.5, 0.05, 0.15, 0.1, 0.08, 0.03, 0.05, 0.04],
    )
    c: Any = None
    if kind == "ones":
        c = np.ones(n, dtype=int)
    elif kind == "repeats":
        c = rng.integers(0, 4, n)
    elif kind == "uniform":
        c = rng.random(n)
    elif kind == "decades":
        reach = pick(rng, 2, 4, 6, 20)
        c = 10.0 ** rng.uniform(-reach, reach, n)
    elif kind == "tiny":
        c = np.where(rng.random(n) < 0.5, 1e-300, 1.0)
    elif kind == "zero block":
        c = np.ones(n)
        c[: n // 3] = 0.0
    elif kind == "constant":
        c = np.full(n, 10.0 ** rng.uniform(-10, 10))
    return c, [] if c is None else [f"weights: {kind}"]


def stored(rng: Rng, X: Array, *, sparse_too: bool = True) -> tuple[Any, Array, str]:
    """Return X as a user may have it, the numbers it holds, and what it is."""
    kinds = ["C", "F", "float32", "read-only", "memmap", "strided", "list", "frame", "object", "integers"]
    kinds += ["csr", "csc", "coo", "csr 64", "unsorted", "zeros kept", "float32 csr", "lil"] if sparse_too else []
    kind = pick(rng, *kinds)
    if kind.startswith("float32"):
        if np.abs(X).max(initial=0.0) > 1e37:
            kind = "C"
        else:
            X = X.astype(np.float32)
    if kind == "integers" and np.abs(X).max(initial=0.0) > 1e9:
        kind = "F"
    dense = X.astype(np.float64)
    if kind == "F":
        return np.asfortranarray(X), dense, kind
    if kind == "read-only":
        X = X.copy()
        X.setflags(write=False)
    elif kind == "memmap":
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "x.npy", X)
            return np.load(Path(folder) / "x.npy", mmap_mode="r"), dense, kind
    elif kind == "strided":
        wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]))
        wide[::2, ::2] = X
        return wide[::2, ::2], dense, kind
    elif kind == "list":
        return X.tolist(), dense, kind
    elif kind == "frame":
        return pd.DataFrame(X, columns=[f"f {j}" for j in range(X.shape[1])]), dense, kind
    elif kind == "object":
        return X.astype(object), dense, kind
    elif kind == "integers":
        X = np.rint(X).astype(np.int64)
        return X, X.astype(np.float64), kind
    elif kind in ("csr", "float32 csr"):
        return sparse.csr_array(X), dense, kind
    elif kind in ("csc", "coo", "lil"):
        return getattr(sparse, f"{kind}_matrix")(X), dense, kind
    elif kind == "csr 64":
        X = sparse.csr_array(X)
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        return X, dense, kind
    elif kind == "unsorted":
        X = sparse.csr_array(X)
        for i, j in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            X.indices[i:j], X.data[i:j] = X.indices[i:j][::-1].copy(), X.data[i:j][::-1].copy()
        X.has_sorted_indices = False
        return X, dense, kind
    elif kind == "zeros kept":
        X = sparse.csc_array(X)
        X.data[rng.random(len(X.data)) < 0.3] = 0.0
        return X, X.toarray(), kind
    return X, dense, kind


# --- estimators ---


def strength(rng: Rng) -> float:
    return float(pick(rng, 1.0, 10.0 ** rng.uniform(-3, 2), 10.0 ** rng.uniform(-3, 2), 10.0 ** rng.uniform(-10, 6)))


def kernel(rng: Rng, X: Array) -> dict[str, Any]:
    """Return a kernel that does not overflow on these columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.mean(np.var(X, axis=0)))
    fit = 1.0 / (X.shape[1] * spread) if 1e-280 < spread < 1e280 else 1.0
    options = {
        "kernel": pick(rng, "rbf", "rbf", "linear", "poly"),
        "gamma": pick(rng, "scale", fit * 10.0 ** rng.uniform(-1, 1), fit * 100.0),
    }
    return options | ({"degree": 2} if options["kernel"] == "poly" else {})


def shared(rng: Rng, d: int, *, factors: bool = True) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["coding"] = "reference"
    if rng.random() < 0.15:
        options["fit_intercept"] = False
    elif rng.random() < 0.15:
        options["penalize_intercept"] = True
    if rng.random() < 0.1:
        options["class_weight"] = "balanced"
    if factors and rng.random() < 0.15:
        options["penalty_factors"] = np.round(rng.choice([0.0, 1.0, 2.5], size=d, p=[0.2, 0.5, 0.3]), 3)
    return options


def smlr(rng: Rng, X: Array) -> Any:
    options = shared(rng, X.shape[1])
    options["alpha"] = pick(rng, 0.0, strength(rng), p=[0.1, 0.9])
    options["l1_ratio"] = float(pick(rng, 1.0, 0.5, 0.0, p=[0.7, 0.2, 0.1]))
    smooth = options["alpha"] == 0.0 or options["l1_ratio"] == 0.0
    options["solver"] = pick(rng, "auto", "auto", "auto", "coordinate", "proximal", "newton" if smooth else "auto")
    options["tol"] = pick(rng, 1e-6, 1e-4, 1e-9, p=[0.7, 0.2, 0.1])
    if rng.random() < 0.15:
        options["posterior"] = True
    return smaller.SMLR(**options)


def kernel_smlr(rng: Rng, X: Array) -> Any:
    return smaller.SMLR(alpha=strength(rng), **shared(rng, X.shape[1], factors=False), **kernel(rng, X))


def rmlr(rng: Rng, X: Array) -> Any:
    return smaller.RMLR(alpha=pick(rng, 0.0, strength(rng), p=[0.1, 0.9]), **shared(rng, X.shape[1]))


def sbmlr(rng: Rng, X: Array) -> Any:
    return smaller.SBMLR(**shared(rng, X.shape[1]), relax=bool(rng.random() < 0.2), cv=2)


def smlr_cv(rng: Rng, X: Array) -> Any:
    scoring = pick(rng, "neg_log_loss", "accuracy", "neg_brier_score", "roc_auc_ovr", p=[0.6, 0.2, 0.1, 0.1])
    ratio = pick(rng, 1.0, 0.5, [1.0, 0.5])
    return smaller.SMLRCV(
        alphas=5,
        cv=int(rng.integers(2, 4)),
        scoring=scoring,
        rule=pick(rng, "min", "1se"),
        l1_ratio=ratio,
        **shared(rng, X.shape[1]),
    )


def klr(rng: Rng, X: Array) -> Any:
    options = kernel(rng, X) | {"alpha": strength(rng), "posterior": bool(rng.random() < 0.2)}
    if rng.random() < 0.3:
        options |= {
            "n_centers": int(rng.integers(2, 20)),
            "centers": pick(rng, "random", "kmeans", "pivoted"),
            "random_state": 0,
        }
    return smaller.KLR(**options)


def ivm(rng: Rng, X: Array) -> Any:
    options = kernel(rng, X) | {"alpha": strength(rng), "max_points": 20, "random_state": 0}
    if rng.random() < 0.2:
        options["alphas"] = [10.0, 1.0, 0.1]
    return smaller.IVM(**options)


def probit(rng: Rng, X: Array) -> Any:
    options = kernel(rng, X) if rng.random() < 0.25 else {}
    return smaller.SparseProbit(
        prior=pick(rng, "jeffreys", "laplace"), alpha=strength(rng), fit_intercept=bool(rng.random() < 0.85), **options
    )


def relevance_classes(rng: Rng, X: Array) -> Any:
    options = {"kernel": None} if rng.random() < 0.4 else kernel(rng, X)
    return smaller.RVC(**options, moderate=bool(rng.random() < 0.6), fit_intercept=bool(rng.random() < 0.85))


def jcfo(rng: Rng, X: Array) -> Any:
    return smaller.JCFO(
        alpha=10.0 ** rng.uniform(-2, 1),
        alpha_scales=10.0 ** rng.uniform(-2, 1.5),
        kernel=pick(rng, "rbf", "poly", "linear"),
        em_iter=5,
        max_iter=20,
        n_centers=20,
        preselect=pick(rng, None, "linear", "univariate") if X.shape[1] > 5 else None,
        n_preselect=5,
        random_state=0,
    )


def jcfo_cv(rng: Rng, X: Array) -> Any:
    return smaller.JCFOCV(
        alphas=[1.0], alphas_scales=[3.0, 0.3], cv=2, em_iter=2, n_centers=10, max_iter=10, random_state=0
    )


def wrapper(rng: Rng, X: Array) -> Any:
    inner = pick(rng, smlr, rmlr, probit)(rng, X)
    kind = pick(rng, "priors", "risk", "reject")
    if kind == "priors":
        return smaller.PriorShiftClassifier(inner)
    if kind == "risk":
        return smaller.MinimumRiskClassifier(inner)
    return smaller.RejectOptionClassifier(inner, threshold=0.3, reject_label=-99)


def stability(rng: Rng, X: Array) -> Any:
    inner = smaller.SMLR(alpha=strength(rng)) if rng.random() < 0.4 else None
    return smaller.StabilitySelection(
        inner, n_pairs=3, n_features=int(rng.integers(1, 4)) if inner is None else None, random_state=0
    )


def regressor(rng: Rng, X: Array) -> Any:
    options = kernel(rng, X) if rng.random() < 0.25 else {}
    noise = pick(rng, "estimate", float(10.0 ** rng.uniform(-3, 2)), p=[0.65, 0.35])
    return smaller.SparseRegressor(
        prior=pick(rng, "jeffreys", "laplace"),
        alpha=strength(rng),
        noise=noise,
        fit_intercept=bool(rng.random() < 0.85),
        **options,
    )


def relevance_regressor(rng: Rng, X: Array) -> Any:
    return smaller.RVR(
        **({"kernel": None} if rng.random() < 0.4 else kernel(rng, X)), fit_intercept=bool(rng.random() < 0.85)
    )


Maker = Callable[[Rng, Array], Any]
CLASSIFIERS: list[tuple[Maker, float]] = [
    (smlr, 0.34),
    (rmlr, 0.07),
    (kernel_smlr, 0.07),
    (sbmlr, 0.06),
    (smlr_cv, 0.07),
    (klr, 0.06),
    (ivm, 0.05),
    (probit, 0.09),
    (relevance_classes, 0.05),
    (jcfo, 0.03),
    (jcfo_cv, 0.01),
    (wrapper, 0.06),
    (stability, 0.04),
]
REGRESSORS: list[tuple[Maker, float]] = [(regressor, 0.75), (relevance_regressor, 0.25)]


def make_case(seed: int) -> Case:
    """Return the case of a seed: always the same."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.008:
        return crowd(seed, rng)
    n, d = sizes(rng)
    Z, traits = columns(rng, n, d)
    X, dense, kind = stored(rng, Z)
    weight, more = weights(rng, n)
    traits += [kind, *more]
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.nan_to_num((dense - dense.mean(axis=0)) / np.maximum(dense.std(axis=0), 1e-300))
    if rng.random() < 0.16:
        y = unit[:, : 1 + d // 3].sum(axis=1) + rng.standard_normal(n) * pick(rng, 0.0, 0.1, 1.0)
        y = y * pick(rng, 1.0, 1.0, 10.0 ** rng.uniform(-8, 8)) + pick(rng, 0.0, 0.0, 1e6)
        return Case(seed, _made(rng, REGRESSORS, dense), X, y, weight, dense, tuple(traits))
    K = int(rng.choice([2, 3, 5, 10], p=[0.55, 0.3, 0.1, 0.05]))
    y, more = labels(rng, unit, min(K, n))
    path = {"alphas": int(rng.integers(2, 7))} if rng.random() < 0.06 else {}
    model = (
        smlr(rng, dense).set_params(posterior=False, l1_ratio=1.0, solver="auto")
        if path
        else _made(rng, CLASSIFIERS, dense)
    )
    return Case(seed, model, X, y, weight, dense, tuple(traits + more), path)


def _made(rng: Rng, makers: list[tuple[Maker, float]], X: Array) -> Any:
    share = np.array([p for _, p in makers])
    return makers[int(rng.choice(len(makers), p=share / share.sum()))][0](rng, X)


def crowd(seed: int, rng: Rng) -> Case:
    """Return a problem with more coordinates than one exact solve takes on, few of them or none penalised."""
    n, K = int(rng.integers(400, 700)), int(rng.integers(20, 31))
    d = 2000 // K + int(rng.integers(1, 10))
    X = rng.standard_normal((n, d))
    y = np.argmax(X @ (rng.standard_normal((d, K)) * 0.1) + rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    model = pick(
        rng,
        smaller.SMLR(alpha=0.0),
        smaller.RMLR(alpha=0.0),
        smaller.SMLR(penalty_factors=np.append(np.zeros(d - 1), 1.0)),
    )
    model.set_params(max_iter=30, tol=1e-4)
    return Case(seed, model, X, y, None, X, ("crowd", f"K={K}"))
