"""Simulated panel data: cohorts like the tables that people have, with a truth to judge by.

What users share, what each has alone and the noise are drawn in the units of scaled tables:
features in [0, 1], functions of variance about 1. Choices that are meant for all tables can be made
on them without looking at a table that results are reported for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kem_pymc.cohort import Cohort
from kem_pymc.datasets.simulate import Truth, check_counts, draw_function
from kem_pymc.errors import InputError

#: Medians of hyperparameters by base kernel; shifts are normal around 0 instead.
MEDIANS: dict[str, dict[str, float]] = {
    "CONST": {},
    "LIN": {"shift": 0.0},
    "PER": {"lengthscale": 1.0, "period": 0.2},
    "SE": {"lengthscale": 0.3},
}

#: A rhythm sets in somewhere between these, and grows to its full size over this distance.
EARLIEST, LATEST, RISE = 0.3, 0.6, 0.1


@dataclass(frozen=True)
class Panel:
    """What the users of a simulated table have in common, and what each has alone.

    Attributes
    ----------
    own : tuple of dict
        Users' own functions, in turn: amplitudes (variances) by candidate.
    shared : dict
        The function that all users share, likewise; its hyperparameters are the medians.
    spread : float
        Sd of the logs of users' own hyperparameters around the medians, and of shifts around 0.
    dimension : int
    in_order : bool
        Whether points arrive in order of the first feature, which is time then; else they are
        uniform and independent.
    onset : str
        A candidate of users' own that sets in after a while.
    skewness : float
        Of the noise.
    outsiders : int
        Every so-manyth user has a function of its own with the kernel of the shared one, instead.
    """

    own: tuple[Mapping[str, float], ...]
    shared: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.3
    dimension: int = 1
    in_order: bool = False
    onset: str = ""
    skewness: float = 0.0
    outsiders: int = 0


PANELS: dict[str, Panel] = {
    # Users share a smooth curve, and deviate from it by a line or by a curve of their own.
    "trend": Panel(({"CONST": 0.2, "LIN0": 0.2}, {"SE0": 0.3}), {"SE0": 0.7}, in_order=True),
    # So they do but for every fourth, who has a curve of its own.
    "outsiders": Panel(({"CONST": 0.2, "LIN0": 0.2},), {"SE0": 1.0}, in_order=True, outsiders=4),
    # Users share a function of several features, and deviate by a level and a slope.
    "surface": Panel(({"CONST": 0.15, "LIN3": 0.3},), {"LIN2": 0.5, "SE0 x SE1": 0.6}, dimension=4),
    # Users share nothing: kernels differ, and so do their values.
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
    # A line first; then a rhythm sets in.
    "onset": Panel(({"CONST": 0.3, "LIN0": 1.5, "PER0": 0.7},), in_order=True, onset="PER0"),
    # The noise has the shape of an exponential distribution.
    "skewed": Panel(({"CONST": 0.5, "SE0": 0.5}, {"LIN0": 2.0}), skewness=2.0),
    # A linear mixed model: random intercepts and slopes, independent, around a common line.
    "slopes": Panel(
        ({"CONST": 0.3, "LIN0": 0.6},), {"CONST": 0.5, "LIN0": 1.0}, spread=0.0, in_order=True
    ),
    # Users start alike and grow apart, along lines or curves of their own.
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
    (:func:`kem_pymc.priors.default`) suppose.

    Parameters
    ----------
    users : int
        Labelled 0, 1, ...; split the cohort for pilot and new users who share what is shared.
    time_steps : int
    seed : int or Generator
        The same seed gives the same cohort; cohorts of different sizes need not share users.
    batch : int
        Points per time step.
    noise_variance : float
    study : {"trend", "outsiders", "surface", "unrelated", "onset", "skewed", "slopes", "growth"}
        Users share a smooth curve; share one but for every fourth; share a function of four
        features; share nothing; have a rhythm that sets in after a while; have noise of skewness 2;
        have random intercepts and slopes; start alike and grow apart.
    test_points : int
        Number m of points at which the truth is kept: a grid, or uniform where there are several
        features.

    Returns
    -------
    Cohort
        Features ``"x0"``, ..., target ``"y"``, and a :class:`Truth` as ``truth``. Its compositions
        and hyperparameters are those of users' own functions, with an ``"onset"`` among them where
        a rhythm sets in.

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
        x.sort(axis=1)
    grid = np.linspace(0, 1, test_points)[:, None]
    if kind.dimension > 1:
        grid = rng.uniform(size=(test_points, kind.dimension))
    common = _shared(kind, np.concatenate([*x, grid]), rng)
    at_data, at_test = common[: users * n].reshape(users, n), common[users * n :]
    own = [kind.own[u % len(kind.own)] for u in range(users)]
    follows = np.ones((users, 1))
    for u in range(kind.outsiders - 1, users, kind.outsiders) if kind.outsiders else ():
        own[u], follows[u] = {**own[u], **kind.shared}, 0.0
    values = [_values(kind, terms, rng) for terms in own]
    f = np.array(
        [
            _function(kind, terms, theta, np.concatenate([points, grid]), rng)
            for terms, theta, points in zip(own, values, x, strict=True)
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
            compositions=tuple(map(" + ".join, own)),
            hyperparameters=tuple(values),
            noise_variance=float(noise_variance),
            x_test=grid,
            f_test=f[:, n:],
            y_test=y[:, n:],
            shared_test=at_test,
        ),
    )


def rise(x: np.ndarray, onset: float) -> np.ndarray:
    """Return the share of its full size that a rhythm has at inputs (n,): 0 before its onset."""
    return np.clip((x - onset) / RISE, 0.0, 1.0)


def _shared(kind: Panel, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the function that users share, at all of their inputs (n, D)."""
    if not kind.shared:
        return np.zeros(len(x))
    return draw_function(" + ".join(kind.shared), hyperparameters(kind.shared), x, rng)


def hyperparameters(
    amplitudes: Mapping[str, float], spread: float = 0.0, rng: np.random.Generator | None = None
) -> dict[str, float]:
    """Return hyperparameters of candidates, by name: medians, or drawn around them.

    Parameters
    ----------
    amplitudes : mapping
        Medians, by candidate.
    spread : float
        Sd of logs around the logs of the medians, and of shifts around 0.
    rng : Generator, optional
        Needed for a spread.
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
    return drawn | ({"onset": rng.uniform(EARLIEST, LATEST)} if kind.onset else {})


def _function(
    kind: Panel,
    terms: Mapping[str, float],
    values: Mapping[str, float],
    x: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a user's own function at inputs (n, D)."""
    steady = " + ".join(term for term in terms if term != kind.onset)
    f = draw_function(steady, values, x, rng)
    if kind.onset:
        f = f + rise(x[:, 0], values["onset"]) * draw_function(kind.onset, values, x, rng)
    return f


def noise(skewness: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw noise of mean 0 and variance 1: normal, or gamma where it is skewed."""
    if skewness == 0:
        return rng.standard_normal(shape)
    concentration = 4 / skewness**2
    return (rng.gamma(concentration, size=shape) - concentration) / np.sqrt(concentration)
