"""``python smoke.py``: an installed wheel fits, certifies, predicts, saves and loads, away from the source tree.

With ``--demo`` (extra "cli") it also runs `smaller demo` and compares features and weights with those that the README
shows, where that lies beside. Needs no test tools: this is what a wheel is judged by in a clean environment.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import smaller

README = Path(__file__).resolve().parents[1] / "README.md"


def check(claim: bool, what: str) -> None:
    """Stop with a sentence unless a claim holds."""
    if not claim:
        sys.exit(f"smoke: {what}")


def fits() -> None:
    """Two and three classes, features and kernels, each certified; a file that gives the same numbers."""
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), smaller.SMLR(alpha=5.0)).fit(X, y)
    check(model[-1].active_features_.tolist() == [1, 7, 10, 19, 20, 21, 24, 26, 27, 28], "other features than expected")
    check(model[-1].solution_.converged, "no certificate for two classes")
    X3, y3 = load_wine(return_X_y=True)
    for three in (smaller.SMLR(alpha=1.0), smaller.SBMLR(), smaller.KLR(), smaller.IVM(), smaller.RVC()):
        fitted = make_pipeline(StandardScaler(), three).fit(X3, y3)
        check(fitted[-1].solution_.converged, f"{type(three).__name__} has no certificate")
        check(fitted.score(X3, y3) > 0.95, f"{type(three).__name__} predicts badly")
    with tempfile.TemporaryDirectory() as folder:
        smaller.save(model, Path(folder) / "model.smaller")
        same = smaller.load(Path(folder) / "model.smaller")
    check(np.array_equal(same.predict_proba(X), model.predict_proba(X)), "a saved model gives other numbers")


def demo() -> None:
    """`smaller demo` prints the table that the README shows."""
    from smaller.app.cli import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["smaller", "demo", "--out", folder]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main()
        check((Path(folder) / "report.html").is_file(), "the demo wrote no report")
    if README.is_file():
        lines = re.findall(r"^ (\w[\w ]+?) +([+-]\d\.\d{3})", README.read_text(encoding="utf-8"), re.MULTILINE)
        check(len(lines) > 0, "the README shows no weights")
        for name, weight in lines:
            check(re.search(rf"^ {name} +{re.escape(weight)}", said.getvalue(), re.MULTILINE) is not None, name)


if __name__ == "__main__":
    fits()
    if "--demo" in sys.argv:
        demo()
    place = Path(smaller.__file__).parent
    print(f"smoke: smaller {smaller.__version__} in {place} works on Python {sys.version.split()[0]}")
