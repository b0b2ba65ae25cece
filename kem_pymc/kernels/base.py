"""Base kernels: one PyTensor expression each, from which value, gradient and compiled code come.

A base kernel is a function of two scalar inputs and its own hyperparameters, without an
amplitude: a candidate (a product of base kernels) has ONE amplitude of its own. To add a base
kernel, write its expression and register it; it then works in candidate pools, in the likelihood
and its gradient, in the sampler, in selection and in PyMC models::

    def cosine(x, z, period):
        return pt.cos(2 * np.pi * (x - z) / period)

    register(BaseKernel("COS", ("period",), cosine))
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytensor.tensor as pt

from kem_pymc.errors import InputError

#: Kinds of hyperparameters, and whether they are positive (every algorithm then works on logs).
KINDS: MappingProxyType[str, bool] = MappingProxyType(
    {
        "amplitude": True,
        "lengthscale": True,
        "period": True,
        "mixture": True,
        "shift": False,
    }
)


@dataclass(frozen=True)
class BaseKernel:
    """A kernel on one input dimension, with unit amplitude.

    Parameters
    ----------
    name : str
        Upper-case letters and digits, starting with a letter, e.g. ``"SE"``.
    hyperparameters : tuple of str
        Kinds of its hyperparameters, each another of :data:`KINDS` and not ``"amplitude"``.
    expression : callable
        ``expression(x, z, *hyperparameters)`` returns a PyTensor expression made of elementwise
        functions (``pt.exp``, ``pt.abs``, ``pt.switch``, arithmetic). It must be symmetric in
        ``x`` and ``z`` and positive semi-definite.
    degree : int
        Which power of the input's unit its values are in: 2 for LIN, 0 where distances count only
        beside a lengthscale or period.
    unitless : tuple of str
        Those of its hyperparameters that aren't in the input's unit.

    Raises
    ------
    InputError
        If the name can't be read back from a composition, or a kind is unknown or given twice.
    """

    name: str
    hyperparameters: tuple[str, ...]
    expression: Callable[..., Any]
    degree: int = 0
    unitless: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Z][A-Z0-9]*", self.name) or self.name in ("ARD", "WHITE"):
            raise InputError(
                f"{self.name!r} can't name a base kernel. "
                "Use upper-case letters and digits, starting with a letter."
            )
        for kind in self.hyperparameters:
            if kind not in KINDS or kind == "amplitude":
                raise InputError(
                    f"Base kernel {self.name} has a hyperparameter of unknown kind {kind!r}. "
                    f"Use some of {', '.join(k for k in KINDS if k != 'amplitude')}."
                )
        if len(set(self.hyperparameters)) < len(self.hyperparameters):
            raise InputError(
                f"Base kernel {self.name} has two hyperparameters of one kind. "
                "Give each another kind, since kinds name them."
            )


_REGISTRY: dict[str, BaseKernel] = {}


def register(kernel: BaseKernel) -> BaseKernel:
    """Make a base kernel available by name everywhere.

    Raises
    ------
    InputError
        If the name is taken, or a dimension's index behind one name would read as another name.
    """
    for name in _REGISTRY:
        longer, shorter = sorted((name, kernel.name), key=len, reverse=True)
        rest = longer.removeprefix(shorter)
        if rest != longer and (not rest or rest.isdigit()) and _REGISTRY[name] != kernel:
            raise InputError(
                f"The name {kernel.name} can't be told from base kernel {name}. "
                "Register yours under another name."
            )
    _REGISTRY[kernel.name] = kernel
    return kernel


def base_kernel(name: str) -> BaseKernel:
    """Return the base kernel registered under a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in _REGISTRY:
        raise InputError(
            f"There is no base kernel {name!r}. "
            f"Use one of {', '.join(_REGISTRY)}, or register your own."
        )
    return _REGISTRY[name]


def base_kernels() -> tuple[BaseKernel, ...]:
    """Return the registered base kernels in order of registration."""
    return tuple(_REGISTRY.values())


def _linear(x, z, shift):  # eq. 11
    return (x - shift) * (z - shift)


def _periodic(x, z, lengthscale, period):  # eq. 10
    return pt.exp(-2 * pt.sqr(pt.sin(math.pi * (x - z) / period) / lengthscale))


def _squared_exponential(x, z, lengthscale):  # eq. 9
    return pt.exp(-0.5 * pt.sqr((x - z) / lengthscale))


def _rational_quadratic(x, z, lengthscale, mixture):
    return pt.exp(-mixture * pt.log1p(0.5 * pt.sqr((x - z) / lengthscale) / mixture))


def _matern32(x, z, lengthscale):
    distance = math.sqrt(3) * pt.abs(x - z) / lengthscale
    return (1 + distance) * pt.exp(-distance)


def _matern52(x, z, lengthscale):
    distance = math.sqrt(5) * pt.abs(x - z) / lengthscale
    return (1 + distance + pt.sqr(distance) / 3) * pt.exp(-distance)


LIN = register(BaseKernel("LIN", ("shift",), _linear, degree=2))
PER = register(BaseKernel("PER", ("lengthscale", "period"), _periodic, unitless=("lengthscale",)))
SE = register(BaseKernel("SE", ("lengthscale",), _squared_exponential))
RQ = register(
    BaseKernel("RQ", ("lengthscale", "mixture"), _rational_quadratic, unitless=("mixture",))
)
MATERN32 = register(BaseKernel("MATERN32", ("lengthscale",), _matern32))
MATERN52 = register(BaseKernel("MATERN52", ("lengthscale",), _matern52))
