"""What users of glmnet pass, on top of the hostile cases: offsets, soft labels, groups, limits, exclusions; and grades.

A case of `hostile` becomes one of these for some seeds, by draws of its own: all other seeds keep their cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

import smaller
from fuzz.exact import EPS, LD, Claim
from fuzz.hostile import Case, Rng, pick
from structured import Structured, judge

__all__ = ["asks_for_structure", "enriched", "gap_of_grades", "gap_of_structure"]

Array = Any


# --- cases ---


def enriched(case: Case) -> Case:
    """Return the case, or one with arguments of this file."""
    rng = np.random.default_rng([case.seed, 17])
    if type(case.model) is smaller.SMLRCV and "weights: zero block" in case.traits:
        # Folds in the order of the rows: the first holds out rows without weight alone.
        return replace(case, model=clone(case.model).set_params(cv=KFold(min(4, len(case.y)))))
    if rng.random() > 0.25 or "crowd" in case.traits:
        return case
    if type(case.model) in (smaller.RVC, smaller.KLR) and not case.path:
        return _graded(rng, case)
    if type(case.model) not in (smaller.SMLR, smaller.RMLR) or case.model.kernel is not None:
        return case
    case = _with_data(rng, case)
    if type(case.model) is smaller.SMLR and case.model.solver == "auto" and not case.path and rng.random() < 0.6:
        case = _with_structure(rng, case)
    return case


def _graded(rng: Rng, case: Case) -> Case:
    order = np.unique(case.y)
    rng.shuffle(order)
    alpha, l1_ratio = 10.0 ** rng.uniform(-2, 2), float(pick(rng, 1.0, 0.5))
    model = smaller.OrdinalSMLR(alpha=alpha, l1_ratio=l1_ratio, order=order.tolist())
    return replace(case, model=model, traits=(*case.traits, "grades"))


def _with_data(rng: Rng, case: Case) -> Case:
    """Add an offset or soft labels."""
    counted = case.y if case.weight is None else case.y[np.asarray(case.weight) > 0]
    classes = np.unique(counted)
    n, K = len(case.y), len(classes)
    if K < 2 or case.model.get_params().get("posterior"):
        return case
    if rng.random() < 0.5:
        offset = rng.normal(size=(n, K)) * pick(rng, 1.0, 1.0, 30.0, 1e-6) + pick(rng, 0.0, 0.0, 1e6)
        case = replace(case, offset=offset[:, 0] if K == 2 else offset, traits=(*case.traits, "offset to eta"))
    if rng.random() < 0.5 and case.model.class_weight is None:
        at = np.clip(np.searchsorted(classes, case.y), 0, K - 1)
        certain = pick(rng, 0.5, 0.99, 0.001)
        shares = certain * np.eye(K)[at] + (1.0 - certain) * rng.dirichlet(np.full(K, pick(rng, 1.0, 1e-2)), n)
        case = replace(case, y=shares / shares.sum(axis=1, keepdims=True), traits=(*case.traits, "soft labels"))
    return case


def _with_structure(rng: Rng, case: Case) -> Case:
    d = case.dense.shape[1]
    model = smaller.SMLR(**case.model.get_params())
    model.set_params(posterior=False, penalize_intercept=False, penalty_factors=None, alpha=10.0 ** rng.uniform(-2, 2))
    if model.l1_ratio == 0.0:
        model.set_params(l1_ratio=1.0)
    kind = pick(rng, "groups", "sparse groups", "limits", "positive", "share", "exclude")
    if kind in ("groups", "sparse groups"):
        groups = None if rng.random() < 0.4 else rng.integers(0, 1 + d // 2, d)
        penalty = "grouped" if kind == "groups" else "sparse-grouped"
        model.set_params(penalty=penalty, feature_groups=groups, group_l1_ratio=float(pick(rng, 0.1, 0.5, 0.9)))
    elif kind == "limits":
        model.set_params(
            lower_limits=-rng.choice([0.0, 0.1, 1.0, np.inf], d), upper_limits=rng.choice([0.2, np.inf], d)
        )
    elif kind == "positive":
        model.set_params(positive=True)
    elif kind == "share":
        model.set_params(alpha=float(pick(rng, 0.05, 0.5, 1.0)), alpha_scale="max")
    if kind == "exclude" or (d > 2 and rng.random() < 0.15):
        model.set_params(exclude=rng.choice(d, max(1, d // 4), replace=False))
    return replace(case, model=model, traits=(*case.traits, kind))


# --- what such fits claim ---


def asks_for_structure(model: Any) -> bool:
    """Whether the penalty is more than a sum over single weights."""
    limited = model.lower_limits is not None or model.upper_limits is not None or model.positive
    return model.penalty != "elementwise" or limited or model.exclude is not None


def gap_of_structure(case: Case, model: Any, claim: Claim) -> tuple[float, float]:
    """Return objective and duality gap of weights under groups, limits and exclusions; ``claim`` has loss and data."""
    d = case.dense.shape[1]
    kept = np.full(d, True)
    if model.exclude is not None:
        kept[np.asarray(model.exclude)] = False
    if claim.w[~kept].any():
        return float("nan"), float("inf")
    if not kept.any():
        alone = replace(claim, X=claim.X[:, :0], w=claim.w[:0], slope=claim.slope[:0], ridge=claim.ridge[:0])
        return float(alone.objective()), alone.gap()
    group = np.arange(d) if model.feature_groups is None else np.asarray(model.feature_groups)
    group = np.unique(group[kept], return_inverse=True)[1]
    share = {"elementwise": 1.0, "grouped": 0.0, "sparse-grouped": model.group_l1_ratio}[model.penalty]
    alpha, ones = model.alpha_ * model.l1_ratio, np.ones(int(kept.sum()))
    norm = (1.0 - share) * alpha * np.sqrt(np.bincount(group, minlength=group.max(initial=-1) + 1))
    lower = 0.0 if model.positive else -np.inf if model.lower_limits is None else model.lower_limits
    upper = np.inf if model.upper_limits is None else model.upper_limits
    settled, loss = claim.settled(), claim.loss
    problem = Structured(
        claim.X[:, kept],
        loss.targets,
        loss.weight,
        np.zeros_like(loss.targets) if loss.offset is None else loss.offset,
        group,
        norm,
        share * alpha * ones,
        (model.alpha_ - alpha) * ones,
        (np.zeros(d) + lower)[kept],
        (np.zeros(d) + upper)[kept],
        model.coding,
        bool(model.fit_intercept),
    )
    found = judge(problem, settled.w[kept], settled.b)
    return float(found.objective), float(found.gap)


def gap_of_grades(case: Case, model: Any) -> tuple[float, float, float, float]:
    """Return objective, duality gap, what rounding may cost, and the loss of the thresholds alone."""
    X, c = case.dense.astype(LD), np.ones(len(case.y)) if case.weight is None else np.asarray(case.weight, dtype=float)
    place = {label: k for k, label in enumerate(model.classes_.tolist())}
    codes = np.array([place.get(label, 0) for label in case.y.tolist()])
    c = np.where([label in place for label in case.y.tolist()], c, 0.0).astype(LD)
    w, edges = model.coef_[0].astype(LD), np.concatenate([[-700.0], model.thresholds_, [700.0]]).astype(LD)
    rounding = 4 * EPS * (np.abs(X) @ np.abs(w) + np.abs(edges[1:-1]).max())
    mean = c @ X / c.sum()  # columns far from zero: what thresholds have left over would be worth that distance
    X, edges = X - mean, np.concatenate([edges[:1], edges[1:-1] - mean @ w, edges[-1:]])
    score = X @ w
    top, bottom = codes == len(place) - 1, codes == 0
    a, b = np.where(top, 700, edges[codes + 1] - score), np.where(bottom, -700, edges[codes] - score)
    near = 1 / np.expm1(np.where(top | bottom, LD(1400), np.maximum(a - b, 1e-300)))
    rows = np.logaddexp(0, -a) + np.logaddexp(0, b) - np.log(-np.expm1(np.where(top | bottom, LD(-1400), b - a)))
    p, s = np.where(top, 0, 1 / (1 + np.exp(a)) + near), np.where(bottom, 0, 1 / (1 + np.exp(-b)) + near)
    alpha, l1 = LD(model.alpha_), LD(model.l1_ratio)
    slope, ridge = alpha * l1, alpha * (1 - l1)
    objective = c @ rows + slope * np.abs(w).sum() + ridge * (w**2).sum() / 2
    G = X.T @ (c * (p - s))
    t = LD(1) if ridge > 0 else min(LD(1), slope / max(np.abs(G).max(initial=0), LD(1e-300)))
    excess = np.maximum(t * np.abs(G) - slope, 0)
    dual = c @ _conjugates(t * p, t * s) - ((excess**2).sum() / (2 * ridge) if ridge > 0 else 0)
    balance = [np.abs(c @ (np.where(codes == k, p, 0) - np.where(codes == k + 1, s, 0))) for k in range(len(place) - 1)]
    lost = 8 * float(c @ ((p + s) * rounding + (1 + near * (1 + near)) * rounding**2)) + 64 * EPS * abs(
        float(objective)
    )
    left = float(sum(balance) * (1 + np.abs(edges[1:-1]).max()))  # what the thresholds' last digits may be worth
    shares = np.bincount(codes, c.astype(float))
    null = -float(sum(x * np.log(x / shares.sum()) for x in shares if x > 0))
    return float(objective), float(objective - dual) - left, lost, null


def _conjugates(p: Array, s: Array) -> Array:
    """Return minus the conjugate of every row's loss: A and B solve a quadratic equation."""
    D = np.maximum(np.sqrt(1 + 4 * p * s) - p - s, LD("1e-4000"))
    A, B = (1 - p + s + D) / 2, (1 - p + s - D) / 2
    floor = LD("1e-4000")
    logit_a = np.log(np.maximum(A, floor)) - np.log(np.maximum(1 - A, floor))
    logit_b = np.log(np.maximum(B, floor)) - np.log(np.maximum(1 - B, floor))
    return np.where(p > 0, p * logit_a, 0) - np.where(s > 0, s * logit_b, 0) - np.log(D)
