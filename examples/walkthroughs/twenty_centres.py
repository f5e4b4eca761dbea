"""
Twenty centres instead of two thousand support vectors
======================================================

A curved boundary, 6,000 rows, and a service that must answer quickly. A support vector machine keeps a large part
of the rows and gives no probabilities. An import vector machine keeps those that it needs.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import accuracy_score, log_loss
from sklearn.svm import SVC

from smaller import IVM, save
from smaller.datasets import make_mixture
from smaller.plotting import ImportPathDisplay

X, y, centers = make_mixture(6000, random_state=0)
X_new, y_new, _ = make_mixture(20000, centers=centers, random_state=1)
machine = SVC(C=1.0, gamma=1.0).fit(X, y)
model = IVM(alpha=1.0, gamma=1.0, max_points=20).fit(X, y)
print(f"SVC: {len(machine.support_)} support vectors, {accuracy_score(y_new, machine.predict(X_new)):.1%} right")
print(f"IVM: {len(model.support_)} import points, {accuracy_score(y_new, model.predict(X_new)):.1%} right")
print(f"     log-loss {log_loss(y_new, model.predict_proba(X_new)):.3f}; the SVC has no probabilities")
print(f"     {model.solution_.status.value}")

# %%
# Where they lie: support vectors crowd along the boundary, import points wherever the probability needs them.

grid = np.stack(np.meshgrid(np.linspace(-3, 4, 150), np.linspace(-3, 4, 150)), axis=-1)
p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(150, 150)
figure, axes = plt.subplots(1, 2, layout="constrained", figsize=(9, 4), sharey=True)
for ax, points, title in zip(
    axes, (machine.support_vectors_, model.support_vectors_), ("support vectors", "import points"), strict=True
):
    ax.contourf(grid[..., 0], grid[..., 1], p, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.4)
    ax.plot(points[:, 0], points[:, 1], "k.", ms=2 if len(points) > 100 else 8)
    ax.set(title=f"{len(points)} {title}", xlim=(-3, 4), ylim=(-3, 4))

# %%
# Were twenty enough? The objective hardly falls at the end.

ImportPathDisplay.from_estimator(model).plot()


# %%
# Served elsewhere
# ----------------
# The file holds numbers and no code. Another process opens it and answers.


def seconds(predict: object) -> float:
    """What all new rows take."""
    start = time.perf_counter()
    predict(X_new)
    return time.perf_counter() - start


folder = tempfile.TemporaryDirectory()
save(model, Path(folder.name) / "model.smaller")
np.save(Path(folder.name) / "rows.npy", X_new[:5])
served = """
import sys, numpy as np, smaller
model = smaller.load(sys.argv[1] + "/model.smaller")
print(model.predict_proba(np.load(sys.argv[1] + "/rows.npy"))[:, 1].tolist())
"""
answer = subprocess.run(
    [sys.executable, "-c", served, folder.name], check=True, capture_output=True, encoding="utf-8"
).stdout
same = np.array_equal(json.loads(answer), model.predict_proba(X_new[:5])[:, 1])
print(f"the other process gives the same numbers, bit by bit: {same}")
print(f"20,000 predictions: SVC {seconds(machine.predict):.2f} s, IVM {seconds(model.predict):.3f} s")
folder.cleanup()

# %%
# Decision
# --------
# Serve the import vector machine: as often right, with probabilities, from twenty rows that can be shown and
# explained. Keep the support vector machine only if a part of the pipeline needs its margin.
