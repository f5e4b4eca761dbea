"""Synthetic problems of the papers, drawn anew for any seed."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

__all__ = ["make_irrelevant", "make_mixture", "make_rings", "make_sinc", "make_waveform", "make_xor"]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
RandomState: TypeAlias = "int | np.random.RandomState | None"


def make_mixture(
    n_samples: int = 200, *, centers: FloatArray | None = None, random_state: RandomState = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Two classes, each a mixture of ten Gaussians (Hastie et al. 2001; IVM paper, section 2).

    Centres :math:`\mu_{1k} \sim N((1, 0)', I)` and :math:`\mu_{0k} \sim N((0, 1)', I)`, k = 1..10; every row
    picks a centre of its class at random and is :math:`N(\mu, I/5)`.

    Parameters
    ----------
    n_samples : int
        Rows; as many of one class as of the other (class 1 gets the odd one).
    centers : array (2, 10, 2), optional
        Centres by class, to draw a test set from the distribution of an earlier call; drawn anew by default.
    random_state : int, RandomState or None

    Returns
    -------
    X : array (n_samples, 2)
    y : array (n_samples,) of 0 and 1
    centers : array (2, 10, 2)

    See Also
    --------
    make_rings : No line separates these either.

    Examples
    --------
    >>> X, y, centers = make_mixture(200, random_state=0)
    >>> X_test, y_test, _ = make_mixture(1000, centers=centers, random_state=1)
    """
    rng = check_random_state(random_state)
    if centers is None:
        centers = rng.normal(size=(2, 10, 2)) + np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    y = _balanced_labels(n_samples, 2)
    chosen = rng.randint(centers.shape[1], size=n_samples)
    X = centers[y, chosen] + rng.normal(scale=np.sqrt(0.2), size=(n_samples, 2))
    return (*_shuffle(X, y, rng), centers)


def make_irrelevant(
    n_samples: int = 200, n_features: int = 20, *, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    r"""Two unit Gaussians that differ in two of p dimensions (JCFO paper, section 4.1 and figure 1).

    The means are :math:`\pm (1/\sqrt 2, 1/\sqrt 2, 0, \dots, 0)`, so the Bayes error is
    :math:`\Phi(-1) = 0.1587` for every p.

    See Also
    --------
    make_xor : Features that matter in pairs only.

    Examples
    --------
    >>> X, y = make_irrelevant(100, n_features=50, random_state=0)
    >>> X.shape
    (100, 50)
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    y = _balanced_labels(n_samples, 2)
    X = rng.normal(size=(n_samples, n_features))
    X[:, :2] += (2 * y[:, None] - 1) / np.sqrt(2)
    return _shuffle(X, y, rng)


def make_sinc(
    n_samples: int = 50, *, noise: float = 0.1, random_state: RandomState = None
) -> tuple[FloatArray, FloatArray]:
    """Regression: y = sin(x)/x + noise * N(0, 1), x uniform on [-10, 10] (adaptive sparseness paper).

    See Also
    --------
    smaller.SparseRegressor, smaller.RVR : Learn it.

    Examples
    --------
    >>> X, y = make_sinc(50, random_state=0)
    >>> X.shape, y.shape
    ((50, 1), (50,))
    """
    rng = check_random_state(random_state)
    X = rng.uniform(-10, 10, size=(n_samples, 1))
    return X, np.sinc(X[:, 0] / np.pi) + noise * rng.normal(size=n_samples)


def make_rings(
    n_samples: int = 200, n_features: int = 2, *, noise: float = 0.1, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    """Two concentric rings of radius 1 and 2; features after the second are irrelevant N(0, 1).

    Radii are blurred by ``noise * N(0, 1)``. No linear function tells the classes apart.

    See Also
    --------
    make_mixture : Classes that overlap.

    Examples
    --------
    >>> X, y = make_rings(100, noise=0.0, random_state=0)
    >>> bool(np.allclose((X**2).sum(axis=1), np.where(y == 1, 4.0, 1.0)))
    True
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    y = _balanced_labels(n_samples, 2)
    X = rng.normal(size=(n_samples, n_features))
    radius = 1.0 + y + noise * rng.normal(size=n_samples)
    angle = rng.uniform(0, 2 * np.pi, size=n_samples)
    X[:, :2] = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return _shuffle(X, y, rng)


def make_xor(
    n_samples: int = 200, n_features: int = 2, *, noise: float = 0.0, random_state: RandomState = None
) -> tuple[FloatArray, IntArray]:
    """Exclusive or of two signs: y = 1 where x_0 x_1 > 0, x uniform on [-1, 1]^p.

    Features after the second are irrelevant. ``noise`` is the share of flipped labels (the Bayes error).

    See Also
    --------
    make_irrelevant : Features that matter alone.

    Examples
    --------
    >>> X, y = make_xor(100, random_state=0)
    >>> bool(np.all((X[:, 0] * X[:, 1] > 0) == (y == 1)))
    True
    """
    _require_features(n_features, 2)
    rng = check_random_state(random_state)
    X = rng.uniform(-1, 1, size=(n_samples, n_features))
    flipped = rng.uniform(size=n_samples) < noise
    return X, ((X[:, 0] * X[:, 1] > 0) ^ flipped).astype(np.int64)


def make_waveform(n_samples: int = 300, *, random_state: RandomState = None) -> tuple[FloatArray, IntArray]:
    r"""Breiman's waveforms: 21 features, three classes, Bayes error about 14 %.

    :math:`x_i = u\,h_a(i) + (1-u)\,h_b(i) + N(0, 1)`, u uniform on [0, 1], where the classes mix the
    pairs (1, 2), (1, 3), (2, 3) of the triangles :math:`h_1(i) = \max(6 - |i - 11|, 0)`,
    :math:`h_2(i) = h_1(i - 4)`, :math:`h_3(i) = h_1(i + 4)`.

    See Also
    --------
    make_mixture : Two classes.

    Examples
    --------
    >>> X, y = make_waveform(300, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((300, 21), [100, 100, 100])
    """
    rng = check_random_state(random_state)
    position = np.arange(1, 22)
    waves = np.array([np.maximum(6 - np.abs(position - peak), 0) for peak in (11, 15, 7)], dtype=np.float64)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    y = _balanced_labels(n_samples, 3)
    u = rng.uniform(size=(n_samples, 1))
    X = u * waves[pairs[y, 0]] + (1 - u) * waves[pairs[y, 1]] + rng.normal(size=(n_samples, 21))
    return _shuffle(X, y, rng)


def _balanced_labels(n_samples: int, n_classes: int) -> IntArray:
    return (np.arange(n_samples, dtype=np.int64) + n_classes - n_samples % n_classes) % n_classes


def _shuffle(X: FloatArray, y: IntArray, rng: np.random.RandomState) -> tuple[FloatArray, IntArray]:
    order = rng.permutation(len(y))
    return X[order], y[order]


def _require_features(n_features: int, least: int) -> None:
    if n_features < least:
        raise ValueError(f"n_features={n_features} must be at least {least}: the first {least} carry the classes")
