"""Primitives of evolved kernels (Roman et al. 2019, table 2), as DEAP's typed primitive set.

A kernel is a tree of functions of a pair of inputs (x, x'). The types are

- `Inputs`: the pair of inputs itself,
- `Features`: the pair after a transform, which is the identity or (sin, cos) of a multiple,
- `Scalar`: a hyperparameter, one of the arguments h0, h1, ...,
- `Covariance`: a number for each pair.

The function of a primitive makes PyTensor expressions; compiled code has its own
(:mod:`kem_pymc.search.evocov.interpreter`). All are symmetric in x and x', and so is every tree.

Derivatives of roots and powers at zero are taken as zero: there, on the diagonal of a covariance,
the argument is a distance, which is zero whatever the hyperparameters.
"""

import operator
from functools import cache
from typing import Any

import pytensor.tensor as pt
from deap import gp

#: Number of hyperparameters that a tree may have. Fewer would often make unrelated leaves share
#: one.
HYPERPARAMETERS = 20

#: Constants among the leaves.
CONSTANTS = (-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 5.0)

#: Coordinates (n, D) and (m, D) of the two points of each pair.
type Pair = tuple[Any, Any]


class Inputs:
    """Type of a pair of inputs."""


class Features:
    """Type of a pair of transformed inputs."""


class Scalar:
    """Type of a hyperparameter."""


class Covariance:
    """Type of a value for each pair."""


def _same(value: Any) -> Any:
    """Return inputs as features, or a hyperparameter as a covariance."""
    return value


def spectral(pair: Pair, frequency: Any) -> Pair:
    """Return sines and cosines of the inputs times an angular frequency as features."""
    x, z = (
        pt.concatenate([pt.sin(frequency * points), pt.cos(frequency * points)], axis=1)
        for points in pair
    )
    return x, z


def sq_dist(features: Pair, lengthscale: Any) -> Any:
    """Return squared distances in units of a lengthscale."""
    x, z = features
    return pt.sqr(x[:, None, :] - z[None, :, :]).sum(axis=-1) / lengthscale**2


def dot_prod(features: Pair, shift: Any, lengthscale: Any) -> Any:
    """Return dot products of shifted features, over a lengthscale."""
    x, z = features
    return pt.dot(x - shift, (z - shift).T) / lengthscale


def power(w: Any, exponent: Any) -> Any:
    """Return a power with a positive exponent."""
    zero = pt.eq(w, 0.0)
    return pt.switch(zero, 0.0, pt.switch(zero, 1.0, w) ** exponent)


def sqrt(w: Any) -> Any:
    """Return a square root."""
    zero = pt.eq(w, 0.0)
    return pt.switch(zero, 0.0, pt.sqrt(pt.switch(zero, 1.0, w)))


#: Primitives that have an argument of the type that they return, in the order of table 2.
NESTABLE = {
    "power": (power, [Covariance, Scalar]),
    "add": (operator.add, [Covariance, Covariance]),
    "multiply": (operator.mul, [Covariance, Covariance]),
    "div": (pt.reciprocal, [Covariance]),
    "exp": (pt.exp, [Covariance]),
    "sqrt": (sqrt, [Covariance]),
    "square": (pt.sqr, [Covariance]),
}


@cache
def primitive_set() -> gp.PrimitiveSetTyped:
    """Return the primitive set of kernels, of which there is one."""
    arguments = [Inputs] + HYPERPARAMETERS * [Scalar]
    primitives = gp.PrimitiveSetTyped("kernel", arguments, Covariance, prefix="h")
    names = ["x", *(f"h{i}" for i in range(HYPERPARAMETERS))]
    # In this order no new name is that of an argument that has yet to be renamed.
    for old, new in zip(list(primitives.arguments), names, strict=True):
        primitives.renameArguments(**{old: new})
        primitives.mapping[new].name = new  # DEAP changes what is printed only
    primitives.addPrimitive(_same, [Inputs], Features, "euc")
    primitives.addPrimitive(spectral, [Inputs, Scalar], Features)
    primitives.addPrimitive(sq_dist, [Features, Scalar], Covariance)
    primitives.addPrimitive(dot_prod, [Features, Scalar, Scalar], Covariance)
    primitives.addPrimitive(_same, [Scalar], Covariance, "hp")
    for name, (function, takes) in NESTABLE.items():
        primitives.addPrimitive(function, takes, Covariance, name)
    for constant in CONSTANTS:
        primitives.addTerminal(constant, Covariance)
    return primitives
