"""What every kind of fit claims, and whether it is true."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import clone
from sklearn.model_selection import check_cv

import smaller
from fuzz.exact import EPS, LD, Claim, ProbitLoss, Softmax, SquaredLoss
from fuzz.extras import asks_for_structure, gap_of_grades, gap_of_structure
from fuzz.hostile import Case

__all__ = ["Refuted", "check"]

Array = Any
Outcome = tuple[str, str]


class Refuted(AssertionError):  # noqa: N818
    """The arithmetic says otherwise."""


def check(case: Case, result: Any, warned: list[str], unconverged: bool) -> Outcome:
    """Return how the fit ended; raise `Refuted` where it claims what is not so."""
    if case.path:
        return _path(case, result, warned)
    if isinstance(result, smaller.StabilitySelection):
        return _stability(result)
    outer, model = result, getattr(result, "estimator_", result)
    if outer is not model:
        _probabilities(outer, case)
    if hasattr(model, "classes_"):
        _probabilities(model, case)
    else:
        _finite("predict", model.predict(case.X))
    _finite("objective", model.solution_.objective)
    if model.solution_.converged == unconverged:
        raise Refuted(f"status {model.solution_.status.name}, but {'a' if unconverged else 'no'} ConvergenceWarning")
    if not model.solution_.converged:
        return "not converged", model.solution_.status.name
    return CHECKS[type(model).__name__](case, model, warned)


# --- answers ---


def _finite(what: str, values: Any) -> None:
    if not np.isfinite(values).all():
        raise Refuted(f"{what} is not finite")


def _folds_with_weight(model: Any, case: Case) -> NDArray[np.bool_]:
    """Tell of every fold whether a held-out row has a weight."""
    if isinstance(model.cv, int):
        return np.full(len(model.scores_), True)
    folds = check_cv(model.cv, case.y, classifier=True).split(case.dense, case.y)
    weight = np.ones(len(case.y)) if case.weight is None else np.asarray(case.weight)
    return np.array([bool(np.any(weight[test] > 0)) for _, test in folds])


def _probabilities(model: Any, case: Case) -> None:
    P = model.predict_proba(case.X, **_offset(case))
    _finite("predict_proba", P)
    if P.min() < 0 or np.abs(P.sum(axis=1) - 1).max() > 1e-10:
        raise Refuted("probabilities do not sum to one")
    answers = model.predict(case.X, **_offset(case))
    known = set(model.classes_.tolist()) | {getattr(model, "reject_label", None)}
    if not set(np.asarray(answers).tolist()) <= known:
        raise Refuted("predict returns what is no class")
    if getattr(model, "posterior", False) and hasattr(model, "probability_interval"):
        _interval(model, case, P)


def _offset(case: Case) -> dict[str, Any]:
    return {} if case.offset is None else {"offset": case.offset}


def _interval(model: Any, case: Case, P: Array) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        low, high = model.probability_interval(case.X)
    if not np.isfinite(low + high).all() and not any("ranges are not a number" in str(w.message) for w in caught):
        raise Refuted("probability_interval is not finite, without a word")
    if (low > P + 1e-6).any() or (high < P - 1e-6).any():
        raise Refuted("probability_interval does not hold the probability")


def _same_probabilities(model: Any, case: Case, claim: Claim) -> None:
    """The probabilities must be those of the weights."""
    P = model.predict_proba(case.X, **_offset(case))
    exact = np.exp(claim.loss.log_probabilities(claim.eta)).astype(float)
    error = np.abs(P - exact).max(axis=1)
    if (error > 1e-9 + 8 * claim.rounding().max(axis=1).astype(float)).any():
        raise Refuted(f"predict_proba is {error.max():.2g} away from the probabilities of its weights")


# --- problems ---


def _weight(case: Case, classes: Array | None = None, class_weight: Any = None) -> Array:
    c = np.ones(len(case.y)) if case.weight is None else np.asarray(case.weight, dtype=float)
    if class_weight == "balanced":
        assert classes is not None
        codes = _codes(case.y, classes)
        c = np.where(np.isin(case.y, classes), c, 0.0)
        totals = np.bincount(codes, c, minlength=len(classes))
        c = c * (c.sum() / (len(classes) * totals))[codes]
    return c.astype(LD)


def _codes(y: Array, classes: Array) -> Array:
    return np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)


def _softmax(case: Case, model: Any) -> Softmax:
    K = len(model.classes_)
    offset: Any = case.offset
    if offset is not None:
        offset = np.asarray(np.column_stack([0.0 * offset, offset]) if offset.ndim == 1 else offset, dtype=LD)
    estimated = (1,) if K == 2 else tuple(range(K - (getattr(model, "coding", "symmetric") == "reference")))
    if case.y.ndim == 2:
        return Softmax(case.y.argmax(axis=1), K, _weight(case), estimated, case.y.astype(LD), offset)
    c = _weight(case, model.classes_, getattr(model, "class_weight", None))
    return Softmax(_codes(case.y, model.classes_), K, c, estimated, None, offset)


def _elastic_net(case: Case, model: Any, alpha: float, l1_ratio: float, coef: Array, b: Array) -> Claim:
    """Return the claim of a multinomial fit on the features."""
    X = case.dense.astype(LD)
    loss = _softmax(case, model)
    q = len(loss.estimated)
    factors = np.ones(X.shape[1]) if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=float)
    r = LD(alpha) * factors.astype(LD)
    w, b = coef[:q].T.astype(LD), b[:q].astype(LD)
    slope, ridge = l1_ratio * r, (1 - LD(l1_ratio)) * r
    if not model.fit_intercept or not model.penalize_intercept:
        return Claim(X, loss, w, b, slope, ridge, bool(model.fit_intercept))
    X = np.column_stack([X, np.ones(len(X), dtype=LD)])
    slope, ridge = (
        np.append(part, share * LD(alpha)) for part, share in ((slope, l1_ratio), (ridge, 1 - LD(l1_ratio)))
    )
    return Claim(X, loss, np.vstack([w, b]), 0 * b, slope, ridge, free_intercept=False)


def _null_loss(claim: Claim) -> float:
    """Return the loss of the model without features, what tolerances are relative to."""
    nothing = replace(claim, w=0 * claim.w, b=0 * claim.b)
    if not claim.free_intercept:
        return float(claim.loss.value(nothing.eta).sum())
    if isinstance(claim.loss, Softmax) and (claim.loss.shares is not None or claim.loss.offset is not None):
        alone = replace(nothing, X=nothing.X[:, :0], w=nothing.w[:0], slope=nothing.slope[:0], ridge=nothing.ridge[:0])
        entropy = claim.loss.dual(0 * claim.eta)
        return float(alone.settled().objective() - entropy)
    if isinstance(claim.loss, Softmax):
        totals = np.bincount(claim.loss.codes, claim.loss.weight.astype(float), minlength=claim.loss.n_classes)
        return float(-special.xlogy(totals, totals / totals.sum()).sum())
    return float(
        replace(nothing, X=nothing.X[:, :0], w=nothing.w[:0], slope=nothing.slope[:0], ridge=nothing.ridge[:0])
        .settled()
        .objective()
    )


def _convex(claim: Claim, objective: float, tolerance: float, what: str = "") -> Outcome:
    """Hold "converged" against the gap, and where that is too coarse against the best that Newton's method finds."""
    slack = 4 * claim.slack()
    exact = float(claim.objective())
    if not abs(objective - exact) <= tolerance + slack + 1e-9 * abs(exact):
        raise Refuted(f"{what}objective {objective:.10g}, but it is {exact:.10g}")
    gap = claim.gap()
    if gap <= 2 * tolerance + slack:
        return "right", ""
    gained = claim.improvement()
    if gained > 2 * tolerance + slack:
        raise Refuted(
            f"{what}converged to {tolerance:.3g}, but the objective {exact:.8g} can fall by {gained:.3g} "
            f"(rounding {slack:.2g})"
        )
    if np.isinf(gap):  # there is no dual, and Newton's method stays where it is
        return "right", ""
    return "undecided", f"gap {gap:.3g} for a tolerance of {tolerance:.3g}, no better point found"


