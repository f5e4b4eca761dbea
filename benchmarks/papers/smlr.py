"""Krishnapuram, Carin, Figueiredo, Hartemink (2005): tables 1 and 2, and the runs on features themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.papers.datasets import load

from . import rivals
from .engine import Answer, Band, Experiment, Listing, Paper, Row, Table
from .protocols import GivenSplit, KFold, RandomSplits, Realisation, Task, choose, l1_grid, l2_grid

# The paper's model: last class pinned, no intercept (its maxima n(m-1) count kernel weights only).
PAPER_FORM = {"coding": "reference", "fit_intercept": False}


def fit(task: Task, penalty: str, width: str = "svm", **options: Any) -> Answer:
    """SMLR or RMLR; strength by inner cross-validation, width the SVM's (as in the paper) or its own."""
    from smaller import RMLR, SMLR

    estimator, grid = (SMLR, l1_grid) if penalty == "l1" else (RMLR, l2_grid)
    kernel = None if task.kernel is None else "precomputed"
    model = estimator(kernel=kernel, **{**PAPER_FORM, **options})
    gammas = task.gammas if width == "own" or task.kernel != "rbf" else (task.svm.gamma,)
    choice = choose(task, model, grid, gammas)
    design, queries = task.design(choice.gamma)
    model.set_params(alpha=choice.strength).fit(design, task.y)
    weights = model.coef_ if kernel is None else model.dual_coef_
    kept = len(model.active_features_) if kernel is None else int(np.count_nonzero(weights))
    return Answer(model.predict(queries), {"kept": kept}, model.predict_proba(queries), model.classes_)


smlr = partial(fit, penalty="l1")
rmlr = partial(fit, penalty="l2")
smlr_own_width = partial(fit, penalty="l1", width="own")
smlr_intercept = partial(fit, penalty="l1", fit_intercept=True)


def cells(errors: float, kept: float) -> dict[str, float]:
    return {"errors": errors, "kept": kept}


def kernel_rows(
    svm: dict[str, float],
    rvm: dict[str, float],
    sparse: dict[str, float],
    ridge: dict[str, float],
    **bands: Band,
) -> list[Row]:
    """The four rows of table 2 in the paper's order; the bands are SMLR's."""
    return [
        Row("SVM", rivals.svm, svm),
        Row("RVM", rivals.rvm, rvm, seeds=1, slow=True),
        Row("SMLR", smlr, sparse, bands, ours=True),
        Row("RMLR", rmlr, ridge, ours=True),
    ]


def own_width() -> Row:
    return Row("SMLR, own width", smlr_own_width, ours=True)


CRABS = kernel_rows(cells(2, 53), cells(0, 4), cells(0, 10), cells(1, 80), errors=Band(high=9))

TABLE2 = Table(
    name="smlr-table2",
    title="Table 2: errors and kernel basis functions kept",
    text="""
Kernel basis on standardised features: Gaussian for crabs, iris and glass, linear for the gene
expressions. As in the paper, the kernel width is the one that cross-validation chooses for the SVM, reused
for every method; "own width" rows choose strength and width together. "Errors" are totals over the test
decisions (120, 150, 214, 34, 360, 215), "kept" is the mean number of nonzero weights (at most n(m-1) in the
paper's coding; for the one-versus-all SVM, the support vectors of all its machines).
""",
    experiments=[
        Experiment("crabs, given split", "crabs", GivenSplit(), [*CRABS, own_width()], "rbf"),
        Experiment("crabs, 20 random splits", "crabs", Realisation(), [CRABS[0], *CRABS[2:]], "rbf", seeds=20),
        Experiment(
            "iris",
            "iris",
            KFold(10),
            [
                *kernel_rows(cells(5, 124), cells(10, 37), cells(1, 136), cells(8, 270), errors=Band(high=10)),
                own_width(),
            ],
            "rbf",
        ),
        Experiment(
            "glass",
            "fglass",
            KFold(10),
            [
                *kernel_rows(cells(62, 365), cells(61, 74), cells(50, 901), cells(59, 965), errors=Band(high=72)),
                own_width(),
            ],
            "rbf",
        ),
        Experiment(
            "AML/ALL",
            "golub",
            GivenSplit(),
            kernel_rows(cells(3, 31), cells(5, 3), cells(2, 10), cells(2, 38), errors=Band(2, 4), kept=Band(8, 18)),
            "linear",
        ),
        Experiment(
            "colon",
            "colon",
            RandomSplits(30, 12),
            kernel_rows(cells(75, 32), cells(84, 6), cells(75, 15), cells(84, 50), errors=Band(high=95)),
            "linear",
            prepare=np.log,
        ),
        Experiment(
            "yeast",
            "yeast_brown5",
            KFold(8),
            kernel_rows(cells(7, 155), cells(12, 49), cells(3, 83), cells(9, 728), errors=Band(high=14)),
            "linear",
        ),
    ],
    notes=[
        """**Crabs 0 is not reproducible.** Ripley's split of 80 and 120 crabs was never published; the
given split here is a systematic balanced substitute, beside 20 random balanced ones. Even the best cell of
the grid, picked with the test labels, has 2 errors on the given split.""",
        """**Iris 1 is not reproducible.** The best cell per seed, picked with the test labels, has 3 to 8
errors; the folds are not published.""",
        """**Glass 50 (901) is not reproducible.** The best cell picked with the test labels has 54 to 60
errors, and exact optima never keep more than about half of the 965 weights; counts near 901 appear when the
component-wise update is stopped after some 30 sweeps, far from the optimum.""",
        """**Yeast 3 is not reproducible.** The paper's file of 208 genes was not found; this reconstruction
has 215, and its list of TCA genes is ours.""",
        """Colon is log-transformed, the other sets are not. Its 30 random splits test each tissue several
times, so the decisions of one seed are not independent and p is too small there.""",
        "The RVM rows are slow: `--slow` runs them (sklearn-rvm, one seed).",
    ],
)


