"""Numerical check of a user-defined base kernel, before it is used in a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.tensor as pt

from kem_pymc._system.jit.decorators import scalar_function
from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import BaseKernel, base_kernel
from kem_pymc.kernels.library import MULTIPLY, compile_kernels

#: Default values to try by kind; user-defined kinds have those of a mixture or, if real, a shift.
VALUES: MappingProxyType[str, tuple[float, ...]] = MappingProxyType(
    {
        "lengthscale": (0.1, 1.0, 10.0),
        "period": (0.3, 1.0, 5.0),
        "mixture": (0.3, 1.0, 10.0),
        "shift": (-1.0, 0.0, 2.0),
    }
)

#: Default points: inside and outside the unit range, some repeated, some far away.
POINTS = np.concatenate([np.linspace(-1.3, 2.1, 24), [0.0, 0.0, 1.0], np.linspace(3, 20, 13)])

#: Tolerances for rounding errors and for errors of finite differences; both relative.
ROUNDING, DIFFERENCES = 1e-10, 1e-5

#: Steps of finite differences, relative to values above one.
STEPS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


@dataclass(frozen=True)
class KernelCheck:
    """Result of a base kernel's check: the worst case over all hyperparameter values tried.

    Attributes
    ----------
    asymmetry : float
        Largest difference between k(x, z) and k(z, x), relative to the largest value.
    least_eigenvalue : float
        Smallest eigenvalue of the covariance of the points, relative to the largest.
    gradient_error : float
        Largest difference between a derivative and finite differences, relative to the largest
        derivative, or to 1 where that is smaller.
    loop_error : float
        Largest difference between the compiled loops and PyTensor's evaluation, relative in the
        same way.
    """

    asymmetry: float
    least_eigenvalue: float
    gradient_error: float
    loop_error: float


@checked
def check_kernel(
    kernel: BaseKernel | str,
    hyperparameters: Mapping[str, Sequence[float]] | None = None,
    x: npt.ArrayLike | None = None,
) -> KernelCheck:
    """Check a base kernel at many points: symmetric, positive semi-definite, differentiable.

    The compiled loops that the sampler uses are compared with PyTensor's evaluation of the
    expression, and derivatives with finite differences. The kernel needn't be registered.

    Parameters
    ----------
    kernel : BaseKernel or str
        The base kernel, or the name of a registered one.
    hyperparameters : mapping of str to sequence of float, optional
        Values to try for each kind; all combinations are tried.
    x : array_like, shape (n,), optional
        Points; by default 40 between -1.3 and 20, with repeats. Give points in the range of your
        data if the kernel is only meant for that range.

    Returns
    -------
    KernelCheck

    Raises
    ------
    InputError
        If a check fails; the message contains which check, and for which values. Also if
        `hyperparameters` has a kind that the kernel doesn't have.
    """
    kernel = base_kernel(kernel) if isinstance(kernel, str) else kernel
    values = {
        kind: VALUES.get(kind, VALUES["mixture" if kernel.positive(kind) else "shift"])
        for kind in kernel.hyperparameters
    }
    for kind, given in (hyperparameters or {}).items():
        if kind not in values:
            raise InputError(
                f"Base kernel {kernel.name} has no hyperparameter of kind {kind!r}. "
                f"Give values of {', '.join(values) or 'none'}."
            )
        values[kind] = tuple(given)
    points = np.ascontiguousarray(POINTS if x is None else x, dtype=np.float64)
    check = _Check(kernel, points)
    worst = np.array(
        [
            check(np.array(h, dtype=np.float64))
            for h in product(*(values[kind] for kind in kernel.hyperparameters))
        ]
    )
    asymmetry, _, gradient_error, loop_error = worst.max(axis=0).tolist()
    return KernelCheck(asymmetry, float(worst[:, 1].min()), gradient_error, loop_error)


class _Check:
    """Checks of a base kernel at points (n,), by PyTensor and by the compiled loops."""

    def __init__(self, kernel: BaseKernel, x: np.ndarray) -> None:
        self._kernel, self._x = kernel, x
        scalars = [pt.dscalar(name) for name in ("x", "z", *kernel.hyperparameters)]
        value = pt.as_tensor(kernel.expression(*scalars))
        scalar_function(scalars, [value], kernel.name)  # raises if it isn't elementwise
        inputs = [pt.dmatrix(name) for name in ("x", "z", *kernel.hyperparameters)]
        value = pt.cast(kernel.expression(*inputs), "float64") + pt.zeros_like(inputs[0])
        slopes = pytensor.grad(value.sum(), inputs[2:], disconnected_inputs="ignore")
        self._evaluate = pytensor.function(
            inputs, [value, *slopes], mode="FAST_COMPILE", on_unused_input="ignore"
        )

    def __call__(self, h: np.ndarray) -> tuple[float, float, float, float]:
        """Return the attributes of a :class:`KernelCheck` for one vector of hyperparameters."""
        value, *slopes = self.evaluate(h)
        size = max(np.abs(value).max(), ROUNDING)
        asymmetry = np.abs(value - value.T).max() / size
        if asymmetry > ROUNDING:
            self._fail("isn't symmetric", h, "Make k(x, z) equal to k(z, x)")
        eigenvalues = np.linalg.eigvalsh(value)
        least = eigenvalues[0] / max(abs(eigenvalues[-1]), ROUNDING)
        if least < -ROUNDING:
            self._fail(
                f"isn't positive semi-definite: an eigenvalue is {least:.1g} times the largest",
                h,
                "Use a covariance function",
            )
        gradient_errors = [self.gradient_error(h, p, slope) for p, slope in enumerate(slopes)]
        loop_error = self.loop_error(h, value, slopes)
        return asymmetry, least, max(gradient_errors, default=0.0), loop_error

    def evaluate(self, h: np.ndarray) -> list[np.ndarray]:
        """Return the covariance (n, n) and its derivatives with respect to each hyperparameter."""
        n = len(self._x)
        rows, columns = np.repeat(self._x[:, None], n, 1), np.repeat(self._x[None], n, 0)
        arrays = self._evaluate(rows, columns, *(np.full((n, n), v) for v in h))
        slopes = [f"derivative with respect to the {kind}" for kind in self._kernel.hyperparameters]
        for what, array in zip(["value", *slopes], arrays, strict=True):
            for i, j in np.argwhere(~np.isfinite(array))[:1]:
                self._fail(
                    f"has no finite {what} at x = {self._x[i]:g}, z = {self._x[j]:g}",
                    h,
                    "Rewrite the expression, or check it on the range of your data with x=",
                )
        return arrays

    def gradient_error(self, h: np.ndarray, p: int, slope: np.ndarray) -> float:
        """Return the largest relative difference of a derivative from finite differences."""
        # Long steps have truncation errors, short ones rounding errors: the best one is used.
        errors = np.full_like(slope, np.inf)
        for size in STEPS:
            step = np.zeros_like(h)
            step[p] = size * max(1.0, abs(h[p]))
            up, down = self.evaluate(h + step)[0], self.evaluate(h - step)[0]
            errors = np.minimum(errors, np.abs(slope - (up - down) / (2 * step[p])))
        error = errors.max() / max(np.abs(slope).max(), 1.0)
        if error > DIFFERENCES:
            self._fail(
                f"has a derivative with respect to the {self._kernel.hyperparameters[p]} that "
                "differs from finite differences",
                h,
                "Write it with differentiable functions",
            )
        return error

    def loop_error(self, h: np.ndarray, value: np.ndarray, slopes: list[np.ndarray]) -> float:
        """Return the largest relative difference of the loops from PyTensor's evaluation."""
        x, loops = self._x, compile_kernels((self._kernel,))
        full, upper = np.ones_like(value), np.ones_like(value)
        loops.cross(0, x, x, h, full)
        loops.fill(0, x, h, 1.0, MULTIPLY, upper)
        weights = np.triu(np.random.default_rng(0).normal(size=value.shape))
        sums = np.zeros(len(h) + 1)
        loops.gradient(0, x, h, weights, sums)
        size = np.abs(value).max()
        pairs: list[tuple[npt.ArrayLike, npt.ArrayLike, float]] = [
            (full, value, size),
            (np.triu(upper), np.triu(value), size),
        ]
        for total, array in zip(sums, (*slopes, value), strict=True):
            pairs.append((total, np.sum(weights * array), np.abs(weights * array).sum()))
        worst = max(np.abs(np.subtract(a, b)).max() / max(scale, 1.0) for a, b, scale in pairs)
        if not worst <= ROUNDING:
            self._fail("differs between PyTensor and compiled code", h, "Report it as a bug")
        return worst

    def _fail(self, what: str, h: np.ndarray, remedy: str) -> NoReturn:
        pairs = zip(self._kernel.hyperparameters, h, strict=True)
        where = ", ".join(f"{kind} {value:g}" for kind, value in pairs)
        raise InputError(
            f"Base kernel {self._kernel.name} {what}{f' ({where})' if where else ''}. {remedy}."
        )
