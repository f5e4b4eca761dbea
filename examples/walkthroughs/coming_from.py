"""
Coming from elsewhere: the call and the number side by side
===========================================================

Before you trust a new program you want to see your own numbers again. Here are the calls of scikit-learn beside ours,
on the same rows, with what both give; and what to type instead for programs that are not run here.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from smaller import KLR, RMLR, SMLR

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)


def objective(coef: np.ndarray, intercept: np.ndarray, alpha: float) -> float:
    """The sum that both minimise: two classes, absolute values."""
    eta = X @ coef[0] + intercept
    return float(np.logaddexp(0, eta).sum() - eta[y == 1].sum() + alpha * np.abs(coef).sum())


def beside(title: str, theirs: object, ours: object) -> None:
    """Print a line of two numbers."""
    print(f"{title:<34}{theirs!s:>22}{ours!s:>22}")


# %%
# ``LogisticRegression`` with absolute values
# -------------------------------------------
# ``C`` is one over ``alpha``.

theirs = LogisticRegression(l1_ratio=1.0, C=0.1, solver="saga", tol=1e-6, max_iter=20000).fit(X, y)
ours = SMLR(alpha=1 / 0.1).fit(X, y)
beside("", "scikit-learn", "smaller")
beside("features kept", np.count_nonzero(theirs.coef_), len(ours.active_features_))
beside(
    "objective",
    f"{objective(theirs.coef_, theirs.intercept_, 10.0):.5f}",
    f"{objective(ours.coef_, ours.intercept_, 10.0):.5f}",
)
beside("at most so far above the minimum", "not known", f"{ours.solution_.gap:.1e}")
beside("probability of row 13", f"{theirs.predict_proba(X)[13, 1]:.4f}", f"{ours.predict_proba(X)[13, 1]:.4f}")

# %%
# ``LogisticRegression`` with squares, three classes
# --------------------------------------------------

W, kinds = load_wine(return_X_y=True)
W = scale(W)
theirs = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(W, kinds)
ours = RMLR(alpha=1 / 0.5).fit(W, kinds)
beside("", "scikit-learn", "smaller")
beside("probabilities of row 70", theirs.predict_proba(W)[70].round(3), ours.predict_proba(W)[70].round(3))
beside("largest difference of a weight", "", f"{np.abs(theirs.coef_ - ours.coef_).max():.1e}")

# %%
# ``SVC``
# -------
# Another loss, nearly the same boundary, and probabilities that belong to it.

theirs = SVC(C=1.0, gamma=0.03).fit(X[::2], y[::2])
ours = KLR(alpha=1.0, gamma=0.03).fit(X[::2], y[::2])
beside("", "scikit-learn", "smaller")
beside("right on the other half", f"{theirs.score(X[1::2], y[1::2]):.3f}", f"{ours.score(X[1::2], y[1::2]):.3f}")
beside("probability of row 13", "none", f"{ours.predict_proba(X[13:14])[0, 1]:.3f}")

# %%
# Programs that are not run here
# ------------------------------
# =====================================================  ==================================================
# there                                                  here
# =====================================================  ==================================================
# R: ``glmnet(x, y, "multinomial", lambda = l)``         ``SMLR(alpha=n * l)`` on scaled columns
# R: ``cv.glmnet(x, y, "multinomial")``, lambda.1se      ``SMLRCV(rule="1se")``
# SAS: ``proc hpgenselect``, ``method=lasso``, binary    ``SMLRCV()``
# JMP Pro: generalized regression, lasso, binomial       ``SMLRCV()``
# Spark: ``LogisticRegression(regParam=l)``              ``SMLR(alpha=n * l, l1_ratio=elasticNetParam)``
# =====================================================  ==================================================
#
# Decision
# --------
# Where the same sum is minimised the numbers agree, so a model can be taken over as it is. Where they do not, compare
# the objectives: the lower one is nearer to the minimum, and the gap says how much lower any could be.