# --- estimators ---


def _smlr(case: Case, model: Any, warned: list[str]) -> Outcome:
    if model.kernel is not None:
        return _kernel_smlr(case, model)
    claim = _elastic_net(case, model, model.alpha_, getattr(model, "l1_ratio", 0.0), model.coef_, model.intercept_)
    _same_probabilities(model, case, _user_claim(case, model))
    scale = _null_loss(claim)
    if isinstance(model, smaller.SMLR) and asks_for_structure(model):
        objective, gap = gap_of_structure(case, model, claim)
        return _closed(objective, gap, 4 * claim.slack(), model.solution_.objective, model.tol * scale)
    return _convex(claim, model.solution_.objective, model.tol * scale)


def _closed(objective: float, gap: float, slack: float, claimed: float, tolerance: float) -> Outcome:
    """Hold a claimed objective, and "converged", against what was recomputed."""
    if not abs(claimed - objective) <= tolerance + slack + 1e-9 * abs(objective):
        raise Refuted(f"objective {claimed:.10g}, but it is {objective:.10g}")
    if gap <= 2 * tolerance + slack:
        return "right", ""
    return "undecided", f"gap {gap:.3g} for a tolerance of {tolerance:.3g}"


def _ordinal(case: Case, model: Any, warned: list[str]) -> Outcome:
    if not (np.diff(model.thresholds_) > 0).all():
        raise Refuted("thresholds are out of order")
    objective, gap, slack, scale = gap_of_grades(case, model)
    return _closed(objective, gap, slack, model.solution_.objective, model.tol * scale)


