"""Model files: `save` and `load`, without code and safe to open from strangers.

A model file is one zip with three kinds of members, all stored without compression::

    model.json    what the model is: a tree of plain values, named types and references to arrays
    0.npy ...     the arrays, in NumPy's format, never pickled
    sha256        the digest of model.json, which in turn holds the digest of every array

Nothing in a file is executed or imported: a type is looked up in a list (`registry`), which holds only classes made of
plain data. Opening a file takes a few times its size in memory, because members are not compressed, and for the values
in model.json, whose number is bounded, at most half a gigabyte more.

`registry` says what a file may name, `writing` and `reading` are the two ways, `files` puts bytes into place.
"""

from smaller.persistence.files import atomic_write, check_replaceable, finish_interrupted, write_together
from smaller.persistence.reading import load
from smaller.persistence.registry import ModelFileError
from smaller.persistence.writing import model_bytes, save

__all__ = [
    "ModelFileError",
    "atomic_write",
    "check_replaceable",
    "finish_interrupted",
    "load",
    "model_bytes",
    "save",
    "write_together",
]
