"""Simulated cohorts with known kernels (section 10.2.1).

The covariance functions are implemented in plain NumPy, independently of the package's kernels, so
that tests can compare the two.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError

#: Compositions of each study, which are assigned to users in turn.
STUDIES: dict[str, tuple[str, ...]] = {
    "two_types": ("LIN0 + PER0", "SE0"),  # the paper's
    "similar": ("LIN0 + PER0", "LIN0 + SE0"),  # similar until the data distinguish PER from SE
    "complex": ("LIN0 x PER0 + SE0", "LIN0 + PER0 + SE0"),  # an interaction or three terms
}

#: Inputs lie on this interval.
LOW, HIGH = 0.0, 20.0


@dataclass(frozen=True, eq=False)
class Truth:
    """True kernels and functions of a simulated cohort.

    Attributes
    ----------
    compositions : tuple of str, length U
        Composition of each user, such as ``"LIN0 + PER0"``.
    hyperparameters : tuple of dict, length U
        Hyperparameters of each user by name: ``"LIN0.shift"``; in an interaction
        ``"LIN0 x PER0.PER0.period"``. Amplitudes are variances.
    noise_variance : float
    x_test : ndarray, shape (m, D)
        Inputs at which the true functions are stored: a uniform grid for one feature, uniformly
        drawn points for several.
    f_test : ndarray, shape (U, m)
        Values of the users' functions at `x_test`, from the same draw as their data.
    y_test : ndarray, shape (U, m)
        `f_test` with noise.
    shared_test : ndarray, shape (m,), optional
        Part of `f_test` that all users share.
    """

    compositions: tuple[str, ...]
    hyperparameters: tuple[dict[str, float], ...]
    noise_variance: float
    x_test: np.ndarray
    f_test: np.ndarray
    y_test: np.ndarray
    shared_test: np.ndarray | None = None

    def take(self, indices: Sequence[int]) -> Self:
        """Return the truth of the users at these positions, in this order."""
        indices = list(indices)
        return replace(
            self,
            compositions=tuple(self.compositions[i] for i in indices),
            hyperparameters=tuple(self.hyperparameters[i] for i in indices),
            f_test=self.f_test[indices],
            y_test=self.y_test[indices],
        )


@checked
def synthetic(
    users: int = 10,
    time_steps: int = 6,
    seed: int | np.random.Generator = 0,
    *,
    batch: int = 5,
    noise_variance: float = 0.5,
    study: str = "two_types",
    test_points: int = 200,
) -> Cohort:
    """Simulate a cohort, by default the paper's (sections 7.1 and 10.2.1).

    Inputs are uniform on [0, 20] and arrive in random order.

    Parameters
    ----------
    users : int
        Number of users, who are labelled 0, 1, ... The study's compositions are assigned to them in
        turn, so with an odd number the first composition has one more user.
    time_steps : int
    seed : int or Generator
        Random seed. The same seed gives the same cohort; cohorts of different sizes need not share
        users.
    batch : int
        Number of points per time step.
    noise_variance : float
        Variance of the noise. The paper's figure 9 has a variance of 0.5; its program added noise
        with a standard deviation of 0.5.
    study : {"two_types", "similar", "complex"}
        Pair of compositions: ``LIN0 + PER0`` and ``SE0`` (the paper's); ``LIN0 + PER0`` and
        ``LIN0 + SE0``; ``LIN0 x PER0 + SE0`` and ``LIN0 + PER0 + SE0``.
    test_points : int
        Size m of the grid at which the true functions are stored.

    Returns
    -------
    Cohort
        Cohort with one feature ``"x"``, target ``"y"``, and a :class:`Truth` as ``truth``.

    Raises
    ------
    InputError
        If a count is below 1, the noise variance is negative or not finite, or the study is
        unknown.
    """
    if not isinstance(seed, np.random.Generator):
        check_seed(seed=seed)
    check_counts(
        noise_variance, users=users, time_steps=time_steps, batch=batch, test_points=test_points
    )
    if study not in STUDIES:
        raise InputError(f"There is no study {study!r}. Use one of {', '.join(STUDIES)}.")
    rng = np.random.default_rng(seed)
    kinds = STUDIES[study]
    compositions = tuple(kinds[u % len(kinds)] for u in range(users))
    hyperparameters = tuple(draw_hyperparameters(c, rng) for c in compositions)
    n = time_steps * batch
    arrived = rng.uniform(LOW, HIGH, size=(users, n))
    grid = np.linspace(LOW, HIGH, test_points)
    f = np.stack(
        [
            draw_function(c, theta, np.append(x, grid), rng)
            for c, theta, x in zip(compositions, hyperparameters, arrived, strict=True)
        ]
    )
    y = f + np.sqrt(noise_variance) * rng.standard_normal(f.shape)
    return Cohort(
        users=tuple(range(users)),
        inputs=tuple(arrived[:, :, None]),
        targets=tuple(y[:, :n]),
        ends=(np.arange(batch, n + 1, batch),) * users,
        features=("x",),
        truth=Truth(
            compositions, hyperparameters, float(noise_variance), grid[:, None], f[:, n:], y[:, n:]
        ),
    )


def check_counts(noise_variance: float, **counts: int) -> None:
    """Check the numbers and the noise variance of a simulation.

    Parameters
    ----------
    noise_variance : float
    **counts
        Numbers of users, points etc., by name of the argument.

    Raises
    ------
    InputError
        If a count is below 1, or the noise variance is negative or not finite.
    """
    check_whole(**counts)
    if not 0 <= noise_variance < np.inf:
        raise InputError(
            f"Noise variance {noise_variance} can't be used. Give a finite number of 0 or more."
        )


def draw_hyperparameters(composition: str, rng: np.random.Generator) -> dict[str, float]:
    """Draw the hyperparameters of a composition from the distributions of section 10.2.1.

    Shifts are in the inputs' unit. A term without SE has the amplitude of the paper's
    ``LIN0 + PER0`` (about 5), one with SE that of its ``SE0`` (about 10).

    Returns
    -------
    dict
        Values by name, as in :class:`Truth`.
    """
    draws: dict[str, float] = {}
    for term in composition.split(" + "):
        factors = term.split(" x ")
        draws[f"{term}.amplitude"] = rng.lognormal(2.302 if "SE0" in factors else 1.609, 0.1)
        for factor in factors:
            prefix = term if len(factors) == 1 else f"{term}.{factor}"
            if factor == "LIN0":
                draws[f"{prefix}.shift"] = rng.normal(5, 1)
            else:
                draws[f"{prefix}.lengthscale"] = rng.lognormal(0, 0.1)
            if factor == "PER0":
                draws[f"{prefix}.period"] = rng.lognormal(1.386, 0.1)
    return draws


@one_blas_thread()
def draw_function(
    composition: str, hyperparameters: Mapping[str, float], x: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw one function from the composition's Gaussian process, jointly at all of `x`.

    LIN and PER have covariances of low rank, for which a Cholesky factorization fails without
    jitter. The symmetric square root from the eigendecomposition needs no jitter; negative
    eigenvalues are rounding errors and are set to zero. It is also unique, unlike eigenvectors,
    whose signs would make a seed's draw depend on the linear algebra library.

    Parameters
    ----------
    composition, hyperparameters
        As for :func:`covariance`.
    x : ndarray, shape (n, D), or (n,) if D is 1
        Inputs.
    rng : Generator

    Returns
    -------
    ndarray, shape (n,)
        Values of the function, without noise.
    """
    values, vectors = np.linalg.eigh(covariance(composition, hyperparameters, x, x))
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root @ rng.standard_normal(len(x))


def covariance(
    composition: str, hyperparameters: Mapping[str, float], x: np.ndarray, z: np.ndarray
) -> np.ndarray:
    """Return the noise-free covariance between two sets of inputs.

    Parameters
    ----------
    composition : str
        Sum of terms, each CONST or a product of LIN, PER and SE with the indices of their features.
    hyperparameters : mapping
        Values by name, as in :class:`Truth`.
    x, z : ndarray, shapes (n, D) and (m, D), or (n,) and (m,) if D is 1

    Returns
    -------
    ndarray, shape (n, m)
    """
    x, z = (points[:, None] if points.ndim == 1 else points for points in (x, z))
    total = np.zeros((len(x), len(z)))
    for term in composition.split(" + "):
        factors = [] if term == "CONST" else term.split(" x ")
        product = np.full_like(total, hyperparameters[f"{term}.amplitude"])
        for factor in factors:
            prefix = term if len(factors) == 1 else f"{term}.{factor}"
            base = factor.rstrip("0123456789")
            d = int(factor.removeprefix(base))
            kernel, kinds = _KERNELS[base]
            values = (hyperparameters[f"{prefix}.{kind}"] for kind in kinds)
            product *= kernel(x[:, d, None], z[:, d], *values)
        total += product
    return total


def _lin(x, z, shift):  # eq. 11
    return (x - shift) * (z - shift)


def _per(x, z, lengthscale, period):  # eq. 10
    return np.exp(-2 * np.sin(np.pi * (x - z) / period) ** 2 / lengthscale**2)


def _se(x, z, lengthscale):  # eq. 9
    return np.exp(-((x - z) ** 2) / (2 * lengthscale**2))


_KERNELS: dict[str, tuple[Callable[..., np.ndarray], tuple[str, ...]]] = {
    "LIN": (_lin, ("shift",)),
    "PER": (_per, ("lengthscale", "period")),
    "SE": (_se, ("lengthscale",)),
}
