"""Ours: `SMLR` for one alpha, `smlr_path` for many."""

import smaller

TOLERANCES = tuple(10.0**-e for e in range(2, 12))


def prepare(problem, alphas, threads, variant):
    X, y = problem

    def solve(tol):
        if len(alphas) == 1:
            model = smaller.SMLR(alpha=alphas[0], tol=tol, solver=variant or "auto").fit(X, y)
            return [(model.coef_, model.intercept_)]
        path = smaller.smlr_path(X, y, alphas=alphas, tol=tol)
        return list(zip(path.coefs, path.intercepts, strict=True))

    return solve
