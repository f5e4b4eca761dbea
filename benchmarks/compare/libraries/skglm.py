"""skglm: lambda = alpha / n; several classes by our own one-versus-rest, since its own loses the intercepts."""

import warnings

from skglm import SparseLogisticRegression
from sklearn.exceptions import ConvergenceWarning

from . import one_versus_rest


def prepare(problem, alphas, threads, variant):
    X, y = problem
    warnings.simplefilter("ignore", ConvergenceWarning)

    def solve(tol):
        def fit(sign):
            model = SparseLogisticRegression(alpha=alphas[-1] / len(y), tol=tol, max_iter=1000, max_epochs=100_000)
            model.fit(X, sign)
            return model.coef_, model.intercept_

        return [one_versus_rest(y, fit)]

    return solve
