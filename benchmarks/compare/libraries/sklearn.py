"""scikit-learn's LogisticRegression: saga, and newton-cd in versions that have it; C = 1 / alpha."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


def prepare(problem, alphas, threads, variant):
    X, y = problem
    if variant == "saga":
        X = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)
    warnings.simplefilter("ignore", ConvergenceWarning)

    def solve(tol):
        model = LogisticRegression(
            C=1 / alphas[-1], l1_ratio=1.0, solver=variant, tol=tol, max_iter=100_000, random_state=0
        )
        model.fit(X, y)
        return [(model.coef_, model.intercept_)]

    return solve
