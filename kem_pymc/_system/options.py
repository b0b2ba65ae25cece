"""Checks of options: what counts, names and objects given for them may be."""

import textwrap
from collections.abc import Sequence
from math import inf
from numbers import Integral
from types import NoneType
from typing import Any

from kem_pymc.errors import InputError

#: Largest number of what is made, tried or drawn; more would be a slip of the pen.
MOST = 1_000_000

#: Largest number of characters of a value in a message.
LONGEST = 80


def check_whole(at_least: int = 1, at_most: float = MOST, **numbers: Any) -> None:
    """Check that numbers, by name, are whole, not too small and not too large.

    Raises
    ------
    InputError
        If one isn't.
    """
    for name, value in numbers.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and at_least <= int(value) <= at_most):
            size = "or more" if whole and int(value) < at_least else f"to {at_most}"
            raise InputError(f"{name} is {shown(value)}. Give a whole number of {at_least} {size}.")


def check_seed(**seeds: Any) -> None:
    """Check that seeds, by name, are whole numbers of 0 or more; see :func:`check_whole`."""
    check_whole(0, inf, **seeds)


def check_kind(*kinds: type, **options: Any) -> None:
    """Check that options, by name, are instances of one of the classes.

    Raises
    ------
    InputError
        If one isn't.
    """
    for name, value in options.items():
        if not isinstance(value, kinds):
            *some, last = (kind.__name__ for kind in kinds if kind is not NoneType)
            raise InputError(
                f"{name} is {shown(value)}, of the type {type(value).__name__}. "
                f"Give an object of the type {' or '.join(filter(None, (', '.join(some), last)))}."
            )


def shown(value: Any) -> str:
    """Return a value as it is written in Python, on one line and not too long."""
    try:
        return textwrap.shorten(repr(value), LONGEST, placeholder=" ...")
    except Exception:  # such as of whole numbers with thousands of digits
        return f"a {type(value).__name__}"


def check_choice(choices: Sequence[str], **options: Any) -> None:
    """Check that options, by name, are among the choices.

    Raises
    ------
    InputError
        If one isn't.
    """
    for name, value in options.items():
        if not (isinstance(value, str) and value in choices):
            *some, last = map(repr, choices)
            raise InputError(
                f"{{{name}}} is unknown. Give {', '.join(some)} or {last}.", **{name: value}
            )
