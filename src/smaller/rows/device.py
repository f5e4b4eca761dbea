"""Rows on a device: an array of torch, CuPy, or any library that follows the array API standard.

The work is done where the data are. A question brings a `Place`, an answer takes d x q numbers to the host, and nothing
else crosses. Outputs, softmax, sums and certificates are float64, whatever the data are stored in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from smaller.arrays import Array, array_namespace, from_host, to_host
from smaller.bases import Basis
from smaller.designs import Coordinates, as_design, reciprocal
from smaller.likelihoods import Curvature, Likelihood
from smaller.rows.device_matrix import DeviceMatrix
from smaller.rows.host import HostRows
from smaller.rows.memo import Memo
from smaller.rows.protocol import Fold, Local, Place, Reply, Totals, uniform
from smaller.rows.registry import under

__all__ = ["DeviceRows"]


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """``design`` (n, d), targets ``y`` (n, t), weights (n,) and offsets (n, q) or None, all float64 on one device.

    ``numbers`` (n,) are those of the rows where they do not count from zero, on the host: samples and folds are drawn
    by number.
    """

    design: DeviceMatrix
    y: Array
    weight: Array | None
    likelihood: Likelihood
    offset: Array | None = None
    numbers: np.ndarray[Any, Any] | None = None
    labels: Array | None = None
    features: Array | None = None
    _memo: Memo = field(default_factory=Memo, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.likelihood.n_free not in (0, self.likelihood.n_outputs):
            raise ValueError(
                "Ordered classes (several thresholds to one output) are fitted in memory: move the arrays to the host."
            )

    @property
    def n_rows(self) -> int:
        return self.design.shape[0]

    @property
    def n_columns(self) -> int:
        return self.design.shape[1]

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float32 if self.design.dtype == self._xp.float32 else np.float64)

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({"curve", "gram", "local"})

    @cached_property
    def _xp(self) -> Any:
        return array_namespace(self.y)

    @cached_property
    def _numbers(self) -> np.ndarray[Any, Any]:
        return np.arange(self.n_rows) if self.numbers is None else self.numbers

    # ---- mandatory questions ----

    def totals(self) -> Totals:
        xp = self._xp
        c = self._ones if self.weight is None else self.weight
        entropy = self._conjugates(xp.zeros_like(self._first_eta), self.weight)
        targets = to_host(xp.sum(self.y * c[:, None], axis=0))
        columns = self.design.moments(self.weight)
        return Totals(self.n_rows, float(xp.sum(c)), targets, entropy, **vars(columns))

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        return [self._at(place, columns) for place in places]

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        weight = self._weight_of(start)
        before = self.outputs(start)
        move = self.outputs(end) - before
        return np.array([self.likelihood.evaluate(before + float(t) * move, self.y, weight)[0] for t in steps])

    def dual(self, place: Place, scale: float) -> float:
        weight = self._weight_of(place)
        residual = self.likelihood.evaluate(self.outputs(place), self.y, weight)[1]
        return self._conjugates(float(scale) * residual, weight)

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        design = self.design if columns is None else self.design.take(columns)
        return to_host(design.squares(self._curvature(place).diagonal()))

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        factor = reciprocal(np.where(np.isfinite(totals.M2), totals.M2, 0.0))
        weight = np.ones(self.n_rows) if self.weight is None else to_host(self.weight)
        shares = [np.full(self.n_rows, 1.0 / max(totals.n, 1))]
        if factor.any():
            spread = to_host(self.design.spread(totals.mean, factor))
            shares.append(weight * spread / np.count_nonzero(factor))
        if self.weight is not None:
            shares.append(weight / totals.weight)
        chance = np.minimum(count / len(shares) * sum(shares), 1.0)
        kept = np.flatnonzero((uniform(self._numbers, seed) < chance) & (weight > 0))
        return replace(self.subset(kept).fetched(), weight=weight[kept] / chance[kept])

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        return to_host(self.gram(place, left, right))

    def outputs(self, place: Place) -> Array:
        eta = self._memo.get(place)
        if eta is None:
            eta = self._with_free(self.design.of_columns(place.columns, place.values), place.b)
            self._memo.keep(place, eta)
        return eta

    # ---- optional questions ----

    def gram(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        """Return `hessian` where the rows are."""
        return self.design.gram(self._curvature(place), left, right)

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        moved = self.design.of_columns(direction.columns, direction.values)
        if len(direction.b):
            moved = moved + from_host(direction.b, self.y)
        answer = self._curvature(place).apply(moved)
        return to_host(self.design.adjoint(answer)), to_host(self._xp.sum(answer, axis=0))

    @property
    def local(self) -> Local:
        return Local(self.design, self.y, self.weight, self.offset)

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> DeviceRows:
        return under(self, likelihood)

    # ---- views ----

    def scaled(self, shift: Array, scale: Array) -> DeviceRows:
        return replace(self, design=self.design.scaled(shift, scale))

    def take(self, columns: Array) -> DeviceRows:
        features = None if self.features is None else self.features[columns]
        return replace(self, design=self.design.take(columns), features=features)

    def subset(self, rows: Array | Fold) -> DeviceRows:
        kept = np.flatnonzero(rows.member(self._numbers)) if isinstance(rows, Fold) else np.asarray(rows)
        index = from_host(kept, self.y)
        y, weight, offset = (
            None if part is None else self._xp.take(part, index, axis=0) for part in (self.y, self.weight, self.offset)
        )
        numbers = self._numbers[kept]
        return replace(self, design=self.design.rows(kept), y=y, weight=weight, offset=offset, numbers=numbers)

    def weighted(self, factors: Array | Callable[[Array], Array]) -> DeviceRows:
        each = self._of_classes(factors) if callable(factors) else factors
        if isinstance(each, np.ndarray):
            each = from_host(each, self.y)
        return replace(self, weight=each if self.weight is None else each * self.weight)

    def expanded(self, basis: Basis) -> DeviceRows:
        return replace(self, design=DeviceMatrix(basis.expand(self.design.matrix).matrix), features=None)

    def with_likelihood(self, likelihood: Likelihood) -> DeviceRows:
        return replace(self, likelihood=likelihood)

    def fetched(self) -> HostRows:
        """Return all rows on the host: for samples, which are few."""
        weight, offset = (None if part is None else to_host(part) for part in (self.weight, self.offset))
        X, y = to_host(self.design.matrix), np.asfortranarray(to_host(self.y))
        known = HostRows(as_design(X), y, weight, self.likelihood, offset, numbers=self._numbers)
        return replace(known, labels=self.labels, features=self.features)

    # ---- arithmetic, on the device ----

    def _of_classes(self, factors: Callable[[Array], Array]) -> Array:
        """Return ``factors(y)``, asked on the host about the targets of every class, of which one has none."""
        t = self.y.shape[1]
        rest, each = factors(np.zeros((1, t))), factors(np.eye(t))
        change = from_host((each - rest)[:, None], self.y)
        return self._xp.matmul(self.y, change)[:, 0] + float(rest[0])

    @cached_property
    def _ones(self) -> Array:
        return self._xp.ones(self.n_rows, dtype=self._xp.float64, device=self.y.device)

    @cached_property
    def _first_eta(self) -> Array:
        """Return the eta of no weights at all."""
        if self.offset is not None:
            return self.offset
        shape = (self.n_rows, self.likelihood.n_outputs)
        return self._xp.zeros(shape, dtype=self._xp.float64, device=self.y.device)

    @cached_property
    def _has_dual(self) -> bool:
        nothing = self._first_eta[:0, :]
        return self.likelihood.dual(nothing, self.y[:0, :], None) is not None

    def _with_free(self, eta: Array, b: Array) -> Array:
        if self.offset is not None:
            eta = eta + self.offset
        return eta + from_host(b, self.y) if len(b) else eta

    def _at(self, place: Place, columns: Array | None) -> Reply:
        xp, m = self._xp, self.likelihood.n_free
        weight, eta = self._weight_of(place), self.outputs(place)
        loss, R = self.likelihood.evaluate(eta, self.y, weight)
        gb = xp.sum(R, axis=0)[:m]
        Hb, entropy = np.full((m, m), np.nan), float("nan")
        design = self.design if columns is None else self.design.take(columns)
        # Fenchel: conjugate and loss add up to residual times eta. One transfer brings the whole answer.
        inner = xp.sum(R * (eta if self.offset is None else eta - self.offset))
        parts = [xp.reshape(inner, (1,)), gb]
        if design.shape[1]:
            parts.append(xp.reshape(design.adjoint(R), (-1,)))
        answer = to_host(xp.concat(parts))
        if self._has_dual:
            entropy = loss - float(answer[0])
        if columns is not None and len(columns) == 0:
            Hb = to_host(self._free_hessian(self.likelihood.curvature(eta, self.y, weight)))
        return Reply(loss, entropy, answer[1 : 1 + m], Hb, answer[1 + m :].reshape(-1, eta.shape[1]))

    def _free_hessian(self, curvature: Curvature) -> Array:
        xp, m = self._xp, self.likelihood.n_free
        total = xp.sum(curvature.d, axis=0)[:m]
        H = xp.eye(m, dtype=total.dtype, device=total.device) * total
        if curvature.u is None or m == 0:
            return H
        return H - xp.matmul(xp.matrix_transpose(curvature.u), curvature.u)

    def _weight_of(self, place: Place) -> Array | None:
        """Return the weights of the rows of the place's fold."""
        if place.fold is None:
            return self.weight
        member = self._member(place.fold)
        return member if self.weight is None else member * self.weight

    @cached_property
    def _members(self) -> dict[Fold, Array]:
        return {}

    def _member(self, fold: Fold) -> Array:
        """Return which rows belong to a fold, as numbers on the device; kept there."""
        if fold not in self._members:
            self._members[fold] = from_host(fold.member(self._numbers).astype(np.float64), self.y)
        return self._members[fold]

    def _curvature(self, place: Place) -> Curvature:
        return self.likelihood.curvature(self.outputs(place), self.y, self._weight_of(place))

    def _conjugates(self, residual: Array, weight: Array | None) -> float:
        value = self.likelihood.dual(residual, self.y, weight)
        if value is None:
            return float("nan")
        return value if self.offset is None else value + float(self._xp.sum(residual * self.offset))
