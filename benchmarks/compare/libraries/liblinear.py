"""liblinear as shipped with scikit-learn: one-versus-rest, and the intercept is a penalised column of ones."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from . import one_versus_rest


def prepare(problem, alphas, threads, variant):
    X, y = problem
    X = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)
    warnings.simplefilter("ignore", ConvergenceWarning)

    def solve(tol):
        def fit(sign):
            model = LogisticRegression(
                C=1 / alphas[-1], l1_ratio=1.0, solver="liblinear", tol=tol, max_iter=100_000, random_state=0
            )
            model.fit(X, sign)
            return model.coef_, model.intercept_

        return [one_versus_rest(y, fit)]

    return solve
