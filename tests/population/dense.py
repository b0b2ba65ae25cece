"""The default model of the trial as one normal distribution of all rows, by its formulas."""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from tests.population.trial import trial

ROWS = trial()
TARGETS = ((ROWS["y"] - ROWS["y"].mean()) / ROWS["y"].std(ddof=0)).to_numpy()

#: Known noise sds of the rows, in the target's unit: none, equal ones, and different ones.
SDS = np.select([ROWS.index < 20, ROWS.index < 40], [0.0, 1.5], np.linspace(0.2, 3.0, len(ROWS)))
ARMS = ["high", "low", "placebo"]


def known_noise(model):
    """Return known noise variances (n,) in scaled units, zeros if the model's cohort has none."""
    return 0.0 * SDS if model.cohort.noise is None else (SDS / ROWS["y"].std(ddof=0)) ** 2


def standardised(points, name):
    return ((points[name] - ROWS[name].mean()) / ROWS[name].std(ddof=0)).to_numpy()


def lines(points):
    """Return columns of levels and lines of the arms, and of the line of the first value."""
    arms = points["arm"].to_numpy()[:, None] == ARMS
    week = standardised(points, "week")[:, None]
    return np.column_stack([arms, week * arms, standardised(points, "base")])


def smooth(values, name, one, other):
    """Return covariances of a smooth function, as Solin and Särkkä (2020) approximate them."""
    sd, scale = values[f"{name}.sd"], values[f"{name}.lengthscale"]
    frequency = np.pi * np.arange(1, 21) / 3
    density = sd**2 * np.sqrt(2 * np.pi) * scale * np.exp(-((scale * frequency) ** 2) / 2)
    from_end = [p["week"].to_numpy()[:, None] / 2.5 - 1 + 1.5 for p in (one, other)]
    waves = [np.sin(frequency * x) / np.sqrt(1.5) for x in from_end]
    return (waves[0] * density) @ waves[1].T


def covariances(values, one, other):
    """Return covariances of shared smooth functions, and of users' own, between points."""
    arm, user = (one[c].to_numpy()[:, None] == other[c].to_numpy() for c in ("arm", "user"))
    shared = smooth(values, "s(week)", one, other)
    shared = shared + smooth(values, "s(week):arm", one, other) * (arm - 1 / 3)
    s, t = standardised(one, "week")[:, None], standardised(other, "week")
    level, line = values["personal level.sd"], values["personal week.sd"]
    own = level**2 + values["personal week.correlation"] * level * line * (s + t) + line**2 * s * t
    return shared, (own + smooth(values, "personal s(week)", one, other)) * user


def conditioned(values, points, common, own, known):
    """Return means and covariances (k,) of weighted sums of functions at points, given the trial.

    Rows have known noise variances (n,), in scaled units.

    They are those of universal kriging: lines have flat priors. Weights of what users share and of
    users' own functions have the shape (k, points). Returned are prior sds, too.
    """
    within, onto, at = (
        covariances(values, *pair) for pair in ((ROWS, ROWS), (points, ROWS), (points, points))
    )
    noisy = sum(within) + np.diag(values["noise.sd"] ** 2 + known)
    onto = common @ onto[0] + own @ onto[1]
    prior = common @ at[0] @ common.T + own @ at[1] @ own.T
    x = lines(ROWS)
    gain = np.linalg.solve(noisy, onto.T).T
    information = x.T @ np.linalg.solve(noisy, x)
    weights = np.linalg.solve(information, x.T @ np.linalg.solve(noisy, TARGETS))
    left = common @ lines(points) - gain @ x
    mean = gain @ TARGETS + left @ weights
    covariance = prior - gain @ onto.T + left @ np.linalg.solve(information, left.T)
    return mean, np.diag(covariance), np.sqrt(np.diag(prior))


def answers(posterior, points, common, own):
    """Return the mixture over a posterior's draws: means, sds and ends of 95 % intervals (k,).

    They are in the target's unit, without its mean. The parts that are mixed are returned, too.
    """
    known = known_noise(posterior.model)
    each = [
        conditioned({n: v[s] for n, v in posterior.draws.items()}, points, common, own, known)
        for s in range(len(posterior.weights))
    ]
    mean, variance, prior = np.array(each).swapaxes(0, 1)
    weights, unit = posterior.weights[:, None], ROWS["y"].std(ddof=0)
    centre = (weights * mean).sum(axis=0)
    sd = np.sqrt((weights * (variance + (mean - centre) ** 2)).sum(axis=0))

    def end(level, j):
        def excess(value):
            return posterior.weights @ norm(mean[:, j], variance[:, j] ** 0.5).cdf(value) - level

        return brentq(excess, centre[j] - 9 * sd[j], centre[j] + 9 * sd[j], xtol=1e-13)

    ends = [[end(level, j) for j in range(len(centre))] for level in (0.025, 0.975)]
    return np.array([centre, sd, *ends]) * unit, (mean, variance, prior)
