"""Zhu, Hastie (2005): tables 2 and 3 on eleven IDA data sets and Splice, and the counts of figures 4 to 6."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC

from smaller.datasets import make_mixture
from smaller.estimators.kernel_logistic import IVM, KLR

from .engine import Answer, Band, Experiment, Listing, Paper, Row, Table
from .protocols import Realisation, Task

# Table 1: sigma^2 and lambda (on the scale of the sum of losses), which are the SVM's.
IDA = {
    "banana": (1.0, 3.16e-3),
    "breast_cancer": (50.0, 6.58e-2),
    "flare_solar": (30.0, 0.978),
    "german": (55.0, 0.316),
    "heart": (120.0, 0.316),
    "image": (3.0, 0.002),
    "ringnorm": (10.0, 1e-9),
    "thyroid": (3.0, 0.1),
    "titanic": (2.0, 1e-5),
    "twonorm": (40.0, 0.316),
    "waveform": (20.0, 1.0),
}

# Tables 2 and 3 as printed, in per cent and counts: SVM error, support vectors, IVM error, import points; then the
# largest accepted error (the printed one and the larger of 1.5 points and the printed deviation) and range of points.
PRINTED = {
    "banana": (10.78, 90, 10.34, 21, 11.84, (15, 40)),
    "breast_cancer": (25.58, 115, 25.92, 14, 30.0, (8, 25)),
    "flare_solar": (32.65, 597, 33.66, 9, 35.3, (4, 12)),
    "german": (22.88, 407, 23.53, 17, 26.01, (8, 25)),
    "heart": (15.95, 90, 15.80, 12, 19.0, (5, 15)),
    "image": (3.34, 221, 3.31, 72, 4.81, (120, 220)),
    "ringnorm": (2.03, 89, 1.97, 72, 3.47, (20, 110)),
    "thyroid": (4.80, 21, 5.00, 22, 8.02, (14, 30)),
    "titanic": (22.16, 69, 22.39, 8, 23.89, (5, 12)),
    "twonorm": (2.90, 70, 2.45, 24, 2.8, (14, 32)),
    "waveform": (9.98, 151, 10.13, 26, 11.63, (16, 36)),
}
# Bands of the error that are narrower than the printed deviation allows were set by us.
NARROWER = ("breast_cancer", "heart", "twonorm")


def _answer(model: Any, task: Task) -> Answer:
    model.fit(task.X, task.y)
    proba = model.predict_proba(task.X_test)
    return Answer(model.predict(task.X_test), {"kept": len(model.support_)}, proba, model.classes_)


def ivm(task: Task, variance: float, alpha: float) -> Answer:
    return _answer(IVM(alpha, gamma=0.5 / variance, window=1), task)


def klr(task: Task, variance: float, alpha: float) -> Answer:
    return _answer(KLR(alpha, gamma=0.5 / variance), task)


def svm(task: Task, variance: float, alpha: float) -> Answer:
    model = SVC(C=1.0 / alpha, gamma=0.5 / variance).fit(task.X, task.y)
    return Answer(model.predict(task.X_test), {"kept": len(model.support_)})


def rows(name: str) -> list[Row]:
    """The rows of one data set; width and strength are the paper's, and the same for all three."""
    variance, alpha = IDA[name]
    svm_error, n_support, error, n_points, most, points = PRINTED[name]
    fixed = {"variance": variance, "alpha": alpha}
    accepted = Band(high=most / 100, source="ours" if name in NARROWER else "paper")
    return [
        Row("SVM", partial(svm, **fixed), {"error_rate": svm_error / 100, "kept": n_support}),
        Row(
            "IVM",
            partial(ivm, **fixed),
            {"error_rate": error / 100, "kept": n_points},
            {"error_rate": accepted, "kept": Band(*points)},
            ours=True,
        ),
        Row("KLR", partial(klr, **fixed), ours=True),
    ]


def at_the_svms_choice(task: Task, answer: Any) -> Answer:
    """Answer at the cost and width that cross-validation on the training part chooses for the SVM."""
    assert task.svm.gamma is not None
    return answer(task, variance=0.5 / task.svm.gamma, alpha=1.0 / task.svm.strength)


# The paper announces Splice in its text and leaves it out of its tables: there is no width, strength or result of it.
SPLICE = Experiment(
    "splice (not in the paper's tables)",
    "ida_splice",
    Realisation(),
    [
        Row("SVM", partial(at_the_svms_choice, answer=svm)),
        Row("IVM", partial(at_the_svms_choice, answer=ivm), ours=True),
        Row("KLR", partial(at_the_svms_choice, answer=klr), ours=True),
    ],
    kernel="rbf",
    seeds=5,
)

