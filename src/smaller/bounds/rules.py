"""What a bound is about (a linear rule, its Laplace prior, its rows) and when it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .divergence import Floats
from .gibbs import is_sparse

__all__ = ["ASSUMPTIONS", "LinearRule", "read_problem", "read_rows", "read_rule"]

ASSUMPTIONS = {
    "fixed_alpha": "alpha was not chosen on these rows",
    "fixed_scaling": "centring and scaling of the columns were not estimated on these rows",
    "fixed_basis": "kernel centres are not among these rows",
}


@dataclass(frozen=True, eq=False)
class LinearRule:
    """Says `classes[1]` where x'weights > 0, else `classes[0]`; `rates` are those of its Laplace prior.

    One weight more than the rows have columns is an intercept: the weight of a column of ones.
    """

    weights: Floats
    rates: Floats
    classes: NDArray[Any]
    chosen: bool = False


def read_rule(model: Any, *, alpha: float | None = None, intercept_alpha: float | None = None) -> LinearRule:
    """Weights and prior of a fitted binary linear model, or of a pair (w, alpha).

    `alpha` overrides the strength of the model, `intercept_alpha` is the rate of the prior of an intercept
    that the fit left unpenalised.
    """
    if isinstance(model, tuple):
        if len(model) != 2:
            raise TypeError("model must be a fitted linear classifier or a pair (w, alpha).")
        w = np.array(model[0], dtype=float).ravel()
        rates = np.broadcast_to(_rate(model[1] if alpha is None else alpha, "alpha"), w.shape)
        return LinearRule(w, rates.copy(), np.array([-1, 1]))
    weights = _coefficients(model)
    chosen = hasattr(model, "alpha_") and model.alpha_ != getattr(model, "alpha", None)
    strength = _rate(_strength(model) if alpha is None else alpha, "alpha")
    factors = getattr(model, "penalty_factors", None)
    rates = strength * np.broadcast_to(1.0 if factors is None else factors, weights.shape)
    if np.any(rates <= 0.0):
        raise ValueError("A column with penalty factor 0 has no proper prior, so there is no bound; penalise it.")
    b = float(np.ravel(getattr(model, "intercept_", 0.0))[0])
    if getattr(model, "fit_intercept", b != 0.0):
        weights = np.append(weights, b)
        rates = np.append(rates, _intercept_rate(model, float(strength), intercept_alpha))
    return LinearRule(weights, rates.astype(float), np.asarray(model.classes_), chosen)


def read_problem(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    alphas: Iterable[float] | None,
    intercept_alpha: float | None,
    assume: Sequence[str],
) -> tuple[list[LinearRule], Any, NDArray[np.bool_]]:
    """One rule for every strength tried, the checked rows, and which of them are positive."""
    assume = check_assumptions(assume)
    grid = [None] if alphas is None else [float(a) for a in alphas]
    if not grid:
        raise ValueError("alphas must hold at least one strength.")
    rules = [read_rule(model, alpha=a, intercept_alpha=intercept_alpha) for a in grid]
    if rules[0].chosen and alphas is None and "fixed_alpha" not in assume:
        raise ValueError(
            "This model chose alpha_ on data, and the prior of a bound must not. Pass strengths fixed "
            "beforehand, e.g. alphas=(1.0,), or assume=('fixed_alpha',) if alpha_ was chosen on other rows."
        )
    X = read_rows(X, rules[0].weights.size)
    _check_design(X, assume)
    return rules, X, _read_labels(y, X.shape[0], None if isinstance(model, tuple) else rules[0].classes)


def check_assumptions(assume: Sequence[str]) -> tuple[str, ...]:
    """Return the flags as a tuple; an unknown one is an error."""
    flags = (assume,) if isinstance(assume, str) else tuple(assume)
    for flag in flags:
        if flag not in ASSUMPTIONS:
            raise ValueError(f"assume: unknown flag {flag!r}; choose from {', '.join(ASSUMPTIONS)}.")
    return flags


def read_rows(X: Any, n_weights: int) -> Any:
    """X as a float or integer matrix (dense or CSR) with a column, and at most a one besides, per weight."""
    X = X.tocsr() if is_sparse(X) else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError("X must be a matrix with at least one row and one column.")
    if X.shape[1] not in (n_weights, n_weights - 1):
        raise ValueError(f"X has {X.shape[1]} columns, the model has {n_weights} weights.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X must be numeric, got dtype {X.dtype}.")
    if not np.isfinite((X.data if is_sparse(X) else X).sum(dtype=float)):
        raise ValueError("X must be finite: it holds NaN or infinity, or sums beyond the range of float64.")
    return X


def _coefficients(model: Any) -> Floats:
    if getattr(model, "kernel", None) is not None:
        raise ValueError(
            "Kernel columns centred on training rows make the prior depend on the data, so there is no "
            "bound. With centres fixed beforehand, evaluate the columns and pass (weights, alpha) with "
            "them as X."
        )
    if not hasattr(model, "coef_") or not hasattr(model, "classes_"):
        raise TypeError(
            "model must be a fitted linear classifier (coef_, classes_) or a pair (w, alpha). Of a pipeline "
            "pass the last step and the transformed X; transformers fitted on the same rows void the bound."
        )
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=float))
    if coef.shape[0] != 1 or len(model.classes_) != 2:
        raise ValueError("The bounds are for two classes and one weight vector; bound each one-versus-rest rule.")
    return np.ravel(coef)


def _strength(model: Any) -> Any:
    strength = getattr(model, "alpha_", getattr(model, "alpha", None))
    if strength is None:
        raise TypeError("model has neither alpha_ nor alpha; pass alphas=(...), fixed before seeing the data.")
    return strength


def _rate(value: Any, name: str) -> Floats:
    rate = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(rate) & (rate > 0.0)):
        raise ValueError(f"{name} must be positive and finite: without penalty there is no proper prior.")
    return rate


def _intercept_rate(model: Any, strength: float, intercept_alpha: float | None) -> float:
    if intercept_alpha is not None:
        return float(_rate(intercept_alpha, "intercept_alpha"))
    if getattr(model, "penalize_intercept", False):
        return strength
    raise ValueError(
        "The unpenalised intercept has no proper prior. Pass intercept_alpha=..., the rate of a Laplace "
        "prior fixed before seeing the data (e.g. 1.0), or fit with penalize_intercept=True or "
        "fit_intercept=False."
    )


def _read_labels(y: ArrayLike, n: int, classes: Any) -> NDArray[np.bool_]:
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {y.shape}.")
    if classes is None:
        values = set(np.unique(y).tolist())
        if not (values <= {-1, 1} or values <= {0, 1}):
            raise ValueError("With (w, alpha) the labels y must be -1/+1 or 0/1.")
        return np.asarray(y == 1)
    if not np.all(np.isin(y, classes)):
        raise ValueError("y holds labels that the model does not know.")
    return np.asarray(y == classes[1])


def _check_design(X: Any, assume: tuple[str, ...]) -> None:
    if is_sparse(X):
        return  # centring and Gram matrices leave no zeros
    if "fixed_basis" not in assume and X.shape[0] == X.shape[1] > 1 and np.array_equal(X, X.T):
        raise ValueError(
            "X is square and symmetric, as a Gram matrix: kernels centred on these rows void the bound. Pass "
            "assume=('fixed_basis',) if the columns were fixed beforehand."
        )
    if "fixed_scaling" not in assume and _looks_centred(X):
        raise ValueError(
            "The columns of X have mean zero to rounding: they were centred on these very rows, so the prior "
            "depends on the data. Scale with constants known beforehand, or pass assume=('fixed_scaling',), "
            "which the result carries along."
        )


def _looks_centred(X: Any) -> bool:
    mean = X.mean(axis=0, dtype=float)
    norm = np.sqrt(np.einsum("ij,ij->j", X, X, dtype=float, casting="unsafe") / X.shape[0])
    varies = norm > 0.0
    return bool(X.shape[0] > 2 and varies.any() and np.mean(np.abs(mean[varies]) <= 1e-6 * norm[varies]) > 0.5)
