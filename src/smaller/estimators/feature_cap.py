"""At most k features: what ``max_features`` means for a path, and for a choice along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from smaller.arrays import Array
from smaller.estimators.assembly import Units
from smaller.searches.path import PathPoint
from smaller.validation import check_integer

__all__ = ["affordable", "beyond", "check_max_features", "refuse_cap"]


def check_max_features(most: Any) -> int | None:
    """Return the largest number of features allowed; None is no limit."""
    return None if most is None else check_integer("max_features", most, least=0)


def beyond(assembly: Units, most: int | None) -> Callable[[PathPoint], bool]:
    """Return the question whether a point of a path keeps more features than ``most``; ones are no feature."""
    names, _, _ = assembly.origin()

    def more(point: PathPoint) -> bool:
        return most is not None and int(np.sum(names[point.columns] >= 0)) > most

    return more


def refuse_cap(most: int | None, largest: float) -> NoReturn:
    """Refuse a cap that not even the largest strength keeps."""
    raise ValueError(
        f"max_features={most}, but the largest alpha, {largest:.4g}, keeps more features: give larger alphas, or fewer "
        "features without a penalty."
    )


def affordable(points: Sequence[Sequence[PathPoint]], assemblies: Sequence[Units], most: int) -> Array:
    """Return for every path and strength whether it keeps at most so many features (n_paths, n_alphas)."""
    table = [
        [not beyond(assembly, most)(point) for point in path] for path, assembly in zip(points, assemblies, strict=True)
    ]
    if not np.any(table):
        fewest = min(len(point.columns) for path in points for point in path)
        raise ValueError(
            f"max_features={most}, but every strength of the grid keeps more features (the fewest: {fewest}): give "
            "larger alphas, or fewer features without a penalty."
        )
    return np.array(table)
