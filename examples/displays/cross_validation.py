"""
CVDisplay: how strong a penalty?
================================

The held-out score along the strengths, with its standard error.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SMLRCV
from smaller.plotting import CVDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), SMLRCV(rule="1se")).fit(X, y)
CVDisplay.from_estimator(model).plot()
