"""Numerical check of a user-defined base kernel, before it is used in a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.tensor as pt

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
    for kind, own in (hyperparameters or {}).items():
        if kind not in values:
            raise InputError(
                f"Base kernel {kernel.name} has no hyperparameter of kind {kind!r}. "
                f"Give values of {', '.join(values) or 'none'}."
            )
        values[kind] = tuple(own)
    points = np.ascontiguousarray(POINTS if x is None else x, dtype=np.float64)
    combinations = [
        np.array(h, dtype=np.float64)
        for h in product(*(values[kind] for kind in kernel.hyperparameters))
    ]
    compiled = _Compiled(kernel, points)
    return KernelCheck(
        asymmetry=max(compiled.asymmetry(h) for h in combinations),
        least_eigenvalue=min(compiled.least_eigenvalue(h) for h in combinations),
        gradient_error=max(compiled.gradient_error(h) for h in combinations),
        loop_error=max(compiled.loop_error(h) for h in combinations),
    )


class _Compiled:
    """A base kernel evaluated at points (n,), by PyTensor and by the compiled loops."""

    def __init__(self, kernel: BaseKernel, x: np.ndarray) -> None:
        self._kernel, self._x = kernel, x
        self._loops = compile_kernels((kernel,))  # raises if the expression isn't elementwise
        inputs = [pt.dmatrix(name) for name in ("x", "z", *kernel.hyperparameters)]
        value = pt.cast(kernel.expression(*inputs), "float64") + pt.zeros_like(inputs[0])
        slopes = pytensor.grad(value.sum(), inputs[2:], disconnected_inputs="ignore")
        self._evaluate = pytensor.function(
            inputs, [value, *slopes], mode="FAST_COMPILE", on_unused_input="ignore"
        )

    def evaluate(self, h: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the covariance (n, n) and its derivatives with respect to each hyperparameter."""
        n = len(self._x)
        rows, columns = np.repeat(self._x[:, None], n, 1), np.repeat(self._x[None], n, 0)
        value, *slopes = self._evaluate(rows, columns, *(np.full((n, n), v) for v in h))
        names = ("value", *self._kernel.hyperparameters)
        for what, array in zip(names, (value, *slopes), strict=True):
            wrong = np.argwhere(~np.isfinite(array))
            if len(wrong):
                i, j = wrong[0]
                which = "value" if what == "value" else f"derivative with respect to the {what}"
                self._complain(
                    f"has no finite {which} at x = {self._x[i]:g}, z = {self._x[j]:g}",
                    h,
                    "Rewrite the expression, or check it on the range of your data with x=",
                )
        return value, slopes

    def asymmetry(self, h: np.ndarray) -> float:
        """Return the largest difference of k(x, z) and k(z, x), relative to the largest value."""
        value, _ = self.evaluate(h)
        difference = float(np.abs(value - value.T).max() / max(np.abs(value).max(), ROUNDING))
        if difference > ROUNDING:
            self._complain("isn't symmetric", h, "Make k(x, z) equal to k(z, x)")
        return difference

    def least_eigenvalue(self, h: np.ndarray) -> float:
        """Return the smallest eigenvalue of the points' covariance, relative to the largest."""
        value, _ = self.evaluate(h)
        eigenvalues = np.linalg.eigvalsh(value)
        least = float(eigenvalues[0] / max(abs(eigenvalues[-1]), ROUNDING))
        if least < -ROUNDING:
            self._complain(
                f"isn't positive semi-definite: an eigenvalue is {least:.1g} times the largest",
                h,
                "Use a covariance function",
            )
        return least

    def gradient_error(self, h: np.ndarray) -> float:
        """Return the largest relative difference of a derivative from finite differences."""
        _, slopes = self.evaluate(h)
        worst = 0.0
        for p, (kind, slope) in enumerate(zip(self._kernel.hyperparameters, slopes, strict=True)):
            # Long steps have truncation errors, short ones rounding errors: the best one is used.
            errors = np.full_like(slope, np.inf)
            for size in STEPS:
                step = np.zeros_like(h)
                step[p] = size * max(1.0, abs(h[p]))
                up, down = self.evaluate(h + step)[0], self.evaluate(h - step)[0]
                errors = np.minimum(errors, np.abs(slope - (up - down) / (2 * step[p])))
            worst = max(worst, float(errors.max() / max(np.abs(slope).max(), 1.0)))
            if worst > DIFFERENCES:
                self._complain(
                    f"has a derivative with respect to the {kind} that differs from finite "
                    "differences",
                    h,
                    "Write it with differentiable functions",
                )
        return worst

    def loop_error(self, h: np.ndarray) -> float:
        """Return the largest relative difference of the loops from PyTensor's evaluation."""
        x, n = self._x, len(self._x)
        value, slopes = self.evaluate(h)
        own = np.ones((n, n))
        self._loops.cross(0, x, x, h, own)
        upper = np.ones((n, n))
        self._loops.fill(0, x, h, 1.0, MULTIPLY, upper)
        weights = np.random.default_rng(0).normal(size=(n, n))
        sums = np.zeros(len(h) + 1)
        self._loops.gradient(0, x, h, weights, sums)
        expected = np.array([np.triu(weights * array).sum() for array in (*slopes, value)])
        sizes = [np.abs(np.triu(weights * array)).sum() for array in (*slopes, value)]
        worst = max(
            np.abs(own - value).max() / max(np.abs(value).max(), 1.0),
            np.abs(np.triu(upper - value)).max() / max(np.abs(value).max(), 1.0),
            float(np.max(np.abs(sums - expected) / np.maximum(sizes, 1.0))),
        )
        if not worst <= ROUNDING:
            self._complain("differs between PyTensor and compiled code", h, "Report it as a bug")
        return float(worst)

    def _complain(self, what: str, h: np.ndarray, remedy: str) -> None:
        pairs = zip(self._kernel.hyperparameters, h, strict=True)
        where = ", ".join(f"{kind} {value:g}" for kind, value in pairs)
        raise InputError(
            f"Base kernel {self._kernel.name} {what}{f' ({where})' if where else ''}. {remedy}."
        )