def _user_claim(case: Case, model: Any) -> Claim:
    plain = _softmax(case, model)
    w, b = model.coef_[: len(plain.estimated)].T.astype(LD), model.intercept_[: len(plain.estimated)].astype(LD)
    return Claim(case.dense.astype(LD), plain, w, b, np.zeros(len(w)), np.zeros(len(w)))


def _sbmlr(case: Case, model: Any, warned: list[str]) -> Outcome:
    coef = model.penalized_coef_ if model.relax else model.coef_
    b = model.penalized_intercept_ if model.relax else model.intercept_
    claim = _elastic_net(case, model, model.alpha_, 1.0, coef, b)
    outcome = _convex(claim, model.solution_.objective, 1e-5 * _null_loss(claim), "at its alpha: ")
    plain = model.penalty_factors is None and not model.penalize_intercept
    if plain and model.solution_.status.name == "CONVERGED" and coef.any():
        W, size = np.count_nonzero(coef), model.alpha_ * np.abs(coef).sum()
        if abs(W - size) > 1e-2 * W + 1e-2:
            raise Refuted(f"alpha sum|w| is {size:.6g}, the number of weights {W}")
    return outcome


def _smlr_cv(case: Case, model: Any, warned: list[str]) -> Outcome:
    judges = _folds_with_weight(model, case)
    if not np.isnan(model.scores_[~judges]).all():
        raise Refuted("a fold that holds out no weight has a score")
    scores = model.scores_[judges]
    _finite("scores_", scores[~np.isneginf(scores)])
    claim = _elastic_net(case, model, model.alpha_, model.l1_ratio_, model.coef_, model.intercept_)
    return _convex(claim, model.solution_.objective, model.tol * _null_loss(claim))


def _path(case: Case, path: Any, warned: list[str]) -> Outcome:
    model = case.model
    model.classes_ = path.classes
    if path.converged == any("smlr_path did not converge" in text for text in warned):
        raise Refuted("the path's warning does not match its statuses")
    kinds = set()
    for alpha, coef, b, objective, status in zip(
        path.alphas, path.coefs, path.intercepts, path.objectives, path.statuses, strict=True
    ):
        _finite("a path's weights", coef)
        claim = _elastic_net(case, model, alpha, model.l1_ratio, coef, b)
        if status.name == "CONVERGED":
            kinds.add(_convex(claim, objective, model.tol * _null_loss(claim), f"alpha={alpha:.4g}: ")[0])
        else:
            kinds.add("not converged")
    return next(kind for kind in ("not converged", "undecided", "right") if kind in kinds), "path"


