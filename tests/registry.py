"""The estimators that every general test runs over; a new estimator is added here once.

scikit-learn compares weighting a row with repeating it to seven digits of the probabilities. A duality gap of
``tol`` fixes probabilities to about its square root only, so variants that need it ask for a smaller ``tol``.
"""

from __future__ import annotations

from typing import Any

from smaller import (
    RMLR,
    SMLR,
    SMLRCV,
    MinimumRiskClassifier,
    OrdinalSMLR,
    PriorShiftClassifier,
    RejectOptionClassifier,
    StabilitySelection,
)
from smaller.estimators.adaptive import SparseProbit, SparseRegressor
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV
from smaller.estimators.kernel_logistic import IVM, KLR
from smaller.estimators.relevance import RVC, RVR
from smaller.estimators.sbmlr import SBMLR

ALL_ESTIMATORS: list[Any] = [
    SMLR(),
    SMLR(l1_ratio=0.5, tol=1e-10),
    SMLR(coding="reference", tol=1e-10),
    SMLR(penalize_intercept=True, tol=1e-10),
    SMLR(kernel="rbf", tol=1e-10),
    SMLR(penalty="grouped", tol=1e-10),
    SMLR(lower_limits=-1.0, upper_limits=2.0, tol=1e-10),
    SMLR(kernel="precomputed"),
    SMLRCV(alphas=8, eps=1e-4, cv=2),
    RMLR(),
    RMLR(kernel="poly", degree=2, coding="reference"),
    OrdinalSMLR(tol=1e-10),
    OrdinalSMLR(kernel="rbf", tol=1e-10),
    KLR(),
    IVM(),
    SparseRegressor(),
    SparseRegressor(prior="laplace"),
    SparseProbit(),
    SparseProbit(kernel="rbf"),
    SBMLR(),
    RVC(),
    RVC(kernel=None, moderate=False),
    RVR(),
    RVR(kernel=None),
    JCFO(),
    JCFOCV(alphas=[1.0], alphas_scales=[3.0], cv=2, em_iter=3, n_centers=20),
]

# What wraps another estimator, or selects for one: no objective of its own, and no certificate.
WRAPPERS: list[Any] = [
    StabilitySelection(n_features=2, n_pairs=3, random_state=0),
    PriorShiftClassifier(SMLR()),
    MinimumRiskClassifier(SMLR()),
    RejectOptionClassifier(MinimumRiskClassifier(SMLR())),
]


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return scikit-learn's checks that an estimator may fail, each with the reason."""
    if getattr(estimator, "kernel", None) == "precomputed":
        return {"check_decision_proba_consistency": "the check fits a matrix that is not square as if it were a kernel"}
    return {}
