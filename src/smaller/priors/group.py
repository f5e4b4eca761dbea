"""A feature, or a group of features, in or out as a whole: the norm of all their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smaller.arrays import Array, soft_threshold
from smaller.priors.elastic_net import ElasticNet
from smaller.priors.protocol import inverse_magnitude
from smaller.priors.terms import Terms

__all__ = ["GroupNorm"]


@dataclass(frozen=True)
class GroupNorm:
    """``sum_g norm_g ||w_g||_2 + sum slope |w| + ridge w^2 / 2``; w_g are all weights of the columns of group g.

    ``label`` (d,) names the group of every column, a number from 0 on; slope and ridge are the same in all columns of
    a group. A group of one column with one output is an absolute value.
    """

    label: Array  # (d,) int
    norm: Array  # (groups,)
    slope: Array  # (groups,)
    ridge: Array  # (groups,)

    separable = False
    limited = False

    @property
    def _inside(self) -> ElasticNet:
        return ElasticNet(self.slope[self.label][:, None], self.ridge[self.label][:, None])

    def _lengths(self, a: Array) -> Array:
        """Return the norm of every group's part of ``a`` (d, q), safe from overflow and underflow."""
        largest = np.zeros(len(self.norm))
        np.maximum.at(largest, self.label, np.abs(a).max(axis=1, initial=0.0))
        unit = np.where(largest > 0, largest, 1.0)
        squares = np.bincount(self.label, ((a / unit[self.label][:, None]) ** 2).sum(axis=1), len(self.norm))
        return unit * np.sqrt(squares)

    def penalty(self, w: Array) -> float:
        return float(self.norm @ self._lengths(w)) + self._inside.penalty(w)

    def change(self, old: Array, new: Array) -> float:
        # ||new|| - ||old|| as a sum of differences: a difference of sums would drown in rounding.
        total = self._lengths(old) + self._lengths(new)
        along = np.bincount(self.label, ((new - old) * (new + old)).sum(axis=1), len(self.norm))
        longer = np.divide(along, total, out=np.zeros_like(total), where=total > 0)
        return float(self.norm @ longer) + self._inside.change(old, new)

    def linearise(self, w: Array, form: str) -> tuple[Array, Array]:
        slope, ridge = self._inside.linearise(w, form)
        norm = self.norm[self.label]
        inverse = inverse_magnitude(np.where(norm > 0, self._lengths(w)[self.label], 1.0))
        return slope, ridge + (norm * inverse)[:, None]

    def shrink(self, a: Array, step: Array | float) -> Array:
        """Return the minimiser of ``(w - a)^2 / (2 step) + penalty(w)``; ``step`` is one number in every group."""
        width = np.broadcast_to(np.asarray(step, dtype=np.float64), a.shape)
        slope, ridge = (part[self.label][:, None] for part in (self.slope, self.ridge))
        thresholded = soft_threshold(a, width * slope)
        length = self._lengths(thresholded)[self.label]
        left = np.maximum(length - width[:, 0] * self.norm[self.label], 0.0)
        kept = np.divide(left, length, out=np.zeros_like(length), where=length > 0)
        return thresholded * kept[:, None] / (1.0 + width * ridge)

    def violation(self, w: Array, G: Array) -> Array:
        # A zero group may absorb a gradient of length `norm`; else the norm is smooth, and what a zero weight may
        # absorb is its slope.
        slope, ridge = (part[self.label][:, None] for part in (self.slope, self.ridge))
        gradient, length = G + ridge * w, self._lengths(w)
        pull = soft_threshold(gradient, slope)
        steep = self._lengths(pull)
        excess = np.divide(np.maximum(steep - self.norm, 0.0), steep, out=np.zeros_like(steep), where=steep > 0)
        alive = length > 0
        unit = np.divide(self.norm, length, out=np.zeros_like(length), where=alive)[self.label][:, None]
        inside = np.where(w == 0, np.abs(pull), np.abs(gradient + slope * np.sign(w) + unit * w))
        return np.where(alive[self.label][:, None], inside, np.abs(pull) * excess[self.label][:, None])

    def conjugate(self, G: Array) -> float:
        slope = self.slope[self.label][:, None]
        excess = np.maximum(self._lengths(soft_threshold(G, slope)) - self.norm, 0.0)
        soft = self.ridge > 0
        return float(np.sum(excess[soft] ** 2 / (2.0 * self.ridge[soft])))

    def feasible(self, G: Array) -> float:
        hard = (self.ridge == 0) & ((self.norm > 0) | (self.slope > 0))
        return min(1.0, self._scale(G, hard))

    def critical(self, G: Array) -> float:
        smooth = (self.ridge > 0) & (self.norm == 0) & (self.slope == 0)
        if self._lengths(G)[smooth].any():
            return float("inf")
        scale = self._scale(G, (self.norm > 0) | (self.slope > 0))
        return 0.0 if np.isinf(scale) else 1.0 / scale

    def _scale(self, G: Array, which: Array) -> float:
        """Return the largest s at which ``||S(s G_g, slope_g)|| <= norm_g`` for all groups asked for."""
        length = self._lengths(G)
        plain = which & (self.slope == 0) & (length > 0)
        least = float(np.min(self.norm[plain] / length[plain], initial=np.inf))
        both = np.flatnonzero(which & (self.slope > 0) & (length > 0))
        if len(both) == 0:
            return least
        if np.isfinite(least):  # whatever allows the scale found so far needs no look
            reached = self._lengths(soft_threshold(least * G, self.slope[self.label][:, None]))
            both = both[reached[both] > self.norm[both]]
        order = np.argsort(self.label, kind="stable")
        ends = np.searchsorted(self.label[order], np.arange(len(self.norm) + 1))
        for g in both:
            part = np.abs(G[order[ends[g] : ends[g + 1]]]).ravel()
            least = min(least, _sparse_group_scale(part, float(self.slope[g]), float(self.norm[g])))
        return least

    def center(self, w: Array) -> Array:
        # Of all common shifts the mean has the smallest norm, and the smallest square; absolute values beside them
        # leave no choice.
        shift = np.where(self.slope[self.label] == 0, w.mean(axis=1), 0.0)
        return w - shift[:, None]

    def times(self, alpha: float) -> GroupNorm:
        return replace(self, norm=alpha * self.norm, slope=alpha * self.slope, ridge=alpha * self.ridge)

    def take(self, columns: Array) -> GroupNorm:
        """Return the prior of some columns: of a group's other columns the weights are then zero."""
        present, label = np.unique(self.label[columns], return_inverse=True)
        return GroupNorm(label.reshape(-1), self.norm[present], self.slope[present], self.ridge[present])

    def free(self, n_columns: int) -> np.ndarray[Any, Any]:
        unbound = (self.norm == 0) & (self.slope == 0) & (self.ridge == 0)
        return np.flatnonzero(unbound[self.label])

    def groups(self, n_columns: int) -> Array:
        return self.label

    def terms(self, shape: tuple[int, int]) -> Terms:
        first = shape[1] * np.searchsorted(self.label, np.arange(len(self.norm) + 1))
        return replace(self._inside.terms(shape), first=first, norm=self.norm)


def _sparse_group_scale(size: Array, slope: float, norm: float) -> float:
    """Return the s with ``||(s size - slope)_+|| = norm``, from the number of entries above the threshold there."""
    # The equation is homogeneous in the sizes, and in the two strengths: squares of neither may overflow.
    length, strength = float(size.max()), max(slope, norm)
    size, slope, norm = size / length, slope / strength, norm / strength
    largest = np.sort(size)[::-1]
    m = np.arange(1, len(size) + 1)
    S1, S2 = np.cumsum(largest), np.cumsum(largest**2)
    # (s^2 S2 - 2 s slope S1 + m slope^2) = norm^2, where the m largest entries are those above slope / s.
    root = np.sqrt(np.maximum((slope * S1) ** 2 - S2 * (m * slope**2 - norm**2), 0.0))
    s = np.divide(slope * S1 + root, S2, out=np.full(len(size), np.inf), where=S2 > 0)
    following = np.append(largest[1:], 0.0)
    fits = (s * largest >= slope * (1.0 - 1e-12)) & (s * following <= slope * (1.0 + 1e-12))
    return strength / length * float(s[fits][0] if fits.any() else slope)
