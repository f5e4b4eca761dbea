"""Krishnapuram, Hartemink, Carin, Figueiredo (2004): figure 1, tables 1 and 2; rings and XOR among noise features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from smaller import SMLR
from smaller.datasets import make_irrelevant, make_rings, make_xor
from smaller.estimators.adaptive import SparseProbit
from smaller.estimators.jcfo import JCFO
from smaller.estimators.jcfo_cv import JCFOCV

from . import rivals
from .adaptive import RawExperiment, TrainingSubset
from .engine import Answer, Band, Experiment, Paper, Row, Table, UnavailableError
from .protocols import SVM_COSTS, GivenSplit, LeaveOneOut, RandomSplits, Realisation, Task

PAPER_FORM = {"penalize_intercept": True}
LINEAR = {"kernel": "poly", "degree": 1}
QUADRATIC = {"kernel": "poly", "degree": 2}
# With a linear kernel only the product of the strengths matters: those of 6, 9, 12, 16 and 22 with themselves.
PRODUCTS = {"alpha": (12.0,), "alpha_scales": tuple(a**2 / 12.0 for a in (22, 16, 12, 9, 6))}


# ------------------------------------------------------------------------------------------------------- methods


def jcfo(task: Task, grid: Mapping[str, Sequence[float]] | None = None, rule: str = "min", **options: Any) -> Answer:
    """JCFO at given strengths, or at those of a grid with the highest held-out likelihood (ties: the larger)."""
    options = {"n_centers": None} | options  # every row may be a centre, from the start
    model: Any = JCFO(random_state=task.seed, **options)
    if grid is not None:
        strengths = grid["alpha"], grid["alpha_scales"]
        model = JCFOCV(*strengths, cv=task.inner, rule=rule, random_state=task.seed, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "JCFO kept no kernel")
        warnings.filterwarnings("ignore", "JCFO did not converge")  # max_iter=1 means it
        model.fit(task.X, task.y)
    measures = {"kept": len(model.support_), "features": len(model.active_features_)}
    if task.X.shape[1] >= 2:
        measures["exact"] = float(set(model.active_features_.tolist()) == {0, 1})
    return Answer(model.predict(task.X_test), measures, model.predict_proba(task.X_test), model.classes_)


def probit(task: Task, **options: Any) -> Answer:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* kept no ")
        model = SparseProbit(**options).fit(task.X, task.y)
    measures = {"features": len(model.active_features_)} if "kernel" not in options else {"kept": len(model.support_)}
    return Answer(model.predict(task.X_test), measures, model.predict_proba(task.X_test), model.classes_)


def searched(task: Task, model: Any, grid: Mapping[str, Sequence[Any]]) -> Answer:
    """Any classifier, its grid cross-validated by errors."""
    best = GridSearchCV(model, dict(grid), cv=task.inner).fit(task.X, task.y).best_estimator_
    measures = {"kept": len(best.support_)} if hasattr(best, "support_") else {}
    return Answer(best.predict(task.X_test), measures)


def plain(task: Task, model: Any) -> Answer:
    return Answer(model.fit(task.X, task.y).predict(task.X_test))


linear_svm = partial(searched, model=SVC(kernel="linear"), grid={"C": [1e-3, 1e-2, 1e-1, 1.0, 10.0]})
rbf_svm = partial(searched, model=SVC(), grid={"C": SVM_COSTS, "gamma": ["scale", 0.01, 0.1, 1.0]})
smlr = partial(searched, model=SMLR(kernel="rbf"), grid={"alpha": [0.1, 0.3, 1.0, 3.0], "gamma": ["scale", 0.1, 1.0]})


def rvm(task: Task) -> Answer:
    """sklearn-rvm with a linear kernel."""
    try:
        from sklearn_rvm import EMRVC
    except ImportError as error:
        raise UnavailableError("sklearn-rvm is not installed") from error
    try:
        machine = EMRVC(kernel="linear").fit(task.X, task.y)
    except ValueError as error:  # it does not survive every standardised set
        raise UnavailableError(f"sklearn-rvm fails on these rows ({error})") from error
    return Answer(machine.predict(task.X_test), {"kept": len(machine.relevance_)})


def forest(task: Task) -> Answer:
    return plain(task, RandomForestClassifier(500, random_state=task.seed))


# ------------------------------------------------------------------------------------------------ drawn data


@dataclass(frozen=True)
class Drawn(Experiment):
    """Rows drawn anew for every seed; ``data`` says how, ``protocol`` is not used."""

    draw: Callable[..., tuple[NDArray[np.float64], NDArray[np.int64]]] = make_irrelevant
    n_features: int = 2
    n_train: int = 200
    n_test: int = 1000

    @property
    def n_rows(self) -> int:
        return self.n_train * (1 + self.n_features // 50)

    def tasks(self, seed: int) -> Iterator[tuple[Task, NDArray[Any]]]:
        X, y = self.draw(self.n_train, n_features=self.n_features, random_state=seed)
        X_test, y_test = self.draw(self.n_test, n_features=self.n_features, random_state=1000 + seed)
        yield Task(X, y, X_test, None, seed), y_test


def nothing(data: Any, seed: int) -> list[Any]:
    return []


def figure1(p: int) -> Drawn:
    chosen = partial(jcfo, grid=PRODUCTS, rule="1se", em_iter=0, **LINEAR, **PAPER_FORM)
    bands = {"error_rate": Band(high=0.175), "features": Band(high=5)} if p <= 100 else {}
    rows = [
        Row("JCFO", chosen, {"error_rate": 0.16}, bands, ours=True),
        Row("sparse probit, linear kernel", partial(probit, gamma="auto", **LINEAR), ours=True),
        Row("sparse probit, features", probit, ours=True),
        Row("SVM, linear", linear_svm),
        Row("RVM, linear kernel", rvm, seeds=3, slow=True),
    ]
    return Drawn(f"p = {p}", "drawn", nothing, rows, "linear", seeds=10 if p <= 100 else 3, n_features=p)


FIGURE1 = Table(
    name="jcfo-figure1",
    title="Figure 1: irrelevant features (TJ1)",
    text=""" Two Gaussians that differ in two of p features (Bayes error .159), 100 rows a class, linear kernel,
