"""
PathDisplay: weights along the strengths
========================================

From the left, where nothing is kept, to the right: which features come first, and which turn round.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SMLRCV
from smaller.plotting import PathDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), SMLRCV(rule="1se")).fit(X, y)
PathDisplay.from_estimator(model).plot()
