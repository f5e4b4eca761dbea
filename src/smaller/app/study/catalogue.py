"""The models a study can fit, by name: where they live, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MODELS", "ModelSpec"]


@dataclass(frozen=True)
class ModelSpec:
    """Where a model lives, and what to say about it."""

    module: str
    name: str
    summary: str
    citation: str
    most_rows: int = 10**9
    linear: bool = True
    folded: bool = False  # chooses by folds of its own, which may keep groups together
    graded: bool = False  # only where the target's classes are known to be grades
    logistic: bool = False  # class shares can be changed in the intercepts, and features be forced in


_SMLR_2005 = (
    "Krishnapuram, Carin, Figueiredo, Hartemink (2005). Sparse multinomial logistic regression: fast algorithms and "
    "generalization bounds. IEEE PAMI 27(6)."
)
_SBMLR_2006 = (
    "Cawley, Talbot, Girolami (2006). Sparse multinomial logistic regression via Bayesian L1 regularisation. NIPS."
)
MODELS: dict[str, ModelSpec] = {
    "smlr": ModelSpec(
        "smaller.estimators.cross_validated",
        "SMLRCV",
        "sparse multinomial logistic regression, strength chosen by cross-validation",
        _SMLR_2005,
        folded=True,
        logistic=True,
    ),
    "sbmlr": ModelSpec(
        "smaller.estimators.sbmlr",
        "SBMLR",
        "sparse multinomial logistic regression that finds its own strength",
        _SBMLR_2006,
        logistic=True,
    ),
    "ivm": ModelSpec(
        "smaller.estimators.import_vectors",
        "IVM",
        "import vector machine: kernel logistic regression on few rows",
        "Zhu, Hastie (2005). Kernel logistic regression and the import vector machine. JCGS 14(1).",
        most_rows=50_000,
        linear=False,
    ),
    "jcfo": ModelSpec(
        "smaller.estimators.jcfo_cv",
        "JCFOCV",
        "joint choice of kernel centres and feature scales, strengths chosen by cross-validation",
        "Krishnapuram, Hartemink, Carin, Figueiredo (2004). A Bayesian approach to joint feature selection and "
        "classifier design. IEEE PAMI 26(9).",
        most_rows=2_000,
        linear=False,
        folded=True,
    ),
    "rvm": ModelSpec(
        "smaller.estimators.relevance",
        "RVC",
        "relevance vector machine: few rows, a strength for each of them by evidence",
        "Tipping (2001). Sparse Bayesian learning and the relevance vector machine. JMLR 1.",
        most_rows=2_000,
        linear=False,
    ),
    "sbmlr-rbf": ModelSpec(
        "smaller.estimators.sbmlr",
        "SBMLR",
        "sparse multinomial logistic regression on kernels, which finds its own strength",
        _SBMLR_2006,
        most_rows=2_000,
        linear=False,
    ),
    "ordinal": ModelSpec(
        "smaller.estimators.ordinal",
        "OrdinalSMLR",
        "sparse proportional-odds regression of grades, strength chosen by cross-validation",
        "McCullagh (1980). Regression models for ordinal data. JRSS B 42(2).",
        folded=True,
        graded=True,
    ),
    "sparse-probit": ModelSpec(
        "smaller.estimators.adaptive",
        "SparseProbit",
        "probit regression with a parameter-free sparse prior",
        "Figueiredo (2003). Adaptive sparseness for supervised learning. IEEE PAMI 25(9).",
    ),
}
