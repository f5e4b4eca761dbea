"""The papers' rivals, from packages that are kept: functions from a `Task` to an `Answer`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from .engine import Answer, UnavailableError
from .protocols import Task, choose, l2_grid, one_versus_rest_svm


def svm(task: Task) -> Answer:
    """One-versus-all SVM; cost and width by inner cross-validation. Kept: support vectors of all machines."""
    everything = np.arange(len(task.y))
    labels, n_support = one_versus_rest_svm(task, everything, None, task.svm.strength, task.svm.gamma)
    return Answer(labels, {"kept": n_support})


def rvm(task: Task) -> Answer:
    """One-versus-all relevance vector machine of sklearn-rvm, at the SVM's width."""
    try:
        from sklearn_rvm import EMRVC
    except ImportError as error:
        raise UnavailableError("sklearn-rvm is not installed") from error
    options = {"kernel": "rbf", "gamma": task.svm.gamma} if task.kernel == "rbf" else {"kernel": "linear"}
    classes = np.unique(task.y)
    scores, kept = [], 0
    for label in classes[1:] if len(classes) == 2 else classes:
        try:
            machine = EMRVC(**options).fit(task.X, (task.y == label).astype(int))
            scores.append(machine.predict_proba(task.X_test)[:, 1])
        except ValueError as error:  # it lost its last vector
            raise UnavailableError(f"sklearn-rvm fails on these rows ({error})") from error
        kept += len(machine.relevance_)
    if len(classes) == 2:
        return Answer(classes[(scores[0] > 0.5).astype(int)], {"kept": kept})
    return Answer(classes[np.argmax(scores, axis=0)], {"kept": kept})


def lda(task: Task) -> Answer:
    return _predict(LinearDiscriminantAnalysis(), task)


def logistic_regression(task: Task) -> Answer:
    """Ridge-penalised logistic regression on the features; strength by inner cross-validation."""
    choice = choose(task.without_kernel(), _Ridge(), l2_grid, (None,))
    return _predict(_Ridge(alpha=choice.strength), task)


def gaussian_process(task: Task) -> Answer:
    """Laplace-approximated Gaussian process; one width, by marginal likelihood."""
    return _predict(GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=task.seed), task)


def adaboost_stumps(task: Task, rounds: int = 200) -> Answer:
    stump = DecisionTreeClassifier(max_depth=1)
    return _predict(AdaBoostClassifier(stump, n_estimators=rounds, random_state=task.seed), task)


def lasso(task: Task) -> Answer:
    """Least squares with an l1 penalty; strength by inner cross-validation. Kept: features."""
    model = LassoCV(cv=task.inner).fit(task.X, task.y)
    return Answer(model.predict(task.X_test), {"kept": int(np.count_nonzero(model.coef_))})


class _Ridge(LogisticRegression):
    """scikit-learn's ridge in our scale of strength: C = 1 / alpha."""

    def __init__(self, alpha: float = 1.0, warm_start: bool = False, tol: float = 1e-4) -> None:
        super().__init__(max_iter=5000, warm_start=warm_start, tol=tol)
        self.alpha = alpha

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _Ridge:
        self.C = 1.0 / self.alpha
        return super().fit(X, y, sample_weight)


def _predict(model: Any, task: Task) -> Answer:
    model.fit(task.X, task.y)
    return Answer(model.predict(task.X_test), proba=model.predict_proba(task.X_test), classes=model.classes_)
