"""
ForestDisplay: odds ratios with ranges
======================================

The effect of each chosen feature given all others, per standard deviation, with its nominal 90 % range. Filled marks
are told apart from no effect after a correction for all 30 features; hollow ones are not, and may be effects all the
same. A real effect may be larger than its range, too: the page "How sure can I be?" has the simulated coverage.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SBMLR
from smaller.plotting import ForestDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), SBMLR()).fit(X, y)
ForestDisplay.from_estimator(model, X, y, per="deviation", feature_names=X.columns).plot()
