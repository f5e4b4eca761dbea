"""Rows in files: read block by block for every question, one block ahead, so that X is never whole in memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smaller.arrays import Array
from smaller.likelihoods import Likelihood
from smaller.rows.arrow import open_csv, open_parquet
from smaller.rows.blocks import Tree
from smaller.rows.gathered import Gathered, Question, combine, refuse_broken
from smaller.rows.numpy_files import open_arrays
from smaller.rows.reading import Reader, Source, Targets, ahead

__all__ = ["FileRows", "Files", "distinct", "from_files"]

_MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class FileRows(Gathered):
    """Rows in files under a likelihood; every question is one walk through the files."""

    source: Source

    def _ask(self, question: Question) -> Any:
        answers = Tree(combine(question.name))
        for number, block in enumerate(ahead(self.source.blocks(0, len(self.counts)))):
            answers.append(question.put_to(number, block))
            del block  # two blocks are in memory: this one and the next
        return answers.total()


@dataclass(frozen=True, eq=False)
class Files:
    """Files that can become rows: pass it to ``fit`` as X, without y; predictions come block by block.

    Made by :func:`from_files`.

    See Also
    --------
    from_files : Makes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from smaller.rows import from_files
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(Path(folder.name) / "rows.npy", np.eye(4))
    >>> from_files(f"{folder.name}/*.npy", target=["no", "yes", "no", "yes"]).counts
    (4,)
    >>> folder.cleanup()
    """

    reader: Reader
    known_classes: Array | None
    has_labels: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return sum(self.counts), self.reader.n_columns

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each block."""
        return tuple(part.stop - part.start for part in self.reader.parts)

    @property
    def features(self) -> Array | None:
        """Names of the features, or None."""
        return self.reader.features

    @cached_property
    def classes(self) -> Array:
        """The distinct labels in order; found by one look at the labels."""
        if not self.has_labels:
            raise ValueError("from_files(..., target=...) was not told where the labels are.")
        if self.known_classes is not None:
            return self.known_classes
        return distinct(np.unique(labels) for labels in self.reader.label_blocks())

    def blocks(self) -> Iterator[Any]:
        """Yield X of each block, reading one block ahead."""
        for raw in ahead(self.reader.stream(0, len(self.reader.parts))):
            yield raw.X
            del raw

    def __smaller_map__(self, answer: Callable[[Any], Array], accept: Callable[[int, Any], None]) -> Iterator[Array]:
        accept(self.reader.n_columns, self.features)
        return (answer(block) for block in self.blocks())

    def source(self, likelihood: Likelihood) -> Source:
        """Return the recipe of the blocks under a likelihood."""
        return Source(self.reader, self.classes, likelihood)

    def __smaller_rows__(self, likelihood: Callable[[int], Likelihood]) -> FileRows:
        source = self.source(likelihood(len(self.classes)))
        rows = FileRows(empty=source.empty(), counts=self.counts, source=source)
        refuse_broken(rows)
        return rows


def distinct(parts: Iterator[Array]) -> Array:
    """Return the sorted union of the labels of many blocks."""
    found: Array | None = None
    for part in parts:
        if found is not None and (found.dtype.kind in "OUS") != (part.dtype.kind in "OUS"):
            raise ValueError(
                f"Labels are text in some blocks and numbers in others ({part[:1].tolist()[0]!r} and "
                f"{found[:1].tolist()[0]!r}): make them all text, or all numbers."
            )
        found = part if found is None else np.union1d(found, part)
        if len(found) > _MOST_CLASSES:
            raise ValueError(
                f"The target has more than {_MOST_CLASSES} distinct labels: is it a number to be predicted? "
                "Classes are few."
            )
    if found is None:
        raise ValueError("There are no rows, hence no labels.")
    return found


