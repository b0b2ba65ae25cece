"""Change points and change windows: base kernels that switch a product on or off along an input.

With a rise s(x) = 1 / (1 + exp(-(x - c) / w)), a change point at c gives one kernel before it and
another after it,

    k(x, z) = (1 - s(x)) k1(x, z) (1 - s(z)) + s(x) k2(x, z) s(z)

and a change window gives one kernel inside and another outside, with the product of a rise at c and
a fall at c + l in place of s (Lloyd et al. 2014). In a sum of products, each product of k1 has the
factor BEFORE, and each product of k2 the factor AFTER, with the same location and width. Factors
that share hyperparameters have the same number: ``BEFORE0@1 x SE0 + AFTER0@1 x PER0``.

Searches register these kernels where they use them; otherwise call :func:`register_changes`.
"""

from collections.abc import Callable
from typing import Any

import pytensor.tensor as pt

from kem_pymc.kernels.base import BaseKernel, register_kernel

#: Names of the hyperparameters that factors share: of change points, and of change windows.
POINT, WINDOW = "CHANGE", "WINDOW"


def _rise(x, location, width):
    return 1 / (1 + pt.exp(-(x - location) / width))


def _before(x, location, width):
    return _rise(-x, -location, width)


def _inside(x, location, span, width):
    return _rise(x, location, width) * _rise(-x, -(location + span), width)


def _outside(x, location, span, width):
    # One minus the above, without a difference, which would lose digits.
    later = _rise(x, location, width) * _rise(x, location + span, width)
    return _rise(-x, -location, width) + later


def _switch(
    name: str, tied: str, weight: Callable[..., Any], phrase: str, modifier: str
) -> BaseKernel:
    """Return the base kernel weight(x) weight(z)."""
    return BaseKernel(
        name,
        ("location", "width") if tied == POINT else ("location", "span", "width"),
        lambda x, z, *h: weight(x, *h) * weight(z, *h),
        real=("location",),
        tied=tied,
        phrase=phrase,
        modifier=modifier,
        detail="at {location}" if tied == POINT else "from {location}, {span} long",
    )


BEFORE = _switch(
    "BEFORE",
    POINT,
    _before,
    phrase="a level until {feature} changes",
    modifier="until {feature} reaches a change point",
)
AFTER = _switch(
    "AFTER",
    POINT,
    _rise,
    phrase="a level after {feature} changes",
    modifier="from where {feature} reaches a change point",
)
INSIDE = _switch(
    "INSIDE",
    WINDOW,
    _inside,
    phrase="a level in a window of {feature}",
    modifier="in a window of {feature}",
)
OUTSIDE = _switch(
    "OUTSIDE",
    WINDOW,
    _outside,
    phrase="a level outside a window of {feature}",
    modifier="outside a window of {feature}",
)

#: Pairs of kernels that change over: of change points, and of change windows.
PAIRS = ((BEFORE.name, AFTER.name), (INSIDE.name, OUTSIDE.name))


def register_changes() -> None:
    """Register the kernels of change points and windows.

    Raises
    ------
    InputError
        If other base kernels have names that can't be distinguished from theirs.
    """
    for kernel in (BEFORE, AFTER, INSIDE, OUTSIDE):
        register_kernel(kernel)
