"""Rows in the memory of this process: one design with its targets, weights and offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.bases import Basis
from smaller.designs import Coordinates, Design, as_design, reciprocal
from smaller.likelihoods import Curvature, Likelihood
from smaller.likelihoods.protocol import by_column
from smaller.rows.memo import Memo
from smaller.rows.passes import fused, pass_over
from smaller.rows.protocol import Fold, Local, Place, Reply, Totals, uniform
from smaller.rows.registry import under
from smaller.rows.scaled import Scaled

__all__ = ["HostRows"]


@dataclass(frozen=True, eq=False)
class HostRows:
    """``design`` (n, d), targets ``y`` (n, t), weights (n,) or None for ones, offsets (n, q) or None for zeros.

    ``first`` is the number of the first row among all rows of a larger whole, ``numbers`` (n,) the numbers of all rows
    where they do not follow each other: samples and folds are drawn by number.

    See Also
    --------
    Blocks : Several holders as one.
    Rows : What a holder answers.

    Examples
    --------
    >>> import numpy as np
    >>> from smaller.likelihoods import Multinomial
    >>> from smaller.rows import HostRows, Place
    >>> rows = HostRows.of(np.eye(4), [0, 1, 0, 1], Multinomial(2))
    >>> [reply] = rows.at([Place.of(np.zeros((4, 1)), np.zeros(1))])
    >>> bool(np.isclose(reply.loss, 4 * np.log(2)))
    True
    """

    design: Design
    y: Array
    weight: Array | None
    likelihood: Likelihood
    offset: Array | None = None
    first: int = 0
    numbers: Array | None = None
    labels: Array | None = None
    features: Array | None = None
    _memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @classmethod
    def of(cls, X: Any, labels: Any, likelihood: Likelihood) -> HostRows:
        """Return a matrix and its labels, or responses, under a likelihood; every row counts once."""
        return cls(as_design(X), likelihood.encode(np.asarray(labels)), None, likelihood)

    @classmethod
    def joined(cls, parts: Sequence[HostRows]) -> HostRows:
        """Return the rows of several holders as one, with the columns of the first and the numbers of each."""
        one = parts[0]
        weights = [np.ones(part.n_rows) if part.weight is None else part.weight for part in parts]
        return replace(
            one,
            design=one.design.joined([part.design for part in parts[1:]]),
            y=np.asfortranarray(np.concatenate([part.y for part in parts])),
            weight=None if all(part.weight is None for part in parts) else np.concatenate(weights),
            offset=None if one.offset is None else np.concatenate([part.offset for part in parts]),
            numbers=np.concatenate([part.row_numbers for part in parts]),
        )

    @property
    def n_rows(self) -> int:
        return self.design.shape[0]

    @property
    def n_columns(self) -> int:
        return self.design.shape[1]

    @property
    def dtype(self) -> Any:
        return self.design.dtype

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({"curve", "local"})

    @cached_property
    def row_numbers(self) -> Array:
        """The number of each row among all rows of the whole (n,)."""
        return np.arange(self.first, self.first + self.n_rows) if self.numbers is None else self.numbers

    @cached_property
    def _has_dual(self) -> bool:
        nothing = self.y[:0]
        return self.likelihood.dual(np.zeros((0, self.likelihood.n_free)), nothing, None) is not None

    # ---- mandatory questions ----

    def totals(self) -> Totals:
        c = np.ones(self.n_rows) if self.weight is None else self.weight
        entropy = self._conjugates(np.zeros((self.n_rows, self.likelihood.n_free)), self.weight)
        columns = self.design.moments(self.weight)
        return Totals(self.n_rows, float(c.sum()), c @ self.y, entropy, **vars(columns))

    def at(self, places: Sequence[Place], columns: Array | None = None) -> list[Reply]:
        return [self._at(place, columns) for place in places]

    def line(self, start: Place, end: Place, steps: Array) -> Array:
        weight = self._weight_of(start)
        before, after = self.outputs(start), self.outputs(end)
        move = after - before
        return np.array([self.likelihood.evaluate(before + t * move, self.y, weight)[0] for t in steps])

    def dual(self, place: Place, scale: float) -> float:
        weight = self._weight_of(place)
        return self._conjugates(scale * self.likelihood.evaluate(self.outputs(place), self.y, weight)[1], weight)

    def squares(self, place: Place, columns: Array | None = None) -> Array:
        design = self.design if columns is None else self.design.take(columns)
        return design.squares(self._narrow(self._curvature(place)).diagonal())

    def sample(self, count: int, totals: Totals, seed: int = 0) -> HostRows:
        factor = reciprocal(np.where(np.isfinite(totals.M2), totals.M2, 0.0))
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        shares = [np.full(self.n_rows, 1.0 / max(totals.n, 1))]
        if factor.any():
            shares.append(weight * self.design.spread(totals.mean, factor) / np.count_nonzero(factor))
        if self.weight is not None:
            shares.append(weight / totals.weight)
        chance = np.minimum(count / len(shares) * sum(shares), 1.0)
        kept = np.flatnonzero((uniform(self.row_numbers, seed) < chance) & (weight > 0))
        part = self if len(kept) == self.n_rows else self._rows(kept)
        return replace(part, weight=weight[kept] / chance[kept])

    def hessian(self, place: Place, left: Coordinates, right: Coordinates | None = None) -> Array:
        return self.damped_hessian(place, 0.0, left, right)

    def damped_hessian(
        self, place: Place, damping: float | Array, left: Coordinates, right: Coordinates | None = None
    ) -> Array:
        """Return `hessian` with ``damping`` c_i added to the curvature of each row; a number is for all rows."""
        curvature = self._curvature(place).damped(damping, self._weight_of(place))
        if not self._tied:
            return self.design.gram(curvature, left, right)
        return self._tied_hessian(curvature, left, left if right is None else right)

    def outputs(self, place: Place) -> Array:
        eta = self._memo.get(place)
        return self._forward(place) if eta is None else eta

    # ---- optional questions ----

    def curve(self, place: Place, direction: Place) -> tuple[Array, Array]:
        moved = self._wide(self.design.forward(direction.weights(self.n_columns)), direction.b)
        answer = self._curvature(place).apply(moved)
        return self.design.adjoint(self._narrow_gradient(answer)), answer.sum(axis=0)

    @property
    def local(self) -> Local:
        return Local(self.design, self.y, self.weight, self.offset)

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> HostRows:
        return under(self, likelihood)

    # ---- views ----

    def scaled(self, shift: Array, scale: Array) -> HostRows:
        return replace(self, design=Scaled(self.design, shift, scale))

    def take(self, columns: Array) -> HostRows:
        features = None if self.features is None else self.features[columns]
        return replace(self, design=self.design.take(columns), features=features)

    def subset(self, rows: Array | Fold) -> HostRows:
        return self._rows(np.flatnonzero(rows.member(self.row_numbers)) if isinstance(rows, Fold) else rows)

    def weighted(self, factors: Array | Callable[[Array], Array]) -> HostRows:
        each = factors(self.y) if callable(factors) else factors
        return replace(self, weight=each if self.weight is None else each * self.weight)

    def expanded(self, basis: Basis) -> HostRows:
        return replace(self, design=basis.expand(self.design.matrix), features=None)

    def with_likelihood(self, likelihood: Likelihood) -> HostRows:
        return replace(self, likelihood=likelihood)

    # ---- arithmetic ----

    @property
    def _tied(self) -> bool:
        """Whether one output meets several free numbers (thresholds): ``eta_k = x'w + b_k``, a column for each."""
        return self.likelihood.n_free not in (0, self.likelihood.n_outputs)

    def _wide(self, eta: Array, b: Array) -> Array:
        return by_column(eta + b) if len(b) else eta

    def _narrow_gradient(self, R: Array) -> Array:
        return R.sum(axis=1, keepdims=True) if self._tied else R

    def _narrow(self, curvature: Curvature) -> Curvature:
        """Return the curvature in the outputs: the sum of a row's Hessian over the free numbers it is tied to."""
        if not self._tied:
            return curvature
        total = curvature.d.sum(axis=1, keepdims=True)
        return Curvature(total if curvature.u is None else total - curvature.u.sum(axis=1, keepdims=True) ** 2)

    def _weight_of(self, place: Place) -> Array | None:
        """Return the weights of the rows of the place's fold."""
        if place.fold is None:
            return self.weight
        member = place.fold.member(self.row_numbers).astype(np.float64)
        return member if self.weight is None else member * self.weight

    @cached_property
    def _fused(self) -> bool:
        return not self._tied and fused(self.likelihood, self.design, self.y)

    def _at(self, place: Place, columns: Array | None) -> Reply:
        """Answer `at`; always by the same routine, so that what is remembered has the bits of what is computed."""
        weight = self._weight_of(place)
        if columns is None:
            eta, loss, R, G = self._pass(place, weight)
        else:
            eta = self.outputs(place)
            loss, R = self.likelihood.evaluate(eta, self.y, weight)
            G = self._adjoint(columns, self._narrow_gradient(R))
        m = self.likelihood.n_free
        Hb = np.full((m, m), np.nan)
        if columns is not None and len(columns) == 0:
            Hb = self._free_hessian(self.likelihood.curvature(eta, self.y, weight))
        entropy = float("nan")
        if self._has_dual:  # Fenchel: conjugate and loss add up to residual times eta
            entropy = loss - _inner(R, eta)
            if self.offset is not None:
                entropy += float(np.sum(R * self.offset))
        return Reply(loss, entropy, R.sum(axis=0)[:m], Hb, G)

    def _pass(self, place: Place, weight: Array | None) -> tuple[Array, float, Array, Array]:
        """Return eta, loss, residual and gradient in the weights, in one look at the data where the core can."""
        eta = self._memo.get(place)
        if self._fused:
            if eta is not None:
                return eta, *pass_over(self.likelihood, self.design, self.y, weight, eta)
            eta = self._start(place)
            change = place.weights(self.n_columns)
            found = pass_over(self.likelihood, self.design, self.y, weight, eta, change)
            self._memo.keep(place, eta)
            return eta, *found
        eta = self.outputs(place)
        loss, R = self.likelihood.evaluate(eta, self.y, weight)
        return eta, loss, R, self.design.adjoint(self._narrow_gradient(R))

    def _forward(self, place: Place) -> Array:
        if self._fused:
            return self._pass(place, self.weight)[0]
        eta = self.design.forward(place.weights(self.n_columns))
        eta = self._wide(eta if self.offset is None else eta + self.offset, place.b)
        self._memo.keep(place, eta)
        return eta

    def _start(self, place: Place) -> Array:
        eta = np.empty((self.n_rows, self.likelihood.n_outputs), order="F")
        eta[:] = 0.0 if self.offset is None else self.offset
        eta += place.b
        return eta

    def _adjoint(self, columns: Array, R: Array) -> Array:
        return self.design.take(columns).adjoint(R) if len(columns) else np.zeros((0, R.shape[1]))

    def _free_hessian(self, curvature: Curvature) -> Array:
        m = self.likelihood.n_free
        H = np.diag(curvature.d.sum(axis=0)[:m])
        return H if curvature.u is None or m == 0 else H - curvature.u.T @ curvature.u

    def _tied_hessian(self, curvature: Curvature, left: Coordinates, right: Coordinates) -> Array:
        """Return the Hessian where ``eta_k = x'w + b_k`` for every k: a weight moves all of them."""
        d, u = curvature.d, curvature.u
        between = d if u is None else d - u * u.sum(axis=1, keepdims=True)  # (n, m), of x'w against each b_k
        inner, outer = left[0] < self.n_columns, right[0] < self.n_columns
        H = np.empty((len(inner), len(outer)))
        weights = [(columns[real], 0 * columns[real]) for columns, real in ((left[0], inner), (right[0], outer))]
        if inner.any() and outer.any():
            H[np.ix_(inner, outer)] = self.design.gram(self._narrow(curvature), *weights[: 1 if left is right else 2])
        if not outer.all():
            H[np.ix_(inner, ~outer)] = self._adjoint(left[0][inner], between)[:, right[1][~outer]]
        if not inner.all():
            H[np.ix_(~inner, outer)] = self._adjoint(right[0][outer], between)[:, left[1][~inner]].T
            H[np.ix_(~inner, ~outer)] = self._free_hessian(curvature)[np.ix_(left[1][~inner], right[1][~outer])]
        return H

    def _rows(self, index: Array) -> HostRows:
        return replace(
            self,
            design=self.design.rows(index),
            y=np.asfortranarray(self.y[index]),
            weight=None if self.weight is None else self.weight[index],
            offset=None if self.offset is None else self.offset[index],
            numbers=self.row_numbers[index],
        )

    def _curvature(self, place: Place) -> Curvature:
        return self.likelihood.curvature(self.outputs(place), self.y, self._weight_of(place))

    def _conjugates(self, residual: Array, weight: Array | None) -> float:
        value = self.likelihood.dual(residual, self.y, weight)
        if value is None:
            return float("nan")
        return value if self.offset is None else value + float(np.sum(residual * self.offset))


def _inner(A: Array, B: Array) -> float:
    """Return ``sum_ik A_ik B_ik`` of arrays stored column by column, without a temporary."""
    return float(np.vdot(A.T, B.T))
