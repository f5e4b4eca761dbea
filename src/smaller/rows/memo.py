"""What a holder of rows remembers: the eta of the last places it was asked about."""

from __future__ import annotations

import threading
from typing import Any

from smaller.arrays import Array
from smaller.rows.protocol import Place

__all__ = ["Memo"]

_KEPT = 2  # places whose eta is kept: the last point of a descent and its successor


class Memo:
    """The eta of the last places, by the bytes of the question; one lock, so that threads may ask at once."""

    def __init__(self) -> None:
        self._known: dict[Any, Array] = {}
        self._lock = threading.Lock()

    def get(self, place: Place) -> Array | None:
        """Return the eta of a place, or None."""
        with self._lock:
            return self._known.get(place.key)

    def keep(self, place: Place, eta: Array) -> None:
        """Remember the eta of a place, and forget the oldest."""
        with self._lock:
            self._known[place.key] = eta
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()  # what is kept can be computed again
