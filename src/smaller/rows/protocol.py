"""What a solver may ask of the data, wherever they live: questions about sums over rows.

    eta_i = offset_i + X_i w + b,        loss = sum_i c_i loss(y_i, eta_i)

Answers are pure functions of the question (no holder keeps a state that changes them), and they *add*: the answer of
all rows is the sum of the answers of any blocks of them. So the same solver serves one array, a disk and a cluster.
What is unknown is nan.

Symbols: n rows, d columns, q outputs, m free numbers of the likelihood (its intercepts, or its thresholds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.designs import Coordinates, Design
from smaller.likelihoods import Likelihood

if TYPE_CHECKING:
    from smaller.rows.host import HostRows

__all__ = ["Fold", "Local", "Place", "Reply", "Rows", "Totals", "added", "hash64", "uniform"]

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


def hash64(numbers: Array, seed: int) -> Array:
    """Return 64 well-mixed bits for every row number: the finaliser of the generator SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.asarray(numbers).astype(np.uint64) + np.uint64((seed + 1) * _GOLDEN % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) + np.uint64(_GOLDEN)  # a second round: neighbours differ in one bit only
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(numbers: Array, seed: int) -> Array:
    """Return a number in [0, 1) for every row number: the row's lot, whichever block or worker holds it."""
    return (hash64(numbers, 2 * seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Fold:
    """The rows whose fold ``hash64(number, seed) mod count`` is ``index``; or with ``outside`` all others.

    See Also
    --------
    Place : May name a fold.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.rows import Fold
    >>> numbers = np.arange(100)
    >>> inside, outside = Fold(0, 5, outside=False), Fold(0, 5)
    >>> bool((inside.member(numbers) ^ outside.member(numbers)).all())
    True
    """

    index: int
    count: int
    seed: int = 0
    outside: bool = True

    def member(self, numbers: Array) -> Array:
        """Return which row numbers belong (n,) bool."""
        # Odd seeds are the folds', even ones the samples': neither tells anything about the other.
        inside = hash64(numbers, 2 * self.seed + 1) % np.uint64(self.count) == np.uint64(self.index)
        return ~inside if self.outside else inside


@dataclass(frozen=True, eq=False)
class Place:
    """Where a question is asked: weights by the columns that have any, free numbers, and the rows that count.

    See Also
    --------
    Reply : What is answered there.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.rows import Place
    >>> Place.of(np.array([[0.0], [2.0]]), np.zeros(1)).columns.tolist()
    [1]
    """

    columns: Array  # (c,) int64, increasing
    values: Array  # (c, q)
    b: Array  # (m,)
    fold: Fold | None = None  # None: all rows

    @classmethod
    def of(cls, w: Array, b: Array, fold: Fold | None = None) -> Place:
        """Return the place of dense weights ``w`` (d, q)."""
        columns = np.flatnonzero(np.abs(np.asarray(w)) @ np.ones(w.shape[1]))  # many times faster than any(axis=1)
        return cls(columns, np.ascontiguousarray(w[columns]), np.array(b, dtype=np.float64), fold)

    def weights(self, n_columns: int) -> Array:
        """Return the dense weights (d, q)."""
        w = np.zeros((n_columns, self.values.shape[1]))
        w[self.columns] = self.values
        return w

    @property
    def key(self) -> tuple[bytes, bytes, bytes]:
        """What eta depends on: equal keys, equal bits."""
        return self.columns.tobytes(), self.values.tobytes(), self.b.tobytes()


class Reply(NamedTuple):
    """The answer of `Rows.at`, which adds entry by entry.

    See Also
    --------
    Place : Where it was asked.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import HostRows, Place
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> [reply] = rows.at([Place.of(np.zeros((4, 1)), np.zeros(1))])
    >>> reply.G[:, 0].tolist()
    [0.5, -0.5, 0.5, -0.5]
    """

    loss: Any  # the sum of losses
    entropy: Any  # minus the sum of conjugates at the residual: the dual value at scale 1; nan without a dual
    gb: Array  # (m,) gradient in the free numbers
    Hb: Array  # (m, m) Hessian of the free numbers; nan unless the question was about no columns
    G: Array  # (d, q) gradient in the weights, or of the columns that were asked for


@dataclass(frozen=True, eq=False)
class Totals:
    """What one look at all rows tells; two merge into one (`merged`).

    ``mean`` and ``M2`` (the sum of squared deviations) are weighted; ranges leave out rows without weight.

    See Also
    --------
    HostRows : Tells them by ``totals``.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import HostRows
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> rows.totals().mean.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    n: int
    weight: float  # sum of c_i
    targets: Array  # (t,) sums of c_i y_i
    entropy: float  # the dual value of zero residuals: 0 for hard labels; nan without a dual
    mean: Array  # (d,)
    M2: Array  # (d,)
    low: Array  # (d,) smallest entry, +inf where there is none
    high: Array  # (d,) largest entry
    finite: Array  # (d,) bool: neither nan nor infinite

    @property
    def constant(self) -> Array:
        """Which columns never change (d,)."""
        return ~(self.low < self.high)

    @property
    def target_means(self) -> Array:
        """One row of targets (1, t) whose likelihood alone has the free numbers of all rows for its best."""
        return (self.targets / self.weight)[None, :]

    def merged(self, other: Totals) -> Totals:
        """Return the totals of both: Chan's rule, since sums of squares would lose all digits at mean/sd of 1e8."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        with np.errstate(invalid="ignore"):  # columns that are not finite stay so
            shift = other.mean - self.mean
            mean = self.mean + share * shift
            M2 = self.M2 + other.M2 + (self.weight * share) * shift**2
        return Totals(
            self.n + other.n,
            weight,
            self.targets + other.targets,
            self.entropy + other.entropy,
            mean,
            M2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.finite & other.finite,
        )

    def take(self, columns: Array) -> Totals:
        """Return the totals of some columns."""
        names = ("mean", "M2", "low", "high", "finite")
        return replace(self, **{name: getattr(self, name)[columns] for name in names})


@dataclass(frozen=True)
class Local:
    """The data themselves, for methods that need the matrix: on the host, or on one device.

    See Also
    --------
    Rows : Offers it by the name "local".

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import HostRows
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> rows.local.design.shape
    (4, 4)
    """

    design: Design
    y: Array  # (n, t) targets
    weight: Array | None  # (n,) or None for ones
    offset: Array | None  # (n, q) or None for zeros


class Rows(Protocol):
    """Contract of a row holder. ``offers`` names the optional questions it answers; a fit succeeds without any.

    See Also
    --------
    HostRows : Rows in memory.
    Blocks : Several holders as one.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import HostRows, Place
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> rows.n_rows, rows.n_columns
    (4, 4)
    >>> rows.outputs(Place.of(np.ones((4, 1)), np.zeros(1)))[:, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    @property
    def likelihood(self) -> Likelihood:
        """How labels arise from eta; frozen and small. Solvers read its sizes, never its arithmetic on rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows n."""

    @property
    def n_columns(self) -> int:
        """Number of columns d."""

    @property
    def dtype(self) -> Any:
        """Type in which X is stored; sums are float64."""

    @property
    def labels(self) -> Array | None:
        """The classes in the order of their codes; None where the codes 0, 1, ... are the labels."""

    @property
    def features(self) -> Array | None:
        """Names of the columns (d,), or None."""

    @property
    def offers(self) -> frozenset[str]:
        """Names out of "curve", "gram" (`hessian`, left where the rows are), "local", "sweep"."""

    # ---- mandatory questions ----

    def totals(self) -> Totals:
        """Return what one look at all rows tells."""

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        """Return loss and gradients at every place, in one look at the data; G of all columns, or of ``columns``.

        An empty ``columns`` asks about the free numbers alone: then ``Hb`` is filled in.
        """

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        """Return the losses (t,) at ``start + steps (end - start)``."""

    def dual(self, place: Place, scale: float) -> float:
        """Return minus the sum of conjugates at ``scale`` times the residual; nan without a dual."""

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        """Return ``sum_i h_ik x_ij^2`` (d, q), h being the diagonal of the curvature; or that of ``columns``."""

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        """Return about ``count`` rows on the host, each standing for several; the same ones however they are stored.

        Row number i is kept if its lot (`uniform`) is below ``p_i``, and then weighs ``c_i / p_i``. ``p_i`` grows with
        the row's leverage, its part of the columns' variances in ``totals``: a column of a few ones among a million
        zeros would be flat in a sample that misses them.
        """

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return the Hessian between coordinates (column, output); column d stands for the free numbers."""

    def outputs(self, place: Place) -> Array:
        """Return eta (n, q), where the rows are."""

    # ---- optional questions ----

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        """Return the Hessian times a direction: (d, q) in the weights, (m,) in the free numbers."""

    @property
    def local(self) -> Local:
        """The data themselves."""

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> Rows:
        """Return the rows as an estimator wants them: under ``likelihood(K)`` where there are K classes.

        This is how an estimator recognises rows. Anything else that can become rows (a reader of files, say) has the
        method too, and may look at its labels first.
        """

    # ---- views: the same holder, seen differently ----

    def scaled(self, shift: Array, scale: Array) -> Rows:
        """Return the rows with columns ``(x_j - shift_j) / scale_j``, without a copy of the data."""

    def take(self, columns: Array) -> Rows:
        """Return the rows of some columns."""

    def subset(self, rows: Array | Fold) -> Rows:
        """Return some rows: by position (increasing), or of a fold. They keep their numbers."""

    def weighted(self, factors: Array | Callable[[Array], Array]) -> Rows:
        """Return the rows with their weights multiplied by ``factors`` (n,), or by what it makes of targets (n, t)."""

    def expanded(self, basis: Basis) -> Rows:
        """Return the rows with the columns that ``basis`` makes of them."""

    def with_likelihood(self, likelihood: Likelihood) -> Rows:
        """Return the rows under another likelihood of the same targets."""


def added(first: Reply, second: Reply) -> Reply:
    """Return the answer of two blocks together."""
    return Reply(*(a + b for a, b in zip(first, second, strict=True)))
