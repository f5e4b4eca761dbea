"""
ErrorRejectDisplay: what would leaving doubtful rows open bring?
================================================================

The error among the answered rows, for every share of rows that is left open.
"""

from sklearn.model_selection import train_test_split

from smaller import IVM
from smaller.datasets import make_mixture
from smaller.plotting import ErrorRejectDisplay

X, y, _ = make_mixture(2000, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
ErrorRejectDisplay.from_estimator(IVM(gamma=1.0).fit(X_train, y_train), X_test, y_test).plot()
