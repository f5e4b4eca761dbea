"""
ImportPathDisplay: how many reference points?
=============================================

The objective after every import point.
"""

from smaller import IVM
from smaller.datasets import make_mixture
from smaller.plotting import ImportPathDisplay

X, y, _ = make_mixture(1000, random_state=0)
ImportPathDisplay.from_estimator(IVM(gamma=1.0).fit(X, y)).plot()
