"""What the array API standard lacks, gathered in one place.

Everything above this file works on whatever array type the data came in (NumPy, torch, CuPy); the data's own type
chooses the device. ``q`` outputs are the columns of ``eta``; the row index always comes first.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import array_api_compat
import numpy as np
from scipy import special

__all__ = [
    "Array",
    "array_namespace",
    "from_host",
    "is_numpy_array",
    "log_normal_cdf",
    "log_partition",
    "mills",
    "positive_part",
    "soft_threshold",
    "solve_positive",
    "solve_symmetric",
    "tilted",
    "to_host",
]

Array = Any  # an array of any namespace that follows the array API standard


def is_numpy_array(a: Array) -> bool:
    """Whether ``a`` is a NumPy array."""
    return isinstance(a, np.ndarray)


def array_namespace(a: Array) -> Any:
    """Return the namespace whose functions apply to ``a``; NumPy follows the standard itself and needs no wrapper."""
    return np if isinstance(a, np.ndarray) else array_api_compat.array_namespace(a)


_TRIANGULAR = {"numpy": "scipy.linalg", "cupy": "cupyx.scipy.linalg"}  # where libraries solve with a factor
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def to_host(a: Array) -> np.ndarray[Any, Any]:
    """Return ``a`` as a NumPy array, copying from its device if it has to."""
    if isinstance(a, np.ndarray):
        return a
    if hasattr(a, "detach"):
        a = a.detach().cpu()
    elif hasattr(a, "get"):
        a = a.get()
    elif hasattr(a, "to_device"):
        a = a.to_device(array_namespace(a).__array_namespace_info__().default_device())
    return np.asarray(a)


def from_host(a: np.ndarray[Any, Any], like: Array) -> Array:
    """Return the NumPy array ``a`` in the namespace and on the device of ``like``."""
    if is_numpy_array(like):
        return a
    xp = array_namespace(like)
    return xp.asarray(a, device=like.device)


def positive_part(a: Array) -> Array:
    """Return ``max(a, 0)``."""
    return np.maximum(a, 0.0) if isinstance(a, np.ndarray) else array_namespace(a).clip(a, 0.0, None)


def soft_threshold(a: Array, t: Array) -> Array:
    """Return ``sign(a) * max(|a| - t, 0)``, the shrinkage rule of the l1 norm."""
    xp = array_namespace(a)
    return xp.sign(a) * positive_part(xp.abs(a) - t)


def log_partition(eta: Array, *, pinned: bool) -> tuple[Array, Array]:
    """Return ``log sum_k exp(eta_k)`` (n,) and the probabilities (n, q), shifted by the row maximum.

    ``pinned`` adds an implicit output that is always 0 (reference coding, or two classes with one output); it
    takes part in the maximum, so nothing overflows for any finite ``eta``.
    """
    xp = array_namespace(eta)
    if pinned and eta.shape[1] == 1:  # logistic: half the work of the general case
        small = xp.exp(-xp.abs(eta))
        P = xp.where(eta >= 0, 1.0 / (1.0 + small), small / (1.0 + small))
        return (positive_part(eta) + xp.log1p(small))[:, 0], P
    largest = xp.max(eta, axis=1)
    if pinned:
        largest = positive_part(largest)
    P = xp.exp(eta - largest[:, None])
    total = xp.sum(P, axis=1)
    if pinned:
        total = total + xp.exp(-largest)
    P /= total[:, None]
    return largest + xp.log(total), P


def mills(u: Array) -> Array:
    """Return ``phi(u) / Phi(u)``, finite and accurate for every finite ``u``.

    ``sqrt(2/pi) / erfcx(-u/sqrt 2)``: erfcx overflows to infinity beyond u = 37.7, where the ratio is 0.
    """
    v = to_host(u)
    with np.errstate(over="ignore", divide="ignore"):
        return from_host(_SQRT_2_OVER_PI / special.erfcx(-v / _SQRT_2), u)


def tilted(u: Array) -> Array:
    """Return ``u + mills(u)``, which is positive: the mean of a unit normal at ``u`` truncated to the positives.

    Below -200 the sum would cancel (wrong sign at -1e8); the asymptotic series takes over.
    """
    v = to_host(u)
    x = -np.minimum(v, -200.0)
    inverse = 1.0 / x
    series = inverse - 2.0 * inverse**3 + 10.0 * inverse**5
    return from_host(np.where(v < -200.0, series, v + to_host(mills(v))), u)


def log_normal_cdf(u: Array) -> Array:
    """Return ``log Phi(u)`` without underflow."""
    return from_host(special.log_ndtr(to_host(u)), u)


def solve_positive(A: Array, b: Array) -> Array | None:
    """Return the solution of ``A x = b`` (m,) by a Cholesky factor; None where A is not positive definite.

    Libraries without triangular solves, the standard among them, pay a second factor.
    """
    xp = array_namespace(A)
    if hasattr(xp, "cholesky_solve"):  # torch
        L, failed = xp.linalg.cholesky_ex(A)
        return None if int(failed) else xp.cholesky_solve(b[:, None], L)[:, 0]
    try:
        L = xp.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None
    name = xp.__name__.rpartition(".")[2]
    if name not in _TRIANGULAR:
        return xp.linalg.solve(A, b[:, None])[:, 0]
    if not bool(xp.all(xp.isfinite(L))):  # CuPy does not raise
        return None
    solve = importlib.import_module(_TRIANGULAR[name]).solve_triangular
    return solve(L, solve(L, b, lower=True), lower=True, trans=1)


def solve_symmetric(H: Array, g: Array, *, rcond: float = 1e-13) -> Array:
    """Return the minimum-norm solution of ``H x = g`` (one or several columns) for a positive semidefinite ``H``.

    Eigenvectors with negligible eigenvalues (after scaling to a unit diagonal) are left out: symmetric coding leaves
    a common shift of the outputs undetermined, and separable data leave whole directions.
    """
    xp = array_namespace(H)
    if H.shape[0] == 1 and float(H[0, 0]) > 0.0:
        return g / H[0, 0]
    scale = xp.sqrt(positive_part(xp.linalg.diagonal(H)))
    scale = xp.where(scale > 0, scale, xp.ones_like(scale))
    values, vectors = xp.linalg.eigh(H / (scale[:, None] * scale[None, :]))
    keep = values > rcond * xp.max(xp.abs(values))
    inverse = xp.where(keep, 1.0 / xp.where(keep, values, xp.ones_like(values)), xp.zeros_like(values))
    columns = g[:, None] if g.ndim == 1 else g
    rotated = xp.matmul(xp.matrix_transpose(vectors), columns / scale[:, None])
    x = xp.matmul(vectors, inverse[:, None] * rotated) / scale[:, None]
    return x[:, 0] if g.ndim == 1 else x
