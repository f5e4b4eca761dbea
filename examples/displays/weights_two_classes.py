"""
FeatureWeightsDisplay: two classes
==================================

The chosen features, the direction in which each pulls, and how strongly.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SMLR
from smaller.plotting import FeatureWeightsDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), SMLR(alpha=5.0)).fit(X, y)
FeatureWeightsDisplay.from_estimator(model, feature_names=X.columns).plot()
