"""Certificates of generalisation for sparse linear classifiers (SMLR 2005, section 4, corrected)."""

from .classifiers import gibbs_predict, nearest_posterior, point_predict, vote_predict, vote_probabilities
from .divergence import binary_kl, binary_kl_inverse, divergence_ceiling, laplace_divergence, optimal_eta
from .pac_bayes import PacBayesBound, pac_bayes_bound, pac_bayes_path
from .posterior import LaplacePosterior
from .rademacher import RademacherBound, rademacher_bound

__all__ = [
    "LaplacePosterior",
    "PacBayesBound",
    "RademacherBound",
    "binary_kl",
    "binary_kl_inverse",
    "divergence_ceiling",
    "gibbs_predict",
    "laplace_divergence",
    "nearest_posterior",
    "optimal_eta",
    "pac_bayes_bound",
    "pac_bayes_path",
    "point_predict",
    "rademacher_bound",
    "vote_predict",
    "vote_probabilities",
]
