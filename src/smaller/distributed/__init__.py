"""Rows on a Dask cluster: every question is a round of tasks, one for each shelf of blocks.

A block is the unit of summation, fixed by the data; a shelf is a run of ``2^k`` blocks that begins at a multiple of
``2^k``, the unit of scheduling. A shelf's sum is a node of the tree over blocks, so the answer has the same bits
whoever holds which shelf. Tasks are plain and a shelf is a recipe: what a lost worker held is made again elsewhere.

Loaded when a Dask collection arrives. Without a client the same tasks run in this process.
"""

from smaller.distributed.collections import mapped, rows_of
from smaller.distributed.files import Spread, spread
from smaller.distributed.rows import DaskRows

__all__ = ["DaskRows", "Spread", "mapped", "rows_of", "spread"]
