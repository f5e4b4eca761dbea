"""Conjugate gradients and BFGS on the smoothed penalty |w| ~ sqrt(w^2 + 1e-10), which the 2005 paper calls slow."""

import numpy as np
from scipy.optimize import minimize

from ..referee import Objective, losses, probabilities, targets

TOLERANCES = tuple(10.0**-e for e in range(0, 9))
SMOOTHING = 1e-10


def prepare(problem, alphas, threads, variant):
    X, y = problem
    coding, alpha, d = Objective().on(problem).coding, alphas[-1], problem.X.shape[1]
    Y = targets(y, coding)
    q = Y.shape[1]

    def value_and_gradient(v):
        W, b = v[: q * d].reshape(q, d), v[q * d :]
        eta, smooth = X @ W.T + b, np.sqrt(W**2 + SMOOTHING)
        R = probabilities(eta, coding) - Y
        gradient = np.concatenate([((X.T @ R).T + alpha * W / smooth).ravel(), R.sum(0)])
        return losses(eta, Y, coding) + alpha * smooth.sum(), gradient

    def solve(tol):
        start = np.zeros(q * (d + 1))
        v = minimize(value_and_gradient, start, method=variant, jac=True, options={"gtol": tol, "maxiter": 100_000}).x
        return [(v[: q * d].reshape(q, d), v[q * d :])]

    return solve
