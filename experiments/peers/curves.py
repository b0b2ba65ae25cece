"""Prior moments of pilot users' curves: Empirical GPs, and unstructured normal models of visits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize

from experiments.lifelong.empirical import EmpiricalProcess, curve_moments, typical_kernel
from experiments.peers.forecast import Pilots
from experiments.peers.joint import Fitted, Joint
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Conditional

#: Weights of level plus slope, as multiples of the number of users, of which one is chosen.
WEIGHTS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 1e4)

#: Smallest share of pilot users who were seen at each visit.
SEEN = 0.5


def empirical_gp(pilots: Pilots, seed: int) -> Fitted:
    """Learn the prior of an Empirical GP (Lin et al. 2026) from pilot users' curves.

    It is that of the optimisers (:mod:`experiments.lifelong.empirical`): prior mean and covariance
    at all pilot users' inputs by expectation-maximisation, elsewhere by a Matern 5/2 kernel.
    """
    tasks = pilots.by_user()
    base = typical_kernel(tasks, np.random.default_rng(seed))
    process = EmpiricalProcess.learn(tasks, base, noisy=True)

    def joint(x: np.ndarray) -> Joint:
        covariance = process.covariance(x, x)
        return Joint(process.mean(x), covariance + np.diag(process.noise_at(x)))

    return joint


# --- Fixed visits ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Visits:
    """Curves of users at fixed times.

    Attributes
    ----------
    times : ndarray, shape (V,)
        Times of visits, in order.
    places : list of ndarray of int, shape (n_u,) each
        Visits at which each user was seen.
    values : list of ndarray, shape (n_u,) each
    """

    times: np.ndarray
    places: Sequence[np.ndarray]
    values: Sequence[np.ndarray]

    @classmethod
    def of(cls, pilots: Pilots) -> Self:
        """Return the visits of pilot users, whose first feature is the time.

        Raises
        ------
        InputError
            If users were seen at different times, or twice at the same.
        """
        times, places = np.unique(pilots.x[:, 0], return_inverse=True)
        each = [places[pilots.users == user] for user in range(pilots.users.max() + 1)]
        counts = np.bincount(places)
        if (counts < SEEN * len(each)).any() or any(len(np.unique(p)) < len(p) for p in each):
            raise InputError(
                "An unstructured covariance is one between fixed visits, and pilot users were seen "
                "at different times, or twice at the same. Leave the method out of this study."
            )
        return cls(times, each, [y for _, y in pilots.by_user()])

    def without(self, user: int) -> Self:
        """Return all users but one."""
        places, values = list(self.places), list(self.values)
        del places[user], values[user]
        return type(self)(self.times, places, values)

    def log_density(self, user: int, mean: np.ndarray, covariance: np.ndarray) -> float:
        """Return the log density of a user's values, given moments of all visits."""
        own = self.places[user]
        error = self.values[user] - mean[own]
        return Conditional.of(covariance[np.ix_(own, own)], error).log_density

    def level_and_slope(self) -> np.ndarray:
        """Return the covariance (V, V) of a level and a slope for each user and of noise, by ML.

        The mean of each visit is that of the users who were seen then.
        """
        own, values = np.concatenate(self.places), np.concatenate(self.values)
        mean = np.bincount(own, values, len(self.times)) / np.bincount(
            own, minlength=len(self.times)
        )
        centred = np.column_stack([np.ones_like(self.times), self.times - self.times.mean()])

        def covariance(logs: np.ndarray) -> np.ndarray:
            root = np.array([[np.exp(logs[0]), 0.0], [logs[3], np.exp(logs[1])]])
            effects = centred @ root
            return effects @ effects.T + np.exp(2 * logs[2]) * np.eye(len(self.times))

        def loss(logs: np.ndarray) -> float:
            of_visits = covariance(logs)
            return -sum(self.log_density(u, mean, of_visits) for u in range(len(self.values)))

        bounds = [(-6.0, 3.0)] * 3 + [(-20.0, 20.0)]
        found = minimize(loss, [-0.5, -0.5, -1.0, 0.0], method="L-BFGS-B", bounds=bounds)
        return covariance(found.x)

    def moments(self, weight: float, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (V,) and covariance (V, V) of a new user's values.

        The covariance is shrunk towards the prior one, which counts for `weight` times the number
        of users; that of the mean of U users, a U-th of it, is added.
        """
        many = len(self.values)
        mean, covariance, _ = curve_moments(self.places, self.values, 0.0, prior, weight * many)
        return mean, (1 + 1 / many) * covariance

    def score(self, weights: Sequence[float]) -> np.ndarray:
        """Return the log density of all users' values given the others', for each weight."""
        scores = np.zeros(len(weights))
        for user in range(len(self.values)):
            others = self.without(user)
            prior = others.level_and_slope()
            scores += [self.log_density(user, *others.moments(w, prior)) for w in weights]
        return scores


def unstructured(pilots: Pilots, seed: int) -> Fitted:  # noqa: ARG001  nothing is drawn
    """Learn mean and covariance of fixed visits, shrunk towards a level and a slope per user.

    The weight of level plus slope is chosen by leaving users out. Features other than the first,
    the time, aren't used. Times between two visits have a weighted mean of both values.

    Raises
    ------
    InputError
        If users weren't seen at the same times.
    """
    visits = Visits.of(pilots)
    weight = WEIGHTS[int(np.argmax(visits.score(WEIGHTS)))]
    mean, covariance = visits.moments(weight, visits.level_and_slope())
    each = np.eye(len(visits.times))

    def joint(x: np.ndarray) -> Joint:
        shares = np.column_stack([np.interp(x[:, 0], visits.times, one) for one in each])
        return Joint(shares @ mean, shares @ covariance @ shares.T)

    return joint
