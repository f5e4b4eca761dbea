"""Fit two data sets that ship with scikit-learn and show what was learnt: `python examples/demo.py`."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

import smaller
from smaller import SMLR

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def main() -> None:
    print(f"smaller {smaller.__version__}: small, probabilistic classifiers\n")
    show("Breast cancer", load_breast_cancer(), alpha=5.0)
    show("Wine", load_wine(), alpha=2.0)
    print("Try next: a larger alpha in examples/demo.py keeps fewer features;")
    print('          SMLR(kernel="rbf") keeps few training rows instead of few features.')


def show(title: str, data: Bunch, alpha: float) -> None:
    """Fit one data set and print chosen features, cross-validated quality and the certificate."""
    n, d = data.data.shape
    heading = f"{title}: {n} rows, {d} features, {len(data.target_names)} classes"
    print(heading, "-" * len(heading), sep="\n")
    # Scaling inside the pipeline: every cross-validation fold re-estimates it, and weights are comparable.
    model = make_pipeline(StandardScaler(), SMLR(alpha=alpha)).fit(data.data, data.target)
    show_features(model[-1], data, alpha)
    show_quality(model, data, alpha)
    show_certificate(model[-1])


def show_features(smlr: SMLR, data: Bunch, alpha: float) -> None:
    """List the features with a non-zero weight, largest first."""
    chosen = sorted(smlr.active_features_, key=lambda j: -np.abs(smlr.coef_[:, j]).max())
    print(f"SMLR(alpha={alpha:g}) keeps {len(chosen)} of {len(data.feature_names)} features.", end=" ")
    if len(smlr.coef_) == 1:
        low, high = data.target_names
        print("Weight per standard deviation, and the class it speaks for:\n")
        longest = np.abs(smlr.coef_).max()
        for j in chosen:
            weight = smlr.coef_[0, j]
            bar = "#" * max(1, round(20 * abs(weight) / longest))
            print(f"  {data.feature_names[j]:<30}{weight:+7.2f}  {high if weight > 0 else low:<10} {bar}")
    else:
        print("Weight per standard deviation, for (+) or against (-) a class:\n")
        print(" " * 32 + "".join(f"{name:>10}" for name in data.target_names))
        for j in chosen:
            cells = "".join(f"{w:+10.2f}" if w else f"{'.':>10}" for w in smlr.coef_[:, j])
            print(f"  {data.feature_names[j]:<30}{cells}")


def show_quality(model: Pipeline, data: Bunch, alpha: float) -> None:
    """Compare cross-validated error and log-loss with all features, and with none."""
    rivals = {
        f"SMLR(alpha={alpha:g})": model,
        "all features (logistic regression)": make_pipeline(StandardScaler(), LogisticRegression()),
        "no features (class frequencies)": DummyClassifier(strategy="prior"),
    }
    print(f"\n  {'5-fold cross-validation':<38}{'error':>8}{'log-loss':>10}{'features':>10}")
    for name, rival in rivals.items():
        scores = cross_validate(
            rival,
            data.data,
            data.target,
            cv=FOLDS,
            scoring=["accuracy", "neg_log_loss"],
            return_estimator=True,
        )
        error, loss = 1 - scores["test_accuracy"].mean(), -scores["test_neg_log_loss"].mean()
        used = np.mean([n_features(fitted) for fitted in scores["estimator"]])
        print(f"  {name:<38}{100 * error:>6.1f} %{loss:>10.3f}{used:>10.1f}")


def n_features(fitted: Pipeline | DummyClassifier) -> int:
    """Count the features a fitted model looks at."""
    return int(np.any(fitted[-1].coef_ != 0, axis=0).sum()) if isinstance(fitted, Pipeline) else 0


def show_certificate(smlr: SMLR) -> None:
    """Print the proof that the fit is as good as it says."""
    solution = smlr.solution_
    print(f"\n  certificate   {solution.status.value}")
    print(f"                objective {solution.objective:.6f}, at most {solution.gap:.1e} above the minimum")
    print(f"                KKT violation {solution.violation:.1e}, next to a penalty of slope {smlr.alpha:g}\n")


if __name__ == "__main__":
    main()
