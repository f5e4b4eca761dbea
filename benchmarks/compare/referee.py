"""The referee: objective and certified lower bound of any solution, in float64, whoever produced it.

    F(W, b) = sum_i loss(y_i, W x_i + b) + alpha * ||W||_1

The house objective is multinomial with a free intercept (symmetric coding; one vector for two classes).
Peers that solve another problem are judged on that one: one-versus-rest losses, a penalised intercept, or none.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import entr, expit, log_softmax, logsumexp

from .problems import Problem

NEWTON_STEPS = 50


@dataclass(frozen=True)
class Objective:
    """What a library minimises.

    `coding` is "multinomial" or "one-versus-rest", `intercept` is "free", "penalised" or "none".
    """

    coding: str = "multinomial"
    intercept: str = "free"

    def on(self, problem: Problem) -> "Objective":
        """With two classes all codings are the same single vector."""
        return Objective("binary" if problem.n_classes == 2 else self.coding, self.intercept)


def targets(y: np.ndarray, coding: str) -> np.ndarray:
    """One-hot labels, (n, q); only the second class when there are two."""
    onehot = np.eye(int(y.max()) + 1)[y]
    return onehot[:, 1:] if coding == "binary" else onehot


def alpha_max(problem: Problem) -> float:
    """Smallest strength with an all-zero optimum of the house objective: max |X'(P0 - Y)|."""
    Y = targets(problem.y, Objective().on(problem).coding)
    return float(np.abs(problem.X.T @ (Y.mean(0) - Y)).max())


def probabilities(eta: np.ndarray, coding: str) -> np.ndarray:
    return np.exp(log_softmax(eta, axis=1)) if coding == "multinomial" else expit(eta)


def losses(eta: np.ndarray, Y: np.ndarray, coding: str) -> float:
    if coding == "multinomial":
        return float(np.sum(logsumexp(eta, axis=1) - np.sum(eta * Y, axis=1)))
    return float(np.sum(np.logaddexp(0, eta) - eta * Y))


def entropies(Q: np.ndarray, coding: str) -> float:
    """Minus the sum of the conjugates: the dual objective of a feasible Q."""
    return float(np.sum(entr(Q)) if coding == "multinomial" else np.sum(entr(Q) + entr(1 - Q)))


def centre_intercept(eta: np.ndarray, Y: np.ndarray, coding: str) -> np.ndarray | None:
    """Shift eta by Newton steps on b until 1'(P - Y) = 0, which the dual of a free intercept requires."""
    best = losses(eta, Y, coding)
    for _ in range(NEWTON_STEPS):
        P = probabilities(eta, coding)
        slope = (P - Y).sum(0)
        if np.abs(slope).max() < 1e-11 * len(Y):
            return eta
        curvature = np.diag(P.sum(0)) - P.T @ P if coding == "multinomial" else np.diag((P * (1 - P)).sum(0))
        step = np.linalg.pinv(curvature, hermitian=True) @ slope
        while (value := losses(eta - step, Y, coding)) > best * (1 + 1e-14):
            step /= 2
        eta, best = eta - step, value
    return None


def scales(bound: np.ndarray, alpha: float, coding: str) -> np.ndarray:
    """Shrink residuals until |X'R| <= alpha: one factor for coupled classes, one a column otherwise."""
    if coding == "multinomial":
        bound = np.full_like(bound, bound.max())
    return np.minimum(1, alpha / np.maximum(bound, 1e-300))


def judge(
    problem: Problem, alpha: float, W: np.ndarray | sp.spmatrix, b: np.ndarray, objective: Objective
) -> tuple[float, float]:
    """F(W, b), and a lower bound of the optimal F from the dual point q = s p + (1 - s) y."""
    objective = objective.on(problem)
    coding, X = objective.coding, problem.X
    Y = targets(problem.y, coding)
    product = X @ W.T
    eta = (product.toarray() if sp.issparse(product) else np.asarray(product)) + b
    value = losses(eta, Y, coding) + alpha * float(abs(W).sum())
    if objective.intercept == "penalised":
        value += alpha * float(np.abs(b).sum())
    if objective.intercept == "free":
        eta = centre_intercept(eta, Y, coding)
        if eta is None:
            return value, -np.inf
    R = probabilities(eta, coding) - Y
    bound = np.abs(X.T @ R).max(0)
    if objective.intercept == "penalised":
        bound = np.maximum(bound, np.abs(R.sum(0)))
    return value, entropies(Y + scales(bound, alpha, coding) * R, coding)