def per_split(errors: float, kept: float) -> dict[str, float]:
    return {"errors_per_split": errors, "kept": kept}


DIRECT = Table(
    name="smlr-direct",
    title="Features without a kernel (section 5)",
    text="""
SMLR and RMLR on the standardised expression levels themselves, in the paper's form (no
intercept); "kept" counts features. The paper gives these figures in its text.
""",
    measures={"errors_per_split": "errors per split", "kept": "features kept"},
    experiments=[
        Experiment(
            "AML/ALL",
            "golub",
            GivenSplit(),
            [
                Row(
                    "SMLR",
                    smlr,
                    per_split(1, 81),
                    {"errors_per_split": Band(high=4), "kept": Band(high=38)},
                    ours=True,
                ),
                Row("RMLR", rmlr, per_split(3, 7129), {"errors_per_split": Band(high=4)}, ours=True),
                Row("SMLR, intercept", smlr_intercept, ours=True),
            ],
        ),
        Experiment(
            "colon",
            "colon",
            RandomSplits(30, 12),
            [
                Row(
                    "SMLR",
                    smlr,
                    per_split(2.5, 15),
                    {"errors_per_split": Band(1.6, 2.8), "kept": Band(10, 20)},
                    ours=True,
                ),
                Row("SMLR, intercept", smlr_intercept, ours=True),
            ],
            prepare=np.log,
        ),
    ],
    notes=[
        """**81 genes with 1 error are not reproducible at the optimum.** With 38 training rows a generic
exact optimum keeps at most 38 features, and our exact path never more than 27. Stopping the component-wise
update after 100 sweeps at 1 % of the largest strength gives about as many genes and as few errors as the
paper reports."""
    ],
)

# Table 1 as printed: classes, features, samples, training, test
TABLE1_PAPER = {
    "crabs": (2, 5, 200, 80, 120),
    "iris": (3, 4, 150, 135, 15),
    "fglass": (6, 9, 214, 193, 21),
    "golub": (2, 7129, 72, 38, 34),
    "colon": (2, 2000, 62, 50, 12),
    "yeast_brown5": (5, 79, 208, 182, 26),
}


def summarise_data() -> tuple[list[str], list[list[object]]]:
    """Table 1: counts of our files beside the paper's where they differ."""
    header = ["data", "classes", "features", "samples", "training", "test"]
    protocols = {experiment.data: experiment.protocol for experiment in reversed(TABLE2.experiments)}
    body: list[list[object]] = []
    for name, printed in TABLE1_PAPER.items():
        data = load(name)
        train, test = protocols[name](data, 0)[0]
        found = (len(data.target_names), data.data.shape[1], data.data.shape[0], len(train), len(test))
        body.append([name, *(f"{a}" if a == b else f"{a} (paper {b})" for a, b in zip(found, printed, strict=True))])
    return header, body


TABLE1 = Listing(
    name="smlr-table1",
    title="Table 1: the data",
    make=summarise_data,
    notes=[
        "Mines (22933 sonar samples, 106 features) was never public and is left out.",
        "Training and test sizes are those of the first fold or split.",
    ],
)

PAPER = Paper(
    name="smlr",
    title="Sparse multinomial logistic regression (2005): the paper's tables and ours",
    text="""
B. Krishnapuram, L. Carin, M. A. T. Figueiredo, A. J. Hartemink, *Sparse Multinomial Logistic
Regression: Fast Algorithms and Generalization Bounds*, IEEE Transactions on Pattern Analysis and Machine
Intelligence 27 (2005) 957-968.
""",
    tables=[TABLE1, TABLE2, DIRECT],
)
