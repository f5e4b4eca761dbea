"""Answers on data that are easy to get wrong, judged by arithmetic of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from smaller import RMLR, SMLR


def score(model: Any, X: Any, y: Any) -> Any:
    """The gradient of the log-loss in the weights (d, K): zero where nothing is penalised."""
    eta = X @ model.coef_.T + model.intercept_
    return X.T @ (special.softmax(eta, axis=1) - np.eye(eta.shape[1])[y])


# --- many coordinates without a penalty ---


@pytest.mark.parametrize("model", [SMLR(alpha=0.0), RMLR(alpha=0.0), SMLR(alpha=0.0, solver="coordinate")], ids=str)
def test_nothing_penalised_and_more_weights_than_one_exact_solve_takes(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 70))
    y = np.argmax(X @ rng.standard_normal((70, 30)) * 0.3 + rng.gumbel(size=(1500, 30)), axis=1)
    model = model.fit(X, y)
    assert model.solution_.status.name == "CONVERGED"
    assert np.abs(score(model, X, y)).max() < 1e-3
    assert len(model.active_features_) == 70
    assert 0.0 <= model.solution_.gap <= 1e-6 * model.solution_.scale


def test_many_features_without_a_penalty_beside_one_that_has_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 80))
    y = np.argmax(X @ rng.standard_normal((80, 30)) * 0.3 + rng.gumbel(size=(3000, 30)), axis=1)
    model = SMLR(alpha=3.0, penalty_factors=np.append(np.zeros(79), 1.0)).fit(X, y)
    assert model.solution_.status.name == "CONVERGED"
    G = score(model, X, y)
    assert np.abs(G[:-1]).max() < 1e-3
    w = model.coef_[:, -1]
    np.testing.assert_allclose(G[-1, w != 0], -3.0 * np.sign(w[w != 0]), atol=1e-3)
    assert np.abs(G[-1, w == 0]).max(initial=0.0) < 3.0 + 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.0, "fit_intercept": False},
        {"penalty_factors": [0, 1, 1], "penalize_intercept": True},
        {"penalty_factors": [0, 1, 1], "fit_intercept": False},
    ],
    ids=str,
)
def test_features_without_a_penalty_and_no_free_intercept(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 3
    model = SMLR(**options).fit(X, y)
    factor = model.alpha * np.asarray(options.get("penalty_factors", [1, 1, 1]))
    w, G = model.coef_.T, score(model, X, y)
    assert model.solution_.status.name == "CONVERGED"
    used = w != 0
    assert used[factor == 0].all()
    np.testing.assert_allclose((G + factor[:, None] * np.sign(w))[used], 0.0, atol=1e-3)
    assert (np.abs(G) <= factor[:, None] + 1e-3).all()


# --- a solver that does not suit ---


@pytest.mark.parametrize("options", [{}, {"l1_ratio": 0.5}, {"kernel": "rbf"}], ids=str)
def test_newton_does_not_pretend_to_solve_a_sparse_problem(options: dict[str, Any]) -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(ValueError, match=r"solver='newton' needs a smooth penalty.*Use 'auto' or 'coordinate'"):
        SMLR(solver="newton", **options).fit(X, np.arange(40) % 2)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"l1_ratio": 0.0}], ids=str)
def test_newton_solves_what_is_smooth(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 3
    model = SMLR(solver="newton", tol=1e-10, **options).fit(X, y)
    ridge = 0.0 if "alpha" in options else 1.0
    np.testing.assert_allclose(score(model, X, y) + ridge * model.coef_.T, 0.0, atol=1e-3)
    assert model.solution_.solver == "newton"
