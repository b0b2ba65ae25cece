"""Simulated panel data: cohorts that resemble typical data tables, with known true functions.

The functions that users share, their individual functions and the noise are drawn in the units of
scaled tables: features in [0, 1], functions of variance about 1. Defaults of the package can be
chosen on these cohorts, without using a data set for which results are reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets.simulate import Truth, check_counts, draw_function
from kem_pymc.errors import InputError

#: Medians of hyperparameters by base kernel; shifts are normal around 0 instead.
MEDIANS: dict[str, dict[str, float]] = {
    "CONST": {},
    "LIN": {"shift": 0.0},
    "PER": {"lengthscale": 1.0, "period": 0.2},
    "SE": {"lengthscale": 0.3},
}

#: Range of the time of a change, length over which it happens, time from a component's end to its
#: return, and range of half-lives.
EARLIEST, LATEST, RISE, ABSENCE, HALF_LIVES = 0.3, 0.6, 0.1, 0.25, (0.1, 0.3)

#: How a component's size changes with time.
Change = Literal["onset", "end", "relapse", "habituation"]


@dataclass(frozen=True)
class Panel:
    """Distribution of the shared and individual functions of the users of a simulated table.

    Attributes
    ----------
    individual : tuple of dict
        Individual functions, assigned to users in turn: amplitudes (variances) by candidate.
    shared : dict
        Function that all users share: amplitudes by candidate. Its hyperparameters are the medians.
    spread : float
        Standard deviation of the logs of users' individual hyperparameters around the logs of the
        medians, and of shifts around 0.
    dimension : int
        Number of features, D.
    in_order : bool
        Whether the first feature is sorted within a user, so that points arrive in its order: it is
        the time then. Otherwise, and in other features, points are uniform and independent.
    changes : dict of str to str
        Candidates of the individual functions whose size changes with time, and how
        (see :func:`size`).
    skewness : float
        Skewness of the noise.
    outsiders : int
        If k > 0, every k-th user has, in place of the shared function, an individual one with the
        same kernel.
    """

    individual: tuple[Mapping[str, float], ...]
    shared: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.3
    dimension: int = 1
    in_order: bool = False
    changes: Mapping[str, Change] = field(default_factory=dict)
    skewness: float = 0.0
    outsiders: int = 0


PANELS: dict[str, Panel] = {
    # Users share a smooth curve, and deviate from it by an individual line or curve.
    "trend": Panel(({"CONST": 0.2, "LIN0": 0.2}, {"SE0": 0.3}), {"SE0": 0.7}, in_order=True),
    # All users except every fourth share a smooth curve; every fourth has a different curve.
    "outsiders": Panel(({"CONST": 0.2, "LIN0": 0.2},), {"SE0": 1.0}, in_order=True, outsiders=4),
    # Users share a function of several features, and deviate by a level and a slope.
    "surface": Panel(({"CONST": 0.15, "LIN3": 0.3},), {"LIN2": 0.5, "SE0 x SE1": 0.6}, dimension=4),
    # Users share nothing: both their kernels and the values of hyperparameters differ.
    "unrelated": Panel(
        (
            {"CONST": 1.0, "LIN0": 2.0},
            {"SE0": 1.0},
            {"PER0": 1.0},
            {"LIN0": 2.0, "PER0": 0.5},
            {"LIN0 x PER0": 2.0},
            {"CONST": 0.5, "SE0": 0.5},
        ),
        spread=0.7,
    ),
    # Functions start as a line, to which a periodic function is added later.
    "onset": Panel(
        ({"CONST": 0.3, "LIN0": 1.5, "PER0": 0.7},), in_order=True, changes={"PER0": "onset"}
    ),
    # In half of the users a rhythm takes the place of a smooth curve; the others keep a line.
    "regimes": Panel(
        ({"PER0": 1.0, "SE0": 1.0}, {"CONST": 0.5, "LIN0": 1.0}),
        in_order=True,
        changes={"SE0": "end", "PER0": "onset"},
    ),
    # The effect of a dose, the second feature, wears off; users differ in level and trend.
    "habituation": Panel(
        ({"CONST": 0.5, "LIN1": 2.0}, {"CONST": 0.3, "LIN0": 0.5, "LIN1": 2.0}),
        dimension=2,
        in_order=True,
        changes={"LIN1": "habituation"},
    ),
    # A rhythm ends, and comes back; in half of the users there is a trend, too.
    "relapse": Panel(
        ({"CONST": 0.3, "PER0": 1.0}, {"LIN0": 1.0, "PER0": 1.0}),
        in_order=True,
        changes={"PER0": "relapse"},
    ),
    # The noise has a shifted exponential distribution.
    "skewed": Panel(({"CONST": 0.5, "SE0": 0.5}, {"LIN0": 2.0}), skewness=2.0),
    # A linear mixed model: random intercepts and slopes, independent, around a common line.
    "slopes": Panel(
        ({"CONST": 0.3, "LIN0": 0.6},), {"CONST": 0.5, "LIN0": 1.0}, spread=0.0, in_order=True
    ),
    # Users' levels are so far apart that all else is small beside them.
    "levels": Panel(
        ({"CONST": 3.0, "LIN0": 0.03, "SE0": 0.01},), {"CONST": 0.01, "LIN0": 0.05}, in_order=True
    ),
    # Users start alike and diverge, along individual lines or curves.
    "growth": Panel(
        ({"LIN0": 0.5}, {"LIN0 x SE0": 0.7}), {"LIN0": 1.0, "SE0": 0.3}, spread=0.0, in_order=True
    ),
}


def panel(
    users: int = 20,
    time_steps: int = 6,
    seed: int | np.random.Generator = 0,
    *,
    batch: int = 2,
    noise_variance: float = 0.1,
    study: str = "trend",
    test_points: int = 200,
) -> Cohort:
    """Simulate panel data: a target of several users, observed repeatedly.

    Features lie in [0, 1] and functions have a variance of about 1, as the priors for scaled tables
    (:func:`kem_pymc.priors.default`) assume.

    Parameters
    ----------
    users : int
        Number of users, who are labelled 0, 1, ... Pilot and new users have the same shared
        function if one cohort is split.
    time_steps : int
    seed : int or Generator
        Random seed. The same seed gives the same cohort; cohorts of different sizes need not share
        users.
    batch : int
        Number of points per time step.
    noise_variance : float
    study : str
        Name of one of `PANELS`, the distribution of the users' functions.
    test_points : int
        Number m of points at which the true functions are stored: a grid for one feature, uniformly
        drawn for several.

    Returns
    -------
    Cohort
        Cohort with features ``"x0"``, ..., target ``"y"``, and a :class:`Truth` as ``truth``. The
        compositions and hyperparameters are those of the individual functions, with those of
        their changes (``"change"``, a time, and ``"half_life"``).

    Raises
    ------
    InputError
        If a count is below 1, the noise variance is negative or not finite, or the study is
        unknown.
    """
    check_counts(
        noise_variance, users=users, time_steps=time_steps, batch=batch, test_points=test_points
    )
    if study not in PANELS:
        raise InputError(f"There is no study {study!r}. Use one of {', '.join(PANELS)}.")
    kind, rng, n = PANELS[study], np.random.default_rng(seed), time_steps * batch
    x = rng.uniform(size=(users, n, kind.dimension))
    if kind.in_order:
        x[..., 0].sort(axis=1)
    grid = np.linspace(0, 1, test_points)[:, None]
    if kind.dimension > 1:
        grid = rng.uniform(size=(test_points, kind.dimension))
    common = _shared(kind, np.concatenate([*x, grid]), rng)
    at_data, at_test = common[: users * n].reshape(users, n), common[users * n :]
    terms_of_users = [kind.individual[u % len(kind.individual)] for u in range(users)]
    follows = np.ones((users, 1))
    for u in range(kind.outsiders - 1, users, kind.outsiders) if kind.outsiders else ():
        terms_of_users[u], follows[u] = {**terms_of_users[u], **kind.shared}, 0.0
    values = [_values(kind, terms, rng) for terms in terms_of_users]
    f = np.array(
        [
            _function(kind, terms, theta, np.concatenate([points, grid]), rng)
            for terms, theta, points in zip(terms_of_users, values, x, strict=True)
        ]
    )
    f += follows * np.concatenate([at_data, np.tile(at_test, (users, 1))], axis=1)
    y = f + np.sqrt(noise_variance) * noise(kind.skewness, f.shape, rng)
    return Cohort(
        users=tuple(range(users)),
        inputs=tuple(x),
        targets=tuple(y[:, :n]),
        ends=(np.arange(batch, n + 1, batch),) * users,
        features=tuple(f"x{d}" for d in range(kind.dimension)),
        truth=Truth(
            compositions=tuple(map(" + ".join, terms_of_users)),
            hyperparameters=tuple(values),
            noise_variance=float(noise_variance),
            x_test=grid,
            f_test=f[:, n:],
            y_test=y[:, n:],
            shared_test=at_test,
        ),
    )


def size(change: Change, x: np.ndarray, values: Mapping[str, float]) -> np.ndarray:
    """Return the factor of a component at times.

    Parameters
    ----------
    change : {"onset", "end", "relapse", "habituation"}
        The component sets in at the time of the change; it ends then; it ends, and sets in again
        `ABSENCE` later; or its size halves again and again.
    x : ndarray, shape (n,)
        Times.
    values : mapping
        ``"change"``, the time from which the factor changes linearly, or ``"half_life"``.

    Returns
    -------
    ndarray, shape (n,)
    """
    if change == "habituation":
        return 0.5 ** (x / values["half_life"])
    after = np.clip((x - values["change"]) / RISE, 0.0, 1.0)
    if change == "onset":
        return after
    back = np.clip((x - values["change"] - ABSENCE) / RISE, 0.0, 1.0)
    return 1 - after + (back if change == "relapse" else 0.0)


def _shared(kind: Panel, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the function that users share, at all of their inputs (n, D)."""
    if not kind.shared:
        return np.zeros(len(x))
    return draw_function(" + ".join(kind.shared), hyperparameters(kind.shared), x, rng)


