"""The regularisation path: warm equals cold, every strength certified, the grid as promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from smaller import SMLR, alpha_max, smlr_path
from smaller.problem import Status
from smaller.searches import path as path_module


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    load = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}[name]
    X, y = load(return_X_y=True)
    return scale(X), y


def wide(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = scale(rng.standard_normal((40, 300)) + rng.standard_normal((40, 1)))
    return X, (X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(40) > 0).astype(int)


@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
@pytest.mark.parametrize("settings", [{}, {"l1_ratio": 0.5}, {"coding": "reference"}, {"penalize_intercept": True}])
def test_every_strength_equals_a_cold_fit(name: str, settings: dict[str, object]) -> None:
    X, y = data(name)
    path = smlr_path(X, y, alphas=12, tol=1e-10, **settings)
    assert path.converged
    assert (path.gaps <= 1e-10 * path.null_loss).all()
    for i in (0, 4, 11):
        cold = SMLR(alpha=path.alphas[i], tol=1e-10, **settings).fit(X, y)
        assert_allclose(path.objectives[i], cold.solution_.objective, rtol=2e-10)
        q = path.coefs.shape[1]
        assert_allclose(path.coefs[i], cold.coef_[:q], atol=2e-3 * np.abs(cold.coef_).max() + 1e-12)


def test_objective_is_what_the_weights_say() -> None:
    X, y = data("wine")
    path = smlr_path(X, y, alphas=5)
    for alpha, W, b, objective in zip(path.alphas, path.coefs, path.intercepts, path.objectives, strict=True):
        eta = X @ W.T + b
        log_loss = np.sum(np.logaddexp.reduce(eta, axis=1) - eta[np.arange(len(y)), y])
        assert_allclose(log_loss + alpha * np.abs(W).sum(), objective, rtol=1e-10)


@pytest.mark.parametrize("make", [lambda: data("wine"), wide], ids=["tall", "wide"])
def test_the_grid(make) -> None:
    X, y = make()
    path = smlr_path(X, y, alphas=10)
    n, d = X.shape
    assert_allclose(path.alphas[0], alpha_max(X, y), rtol=1e-12)
    assert_allclose(path.alphas[-1] / path.alphas[0], 1e-2 if d > n else 1e-3, rtol=1e-12)
    assert_allclose(np.diff(np.log(path.alphas)), np.log(path.alphas[1] / path.alphas[0]), rtol=1e-9)
    assert path.n_active[0] == 0
    assert path.n_active[-1] > 0


def test_alpha_max_is_exact() -> None:
    for X, y in (data("iris"), wide()):
        largest = alpha_max(X, y)
        assert smlr_path(X, y, alphas=[largest], tol=1e-12).n_active[0] == 0
        assert smlr_path(X, y, alphas=[0.99 * largest], tol=1e-12).n_active[0] > 0


def test_given_alphas_are_sorted_and_kept() -> None:
    X, y = data("iris")
    path = smlr_path(X, y, alphas=[0.5, 20.0, 3.0])
    assert_array_equal(path.alphas, [20.0, 3.0, 0.5])


def test_sparse_equals_dense() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 40)) * (rng.random((80, 40)) < 0.2)
    y = (X[:, 0] + X[:, 1] - X[:, 2] > 0).astype(int) + (X[:, 3] > 0.1)
    dense, csc = (smlr_path(A, y, alphas=8, tol=1e-10) for A in (X, sparse.csr_array(X)))
    assert_allclose(dense.objectives, csc.objectives, rtol=1e-10)
    assert all(sparse.issparse(w) for w in csc.weights)


def test_kernel_and_weights() -> None:
    X, y = data("iris")
    weight = np.arange(len(y)) % 3
    path = smlr_path(X, y, alphas=5, kernel="rbf", gamma=0.3, sample_weight=weight, tol=1e-8)
    cold = SMLR(alpha=path.alphas[3], kernel="rbf", gamma=0.3, tol=1e-8).fit(X, y, weight)
    assert_allclose(path.objectives[3], cold.solution_.objective, rtol=1e-7)


def test_an_unfinished_path_says_so() -> None:
    X, y = data("wine")
    with pytest.warns(UserWarning, match="did not converge at every alpha"):
        path = smlr_path(X, y, alphas=[0.01], max_iter=1, tol=1e-12, solver="proximal")
    assert path.statuses == (Status.MAX_ITER,)


@pytest.mark.parametrize("alphas", [0, -3, [], [1.0, -1.0], [np.nan], [[1.0]], [0.0]])
def test_bad_alphas(alphas: object) -> None:
    X, y = data("iris")
    with pytest.raises(ValueError, match="alphas"):
        smlr_path(X, y, alphas=alphas)


def test_other_bad_arguments() -> None:
    X, y = data("iris")
    with pytest.raises(ValueError, match="eps"):
        smlr_path(X, y, eps=2.0)
    with pytest.raises(TypeError, match="alphas"):
        smlr_path(X, y, alpha=1.0)
    with pytest.raises(ValueError, match="l1_ratio"):
        alpha_max(X, y, l1_ratio=0.0)


# --- sparse columns: only some of them take part ---


def words(seed: int = 0) -> tuple[Any, np.ndarray]:
    """Sparse counts with some columns that carry the classes, and many that do not."""
    rng = np.random.default_rng(seed)
    X = rng.random((200, 300)) * (rng.random((200, 300)) < 0.05)
    y = rng.integers(0, 3, 200)
    X[np.arange(200), y] += rng.random(200)
    return sparse.csc_array(X), y


@pytest.fixture
def not_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_module.Small, "suits", staticmethod(lambda problem: False))


@pytest.mark.usefixtures("not_small")
@pytest.mark.parametrize("settings", [{}, {"l1_ratio": 0.5}, {"coding": "reference"}, {"factors": True}], ids=str)
def test_a_part_of_the_columns_gives_the_whole_solution(settings: dict[str, Any]) -> None:
    X, y = words()
    settings = dict(settings)
    if settings.pop("factors", False):  # one column free, the others unequal
        settings["penalty_factors"] = np.append(np.linspace(0.5, 2.0, 299), 0.0)
    part = smlr_path(X, y, alphas=20, eps=0.01, tol=1e-9, **settings)
    whole = smlr_path(X.toarray(), y, alphas=part.alphas, tol=1e-9, **settings)
    assert part.converged
    assert_allclose(part.objectives, whole.objectives, rtol=1e-8)
    assert part.n_active[-1] > 20
    assert (part.objectives - whole.objectives <= part.gaps + 1e-9).all()


@pytest.mark.usefixtures("not_small")
def test_what_the_strong_rule_misses_is_found() -> None:
    """From one strength to a tenth of it, gradients move further than the rule expects."""
    X, y = words(1)
    largest = alpha_max(X, y)
    path = smlr_path(X, y, alphas=[0.9 * largest, 0.05 * largest, 0.01 * largest], tol=1e-9)
    for i, alpha in enumerate(path.alphas):
        assert_allclose(path.objectives[i], SMLR(alpha=alpha, tol=1e-9).fit(X, y).solution_.objective, rtol=1e-8)


@pytest.mark.usefixtures("not_small")
def test_an_unfinished_part_does_not_claim_more_than_it_knows() -> None:
    """Stopped early, the gap still bounds the distance from the optimum of the whole problem."""
    X, y = words(2)
    largest = alpha_max(X, y)
    alphas = [0.9 * largest, 0.02 * largest]
    with pytest.warns(ConvergenceWarning, match="limit"):
        rough = smlr_path(X, y, alphas=alphas, tol=1e-12, max_iter=1)
    best = smlr_path(X, y, alphas=alphas, tol=1e-10).objectives
    assert not rough.converged
    assert (rough.objectives - best <= rough.gaps + 1e-8).all()
