"""SMLRCV beside cv.glmnet on problem A (needs R with glmnet).

Both choose among 100 strengths by ten folds on one core; minimum of several runs, CPU seconds. Their tolerances do not
mean the same (ours bounds the duality gap), so both are run with several; beside each stands the worst relative
suboptimality of the path on all rows, the same strengths being solved to a gap of 1e-9 for comparison.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np

from benchmarks.compare.problems import make
from benchmarks.speed.clock import Options, least
from smaller import SMLRCV, smlr_path

FOLDS, RUNS = 10, 15
TOLERANCES = (1e-6, 1e-4)  # the first is the default, here and below
THRESHOLDS = (1e-7, 1e-8, 1e-9)
SCRIPT = """
suppressPackageStartupMessages(library(glmnet))
at <- function(name) file.path(commandArgs(TRUE)[1], name)
size <- as.numeric(commandArgs(TRUE)[2:6]); n <- size[1]; d <- size[2]
y <- readBin(at("y"), "integer", n); X <- matrix(readBin(at("x"), "double", n * d), n, d)
lambda <- readBin(at("lambda"), "double", size[3]); thresh <- as.numeric(commandArgs(TRUE)[7])
glmnet.control(fdev = 0, devmax = 1)
seconds <- sapply(seq_len(size[5]), function(run) {
  before <- proc.time()
  cv.glmnet(X, y, family = "binomial", standardize = FALSE, nfolds = size[4], lambda = lambda, thresh = thresh)
  spent <- proc.time() - before
  spent[[1]] + spent[[2]]
})
path <- glmnet(X, y, family = "binomial", standardize = FALSE, lambda = lambda, thresh = thresh)
writeBin(as.double(as.matrix(path$beta)), at("beta")); writeBin(as.double(path$a0), at("a0"))
cat(min(seconds))
"""


def against_glmnet(options: Options) -> None:
    """Print both programs' seconds at several tolerances."""
    runs = options.repeats(RUNS)
    warnings.simplefilter("ignore")  # the best strength may lie at the edge of the grid
    X, y = make("A")
    exact = smlr_path(X, y, alphas=100, eps=0.01, tol=1e-9)
    for tol in TOLERANCES:
        fit = least(lambda tol=tol: SMLRCV(cv=FOLDS, eps=0.01, tol=tol).fit(X, y), runs)
        worst = np.max(fit.result.path_.objectives / exact.objectives - 1.0)
        print(f"SMLRCV, tol {tol:.0e}: {fit.cpu:.3f} s; path to {worst:.0e}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X.ravel(order="F").tofile(folder / "x")
        y.astype("i4").tofile(folder / "y")
        (exact.alphas / len(y)).tofile(folder / "lambda")
        for threshold in THRESHOLDS:
            sizes = map(str, (*X.shape, len(exact.alphas), FOLDS, runs, threshold))
            command = ["Rscript", "-e", SCRIPT, name, *sizes]
            spent = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            W = np.fromfile(folder / "beta").reshape(-1, X.shape[1])
            eta = X @ W.T + np.fromfile(folder / "a0")
            loss = np.logaddexp(0.0, eta).sum(axis=0) - eta[y == 1].sum(axis=0)
            excess = (loss + exact.alphas * np.abs(W).sum(axis=1)) / exact.objectives - 1.0
            print(f"cv.glmnet, thresh {threshold:.0e}: {spent:.3f} s; path to {excess.max():.0e}")


PARTS = {"glmnet": against_glmnet}