def _kernel_matrix(model: Any, X: Array, C: Array) -> Array:
    kernel = model._basis_.kernel
    gamma = np.broadcast_to(np.asarray(getattr(kernel, "gamma", 1.0), dtype=LD), (X.shape[1],))
    if type(kernel).__name__ == "RBF":
        K = np.zeros((len(X), len(C)), dtype=LD)
        for k in np.flatnonzero(gamma):
            K += gamma[k] * (X[:, k, None] - C[None, :, k]) ** 2
        return np.exp(-K)
    products = (X * gamma) @ C.T
    return products if type(kernel).__name__ == "Linear" else (LD(kernel.coef0) + products) ** int(kernel.degree)


def _centres(case: Case, c: Array) -> Array:
    """Return the rows that may be centres: of positive weight, the first of equals."""
    rows = np.flatnonzero(c > 0)
    return rows[np.sort(np.unique(case.dense[rows], axis=0, return_index=True)[1])]


def _kernel_smlr(case: Case, model: Any) -> Outcome:
    loss = _softmax(case, model)
    q = len(loss.estimated)
    centres = _centres(case, loss.weight)
    X = case.dense.astype(LD)
    K = _kernel_matrix(model, X, X[centres])
    w = np.zeros((len(centres), q), dtype=LD)
    w[np.searchsorted(centres, model.support_)] = model.dual_coef_[:q].T
    b, alpha = model.intercept_[:q].astype(LD), LD(model.alpha)
    l1 = LD(getattr(model, "l1_ratio", 0.0))
    slope, ridge = np.full(len(centres), alpha * l1), np.full(len(centres), alpha * (1 - l1))
    claim = Claim(K, loss, w, b, slope, ridge, bool(model.fit_intercept))
    if np.asarray(case.X).dtype == np.float32 or "float32" in " ".join(case.traits):
        return "right", "kernels in single precision"
    if model.fit_intercept and model.penalize_intercept:
        ones = np.ones((len(K), 1), dtype=LD)
        claim = replace(claim, X=np.hstack([K, ones]), w=np.vstack([w, b]), b=0 * b, free_intercept=False)
        claim = replace(claim, slope=np.append(slope, alpha * l1), ridge=np.append(ridge, alpha * (1 - l1)))
    return _convex(claim, model.solution_.objective, model.tol * _null_loss(claim))


def _klr(case: Case, model: Any, warned: list[str]) -> Outcome:
    """The norm of the function is a plain sum of squares on the eigenvectors of the centres' kernel matrix."""
    loss = _softmax(case, model)
    X = case.dense.astype(LD)
    every = isinstance(model, smaller.KLR) and model.n_centers is None
    centres = _centres(case, loss.weight) if every else np.sort(model.support_)
    if not len(centres):
        return "right", "no point"
    values, U = np.linalg.eigh(_kernel_matrix(model, X[centres], X[centres]).astype(float))
    kept = values > 1e-13 * values.max()
    root = np.sqrt(values[kept])
    phi = _kernel_matrix(model, X, X[centres]) @ (U[:, kept] / root).astype(LD)
    a = np.zeros((len(centres), len(loss.estimated)), dtype=LD)
    a[np.searchsorted(centres, model.support_)] = model.dual_coef_[: a.shape[1]].T
    w = (root[:, None] * U[:, kept].T).astype(LD) @ a
    alpha = LD(getattr(model, "alpha_", model.alpha))
    d = len(w)
    claim = Claim(
        phi,
        loss,
        w,
        model.intercept_[: a.shape[1]].astype(LD),
        np.zeros(d),
        np.full(d, alpha),
        bool(model.fit_intercept),
    )
    # Nearly dependent centres: large weights of opposite signs lose digits that no factorisation gives back.
    lost = 1e3 * EPS * float(np.abs(a).sum() * values.max())
    if lost > 1e-9 * _null_loss(claim):
        return "right", "weights of nearly dependent centres are not judged"
    return _convex(claim, model.solution_.objective, model.tol * _null_loss(claim))


