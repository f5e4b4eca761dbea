"""Class priors that change between training and use: Figure 1 and Table 2 of Cawley, Talbot and Girolami (2006).

The training part of covtype holds as many rows of every forest type; the test part holds them as they grow. SBMLR is
trained on the former; the latter's class frequencies are estimated from its unlabelled rows. Needs SMALLER_DATA;
writes docs/img/sbmlr_priors.png.
"""

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.papers.datasets import load
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SBMLR, PriorShiftClassifier

FIGURE = Path(__file__).parents[1] / "img" / "sbmlr_priors.png"


def main() -> None:
    data = load("covtype")
    train, test = data.split["train"], data.split["test"]
    X, y, X_test, y_test = data.data[train], data.target[train], data.data[test], data.target[test]
    model = PriorShiftClassifier(make_pipeline(StandardScaler(), SBMLR(penalize_intercept=True))).fit(X, y)
    report("raw", model, X_test, y_test)
    model.adapt(X_test)  # no labels
    report("corrected", model, X_test, y_test)
    priors = {
        "training": np.bincount(y) / len(y),
        "test": np.bincount(y_test) / len(y_test),
        "estimated": model.priors_,
    }
    for name, values in priors.items():
        print(f"{name:10s}", np.round(values, 3))
    draw(priors, data.target_names)


def report(name: str, model: PriorShiftClassifier, X: Any, y: Any) -> None:
    proba = model.predict_proba(X)
    error = np.mean(proba.argmax(axis=1) != y)
    entropy = -np.mean(np.log(np.maximum(proba[np.arange(len(y)), y], 1e-12)))
    print(f"{name:10s} error {error:.4f}, cross-entropy {entropy:.4f}")


def draw(priors: dict[str, Any], names: list[str]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    places = np.arange(len(names))
    styles = {"training": "0.75", "test": "#1b4f72", "estimated": "#e08214"}
    for i, (name, values) in enumerate(priors.items()):
        axes.bar(places + 0.27 * (i - 1), values, 0.25, color=styles[name], label=name)
    axes.set_xticks(places, [str(name) for name in names])
    axes.set_xlabel("forest cover type")
    axes.set_ylabel("class prior")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.set_title("Covtype: priors in training, in the test part, and estimated without its labels", fontsize=10)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()