def hyperparameters(
    amplitudes: Mapping[str, float], spread: float = 0.0, rng: np.random.Generator | None = None
) -> dict[str, float]:
    """Return hyperparameters of candidates, by name: medians, or draws around the medians.

    Parameters
    ----------
    amplitudes : mapping
        Medians of the amplitudes, by candidate.
    spread : float
        Standard deviation of logs around the logs of the medians, and of shifts around 0.
    rng : Generator, optional
        Random number generator; without one the medians are returned.
    """
    step = (lambda: 0.0) if rng is None else lambda: spread * rng.standard_normal()
    drawn: dict[str, float] = {}
    for term, amplitude in amplitudes.items():
        drawn[f"{term}.amplitude"] = amplitude * np.exp(step())
        factors = term.split(" x ")
        for factor in factors:
            prefix = term if len(factors) == 1 else f"{term}.{factor}"
            for name, median in MEDIANS[factor.rstrip("0123456789")].items():
                by = step()
                drawn[f"{prefix}.{name}"] = by if name == "shift" else median * np.exp(by)
    return drawn


def _values(kind: Panel, terms: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    drawn = hyperparameters(terms, kind.spread, rng)
    changes = {change for term, change in kind.changes.items() if term in terms}
    if changes - {"habituation"}:
        drawn["change"] = rng.uniform(EARLIEST, LATEST)
    if "habituation" in changes:
        drawn["half_life"] = rng.uniform(*HALF_LIVES)
    return drawn


def _function(
    kind: Panel,
    terms: Mapping[str, float],
    values: Mapping[str, float],
    x: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a user's individual function at inputs (n, D)."""
    steady = " + ".join(term for term in terms if term not in kind.changes)
    f = draw_function(steady, values, x, rng) if steady else np.zeros(len(x))
    for term, change in kind.changes.items():
        if term in terms:
            f = f + size(change, x[:, 0], values) * draw_function(term, values, x, rng)
    return f


def noise(skewness: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw noise of mean 0 and variance 1: normal, or shifted gamma if the skewness isn't 0."""
    if skewness == 0:
        return rng.standard_normal(shape)
    concentration = 4 / skewness**2
    return (rng.gamma(concentration, size=shape) - concentration) / np.sqrt(concentration)
