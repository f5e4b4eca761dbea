"""cyanure: incremental and quasi-Newton methods; lambda = alpha / n, labels -1/+1 when there are two classes."""

import numpy as np
import scipy.sparse as sp
from cyanure.estimators import Classifier


def prepare(problem, alphas, threads, variant):
    X, y = problem
    X = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)
    y = np.where(y == 1, 1, -1) if problem.n_classes == 2 else y
    loss = "logistic" if problem.n_classes == 2 else "multiclass-logistic"

    def solve(tol):
        model = Classifier(
            loss=loss, penalty="l1", lambda_1=alphas[-1] / len(y), fit_intercept=True, tol=tol,
            max_iter=100_000, n_threads=threads, verbose=False, safe=False,
        ).fit(X, y)  # fmt: skip
        W, b = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
        return [(W if W.shape == (len(b), X.shape[1]) else W.T, b)]  # its orientation depends on which side is longer

    return solve
