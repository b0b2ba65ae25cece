"""Checks of options: what counts, names and objects given for them may be."""

import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from itertools import islice
from math import inf
from numbers import Integral, Real
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, TypeAliasType, Union, get_args, get_origin

import numpy as np

from kem_pymc.errors import InputError

#: Largest number of what is made, tried or drawn; more would be a slip of the pen.
MOST = 1_000_000

#: Number of elements of a collection whose kinds are checked.
LOOKED_AT = 1000

#: Largest number of characters of a value in a message.
LONGEST = 80

#: Sizes of numbers beyond which NumPy has no room for them, or Python can't print them.
UNPRINTABLE = 10**300


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
            few = at_most == inf or (whole and int(value) < at_least)
            size = "or more" if few else f"to {at_most}"
            raise InputError(f"{name} is {shown(value)}. Give a whole number of {at_least} {size}.")


def check_seed(**seeds: Any) -> None:
    """Check that seeds, by name, are whole numbers of 0 or more; see :func:`check_whole`."""
    check_whole(0, inf, **seeds)


def checked[T: Callable[..., Any]](target: T) -> T:
    """Check the kinds of arguments by their annotations, as a decorator.

    Of a class, its public methods and its constructor are checked. Kinds are numbers, text,
    collections and classes; arrays, and annotations that can't be evaluated, are left to the
    function.

    Raises
    ------
    InputError
        By the decorated function, if an argument is of another kind.
    """
    if isinstance(target, type):
        for name, member in list(vars(target).items()):
            if name == "__init__" or not name.startswith("_"):
                if isinstance(member, classmethod):
                    setattr(target, name, classmethod(checked(member.__func__)))
                elif isinstance(member, FunctionType):
                    setattr(target, name, checked(member))
        return target
    known = {
        name: parameter
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    by_place = [
        name
        for name, parameter in known.items()
        if parameter.kind != inspect.Parameter.KEYWORD_ONLY
    ]

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Wrong numbers and names of arguments are refused by Python, in the call below.
        for name, value in (*zip(by_place, args, strict=False), *kwargs.items()):
            parameter = known.get(name)
            if parameter is not None and value is not parameter.default:
                check_kind(value, _hint(parameter.annotation, target), name)
        return target(*args, **kwargs)

    return call  # type: ignore[return-value]


def check_kind(value: Any, hint: Any, name: str) -> None:
    """Check that an argument is of the kind of a type hint; see :func:`checked`.

    Raises
    ------
    InputError
        If it isn't.
    """
    same = type(value) is hint and hint is not int  # of which some are too large to print
    if not same and not _suits(value, hint):
        raise InputError(f"{name} is {shown(value)}. Give {_in_words(hint)}.")


@cache
def _hint(annotation: Any, function: FunctionType) -> Any:
    """Return what an annotation stands for; `Any` if that isn't known when the code runs."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    words = re.findall(r"\w+", annotation)
    known: dict[str, Any] = {}
    for name in ("kem_pymc", "xarray"):  # names that are imported for type checkers only
        module = import_module(name)
        known |= {word: getattr(module, word) for word in words if word in module.__all__}
    try:
        return eval(annotation, {**known, **function.__globals__})
    except NameError:
        return Any


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the class of a type hint and the hints of its parts."""
    return get_origin(hint) or hint, get_args(hint)


def _suits(value: Any, hint: Any) -> bool:
    """Return whether a value is of the kind of a type hint."""
    if isinstance(hint, TypeAliasType):
        try:
            return _suits(value, hint.__value__)
        except NameError:  # of a class that is imported for type checkers only
            return True
    kind, parts = _parts(hint)
    if kind in (Union, UnionType):
        return any(_suits(value, part) for part in parts)
    if kind is Literal:
        return isinstance(value, tuple({type(choice) for choice in parts}))
    if kind in (None, NoneType):
        return value is None
    if not isinstance(kind, type) or kind in (Any, np.ndarray):
        return True
    if getattr(kind, "_is_protocol", False):
        runtime = getattr(kind, "_is_runtime_protocol", False) and "kem_pymc" in kind.__module__
        return not runtime or isinstance(value, kind)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and _printable(value)
    if kind is float:
        number = isinstance(value, Real) and _printable(value)
        return number or (isinstance(value, np.ndarray) and not value.ndim)
    if kind is bool:
        return isinstance(value, Integral | np.bool_)
    if kind in (Mapping, dict):
        return isinstance(value, Mapping)
    if kind in (tuple, list, Sequence, Iterable):
        if isinstance(value, str | bytes) or not isinstance(value, Collection | Iterator):
            return False
        if isinstance(value, np.ndarray) and not value.ndim:
            return False
        alike = len(parts) == 1 or ... in parts
        if not alike or isinstance(value, Iterator):  # which a look would exhaust
            return True
        return all(_suits(one, parts[0]) for one in islice(value, LOOKED_AT))
    return isinstance(value, kind) and _printable(value)


def _printable(value: Any) -> bool:
    return not isinstance(value, int) or -UNPRINTABLE < value < UNPRINTABLE


#: Kinds in words, in messages.
WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
}
WORDS |= {"TensorVariable": "a PyMC distribution, like pm.Normal.dist()"}
WORDS |= {"Unexplained": "variances, like kem.priors.Unexplained(total=0.4, within=0.1)"}
WORDS |= {bool: "True or False", None: "None", NoneType: "None", Callable: "a function"}


def _in_words(hint: Any) -> str:
    if isinstance(hint, TypeAliasType):
        return _in_words(hint.__value__)
    kind, parts = _parts(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_in_words, parts)))
    if kind is Literal:
        return " or ".join(map(repr, parts))
    name = getattr(kind, "__name__", str(kind))
    if kind in (Sequence, Iterable, Mapping):
        name = name.lower()
    of = f" of {_several(parts[0])}" if parts and kind in (Sequence, Iterable, tuple) else ""
    return WORDS.get(kind) or WORDS.get(name) or f"{'an' if name[0] in 'AEIOi' else 'a'} {name}{of}"


def _several(hint: Any) -> str:
    """Return several of a kind in words, like "whole numbers"."""
    words = _in_words(hint)
    article, _, rest = words.partition(" ")
    single = article in ("a", "an") and " " not in rest.removeprefix("whole ")
    return f"{rest}s" if single else words


def shown(value: Any) -> str:
    """Return a value as it is written in Python, on one line and not too long."""
    try:
        return textwrap.shorten(repr(value), LONGEST, placeholder=" ...")
    except Exception:  # such as of whole numbers with thousands of digits
        return WORDS.get(type(value)) or f"a {type(value).__name__}"


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
