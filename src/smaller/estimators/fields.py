"""Constructor arguments as fields of a class, each with the check of its value.

An estimator lists its arguments once, ``tol: float = number(1e-6, least=0.0, open_left=True)``; the constructor follows
(a dataclass, keyword-only unless a field says otherwise), and ``checked(self, "tol")`` is the value that a fit works
with. As scikit-learn asks, the constructor itself checks nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from functools import partial
from typing import Any, TypeVar, dataclass_transform

from smaller.validation import check_choice, check_flag, check_integer, check_number

__all__ = ["anything", "check_all", "checked", "choice", "flag", "integer", "number", "with_fields"]

T = TypeVar("T")


def anything(default: Any = MISSING, *, kw_only: bool = True) -> Any:
    """Return the field of an argument that is looked at where its meaning is known."""
    return field(default=default, kw_only=kw_only)


def number(
    default: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    open_left: bool = False,
    words: tuple[str, ...] = (),
    kw_only: bool = True,
) -> Any:
    """Return the field of a finite number in a range, or of one of some words that stand for a number."""
    check = partial(check_number, least=least, most=most, open_left=open_left)
    return _field(default, kw_only, _or_word(check, words))


def integer(
    default: Any, *, least: int = 0, words: tuple[str, ...] = (), optional: bool = False, kw_only: bool = True
) -> Any:
    """Return the field of an integer not below ``least``, of some words, or of None with ``optional``."""
    return _field(default, kw_only, _or_word(partial(check_integer, least=least), words), optional=optional)


def _or_word(check: Callable[[str, Any], Any], words: tuple[str, ...]) -> Callable[[str, Any], Any]:
    def either(name: str, value: Any) -> Any:
        wordy = words and isinstance(value, str) and not value.lstrip("-").replace(".", "").isdigit()
        return check_choice(name, value, words) if wordy else check(name, value)

    return either


def choice(*choices: str, optional: bool = False, kw_only: bool = True) -> Any:
    """Return the field of one of some words; the first is the default, or None with ``optional``."""
    return _field(None if optional else choices[0], kw_only, partial(check_choice, choices=choices))


def flag(default: bool, *, kw_only: bool = True) -> Any:
    """Return the field of True or False."""
    return _field(default, kw_only, check_flag)


def _field(default: Any, kw_only: bool, check: Callable[[str, Any], Any], *, optional: bool = False) -> Any:
    """Return a field with its check; where None is the default, or ``optional``, it needs none."""

    def unless_none(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return field(
        default=default, kw_only=kw_only, metadata={"check": unless_none if optional or default is None else check}
    )


@dataclass_transform(kw_only_default=True, eq_default=False)
def with_fields(cls: type[T]) -> type[T]:
    """Give a class the constructor that its fields describe; equality and ``repr`` stay scikit-learn's."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def checked(estimator: Any, name: str) -> Any:
    """Return the value of an argument, or raise an error that names it; what is fixed for a class needs no check."""
    value, one = getattr(estimator, name), type(estimator).__dataclass_fields__.get(name)
    return one.metadata["check"](name, value) if one is not None and "check" in one.metadata else value


def check_all(estimator: Any) -> None:
    """Check every argument that has a check, whether this fit will look at it or not."""
    for name in type(estimator).__dataclass_fields__:
        checked(estimator, name)
