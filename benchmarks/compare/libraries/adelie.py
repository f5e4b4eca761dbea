"""adelie: its multinomial loss is a mean over rows *and* classes, so lambda = alpha / (n K)."""

import adelie as ad
import numpy as np
import scipy.sparse as sp

from . import approach

TOLERANCES = tuple(10.0**-e for e in range(5, 15))


class EachWeight:
    """`grpnet` forms `groups * K`, one group per feature; this yields one group per weight: the plain L1 norm."""

    def __init__(self, n_features):
        self.n_features = n_features

    def __mul__(self, n_classes):
        return np.arange(self.n_features * n_classes)


def prepare(problem, alphas, threads, variant):
    (X, y), K, (n, d) = problem, problem.n_classes, problem.X.shape
    path = approach(problem, alphas)
    design = (ad.matrix.sparse if sp.issparse(X) else ad.matrix.dense)(X, method="naive", n_threads=threads)
    common = {"intercept": True, "early_exit": False, "progress_bar": False, "n_threads": threads}
    if K == 2:
        q, loss = 1, ad.glm.binomial(y.astype(float))
        model = {"groups": np.arange(d), "penalty": np.ones(d), "lmda_path": path / n}
    else:
        q, loss = K, ad.glm.multinomial(np.eye(K)[y])
        model = {
            "groups": EachWeight(d),
            "penalty": np.ones(d * K),
            "lmda_path": path / (n * K),
        }

    def solve(tol):
        state = ad.grpnet(design, loss, tol=tol, irls_tol=tol, **model, **common)
        betas, b = state.betas[-len(alphas) :], np.reshape(state.intercepts, (-1, q))[-len(alphas) :]
        return [(w.reshape((d, q)).T.tocsr(), c) for w, c in zip(betas, b, strict=True)]

    return solve
