"""Snap ML: primal L1 coordinate descent, one-versus-rest; its intercept is not returned, so none is fitted."""

import numpy as np
from snapml import LogisticRegression

from . import one_versus_rest


def prepare(problem, alphas, threads, variant):
    X, y = problem
    X = X if hasattr(X, "tocsc") else np.ascontiguousarray(X)

    def solve(tol):
        def fit(sign):
            model = LogisticRegression(
                regularizer=alphas[-1], penalty="l1", dual=False, fit_intercept=False, tol=tol,
                max_iter=100_000, n_jobs=threads, random_state=0,
            )  # fmt: skip
            model.fit(X, sign)
            return model.coef_, 0.0

        return [one_versus_rest(y, fit)]

    return solve