def from_files(
    files: Any,
    *,
    target: Any = None,
    weight: Any = None,
    columns: Sequence[Any] | None = None,
    classes: Any = None,
    block_mb: float = 16.0,
) -> Files:
    """Rows of Parquet, CSV, NPY or NPZ files that need not fit into memory.

    Every pass over the data reads the files again, one block ahead of the arithmetic; two blocks are in memory at a
    time. Local or mounted files, all of one format. The row order is that of the files in their order (a pattern: by
    name).

    Parameters
    ----------
    files : str, path or list of them
        A file, a pattern such as ``"part-*.parquet"``, or several. Parquet and CSV files have named columns; NPY files
        hold a matrix; NPZ files a matrix "X", or what ``scipy.sparse.save_npz`` writes (then one block a file).
    target : str, int or array-like, default=None
        Where the labels are. Parquet, CSV: a column's name. NPY: a column's index, or the name (or pattern) of NPY
        files of labels. NPZ: a member of the archives, or a column's index. In all cases an array with a label for
        every row. None: for predictions only.
    weight : str, int or array-like, default=None
        Where the rows' weights are, in the same way.
    columns : list of str or int, default=None
        The features; None takes all columns that are neither target nor weight.
    classes : array-like, default=None
        All labels there are; None finds them in one look at the labels.
    block_mb : float, default=16
        Size of a block in memory, in MiB.

    Returns
    -------
    Files
        To be passed to ``fit`` as X (without y), to ``predict_proba`` and its like, which then yield an array for
        every block, or to `smaller.distributed.spread`.

    See Also
    --------
    Files : What it makes.
    HostRows : Rows in memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from smaller.rows import from_files
    >>> folder = tempfile.TemporaryDirectory()
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> np.save(Path(folder.name) / "a.npy", X[:4])
    >>> np.save(Path(folder.name) / "b.npy", X[4:])
    >>> data = from_files(f"{folder.name}/*.npy", target=["no", "yes", "no", "yes", "yes", "no"])
    >>> data.shape, data.classes.tolist()
    ((6, 2), ['no', 'yes'])
    >>> folder.cleanup()
    """
    names = _names(files)
    if isinstance(block_mb, bool) or not isinstance(block_mb, int | float) or not block_mb > 0:
        raise ValueError(f"block_mb must be a number > 0, got {block_mb!r}.")
    ending = _ending(names)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got {columns!r}.")
    target, weight = (_column(value, ending, name) for value, name in ((target, "target"), (weight, "weight")))
    reader = _OPENERS[ending](names, target, weight, columns, int(block_mb * 2**20))
    _check_rows(reader, names, target=target, weight=weight)
    known = None if classes is None else np.unique(np.asarray(classes))
    return Files(reader, known, target is not None)


_OPENERS: dict[str, Callable[..., Reader]] = {
    ".parquet": open_parquet,
    ".csv": open_csv,
    ".npy": open_arrays,
    ".npz": open_arrays,
}


def _names(files: Any) -> tuple[str, ...]:
    """Return the names of the files, those of a pattern sorted."""
    names: list[str] = []
    for given in [files] if isinstance(files, str | os.PathLike) else files:
        name = os.fspath(given)
        found = [name] if os.path.isfile(name) else sorted(glob.glob(name, recursive=True))
        if not found:
            raise FileNotFoundError(f"There is no file {name!r}, and none of that pattern.")
        names.extend(found)
    if not names:
        raise ValueError("files must name at least one file.")
    return tuple(names)


def _ending(names: tuple[str, ...]) -> str:
    """Return the ending that all files have."""
    endings = {os.path.splitext(name)[1].lower() for name in names}
    if len(endings) > 1 or not endings <= set(_OPENERS):
        raise ValueError(f"files must all end in one of {sorted(_OPENERS)}; these end in {sorted(endings)}.")
    return endings.pop()


def _check_rows(reader: Reader, names: tuple[str, ...], **beside: Any) -> None:
    """Refuse files without rows, and arrays beside them of another length."""
    n = sum(part.stop - part.start for part in reader.parts)
    if n == 0:
        raise ValueError(f"{names[0]}{' and the other files' if len(names) > 1 else ''} hold no rows.")
    for name, value in beside.items():
        if isinstance(value, Targets) and len(value.values) != n:
            raise ValueError(f"{name} has {len(value.values)} entries, but the files have {n} rows.")


def _column(value: Any, ending: str, name: str) -> Any:
    """Return where labels or weights are: None, a column or member, or one entry for every row."""
    if value is None or (isinstance(value, str) and ending != ".npy"):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if ending in (".npy", ".npz"):
            return int(value)
        return str(value)
    if isinstance(value, str | os.PathLike):
        return Targets(np.concatenate([np.load(file, allow_pickle=False) for file in _names(value)]))
    values = np.asarray(value)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one entry for every row; its shape is {values.shape}.")
    return Targets(values)