1000 test rows. With a linear kernel only the product of JCFO's two strengths matters; its root is chosen from 6, 9, 12,
16, 22 by five-fold likelihood, the largest within one standard error of the best; the SVM's cost by five-fold errors;
sparse probit has nothing to choose. "Exact": share of the draws in which the two relevant features, and no others, are
found.
""",
    measures={"error_rate": "error", "features": "features", "exact": "exact"},
    experiments=[figure1(p) for p in (2, 10, 20, 50, 100, 200)],
    notes=[
        """The paper's curve is read off its figure: about 16 % for every p. Sparse probit on the features themselves,
which the figure does not show, does as well as JCFO here: with a linear boundary feature scales and feature weights are
the same thing.""",
        """The one-standard-error rule was taken after seeing that the best likelihood itself kept 5.7 features on
average at p = 100 (two of the ten draws chose a weak strength); fits start without EM (`em_iter=0`).""",
        "`--slow` runs the RVM rows (three draws), where sklearn-rvm gets through; docs/jcfo.md has its curve.",
    ],
)


def nonlinear_rows() -> list[Row]:
    grid = {"alpha": [1.0], "alpha_scales": [10.0, 3.0, 1.0]}
    return [
        Row("JCFO", partial(jcfo, grid=grid), bands={"error_rate": Band(high=0.12)}, ours=True),
        Row("SVC", rbf_svm),
        Row("SMLR, rbf kernel", smlr, ours=True),
        Row("random forest", forest),
    ]


def noisy(draw: Callable[..., Any], name: str, p: int) -> Drawn:
    return Drawn(f"{name}, p = {p}", "drawn", nothing, nonlinear_rows(), seeds=5, draw=draw, n_features=p)


NONLINEAR = Table(
    name="jcfo-nonlinear",
    title="Rings and XOR among irrelevant features",
    text=""" Not in the paper: two rings, or XOR of two signs, in two of p features; 200 training and 1000 test rows.