TABLES = Table(
    name="ivm-tables23",
    title="Tables 2 and 3: errors, and kernel basis functions used",
    text="""
Every method has the width and strength of the paper's table 1, which were chosen for the SVM; nothing is tuned here,
but for Splice, which has none in the paper: there, cross-validation on the training part chooses them for the SVM.
`IVM(alpha=lambda, gamma=1/(2 sigma^2), window=1)` and `KLR` of the same, `SVC(C=1/lambda)`; features standardised by
the training part. The seeds are the realisations. "Used" counts import points, support vectors and, for KLR, the rank
of the kernel matrix. """,
    measures={"error_rate": "share of errors", "kept": "used"},
    experiments=[*(Experiment(name, f"ida_{name}", Realisation(), rows(name), seeds=20) for name in IDA), SPLICE],
    notes=[
        """**Image with 72 points is not
reproduced.** The same rule gives about 160 points here; the error agrees.""",
        """**Splice** is announced in the
paper's text and missing in its tables; there is nothing to agree with.""",
        """**Ringnorm** has a strength of 1e-9 on
separable classes: the sum falls exponentially, and the number of points depends on where one calls that zero (here
1e-7 of n log 2).""",
        """The lambdas of table 1 belong to the sum of the losses, although (3.1) divides by n: only then
do the SVM's support vectors and all errors agree.""",
        """**Flare-solar**: the paper's 597 support vectors belong to
features that are not standardised (596 then).""",
        """Realisations 11 to 20 (for some sets all, see the data's
manifest) are not the published ones.""",
    ],
)


def three_classes(n: int, seed: int) -> tuple[Any, Any]:
    """Three classes, each a mixture of ten Gaussians as in the two-class simulation."""
    rng = np.random.default_rng(seed)
    means = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    centers = means[:, None, :] + rng.normal(size=(3, 10, 2))
    y = np.arange(n) % 3
    return centers[y, rng.integers(10, size=n)] + rng.normal(scale=np.sqrt(0.2), size=(n, 2)), y


def counts(n: int, window: int, draws: int = 10) -> list[int]:
    """Numbers of import points on draws of the two-class mixture (figures 4 and 5)."""
    samples = (make_mixture(n, random_state=draw)[:2] for draw in range(draws))
    return [len(IVM(1.0, gamma=1 / 1.4, window=window).fit(X, y).support_) for X, y in samples]


def simulate() -> tuple[list[str], list[list[object]]]:
    """Figures 2 to 6 in numbers: quantities TI1 to TI4."""
    header = ["quantity", "paper", "ours (mean ± deviation over 10 draws)", "band", "verdict"]
    body: list[list[object]] = []

    def add(quantity: str, printed: str, values: Any, band: Band | None = None) -> None:
        mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) if np.size(values) > 1 else 0.0
        found = f"{mean:.3g}" + (f" ± {spread:.2g}" if spread else "")
        verdict = "" if band is None else "inside" if mean in band else "OUTSIDE"
        body.append([quantity, printed, found, band or "", verdict])

    means = {}
    for window, band in ((3, Band(15, 30)), (1, Band(11, 21))):
        for n, printed in ((200, "19"), (400, "18"), (600, "19"), (800, "18"), (1600, "")):
            values = counts(n, window)
            means[n, window] = np.mean(values)
            add(f"import points, n = {n}, window {window}", printed if window == 3 else "", values, band)
    add("points at n = 1600 over points at 200, window 3", "about 1", means[1600, 3] / means[200, 3], Band(0.7, 1.35))
    support, differences = [], []
    for draw in range(10):
        X, y, centers = make_mixture(200, random_state=draw)
        X_test, y_test, _ = make_mixture(10_000, centers=centers, random_state=100 + draw)
        support.append(len(SVC(gamma=1 / 1.4).fit(X, y).support_))
        scores = [model(1.0, gamma=1 / 1.4).fit(X, y).score(X_test, y_test) for model in (IVM, KLR)]
        differences.append(100.0 * abs(scores[0] - scores[1]))
    add("support vectors of the SVM, n = 200", "130", support)
    add("difference of the errors of IVM and KLR, points", "almost identical", differences, Band(high=0.5))
    multi = [IVM(0.368, gamma=1 / 1.4, window=3).fit(*three_classes(300, draw)) for draw in range(10)]
    add("import points, 3 classes, n = 300, window 3", "32", [len(model.support_) for model in multi], Band(22, 40))
    return header, body


SIMULATION = Listing(
    name="ivm-simulation",
    title="Figures 2 to 6: the simulated mixtures in numbers",
    make=simulate,
    measured=True,
    text="sigma^2 = .7, lambda = 1 (three classes: .368), eps = .001; the paper's figures have window (Delta k) 3.",
    notes=[
        """The paper shows one draw; the number of points, and more so of support vectors, depends on the draw.""",
        """The paper does not say where its third class lies; here the ten centres are drawn around (-1, -1).""",
    ],
)

PAPER = Paper(
    name="ivm",
    title="Kernel logistic regression and the import vector machine (2005): the paper's tables and ours",
    text="""
J. Zhu, T. Hastie, *Kernel Logistic Regression and the Import Vector Machine*, Journal of Computational and Graphical
Statistics 14 (2005) 185-205.
""",
    tables=[TABLES, SIMULATION],
)
