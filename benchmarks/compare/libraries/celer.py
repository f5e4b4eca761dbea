"""celer: C = 1 / alpha, no intercept, one-versus-rest."""

import warnings

from celer import LogisticRegression
from sklearn.exceptions import ConvergenceWarning

from . import one_versus_rest


def prepare(problem, alphas, threads, variant):
    X, y = problem
    warnings.simplefilter("ignore", ConvergenceWarning)

    def solve(tol):
        def fit(sign):
            model = LogisticRegression(C=1 / alphas[-1], fit_intercept=False, tol=tol, max_iter=1000)
            model.fit(X, sign)
            return model.coef_, 0.0

        return [one_versus_rest(y, fit)]

    return solve
