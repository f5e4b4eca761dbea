"""Write golden files of the version at hand: `python -m tests.golden.make [CASE ...]`.

Every case is fitted once and kept in three files: a model file, a joblib pickle, and an .npz with new rows and what the
model says about them. Files of released versions are never written again; a new version gets a folder of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import smaller

FOLDER = Path(__file__).parent
TABLE = FOLDER / "table.csv"
ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "rejected")
PATH = ("alphas", "coefs", "intercepts", "gaps", "objectives", "losses", "n_active")
NAMES = ["plain", "with space", "x,\n", "<script>", "ümlaut \U0001f600"]

RNG = np.random.default_rng(2005)
X = RNG.normal(size=(36, 5)).round(3)  # three digits: the rows then take the same bytes in every format
NEW = RNG.normal(size=(9, 5)).round(3)
TWO = np.where(X[:, 0] + 0.7 * RNG.normal(size=36) > 0, 1, 0)
THREE = np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.4 * RNG.normal(size=36), [-0.5, 0.5])
WORDS = np.array(["a", "é", '"<b>'])[THREE]
RESPONSE = X[:, 0] - 2.0 * X[:, 1] + 0.3 * RNG.normal(size=36)
WEIGHT = RNG.integers(0, 3, 36).astype(float)


def as_form(rows: Any, form: str) -> Any:
    """Return dense rows in the form in which a case is fitted and asked."""
    if form == "table":
        from smaller.app.tables import read_table

        return read_table(TABLE)
    if form == "frame":
        import pandas as pd

        return pd.DataFrame(rows, columns=NAMES)
    return {"dense": np.asarray, "single": np.float32, "csr": sparse.csr_array, "csc": sparse.csc_matrix}[form](rows)


def fitted(model: Any, y: Any, form: str = "dense", **fit: Any) -> Callable[[], tuple[Any, Any, str]]:
    """Return a case: a function that fits, and gives model, new rows and their form."""
    return lambda: (model.fit(as_form(X, form), y, **fit), NEW, form)


def precomputed() -> tuple[Any, Any, str]:
    return smaller.SMLR(0.5, kernel="precomputed").fit(X @ X.T, TWO), NEW @ X.T, "dense"


def path() -> tuple[Any, Any, str]:
    return smaller.smlr_path(X, WORDS, alphas=6, l1_ratio=0.8), NEW, "dense"


def adapted() -> tuple[Any, Any, str]:
    return smaller.PriorShiftClassifier(smaller.SMLR()).fit(X, TWO).adapt(NEW), NEW, "dense"


def decisions() -> tuple[Any, Any, str]:
    inner = smaller.MinimumRiskClassifier(FrozenEstimator(smaller.SMLR().fit(X, TWO)), loss=[[0.0, 1.0], [4.0, 0.0]])
    return smaller.RejectOptionClassifier(inner, threshold=0.3).fit(X, TWO), NEW, "dense"


def table(model: str) -> Callable[[], tuple[Any, Any, str]]:
    """Return a case: what `smaller fit` writes about the table beside this file."""

    def fit() -> tuple[Any, Any, str]:
        program = "from smaller.app.cli import main; main()"
        with tempfile.TemporaryDirectory() as out:
            options = ["-t", "kind", "--model", model, "--out", out, "-q"]
            subprocess.run([sys.executable, "-c", program, "fit", str(TABLE), *options], check=True)
            return smaller.load(Path(out) / "model.smaller"), NEW, "table"

    return fit


def write_table() -> None:
    """Write a table with a category, gaps, and names that are quoted, hostile and foreign."""
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*NAMES, "colour", "gaps", "kind"])
        for i, row in enumerate(X.tolist()):
            gap = "" if i % 5 == 0 else round(row[0] + row[4], 3)
            writer.writerow([*row, "rgb"[i % 3], gap, "yes" if TWO[i] else "<b>no</b>"])


def cases() -> dict[str, Callable[[], tuple[Any, Any, str]]]:
    """Return every public estimator, alone, in a pipeline, with a kernel, on every kind of rows."""
    from smaller import IVM, JCFO, JCFOCV, KLR, RMLR, SBMLR, SMLR, SMLRCV, SparseProbit, SparseRegressor
    from smaller import StabilitySelection as Stability

    folds = StratifiedKFold(2)
    return {
        "smlr": fitted(SMLR(0.5), TWO),
        "smlr_frame_words": fitted(SMLR(0.5, class_weight="balanced"), WORDS, "frame"),
        "smlr_single": fitted(SMLR(0.5, tol=1e-5), TWO.astype(bool), "single"),
        "smlr_csr_reference": fitted(SMLR(0.5, coding="reference", l1_ratio=0.5), THREE, "csr"),
        "smlr_factors": fitted(SMLR(0.5, penalty_factors=[0.0, 1, 1, 2, 1]), THREE, "csc", sample_weight=WEIGHT),
        "smlr_penalized_intercept": fitted(SMLR(0.5, penalize_intercept=True), THREE),
        "smlr_rbf": fitted(SMLR(0.5, kernel="rbf", gamma=0.3, class_weight={"a": 1.0, "é": 2.0}), WORDS),
        "smlr_poly_csr": fitted(SMLR(0.5, kernel="poly", degree=2), TWO, "csr"),
        "smlr_precomputed": precomputed,
        "smlr_path": path,
        "smlrcv": fitted(SMLRCV(alphas=8, eps=0.05, cv=folds, rule="1se"), THREE),
        "smlrcv_rbf": fitted(SMLRCV(alphas=5, eps=0.1, cv=folds, kernel="rbf", l1_ratio=[0.5, 1.0]), TWO),
        "rmlr": fitted(RMLR(0.5), THREE),
        "rmlr_linear_kernel": fitted(RMLR(0.5, kernel="linear"), TWO),
        "sbmlr": fitted(SBMLR(), THREE),
        "sbmlr_rbf": fitted(SBMLR(kernel="rbf"), TWO),
        "klr": fitted(KLR(0.5), WORDS, "frame"),
        "klr_pivoted": fitted(KLR(0.5, n_centers=6, centers="pivoted"), TWO, "csr"),
        "ivm": fitted(IVM(0.5), THREE),
        "ivm_alphas": fitted(IVM(alphas=[0.1, 1.0], random_state=0), TWO),
        "jcfo": fitted(JCFO(0.3, 0.5), TWO),
        "jcfo_three": fitted(JCFO(0.3, 0.5, kernel="poly", random_state=0, n_centers=10), WORDS),
        "jcfocv": fitted(JCFOCV(alphas=[0.3], alphas_scales=[0.5, 2.0], cv=2, em_iter=3, n_centers=10), TWO),
        "sparse_probit": fitted(SparseProbit(), TWO),
        "sparse_probit_laplace": fitted(SparseProbit(prior="laplace", alpha=0.5), THREE),
        "sparse_probit_rbf": fitted(SparseProbit(kernel="rbf"), WORDS, "csr"),
        "sparse_regressor": fitted(SparseRegressor(), RESPONSE),
        "sparse_regressor_laplace": fitted(SparseRegressor(prior="laplace", noise=0.1), RESPONSE, "frame"),
        "sparse_regressor_rbf": fitted(SparseRegressor(kernel="rbf", noise=0.1), RESPONSE),
        "stability": fitted(Stability(n_features=2, n_pairs=5, random_state=0), TWO),
        "stability_of_smlr": fitted(Stability(SMLR(), n_pairs=5, threshold=0.6, random_state=0), THREE),
        "prior_shift": adapted,
        "decisions": decisions,
        "pipeline": fitted(make_pipeline(StandardScaler(), SMLR(0.3)), WORDS, "frame"),
        "pipeline_of_selection": fitted(
            make_pipeline(StandardScaler(), Stability(n_features=2, n_pairs=5, random_state=0), RMLR()), TWO
        ),
        "pipeline_of_kernel": fitted(make_pipeline(StandardScaler(), KLR()), THREE),
        "table_smlr": table("smlr"),
        "table_ivm": table("ivm"),
        "table_sparse_probit": table("sparse-probit"),
    }


def answers(model: Any, rows: Any) -> dict[str, Any]:
    """Return all that a model says about rows; of a path, its numbers."""
    if hasattr(model, "coefs"):
        return {name: np.asarray(getattr(model, name)) for name in PATH}
    said = {name: np.asarray(getattr(model, name)(rows)) for name in ANSWERS if hasattr(model, name)}
    if hasattr(model, "noise_variance_"):
        said["std"] = model.predict(rows, return_std=True)[1]
    return said


def write(name: str, case: Callable[[], tuple[Any, Any, str]], folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # KINK, NO_FIXED_POINT and edges of grids are answers too
        warnings.simplefilter("ignore", UserWarning)
        model, rows, form = case()
    smaller.save(model, folder / f"{name}.smaller")
    joblib.dump(model, folder / f"{name}.joblib", compress=9)
    said = answers(model, as_form(rows, form))
    np.savez_compressed(folder / f"{name}.npz", rows=rows, form=form, **said)


def main(names: list[str]) -> None:
    folder = FOLDER / smaller.__version__.rpartition(".")[0]
    folder.mkdir(exist_ok=True)
    write_table()
    every = cases()
    for name in names or every:
        write(name, every[name], folder)
    used = {name: version(name) for name in ("smaller", "numpy", "scipy", "scikit-learn", "joblib")}
    (folder / "versions.json").write_text(json.dumps(used, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases to write; all if left out")
    main(parser.parse_args().names)
