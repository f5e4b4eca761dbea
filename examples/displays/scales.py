"""
ScalesDisplay: which features does a curved boundary need?
==========================================================

JCFO gives every feature a scale; one with scale zero is not used.
"""

from smaller import JCFO
from smaller.datasets import make_xor
from smaller.plotting import ScalesDisplay

X, y = make_xor(200, n_features=8, random_state=0)
ScalesDisplay.from_estimator(JCFO(kernel="rbf").fit(X, y)).plot()