JCFO with alpha = 1 and alpha_scales from 1, 3, 10 by five-fold likelihood; the rivals' grids by five-fold errors; the
forest has 500 trees.
""",
    measures={"error_rate": "error", "features": "features", "kept": "kernels"},
    experiments=[
        noisy(make_rings, "rings", 20),
        noisy(make_rings, "rings", 100),
        noisy(make_xor, "XOR", 10),
        noisy(make_xor, "XOR", 50),
    ],
)


# ------------------------------------------------------------------------------------------------ genes, table 1


def gene_rows(n: int, correct: Mapping[str, float], limits: Mapping[str, float]) -> list[Row]:
    """Rows of table 1; ``correct`` in per cent, ``limits`` the least per cent accepted."""

    def row(name: str, method: Any, ours: bool = False) -> Row:
        paper = {"errors": round(n * (1.0 - correct[name] / 100.0))} if name in correct else {}
        bands = {"errors": Band(high=n * (1.0 - limits[name] / 100.0))} if name in limits else {}
        return Row(name, method, paper, bands, ours=ours)

    two_stage = partial(jcfo, alpha=1.0, alpha_scales=1.0, preselect="linear", **PAPER_FORM)
    logistic = LogisticRegression(max_iter=5000)
    return [
        row("JCFO, linear kernel", partial(two_stage, **LINEAR), ours=True),
        row("JCFO, quadratic kernel", partial(two_stage, **QUADRATIC), ours=True),
        row("sparse probit, features", partial(probit, prior="laplace", alpha=0.3), ours=True),
        row("AdaBoost, stumps", partial(rivals.adaboost_stumps, rounds=50)),
        row("SVM, linear", partial(plain, model=SVC(kernel="linear"))),
        row("SVM, quadratic", partial(plain, model=SVC(kernel="poly", degree=2, coef0=1.0))),
        row("logistic regression", partial(plain, model=logistic)),
    ]


GOLUB = {
    "JCFO, linear kernel": 100.0,
    "JCFO, quadratic kernel": 98.6,
    "sparse probit, features": 97.2,
    "AdaBoost, stumps": 95.8,
    "SVM, linear": 94.4,
    "SVM, quadratic": 95.8,
    "logistic regression": 97.2,
}
COLON = {
    "JCFO, linear kernel": 96.8,
    "JCFO, quadratic kernel": 88.7,
    "sparse probit, features": 88.7,
    "AdaBoost, stumps": 72.6,
    "SVM, linear": 77.4,
    "SVM, quadratic": 74.2,
    "logistic regression": 71.0,
}

GENES = Table(
    name="jcfo-genes",
    title="Table 1: gene expressions, leave-one-out (TJ2 to TJ5)",
    text=""" Standardised expression levels (colon: their logarithms), fixed strengths. JCFO works on the genes that a
linear L1 probit model keeps (`preselect="linear"`), chosen anew in every fold; "features" counts genes in the end. The
paper prints per cents of 72 and 62; here they are errors.
""",
    measures={"errors": "errors", "features": "genes", "kept": "kernels"},
    experiments=[
        Experiment(
            "AML/ALL",
            "golub",
            LeaveOneOut(),
            gene_rows(72, GOLUB, dict(zip(GOLUB, (88.0, 88.0, 95.8), strict=False))),
            seeds=1,
        ),
        Experiment(
            "colon",
            "colon",
            LeaveOneOut(),
            gene_rows(62, COLON, dict(zip(COLON, (75.0, 75.0, 83.0), strict=False))),
            prepare=np.log,
            seeds=1,
        ),
    ],
    notes=[
        """**The paper's 100 % and 96.8 % for JCFO are not reproducible**, with any strengths, kernel or order of the
phases that was tried: 89 to 97 % for AML/ALL and 76 to 86 % for colon. The paper does not say that the genes were
selected anew in every fold. Selecting them once, on all rows, is biased, and even that gives no more than 97.2 % and
88.7 % with the linear kernel. With selection inside, JCFO is not better than sparse probit on the genes themselves.""",
    ],
)


# -------------------------------------------------------------------------------------------- benchmarks, table 2


def cells(errors: float, kept: float, features: float | None = None) -> dict[str, float]:
    return {"errors": errors, "kept": kept} | ({} if features is None else {"features": features})


def table2_rows(
    paper: dict[str, float],
    given: tuple[float, float],
    gamma: float,
    grid: Mapping[str, Sequence[float]],
    bands: Mapping[str, Band],
    searched_bands: Mapping[str, Band],
    printed: Mapping[str, float],
    seeds: int,
    one_round: Mapping[str, Band] | None = None,
) -> list[Row]:
    at = partial(jcfo, gamma=gamma, **PAPER_FORM)
    given_at = partial(at, alpha=given[0], alpha_scales=given[1])
    early = [] if one_round is None else [Row("JCFO, one round", partial(given_at, max_iter=1), paper, one_round, True)]
    return [
        Row("JCFO, given strengths", given_at, paper, bands, ours=True),
        *early,
        Row("JCFO, by likelihood", partial(at, grid=grid), paper, searched_bands, ours=True, seeds=seeds),
        Row("SVM", rivals.svm, _errors(printed, "svm"), seeds=seeds),
        Row("Gaussian process", rivals.gaussian_process, _errors(printed, "gp"), seeds=min(seeds, 5)),
        Row("linear discriminant", rivals.lda, _errors(printed, "lda")),
    ]


def _errors(printed: Mapping[str, float], name: str) -> dict[str, float]:
    return {"errors": printed[name]} if name in printed else {}


ALPHAS = (3.0, 1.0, 0.3)

TABLE2 = Table(
    name="jcfo-table2",
    title="Table 2: low-dimensional benchmarks (TJ6 to TJ9)",
    text=""" Gaussian kernel, scales started at the paper's widths. "Given strengths" are regression tests of the code:
