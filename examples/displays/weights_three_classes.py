"""
FeatureWeightsDisplay: three classes
====================================

With more than two classes every class has its column.
"""

from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SMLR
from smaller.plotting import FeatureWeightsDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), SMLR(alpha=2.0)).fit(X, y)
FeatureWeightsDisplay.from_estimator(model, feature_names=X.columns).plot()
