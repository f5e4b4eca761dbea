"""
StabilityDisplay: would other rows have given the same?
=======================================================

How often each feature is chosen on halves of the rows; the line is where chance becomes unlikely.
"""

from sklearn.datasets import load_breast_cancer

from smaller import StabilitySelection
from smaller.plotting import StabilityDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
StabilityDisplay.from_estimator(StabilitySelection(random_state=0).fit(X, y)).plot()
