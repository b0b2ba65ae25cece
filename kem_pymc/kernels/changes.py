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

import pytensor.tensor as pt

from kem_pymc.kernels.base import BaseKernel, register_kernel

#: Names of the hyperparameters that factors share: of change points, and of change windows.
POINT, WINDOW = "CHANGE", "WINDOW"


def _rise(x, location, width):
    return 1 / (1 + pt.exp(-(x - location) / width))


def _inside(x, location, span, width):
    return _rise(x, location, width) * _rise(-x, -(location + span), width)


def _not_inside(x, location, span, width):
    # One minus the above, without a difference, which would lose digits.
    later = _rise(x, location, width) * _rise(x, location + span, width)
    return _rise(-x, -location, width) + later


def _before(x, z, location, width):
    return _rise(-x, -location, width) * _rise(-z, -location, width)


def _after(x, z, location, width):
    return _rise(x, location, width) * _rise(z, location, width)


def _within(x, z, location, span, width):
    return _inside(x, location, span, width) * _inside(z, location, span, width)


def _outside(x, z, location, span, width):
    return _not_inside(x, location, span, width) * _not_inside(z, location, span, width)


BEFORE = BaseKernel(
    "BEFORE",
    ("location", "width"),
    _before,
    real=("location",),
    tied=POINT,
    phrase="a level until {feature} changes",
    modifier="until {feature} reaches a change point",
    detail="at {location}",
)
AFTER = BaseKernel(
    "AFTER",
    ("location", "width"),
    _after,
    real=("location",),
    tied=POINT,
    phrase="a level after {feature} changes",
    modifier="from where {feature} reaches a change point",
    detail="at {location}",
)
INSIDE = BaseKernel(
    "INSIDE",
    ("location", "span", "width"),
    _within,
    real=("location",),
    tied=WINDOW,
    phrase="a level in a window of {feature}",
    modifier="in a window of {feature}",
    detail="from {location}, {span} long",
)
OUTSIDE = BaseKernel(
    "OUTSIDE",
    ("location", "span", "width"),
    _outside,
    real=("location",),
    tied=WINDOW,
    phrase="a level outside a window of {feature}",
    modifier="outside a window of {feature}",
    detail="from {location}, {span} long",
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
