"""glmnet through R: arrays travel in flat files, and only the call of glmnet inside R is timed."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from . import Timed, approach

TOLERANCES = tuple(10.0**-e for e in range(5, 17))
BETA = (("x", "f8"), ("i", "i4"), ("j", "i4"))
SCRIPT = Path(__file__).with_suffix(".R")


def version():
    question = 'cat("glmnet", as.character(packageVersion("glmnet")))'
    return subprocess.run(["Rscript", "-e", question], check=True, capture_output=True, text=True).stdout


def prepare(problem, alphas, threads, variant):
    X, y = problem
    path = approach(problem, alphas)
    folder = tempfile.TemporaryDirectory(prefix="glmnet-")
    where, (n, d), K = Path(folder.name), X.shape, problem.n_classes
    if sp.issparse(X):
        parts = {"x": X.data, "i": X.indices.astype("i4"), "p": X.indptr.astype("i4")}
    else:
        parts = {"x": X.ravel(order="F")}
    for name, array in {**parts, "y": y.astype("i4"), "lambda": path / n}.items():
        array.tofile(where / name)
    sizes = [n, d, K, len(path), X.nnz if sp.issparse(X) else 0]

    def solve(tol):
        keep_alive = folder  # the files live as long as this function
        subprocess.run(["Rscript", SCRIPT, keep_alive.name, str(tol), *map(str, sizes)], check=True)
        q = 1 if K == 2 else K
        row, column, value = (
            np.fromfile(where / f"beta.{part}", t) for part, t in zip("ijx", ("i4", "i4", "f8"), strict=True)
        )
        W = sp.csr_matrix((value, (row, column)), (len(path) * q, d))
        b = np.fromfile(where / "intercepts").reshape(-1, q)
        cpu, wall = np.fromfile(where / "seconds")
        pairs = [(W[k * q : (k + 1) * q], b[k]) for k in range(len(b))]
        return Timed(pairs[-len(alphas) :], cpu, wall)

    return solve
