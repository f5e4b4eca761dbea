"""A kernel too narrow for the few centres that are kept: most rows are far from all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from smaller.telling import tell
from smaller.validation import TrainingData

__all__ = ["far_rows", "warn_far_rows"]

_FAR = 0.1  # kernel value below which a row counts as far from a centre
_MOST = 0.5  # share of the rows that may be far from all centres


def far_rows(model: Any, data: TrainingData) -> float:
    """Return the share of the training rows at which every Gaussian kernel in use is below a tenth of its height."""
    rows = slice(None) if data.weight is None else data.weight > 0
    X = data.X.tocsr() if sparse.issparse(data.X) else data.X
    block = np.asarray(model._basis_.kernel(X[rows], model.support_vectors_))
    return float(np.mean(block.max(axis=1) < _FAR))


def warn_far_rows(model: Any, data: TrainingData) -> None:
    """Say so when a fit with a Gaussian kernel leaves most rows far from all centres that it keeps."""
    if model.kernel != "rbf" or len(model.support_) == 0:
        return
    share = far_rows(model, data)
    if share > _MOST:
        count = len(model.support_)
        kept = "the one kernel kept is" if count == 1 else f"all {count} kernels kept are"
        tell(
            f"{type(model).__name__}: at {100 * share:.0f} % of the training rows {kept} below a tenth of the height, "
            "so that little sets these rows apart. The kernel is too narrow for so few: choose a smaller gamma.",
        )
