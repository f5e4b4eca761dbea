"""Files that the workers of a cluster read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle
from dask.delayed import delayed

from smaller.distributed.crew import crew_of
from smaller.distributed.rows import DaskRows, density_of, gathered, height_of
from smaller.distributed.shelves import shelf_of_files
from smaller.likelihoods import Likelihood
from smaller.rows import Files

__all__ = ["Spread", "spread"]


@dataclass(frozen=True, eq=False)
class Spread:
    """Files to be read by the workers of a cluster: pass it to ``fit`` as X, without y. Made by :func:`spread`."""

    files: Files
    client: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.files.shape

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> DaskRows:
        crew = crew_of(self.client)
        source = self.files.source(likelihood(len(self.files.classes)))
        counts, reader = source.counts, source.reader
        held = crew.holds(sum(counts) * reader.n_columns * float(reader.dtype.itemsize) * density_of(reader.empty))
        height = height_of(len(counts), crew.threads())
        shelf = delayed(shelf_of_files, pure=False)
        recipes = [
            shelf(start, cloudpickle.dumps(source.section(start, start + height)), held,
                  dask_key_name=crew.key("shelf", start // height))
            for start in range(0, len(counts), height)
        ]  # fmt: skip
        return gathered(crew, source.empty(), counts, recipes, height, kept=True)


def spread(files: Files, client: Any = None) -> Spread:
    """Let the workers of a cluster read files, which all of them must see under the same names.

    Parameters
    ----------
    files : Files
        What :func:`smaller.rows.from_files` returns.
    client : distributed.Client, default=None
        Of the cluster; None takes the current one, and without any the files are read by this process' threads.

    Returns
    -------
    Spread
        To be passed to ``fit`` as X, without y. Where all blocks together take less than half of the workers' memory,
        they are read once and kept; otherwise they are read for every question.
    """
    if not isinstance(files, Files):
        raise TypeError(f"files must be made by smaller.rows.from_files, got {type(files).__name__}.")
    return Spread(files, client)