(1, .3), (3, 10), (1, 10) and (.03, 1) were found good on these very test rows. "By likelihood" is the honest figure:
both strengths from a 12-point grid by five-fold held-out likelihood on the training rows.
""",
    measures={"errors": "errors", "kept": "kernels", "features": "features"},
    experiments=[
        RawExperiment(
            "Ripley, 100 of 250",
            "ripley_synth",
            TrainingSubset(100),
            table2_rows(
                cells(92, 4, 2),
                (1.0, 0.3),
                2.0,
                {"alpha": ALPHAS, "alpha_scales": (10.0, 3.0, 0.3, 0.03)},
                {"errors": Band(high=99), "kept": Band(4, 10), "features": Band(2, 2)},
                {"errors": Band(high=103)},
                {"svm": 106, "gp": 92},
                seeds=10,
            ),
            "rbf",
            seeds=20,
        ),
        Experiment(
            "Pima",
            "pima",
            GivenSplit(),
            table2_rows(
                cells(64, 5, 5),
                (3.0, 10.0),
                1 / 32,
                {"alpha": ALPHAS, "alpha_scales": (30.0, 10.0, 3.0, 0.3)},
                {"errors": Band(high=72), "kept": Band(high=10), "features": Band(4, 6)},
                {"errors": Band(high=75)},
                {"svm": 64, "gp": 67, "lda": 67},
                seeds=2,
            ),
            "rbf",
            seeds=1,
        ),
        Experiment(
            "breast cancer, 300 of 569",
            "wdbc",
            RandomSplits(1, 269),
            table2_rows(
                cells(8, 6),
                (1.0, 10.0),
                1 / 288,
                {"alpha": ALPHAS, "alpha_scales": (100.0, 30.0, 10.0, 3.0)},
                {"errors": Band(high=10.5)},
                {},
                {"svm": 9, "gp": 8, "lda": 19},
                seeds=2,
                one_round={"errors": Band(high=10.5), "kept": Band(4, 9)},
            ),
            "rbf",
            seeds=10,
        ),
        Experiment(
            "crabs, random 80 of 200",
            "crabs",
            Realisation(),
            table2_rows(
                cells(0, 5, 3),
                (0.03, 1.0),
                1 / 32,
                {"alpha": (1.0, 0.1, 0.03), "alpha_scales": (10.0, 3.0, 1.0, 0.3)},
                {"errors": Band(high=9), "features": Band(2, 4)},
                {},
                {"svm": 4, "gp": 3, "lda": 3},
                seeds=3,
            ),
            "rbf",
            seeds=10,
        ),
    ],
    notes=[
        """The paper does not print its strengths; its kernel widths "were observed to be optimal" for another method in
test errors. **Crabs 0 is not reproducible**: the split of 80 and 120 rows was never published, and over random ones the
linear discriminant, for which the paper prints 3, has about 6 errors.""",
        """"One round" stops where the paper's algorithm does: EM, a descent, and one exact solve for the weights at the
scales found. Its number of kernels is the one to compare with the paper's. Kernels this wide are nearly collinear, and
going on until weights and scales are both stationary lowers the objective by another .1 to .6 per cent and merges them:
the default keeps fewer.""",
        """Pima has 7 inputs, not 8. Breast cancer is taken to be the set of 569 rows and 30 features, which fits the
paper's numbers.""",
    ],
)


PAPER = Paper(
    name="jcfo",
    title="Joint classifier and feature optimisation (2004): the paper's tables and ours",
    text=""" B. Krishnapuram, A. J. Hartemink, L. Carin, M. A. T. Figueiredo, *A Bayesian Approach to Joint Feature
Selection and Classifier Design*, IEEE Transactions on Pattern Analysis and Machine Intelligence 26 (2004) 1105-1111.
""",
    tables=[FIGURE1, NONLINEAR, GENES, TABLE2],
)
