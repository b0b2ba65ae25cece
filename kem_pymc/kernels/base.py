"""Base kernels, each defined by one PyTensor expression for value, gradient and compiled code.

A base kernel is a function of two scalar inputs and its own hyperparameters, without an
amplitude: a candidate (a product of base kernels) has one amplitude for the whole product. To add a
base kernel, write its expression and register it; it then works in candidate pools, in the
likelihood and its gradient, in the sampler, in selection and in PyMC models, also in other
processes::

    def cosine(x, z, period):
        return pt.cos(2 * np.pi * (x - z) / period)

    register_kernel(BaseKernel("COS", ("period",), cosine, phrase="a cosine wave in {feature}"))
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytensor.tensor as pt
from pytensor.printing import debugprint

from kem_pymc._system.options import checked, shown
from kem_pymc.errors import InputError

#: Kinds of hyperparameters of the built-in kernels, and whether they are positive (all algorithms
#: then work on their logs).
KINDS: MappingProxyType[str, bool] = MappingProxyType(
    {
        "amplitude": True,
        "lengthscale": True,
        "period": True,
        "mixture": True,
        "shift": False,
    }
)

#: Printed form of the candidate that is a product of no base kernels: a constant level. It is
#: defined here, because no base kernel may have this name.
CONST = "CONST"

#: Names with another meaning in a table of priors.
TAKEN = frozenset({"amplitude", "noise", "noise_without_parent", "stay", "enter", "scaling"})


@checked
@dataclass(frozen=True)
class BaseKernel:
    """A kernel on one input dimension, with unit amplitude.

    Parameters
    ----------
    name : str
        Upper-case letters and digits, starting with a letter, e.g. ``"SE"``.
    hyperparameters : tuple of str
        Kinds of its hyperparameters, all different: either kinds in :data:`KINDS`, for which every
        table has priors, or new kinds in lower case, for which the study must define priors.
    expression : callable
        ``expression(x, z, *hyperparameters)`` returns a PyTensor expression made of elementwise
        functions (``pt.exp``, ``pt.abs``, ``pt.switch``, arithmetic). It must be symmetric in
        ``x`` and ``z`` and positive semi-definite.
    real : tuple of str
        New kinds whose values may be negative; the values of other new kinds are positive.
    phrase : str, optional
        Description of its functions in plain English, ``"a smooth curve in {feature}"``. By default
        "a pattern of kind NAME in {feature}".
    modifier : str
        Description of its effect on another factor of a product,
        ``"that changes smoothly along {feature}"``.
    detail : str
        Description of its hyperparameters' values, ``"changing over about {lengthscale}"``; empty
        by default.
    degree : int
        Power of the input's unit in the unit of its values: 2 for LIN, 0 if distances only enter
        relative to a lengthscale or period.
    unitless : tuple of str
        Hyperparameters that aren't in the input's unit.
    tied : str
        Name under which factors with the same number share their hyperparameters, as those of a
        change point do (:mod:`kem_pymc.kernels.changes`); by default every factor has its own.

    Raises
    ------
    InputError
        If the name can't be parsed in a composition, a kind isn't allowed or is given twice, `real`
        contains a kind that isn't a new one, or a text has a placeholder other than ``{feature}``
        (`phrase` and `modifier`) or the hyperparameters (`detail`).
    """

    name: str
    hyperparameters: tuple[str, ...]
    expression: Callable[..., Any]
    real: tuple[str, ...] = ()
    phrase: str = ""
    modifier: str = "that changes along {feature}"
    detail: str = ""
    degree: int = 0
    unitless: tuple[str, ...] = ()
    tied: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"(?!(ARD|WHITE|{CONST}\d*)$)[A-Z][A-Z0-9]*", self.name):
            raise InputError(
                f"{self.name!r} can't be the name of a base kernel. Use upper-case letters and "
                f"digits, starting with a letter, but not ARD, WHITE or {CONST}."
            )
        for kind in self.hyperparameters:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", kind) or kind in TAKEN:
                raise InputError(
                    f"Base kernel {self.name} has a hyperparameter of kind {kind!r}, which is a "
                    "reserved name or isn't a lower-case word. Use another word in lower case."
                )
        for kind in self.real:
            if kind not in self.hyperparameters or kind in KINDS:
                raise InputError(
                    f"Base kernel {self.name} declares that {kind!r} may be negative. Declare this "
                    "only for its own hyperparameters, of kinds that aren't built in."
                )
        if len(set(self.hyperparameters)) < len(self.hyperparameters):
            raise InputError(
                f"Base kernel {self.name} has two hyperparameters of the same kind. "
                "Give each a different kind, because hyperparameters are named by kind."
            )
        if not self.phrase:
            object.__setattr__(self, "phrase", f"a pattern of kind {self.name} in {{feature}}")
        where = {"feature": ""}
        values = dict.fromkeys(self.hyperparameters, "")
        for text, given in ((self.phrase, where), (self.modifier, where), (self.detail, values)):
            try:
                text.format_map(given)
            except (KeyError, ValueError, IndexError, AttributeError) as error:
                names = " and ".join(f"{{{name}}}" for name in sorted(given)) or "no placeholders"
                raise InputError(
                    f"The text {text!r} of base kernel {self.name} can't be formatted. Use {names}."
                ) from error

    def positive(self, kind: str) -> bool:
        """Return whether a hyperparameter is positive, so that algorithms work on its log."""
        return KINDS.get(kind, kind not in self.real)


#: Names of the kernels that this module defines.
BUILT_IN = frozenset({"LIN", "PER", "SE", "RQ", "MATERN32", "MATERN52", "CAT", "PS", "MATERN12"})

_REGISTRY: dict[str, BaseKernel] = {}

#: Names of kernels received from another process, which may be replaced by receiving them again.
_RECEIVED: set[str] = set()


@checked
def register_kernel(kernel: BaseKernel) -> BaseKernel:
    """Make a base kernel available by name everywhere.

    Registering the same kernel again changes nothing. A different kernel of the same name replaces
    the earlier one; pools, models and selectors created before must then be created again.

    Parameters
    ----------
    kernel : BaseKernel

    Returns
    -------
    BaseKernel
        The registered kernel: the earlier one, if it has the same hyperparameters and expression.

    Raises
    ------
    InputError
        If it would replace one of this package's kernels, or if a registered kernel's name and its
        own differ only by digits at the end, which would be read as a dimension's index.
    """
    for name in _REGISTRY:
        longer, shorter = sorted((name, kernel.name), key=len, reverse=True)
        rest = longer.removeprefix(shorter)
        mistaken = rest != longer and rest.isdigit()
        if mistaken or (name == kernel.name in BUILT_IN and _REGISTRY[name] != kernel):
            raise InputError(
                f"The name {kernel.name} can't be distinguished from base kernel {name}. "
                "Register your kernel under another name."
            )
    registered = _REGISTRY.get(kernel.name)
    if registered is not None and _same(registered, kernel):
        return registered
    _RECEIVED.discard(kernel.name)
    _REGISTRY[kernel.name] = kernel
    return kernel


def receive_kernel(kernel: BaseKernel) -> None:
    """Register a base kernel that was sent with an object from another process.

    Raises
    ------
    InputError
        If a different kernel was registered under its name in this process.
    """
    registered = _REGISTRY.get(kernel.name)
    if registered is not None and _same(registered, kernel):
        return
    if registered is not None and kernel.name not in _RECEIVED:
        raise InputError(
            f"Base kernel {kernel.name} is defined differently here than where it was used. "
            "Register the kernel that was used, or give your kernel another name."
        )
    register_kernel(kernel)
    _RECEIVED.add(kernel.name)


def _same(one: BaseKernel, other: BaseKernel) -> bool:
    """Return whether two kernels have the same hyperparameters and the same expression."""
    kinds = (one.hyperparameters, one.real) == (other.hyperparameters, other.real)
    return one == other or (kinds and _graph(one) == _graph(other))


def _graph(kernel: BaseKernel) -> str:
    arguments = [pt.dscalar(name) for name in ("x", "z", *kernel.hyperparameters)]
    value = pt.as_tensor(kernel.expression(*arguments))
    return debugprint(value, print_type=True, file="str")


def base_kernel(name: str) -> BaseKernel:
    """Return the base kernel registered under a name.

    Raises
    ------
    InputError
        If no kernel is registered under the name.
    """
    try:
        return _REGISTRY[name]
    except (KeyError, TypeError):  # this is called for every factor of a search
        raise InputError(
            f"There is no base kernel {shown(name)}. "
            f"Use one of {', '.join(_REGISTRY)}, or register your own first."
        ) from None


def base_kernels() -> tuple[BaseKernel, ...]:
    """Return the registered base kernels in order of registration."""
    return tuple(_REGISTRY.values())


def category_offset(levels: int) -> float:
    """Return the offset added to a level's number to encode the number of levels for CAT.

    It is zero for two levels.
    """
    return 1 / levels - 0.5


def _categories(x, z):
    # An input encodes a level's number and the count of levels: number + category_offset(count).
    one, other = pt.floor(x + 0.5), pt.floor(z + 0.5)
    count, count_z = (
        pt.floor(1 / pt.maximum(v + 0.5 - level, 1e-9) + 0.5) for v, level in ((x, one), (z, other))
    )
    alike = pt.eq(count, count_z)
    # Levels with a number outside 0 to count - 1 have covariance zero with all others.
    valid = (pt.minimum(one, other) >= 0) * (pt.maximum(one, other) < count)
    apart = pt.switch(alike * valid, -1 / pt.maximum(count - 1, 1), 0.0)
    return pt.switch(alike * pt.eq(one, other), 1.0, apart)


def _linear(x, z, shift):  # eq. 11
    return (x - shift) * (z - shift)


def _periodic(x, z, lengthscale, period):  # eq. 10
    return pt.exp(-2 * pt.sqr(pt.sin(math.pi * (x - z) / period) / lengthscale))


def _periodic_spikes(x, z, lengthscale, period):
    """Return cos(sin(u)) exp(s cos(u) - s), with u = 2 pi (x - z) / period, s = lengthscale^-2.

    The kernel follows the periodic spikes of Preotiuc-Pietro and Cohn (2013). It is positive
    semi-definite, since both factors are cosine series with positive coefficients (Bessel functions
    of 1 and of s).
    """
    spikes = _periodic(x, z, lengthscale, period)
    return pt.cos(pt.sin(2 * math.pi * (x - z) / period)) * spikes


def _squared_exponential(x, z, lengthscale):  # eq. 9
    return pt.exp(-0.5 * pt.sqr((x - z) / lengthscale))


def _rational_quadratic(x, z, lengthscale, mixture):
    return pt.exp(-mixture * pt.log1p(0.5 * pt.sqr((x - z) / lengthscale) / mixture))


def _matern12(x, z, lengthscale):
    return pt.exp(-pt.abs(x - z) / lengthscale)


def _matern32(x, z, lengthscale):
    distance = math.sqrt(3) * pt.abs(x - z) / lengthscale
    return (1 + distance) * pt.exp(-distance)


def _matern52(x, z, lengthscale):
    distance = math.sqrt(5) * pt.abs(x - z) / lengthscale
    return (1 + distance + pt.sqr(distance) / 3) * pt.exp(-distance)


LIN = register_kernel(
    BaseKernel(
        "LIN",
        ("shift",),
        _linear,
        degree=2,
        phrase="a straight line in {feature}",
        modifier="that grows or shrinks in proportion to {feature}",
    )
)
PER = register_kernel(
    BaseKernel(
        "PER",
        ("lengthscale", "period"),
        _periodic,
        unitless=("lengthscale",),
        phrase="a rhythm in {feature}",
        modifier="that repeats with a rhythm in {feature}",
        detail="repeating every {period}",
    )
)
SE = register_kernel(
    BaseKernel(
        "SE",
        ("lengthscale",),
        _squared_exponential,
        phrase="a smooth curve in {feature}",
        modifier="that changes smoothly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
RQ = register_kernel(
    BaseKernel(
        "RQ",
        ("lengthscale", "mixture"),
        _rational_quadratic,
        unitless=("mixture",),
        phrase="a curve in {feature} with slow and fast changes",
        modifier="that changes along {feature}, both slowly and fast",
        detail="changing over about {lengthscale}",
    )
)
MATERN32 = register_kernel(
    BaseKernel(
        "MATERN32",
        ("lengthscale",),
        _matern32,
        phrase="a jagged curve in {feature}",
        modifier="that changes jaggedly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
MATERN52 = register_kernel(
    BaseKernel(
        "MATERN52",
        ("lengthscale",),
        _matern52,
        phrase="a fairly smooth curve in {feature}",
        modifier="that changes fairly smoothly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
# Zero-sum over the levels, as in Timonen et al. (2021, lgpr): 1 for a level with itself,
# -1 / (L - 1) for two different levels out of L.
CAT = register_kernel(
    BaseKernel(
        "CAT",
        (),
        _categories,
        phrase="differences between levels of {feature}",
        modifier="that differs between levels of {feature}",
    )
)
PS = register_kernel(
    BaseKernel(
        "PS",
        ("lengthscale", "period"),
        _periodic_spikes,
        unitless=("lengthscale",),
        phrase="a series of spikes at regular intervals of {feature}",
        modifier="with spikes at regular intervals of {feature}",
        detail="repeating every {period}",
    )
)
# With a lengthscale far above the extent of the data, a random walk.
MATERN12 = register_kernel(
    BaseKernel(
        "MATERN12",
        ("lengthscale",),
        _matern12,
        phrase="a random walk in {feature}",
        modifier="that changes randomly along {feature}",
        detail="coming back over about {lengthscale}",
    )
)
