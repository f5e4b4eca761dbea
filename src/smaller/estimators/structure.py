"""What is asked of the weights beyond a sum of absolute values: limits, groups, features left out.

All in the user's columns and units; `Structure.prior` brings them into the solver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.estimators.assembly import Features
from smaller.estimators.fields import checked
from smaller.priors import ElasticNet, GroupNorm, Limited, Prior

__all__ = ["Structure", "structure_of", "without"]


@dataclass(frozen=True)
class Structure:
    """Arrays of the user's columns (d,), or None where nothing is asked."""

    excluded: Array | None = None  # bool
    lower: Array | None = None
    upper: Array | None = None
    group: Array | None = None  # a number from 0 on
    absolute: float = 0.0  # the absolute values' share beside the norms of groups

    @property
    def elementwise(self) -> bool:
        """Whether the penalty is still a sum over single weights without limits."""
        return self.group is None and self.lower is None

    def prior(self, slope: Array, ridge: Array, features: Features | None, ones: bool) -> Prior:
        """Return the prior of the columns that enter, from slopes and ridges (a number or (m, 1)) in their units.

        ``ones``: the last column is a penalised intercept, which has no limits and is a group by itself.
        """
        if self.elementwise:
            return ElasticNet(*(float(part) if part.ndim == 0 else part for part in (slope, ridge)))
        given = self.group if self.group is not None else self.lower
        assert given is not None
        kept = np.full(len(given), True) if features is None else features.kept
        scales = np.ones(len(kept)) if features is None else features.scales
        columns = (int(kept.sum()) + ones, 1)
        slope, ridge = (np.broadcast_to(part, columns) + np.zeros(columns) for part in (slope, ridge))
        if self.group is None:
            return self._limited(slope, ridge, kept, scales, ones)
        return self._grouped(self.group, slope, ridge, kept, scales, ones)

    def _limited(self, slope: Array, ridge: Array, kept: Array, scales: Array, ones: bool) -> Prior:
        assert self.lower is not None
        assert self.upper is not None
        endless = np.full(int(ones), np.inf)
        lower = np.append(self.lower[kept] / scales[kept], -endless)[:, None]
        upper = np.append(self.upper[kept] / scales[kept], endless)[:, None]
        if ((slope == 0) & (ridge == 0) & (np.isfinite(lower) | np.isfinite(upper))).any():
            raise ValueError(
                "lower_limits, upper_limits and positive need a penalty on the features that have a limit: alpha > 0 "
                "and penalty_factors > 0 there (a small factor does)."
            )
        return Limited(slope, ridge, lower, upper)

    def _grouped(self, group: Array, slope: Array, ridge: Array, kept: Array, scales: Array, ones: bool) -> Prior:
        counted = kept if self.excluded is None else ~self.excluded  # the size of a group is the same in every fold
        sizes = np.append(np.bincount(group[counted], minlength=group.max() + 1), np.full(int(ones), 1))
        members = np.append(group[kept], np.full(int(ones), group.max() + 1))
        present, label = np.unique(members, return_inverse=True)
        first = np.array([np.flatnonzero(label == g)[0] for g in range(len(present))], dtype=np.int64)
        shared_slope, shared_ridge = slope[first, 0], ridge[first, 0]
        if not (np.array_equal(shared_slope[label], slope[:, 0]) and np.array_equal(shared_ridge[label], ridge[:, 0])):
            if (scales[kept] != 1.0).any():
                raise ValueError(
                    "X has columns of extreme size in one group with others: multiply them by a constant, so that "
                    "their entries are nearer to 1."
                )
            raise ValueError("penalty_factors must be equal for all features of a group: they multiply its weight.")
        weight = np.sqrt(sizes[present])
        return GroupNorm(
            label, (1.0 - self.absolute) * weight * shared_slope, self.absolute * shared_slope, shared_ridge
        )


def without(features: Features | None, excluded: Array | None) -> Features | None:
    """Return the features that enter, less those that are left out."""
    if excluded is None:
        return features
    if features is None:
        return Features(~excluded, np.ones(len(excluded)), np.zeros(len(excluded)))
    return replace(features, kept=features.kept & ~excluded)


def structure_of(estimator: Any, n_columns: int, kernel: bool) -> Structure | None:
    """Check what an estimator's arguments ask of the weights of ``n_columns`` features, or of kernel centres."""
    penalty = checked(estimator, "penalty")
    lower, upper = _limits(estimator, n_columns, kernel)
    share = checked(estimator, "group_l1_ratio")
    _check_combination(estimator, penalty, kernel, limited=lower is not None)
    names = getattr(estimator, "feature_names_in_", None)
    excluded = _excluded(estimator.exclude, n_columns, names)
    group = None if penalty == "elementwise" else _groups(estimator.feature_groups, n_columns)
    if excluded is None and lower is None and group is None:
        return None
    return Structure(excluded, lower, upper, group, share if penalty == "sparse-grouped" else 0.0)


