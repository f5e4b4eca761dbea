"""Why a row is predicted as it is: what each feature adds to the log-odds of the class that is answered.

    log-odds of the class against the average class  =  intercept + sum_j (w_kj - mean_k w_kj) z_j

with z_j the feature in the units of training: 0 is the average training row, so that a feature speaks for or against
only as far as it differs from that. Exact for linear models; for grades the sum is that of each step up.
"""

from __future__ import annotations

import numpy as np

from smaller.app.study.answer import TableModel
from smaller.app.tables import Table, TableError
from smaller.arrays import Array

__all__ = ["reasons"]

SHOWN = 3


def reasons(model: TableModel, table: Table, answered: Array) -> list[str]:
    """Return for every row what speaks loudest, for (+) or against (-) the class ``answered``, with numbers.

    Parameters
    ----------
    model : TableModel
        A linear one.
    table : Table
        The rows.
    answered : ndarray of shape (n,)
        The number of each row's class.
    """
    coef = getattr(model.pipeline[-1], "coef_", None)
    if coef is None:
        raise TableError("--explain needs a linear model: this one compares rows with reference points.")
    used = np.flatnonzero(np.any(coef, axis=0))
    Z = model.pipeline[:-1].transform(model.features(table))[:, used]
    Z = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)
    if hasattr(model.pipeline[-1], "thresholds_"):
        towards = np.repeat(coef[:, used], len(Z), axis=0)
    elif len(coef) == 1:
        towards = np.where(answered == 1, 1.0, -1.0)[:, None] * coef[:, used]
    else:
        towards = (coef - coef.mean(axis=0))[answered][:, used]
    names = [model.encoder.features[j] for j in used.tolist()]
    return [_sentence(names, row) for row in towards * Z]


def _sentence(names: list[str], parts: Array) -> str:
    order = np.argsort(-np.abs(parts), kind="stable")[:SHOWN]
    return "; ".join(f"{names[j]} {parts[j]:+.2g}" for j in order.tolist() if parts[j] != 0.0)