def _probit(case: Case, model: Any, warned: list[str]) -> Outcome:
    if model.kernel is not None:
        return "right", "kernel"
    K = len(model.classes_)
    codes = _codes(case.y, model.classes_)
    signs = np.where(codes == 1, 1.0, -1.0)[:, None] if K == 2 else np.where(codes[:, None] == np.arange(K), 1.0, -1.0)
    loss = ProbitLoss(signs, _weight(case))
    w, b = np.atleast_2d(model.coef_).T.astype(LD), model.intercept_.astype(LD)
    d = len(w)
    claim = Claim(
        case.dense.astype(LD), loss, w, b, np.full(d, LD(model.alpha)), np.zeros(d), bool(model.fit_intercept)
    )
    if model.prior == "laplace":
        return _convex(claim, model.solution_.objective, 1e-5 * _null_loss(claim))
    _jeffreys(claim)
    return _signal(case, model)


def _jeffreys(claim: Claim) -> None:
    """At a stationary point ``w_j dF/dw_j = -1`` for every weight that is not zero."""
    G = claim.X.T @ claim.loss.gradient(claim.eta)
    H = np.einsum("nkk->nk", claim.loss.hessian(claim.eta))
    lost = np.abs(claim.X).T @ (H * claim.rounding())
    used = claim.w != 0
    left = (np.abs(G * claim.w + 1) - 8 * np.abs(lost * claim.w))[used]
    if left.size and left.max() > 0.05:
        raise Refuted(f"stationary, but a weight times its gradient is -1 + {float(left.max()):.3g}")


def _signal(case: Case, model: Any) -> Outcome:
    """A shift of the columns must not lose the signal."""
    shift = np.rint(case.dense.mean(axis=0))
    if not model.fit_intercept or np.abs(shift).max() < 1e3:
        return "right", ""
    moved = replace(case, X=case.dense - shift, dense=case.dense - shift)
    keywords = {} if case.weight is None else {"sample_weight": case.weight}
    other = clone(model).fit(moved.X, moved.y, **keywords)
    mine, theirs = _explained(case, model), _explained(moved, other)
    if theirs - mine > 0.3:
        raise Refuted(f"explains {mine:.0%} of the null loss, and {theirs:.0%} when the columns are shifted")
    return "right", ""


def _explained(case: Case, model: Any) -> float:
    """Return the share of the null model's loss that the fit explains."""
    if hasattr(model, "classes_"):
        codes, c = _codes(case.y, model.classes_), _weight(case).astype(float)
        P = model.predict_proba(case.X)[np.arange(len(codes)), codes]
        totals = np.bincount(codes, c)
        null = -special.xlogy(totals, totals / totals.sum()).sum()
        return float(1 + (c * np.log(np.maximum(P, 1e-300))).sum() / max(null, 1e-300))
    return float(model.score(case.X, case.y, None if case.weight is None else case.weight))


def _regressor(case: Case, model: Any, warned: list[str]) -> Outcome:
    if model.kernel is not None:
        return "right", "kernel"
    c, y = _weight(case), np.asarray(case.y, dtype=LD)[:, None]
    v = LD(model.noise_variance_)
    w, d = model.coef_[:, None].astype(LD), len(model.coef_)
    slope = np.full(d, LD(model.alpha))
    claim = Claim(
        case.dense.astype(LD),
        SquaredLoss(y, c, v),
        w,
        np.array([LD(model.intercept_)]),
        slope,
        np.zeros(d),
        bool(model.fit_intercept),
    )
    if model.noise == "estimate":
        _noise(claim, c, v, warned)
    if model.prior == "jeffreys":
        _jeffreys(claim)
        return _signal(case, model)
    if model.noise != "estimate":
        return _convex(claim, model.solution_.objective, 1e-7 * _null_loss(claim))
    G = claim.violations()
    lost = np.abs(claim.X).T @ (np.abs(claim.loss.hessian(claim.eta)[:, :, 0]) * claim.rounding())
    left = float((G - 8 * lost).max(initial=0) / LD(model.alpha))
    if left > 0.05:
        raise Refuted(f"stationary, but the optimality conditions are violated by {left:.3g} alpha")
    return "right", ""


