"""How far the rows leave open what a fitted classifier says: ranges of probabilities and of effects.

* :mod:`~smaller.inference.posterior`: ranges of probabilities of sparse models, and `reach`, which limits them;
* :mod:`~smaller.inference.process`: of kernel logistic regression, as a Gaussian process;
* :mod:`~smaller.inference.coefficients`: ranges and p-values of weights, two classes;
* :mod:`~smaller.inference.words`: what may be said of them.
"""

from smaller.inference.coefficients import CoefIntervals, coef_interval
from smaller.inference.posterior import Posterior, approximate
from smaller.inference.process import ProcessPosterior, approximate_process
from smaller.inference.words import EFFECTS_NOTE, effect_in_words, range_in_words, range_notes

__all__ = [
    "EFFECTS_NOTE",
    "CoefIntervals",
    "Posterior",
    "ProcessPosterior",
    "approximate",
    "approximate_process",
    "coef_interval",
    "effect_in_words",
    "range_in_words",
    "range_notes",
]
