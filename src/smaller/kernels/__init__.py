"""Kernels K(x, c): with one scale per feature (`scaled`), or brought by the user (`given`)."""

from smaller.kernels.blocks import squared_distances
from smaller.kernels.choice import make_kernel, resolve_gamma
from smaller.kernels.given import FromCallable, Precomputed
from smaller.kernels.protocol import Kernel
from smaller.kernels.scaled import RBF, Linear, Polynomial

__all__ = [
    "RBF",
    "FromCallable",
    "Kernel",
    "Linear",
    "Polynomial",
    "Precomputed",
    "make_kernel",
    "resolve_gamma",
    "squared_distances",
]