def _check_combination(estimator: Any, penalty: str, kernel: bool, *, limited: bool) -> None:
    """Refuse arguments that do not go together."""
    if penalty == "elementwise" and estimator.feature_groups is not None:
        raise ValueError("feature_groups needs penalty='grouped' or 'sparse-grouped'.")
    if penalty != "elementwise" and limited:
        raise ValueError(
            f"Limits go with penalty='elementwise' only, got {penalty!r}: leave lower_limits, upper_limits and "
            "positive out, or the groups."
        )
    for name in ("feature_groups", "exclude"):
        if kernel and getattr(estimator, name) is not None:
            raise ValueError(f"{name} belongs to features: leave it out when a kernel is used.")


def _limits(estimator: Any, n_columns: int, kernel: bool) -> tuple[Array | None, Array | None]:
    lower, upper = estimator.lower_limits, estimator.upper_limits
    if checked(estimator, "positive"):
        if lower is not None:
            raise ValueError("positive=True is lower_limits=0: leave one of them out.")
        lower = 0.0
    if lower is None and upper is None:
        return None, None
    low = _limit("lower_limits", -np.inf if lower is None else lower, n_columns, kernel)
    high = _limit("upper_limits", np.inf if upper is None else upper, n_columns, kernel)
    if (low > 0).any() or (high < 0).any():
        raise ValueError("lower_limits must be <= 0 and upper_limits >= 0: a weight of zero must be allowed.")
    return low, high


def _limit(name: str, value: Any, n_columns: int, kernel: bool) -> Array:
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, or one number per feature: {error}") from error
    if np.isnan(values).any():
        raise ValueError(f"{name} contains NaN: use infinity where there is no limit.")
    if values.ndim == 0:
        return np.full(n_columns, float(values))
    if kernel:
        raise ValueError(f"{name} must be one number when a kernel is used, got an array.")
    if values.shape != (n_columns,):
        raise ValueError(
            f"{name} must be a number or hold one number per feature, {n_columns} in all; its shape is {values.shape}."
        )
    return values


def _excluded(exclude: Any, n_columns: int, names: Any) -> Array | None:
    """Return which columns are left out, from indices, names or a mask; None for none."""
    if exclude is None:
        return None
    given = np.asarray(exclude)
    if given.dtype == bool:
        if given.shape != (n_columns,):
            raise ValueError(f"exclude as a mask must have {n_columns} entries, got shape {given.shape}.")
        return given if given.any() else None
    excluded = np.zeros(n_columns, dtype=bool)
    known = {} if names is None else {name: j for j, name in enumerate(names)}
    for item in [exclude] if isinstance(exclude, str) else np.atleast_1d(given).tolist():
        excluded[_column(item, n_columns, known)] = True
    return excluded if excluded.any() else None


def _column(item: Any, n_columns: int, known: dict[str, int]) -> int:
    """Return the column that a name or an index means."""
    if isinstance(item, str):
        if item not in known:
            raise ValueError(f"exclude names {item!r}, which is no feature of X.")
        return known[item]
    if not isinstance(item, Integral) or not -n_columns <= int(item) < n_columns:
        raise ValueError(f"exclude must hold names or indices of features below {n_columns}, got {item!r}.")
    return int(item)


def _groups(groups: Any, n_columns: int) -> Array:
    """Return the number of every column's group, from a label per column or from lists of columns."""
    if groups is None:
        return np.arange(n_columns)
    listed = list(groups)
    if any(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in listed):
        return _numbered(listed, n_columns)
    if len(listed) != n_columns:
        raise ValueError(
            f"feature_groups must hold a label for every feature, {n_columns} in all, got {len(listed)} "
            "(or lists of columns, each column in one of them)."
        )
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in listed], dtype=np.int64)


def _numbered(lists: list[Any], n_columns: int) -> Array:
    label = np.full(n_columns, -1, dtype=np.int64)
    for number, members in enumerate(lists):
        for j in np.atleast_1d(members).tolist():
            if not isinstance(j, Integral) or not 0 <= int(j) < n_columns:
                raise ValueError(f"feature_groups names column {j!r}, which is none of the {n_columns} features.")
            if label[j] >= 0:
                raise ValueError(f"feature_groups must not overlap: column {j} is in two groups.")
            label[j] = number
    if (label < 0).any():
        missing = int(np.flatnonzero(label < 0)[0])
        raise ValueError(f"feature_groups must name every feature: column {missing} is in no group.")
    return np.unique(label, return_inverse=True)[1].reshape(-1)