def _noise(claim: Claim, c: Array, v: Any, warned: list[str]) -> None:
    """The variance must be that of the residuals, or so small that a warning says so."""
    left = float(np.sum(c[:, None] * (claim.eta - claim.loss.y) ** 2) / c.sum())
    lost = float(np.sum(c[:, None] * claim.rounding() ** 2) / c.sum())
    if any("interpolates" in text or "noise" in text for text in warned):
        return
    # 1e-300 stands for zero.
    if abs(left - float(v)) > 1e-300 + 1e-3 * float(v) + 4 * lost + 4 * np.sqrt(lost * left):
        raise Refuted(f"noise variance {float(v):.6g}, but that of the residuals is {left:.6g}")


def _relevance(case: Case, model: Any, warned: list[str]) -> Outcome:
    _finite("log_evidence_", model.log_evidence_)
    if model.kernel is not None or not model.n_active_:
        return "right", "kernel"
    X = case.dense.astype(LD)[:, model.active_features_]
    if hasattr(model, "classes_"):
        loss: Any = _softmax(case, model)
        w = model.coef_[:, model.active_features_].T.astype(LD)
        b = model.intercept_.astype(LD)
    else:
        loss = SquaredLoss(np.asarray(case.y, dtype=LD)[:, None], _weight(case), LD(model.noise_variance_))
        w, b = model.coef_[model.active_features_, None].astype(LD), np.array([LD(model.intercept_)])
    claim = Claim(X, loss, w, b, np.zeros(len(w)), np.zeros(len(w)), bool(model.fit_intercept))
    claim = claim.settled() if model.fit_intercept else claim
    a = np.atleast_2d(model.relevance_).T.astype(LD)
    G = X.T @ loss.gradient(claim.eta)
    pull = np.where(np.isfinite(a), a, 0) * w
    lost = np.abs(X).T @ (np.abs(np.einsum("nkk->nk", loss.hessian(claim.eta))) * claim.rounding())
    left = np.where(
        w != 0, np.abs(G + pull) - 8 * lost - 1e-3 * (np.abs(pull) + np.abs(X).T @ np.abs(loss.gradient(claim.eta))), 0
    )
    if left.max(initial=0) > 0:
        raise Refuted("weights are not the most probable ones at their strengths")
    return "right", ""


def _jcfo(case: Case, model: Any, warned: list[str]) -> Outcome:
    _finite("scales_", model.scales_)
    if model.scales_.min() < 0:
        raise Refuted("a scale is negative")
    return "right", ""


def _stability(model: Any) -> Outcome:
    f = model.frequencies_
    _finite("frequencies_", f)
    if f.min() < 0 or f.max() > 1 or np.abs(6 * f - np.rint(6 * f)).max() > 1e-9:
        raise Refuted("frequencies are not shares of six halves")
    return "right", ""


CHECKS: dict[str, Callable[[Case, Any, list[str]], Outcome]] = {
    "SMLR": _smlr,
    "RMLR": _smlr,
    "SBMLR": _sbmlr,
    "SMLRCV": _smlr_cv,
    "OrdinalSMLR": _ordinal,
    "KLR": _klr,
    "IVM": _klr,
    "SparseProbit": _probit,
    "SparseRegressor": _regressor,
    "RVC": _relevance,
    "RVR": _relevance,
    "JCFO": _jcfo,
    "JCFOCV": _jcfo,
}
