"""Few genes without tuning anything: SBMLR on expression levels, beside SMLR tuned by cross-validation.

With SMALLER_DATA set this uses the leukaemia (38 training and 34 test patients, 7129 genes) and colon (62 tissues,
2000 genes) sets: `python -m examples.gene_selection`; without it, scikit-learn's breast cancer set stands in.
"""

import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from smaller import SBMLR, SMLRCV


def main() -> None:
    if not os.environ.get("SMALLER_DATA"):
        data = load_breast_cancer()
        train, test = train_test_split(np.arange(len(data.target)), test_size=0.4, stratify=data.target, random_state=0)
        show("breast cancer", data.data, data.target, train, test, list(data.feature_names))
        return
    from benchmarks.papers.datasets import load

    data = load("golub")
    show("leukaemia", data.data, data.target, data.split["train"], data.split["test"], data.feature_names)
    data = load("colon")
    train, test = train_test_split(np.arange(62), test_size=12, stratify=data.target, random_state=0)
    show("colon", np.log(data.data), data.target, train, test, data.feature_names)


def show(title: str, X: Any, y: Any, train: Any, test: Any, names: list[str]) -> None:
    """Fit both on the training rows and print what they chose and how well it does on the test rows."""
    print(f"{title}: {len(train)} rows to learn from, {len(test)} to test, {X.shape[1]} features")
    scaler = StandardScaler().fit(X[train])
    for model in (SBMLR(), SMLRCV()):
        start = time.perf_counter()
        with warnings.catch_warnings():  # the statuses are printed below
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            model.fit(scaler.transform(X[train]), y[train])
        seconds = time.perf_counter() - start
        errors = int(np.sum(model.predict(scaler.transform(X[test])) != y[test]))
        kept = len(model.active_features_)
        print(f"  {type(model).__name__:6s} {kept:3d} features, {errors} test errors, {seconds:.2f} s")
        if isinstance(model, SBMLR):
            print(f"         alpha {model.alpha_:.3g}, {model.solution_.status.name}: {model.solution_.status.value}")
            print(f"         {strongest(model, names)}")
    print()


def strongest(model: SBMLR, names: list[str], count: int = 5) -> str:
    weights = model.coef_[0]
    order = np.argsort(-np.abs(weights))[: min(count, len(model.active_features_))]
    return ", ".join(f"{names[j]} {weights[j]:+.2f}" for j in order)


if __name__ == "__main__":
    main()
