"""Lengthscales of smooth functions of several features, at the mode of their posterior.

A lengthscale of each feature would be too many hyperparameters for importance sampling, and would
change the columns with each draw. So they are found first, together with the mode of all other
hyperparameters, and then are as they are.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
from scipy import optimize

from kem_pymc.population.design import Design, Surface, Term

#: Largest number of inducing points.
MOST = 128

#: Prior of the log of a lengthscale, in halves of the range, for a function of one feature: mean,
#: and sds on either side. Of many features few may matter, so long lengthscales are likely, too.
CENTRE, SHORTER, LONGER = 0.0, 1.0, 4.0

#: Step of finite differences, and largest number of steps.
STEP, STEPS = 1e-4, 60


def spread_points(places: np.ndarray, most: int = MOST) -> np.ndarray:
    """Return inducing points among places (n, d): each is the one that is farthest from the others.

    The first is the place nearest to the mean.
    """
    distinct = np.unique(places, axis=0)
    first = int(np.argmin(((distinct - distinct.mean(axis=0)) ** 2).sum(axis=1)))
    chosen, distance = [first], np.full(len(distinct), np.inf)
    while len(chosen) < min(most, len(distinct)):
        away = ((distinct - distinct[chosen[-1]]) ** 2).sum(axis=1)
        distance = np.minimum(distance, away)
        chosen.append(int(np.argmax(distance)))
    return distinct[chosen]


def first_surfaces(design: Design, rows: np.ndarray) -> dict[str, Surface]:
    """Return the surfaces with which the search for lengthscales begins, by name of the term."""
    terms = [term for term in design.terms if term.joint]
    return {t.name: Surface(spread_points(design.places(t, rows)), _usual(t)) for t in terms}


def _usual(term: Term) -> np.ndarray:
    return np.full(len(term.smooth), np.exp(CENTRE) * np.sqrt(len(term.smooth)))


def find_lengthscales(
    surfaces: Mapping[str, Surface],
    sought: Collection[str],
    starts: np.ndarray,
    low: np.ndarray,
    log_prior: Callable[[np.ndarray], np.ndarray],
    log_likelihood: Callable[[Mapping[str, Surface], np.ndarray], np.ndarray],
) -> dict[str, Surface]:
    """Return surfaces with lengthscales at the mode.

    Parameters
    ----------
    surfaces : mapping of str to Surface
        Surfaces to begin with, by any names.
    sought : collection of str
        Names of those whose lengthscales are sought.
    starts : ndarray, shape (m, d)
        Coordinates of the other hyperparameters to begin with.
    low : ndarray, shape (d,)
        Their lower ends.
    log_prior : callable
        Function from coordinates (S, d) to log densities (S,).
    log_likelihood : callable
        Function from surfaces and coordinates (S, d) to log likelihoods (S,).
    """
    names = sorted(sought)
    usual = np.log(np.concatenate([surfaces[name].lengthscales for name in names]))
    sizes = np.cumsum([len(surfaces[name].lengthscales) for name in names])[:-1]
    d = starts.shape[1]

    def at(logs: np.ndarray) -> dict[str, Surface]:
        parts = zip(names, np.split(np.exp(logs), sizes), strict=True)
        return {**surfaces, **{n: replace(surfaces[n], lengthscales=v) for n, v in parts}}

    def prior(logs: np.ndarray) -> np.ndarray:
        away = logs - usual
        return -0.5 * np.sum((away / np.where(away > 0, LONGER, SHORTER)) ** 2, axis=-1)

    def negative(values: np.ndarray) -> tuple[float, np.ndarray]:
        coordinates, logs = values[None, :d], values[d:]
        moved = np.vstack([coordinates, coordinates + STEP * np.eye(d)])
        others = logs + STEP * np.eye(len(logs))
        of_priors = log_prior(moved)
        heights = of_priors + log_likelihood(at(logs), moved) + prior(logs)
        of_scales = [log_likelihood(at(other), coordinates)[0] for other in others]
        heights = np.append(heights, of_priors[0] + of_scales + prior(others))
        height = -np.where(np.isfinite(heights), heights, -1e10)
        return float(height[0]), (height[1:] - height[0]) / STEP

    best = starts[np.argmax(log_prior(starts) + log_likelihood(surfaces, starts))]
    bounds = [(end if np.isfinite(end) else -8.0, 4.0) for end in low]
    bounds += [(value - 3 * SHORTER, value + 2 * LONGER) for value in usual]
    how = {"method": "L-BFGS-B", "options": {"maxiter": STEPS, "ftol": 1e-5, "gtol": 1e-2}}
    found = optimize.minimize(negative, np.append(best, usual), jac=True, bounds=bounds, **how)
    return at(found.x[d:])
