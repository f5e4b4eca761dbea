"""Small, probabilistic classifiers: few features, few kernels, certified optima.

"SMLR, pronounced *smaller*."
"""

from smaller.estimators.smlr import RMLR, SMLR

__all__ = ["RMLR", "SMLR"]
__version__ = "0.1.0"
