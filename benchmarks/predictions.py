"""Predictions of one composition beside PyMC's NUTS and importance sampling.

The composition is LIN0 + SE0 with a prior like that of ``fit="pilot"``; of every family there are
users drawn from this prior. References are written without the package: PyMC models with latent
values of their own for each point, drawn by NUTS, and two-stage importance sampling of
hyperparameters and, given these, latent values. Predictions are compared of a place between the
points, one at their end and one beyond: the latent function's mean and sd, its quantiles of
`LEVELS`, and targets' probabilities of at most the quantiles that KEM says, which are `LEVELS` for
families that aren't discrete.

    uv run python benchmarks/predictions.py [--nuts] [--family NAME] [--users N] [--points N]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import KernelSummary
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Prediction
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scorer import Proposal, Scorer
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import ScaledPoints

#: Pilot users' prior: centre and spread of the log amplitude and the shift of LIN, the log
#: amplitude and lengthscale of SE, and the log noise variance.
CENTRE = np.array([-0.5, 0.2, -0.7, -1.2, -1.6])
SPREAD = np.array([0.8, 0.2, 0.8, 0.5, 0.8])
COMPOSITION, FLOOR = Composition.parse("LIN0 + SE0", 1), 1e-4

#: Points of users; new inputs, while those of points are from 0 to 1; probabilities of quantiles.
SIZES, NEW = (3, 5, 8, 15), np.array([0.45, 1.0, 1.3])
LEVELS = np.array([0.005, 0.025, 0.1, 0.5, 0.9, 0.975, 0.995])

#: Draws of hyperparameters by importance sampling, and of latent values for each of them.
DRAWS, LATENT = 8192, 4


@dataclass(frozen=True)
class Case:
    """A distribution of targets, written with SciPy, and its family and settings in kem_pymc."""

    family: Family | None
    law: Callable[[np.ndarray], Any]
    level: float = 0.0
    size: float | None = None
    noise: float | None = None  # known sds are this times 1 to 3


def _levels(g: np.ndarray, cuts=(-1.5, -0.5, 1.0, 2.8)) -> "_Ordinal":
    return _Ordinal(g, np.array([-np.inf, *cuts, np.inf]))


class _Ordinal(NamedTuple):
    """Levels 1 to L of a cumulative probit model, with the methods of SciPy's distributions."""

    g: np.ndarray
    cuts: np.ndarray

    def logpmf(self, y):
        y = np.asarray(y, dtype=int)
        low, high = self.cuts[y - 1] - self.g, self.cuts[y] - self.g
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
        return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))

    def cdf(self, y):
        return ndtr(self.cuts[np.clip(np.floor(y), 0, 5).astype(int)] - self.g)

    def rvs(self, random_state):
        u = random_state.uniform(size=self.g.shape)
        return 1.0 + (u[..., None] > ndtr(self.cuts[1:-1] - self.g[..., None])).sum(axis=-1)


def _odds(trials: int) -> Callable[[np.ndarray], Any]:
    return lambda g: stats.binom(trials, 1 / (1 + np.exp(-g)))


CASES = {
    "normal": Case(None, lambda g: stats.norm(g, 1e-9)),
    "normal, known noise": Case(None, lambda g: stats.norm(g, 1e-9), noise=0.3),
    "count": Case(
        Family("count", (), (0.7, 1.0)), lambda g: stats.poisson(np.exp(np.minimum(g, 20))), 0.7
    ),
    "binary": Case(Family("binary", (), (0.0, 1.0)), _odds(1)),
    "binomial": Case(Family("binomial", (), (-1.0, 1.0)), _odds(10), -1.0, 10.0),
    "ordinal": Case(Family("ordinal", (1.0, -1.5, -0.5, 1.0, 2.8), (0.0, 1.0)), _levels),
    "positive": Case(
        Family("positive", (2.0,), (1.0, 1.0)), lambda g: stats.gamma(2, scale=np.exp(g) / 2), 1.0
    ),
    "student": Case(Family("student", (4.0, 0.5)), lambda g: stats.t(4, g, 0.5)),
}


class User(NamedTuple):
    """A user's points, known variances, targets at new inputs, and starts of fits."""

    x: np.ndarray
    y: np.ndarray
    known: np.ndarray
    later: np.ndarray
    starts: np.ndarray


def covariance(values: np.ndarray, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return covariances (s, n, m) of the function, of each of s values of coordinates."""
    line, shift, wave, length = (v[:, None, None] for v in values.T[:4])
    straight = np.exp(line) * (x[:, None] - shift) * (z - shift)
    return straight + np.exp(wave - 0.5 * ((x[:, None] - z) / np.exp(length)) ** 2)


def noises(values: np.ndarray) -> np.ndarray:
    """Return noise variances (s,): below the floor they count as the floor."""
    return np.maximum(np.exp(values[:, 4]), FLOOR)


def log_density(y: np.ndarray, law: Any) -> np.ndarray:
    """Return log densities, or log probabilities."""
    kind = getattr(law, "dist", law)
    return law.logpmf(y) if hasattr(kind, "pmf") or hasattr(kind, "cuts") else law.logpdf(y)


def user(case: Case, n: int, rng: np.random.Generator) -> User:
    """Draw a user from the prior."""
    values = CENTRE + SPREAD * rng.standard_normal((1, 5))
    x = np.sort(rng.uniform(size=n))
    places = np.append(x, NEW)
    known = np.zeros(n) if case.noise is None else case.noise**2 * rng.uniform(1, 9, n)
    errors = noises(values) * np.eye(n + 3) + np.diag(np.append(known, np.zeros(3)))
    root = np.linalg.cholesky(covariance(values, places, places)[0] + errors)
    y = case.law(case.level + root @ rng.standard_normal(n + 3)).rvs(random_state=rng)
    starts = CENTRE + SPREAD * rng.standard_normal((5, 5))
    return User(x, y[:n], known, y[n:], starts)


class Reference(NamedTuple):
    """A mixture of normal distributions (s, 3) of the function, with weights and noises (s,)."""

    weights: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    noises: np.ndarray

    @property
    def effective(self) -> float:
        """Number of equal weights that are as good."""
        return 1 / (self.weights**2).sum()

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and sds (3,) of the function."""
        mean = self.weights @ self.mean
        return mean, np.sqrt(self.weights @ (self.sd**2 + (self.mean - mean) ** 2))

    def quantiles(self, noisy: bool = False) -> np.ndarray:
        """Return quantiles of `LEVELS` (7, 3) of the function, or of normal targets."""
        sd = np.sqrt(self.sd**2 + noisy * self.noises[:, None])
        mean, wide = self.moments()[0], np.sqrt(self.weights @ (self.mean**2 + sd**2)) + 1
        low = np.tile(mean - 30 * wide, (len(LEVELS), 1))
        high = np.tile(mean + 30 * wide, (len(LEVELS), 1))
        for _ in range(40):
            middle = (low + high) / 2
            under = np.array([self.weights @ ndtr((q - self.mean) / sd) for q in middle])
            less = under < LEVELS[:, None]
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return middle

    def of_targets(self, case: Case, rng: np.random.Generator, what: Callable) -> np.ndarray:
        """Return the expectation (3,) of what a law of targets has."""
        sd = np.sqrt(self.sd**2 + self.noises[:, None])
        total = np.zeros(len(NEW))
        for u in (np.arange(8) + 0.5) / 8:  # strata of each normal distribution
            z = ndtri(u + (rng.uniform(size=sd.shape) - 0.5) / 8)
            total += self.weights @ what(case.law(self.mean + sd * z)) / 8
        return total


def given(
    values: np.ndarray, g: np.ndarray, known: np.ndarray, x: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds (s, 3) of the function at new inputs, given values (s, n) at x."""
    inner = covariance(values, x, x) + noises(values)[:, None, None] * np.eye(len(x))
    gain = np.linalg.solve(inner + np.diag(known), covariance(values, x, NEW))
    mean = level + np.einsum("snm,sn->sm", gain, g - level)
    prior = np.einsum("smm->sm", covariance(values, NEW, NEW))
    left = prior - np.einsum("snm,snm->sm", gain, covariance(values, x, NEW))
    return mean, np.sqrt(np.maximum(left, 1e-12))


def normal(residual: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return log densities (s,) of normal residuals (s, n) with Cholesky factors (s, n, n)."""
    white = np.linalg.solve(root, residual[..., None])[..., 0]
    halves = np.log(np.einsum("snn->sn", root)).sum(axis=1)
    return -0.5 * (white**2).sum(axis=1) - halves - root.shape[1] * np.log(2 * np.pi) / 2


def latent(case: Case, one: User, values: np.ndarray, rng: np.random.Generator, times: int = 1):
    """Return latent values (s, n) from a normal proposal around the mode, and log weights (s,).

    There are `times` of them for each of the coordinates, one after the other.
    """
    n, s = len(one.x), len(values)
    inner = covariance(values, one.x, one.x) + noises(values)[:, None, None] * np.eye(n)
    if case.family is None:
        root = np.linalg.cholesky(inner + np.diag(one.known))
        return np.tile(one.y, (s, 1)), normal(one.y - case.level + np.zeros((s, n)), root)
    g, step = np.full((s, n), case.level), 1e-3

    def at(g: np.ndarray) -> np.ndarray:
        return log_density(one.y, case.law(g))

    for _ in range(25):
        first = (at(g + step) - at(g - step)) / (2 * step)
        bend = (at(g + step) - 2 * at(g) + at(g - step)) / step**2
        precision = np.maximum(-bend, 0.05)
        z = g + first / precision
        outer = inner + np.eye(n) / precision[:, None]
        found = case.level + np.einsum(
            "sij,sj->si", inner, np.linalg.solve(outer, (z - case.level)[..., None])[..., 0]
        )
        change = np.clip(found - g, -1.5, 1.5)
        g = g + change
        if np.abs(change).max() < 1e-4:
            break
    inner, outer, z, precision, found = (
        np.repeat(each, times, axis=0) for each in (inner, outer, z, precision, found)
    )
    s, root = s * times, np.linalg.cholesky(inner)
    # A draw of the prior and of errors, conditioned on z, is one of the posterior (Matheron).
    before = case.level + np.einsum("sij,sj->si", root, rng.standard_normal((s, n)))
    error = rng.standard_normal((s, n)) / np.sqrt(precision)
    change = np.linalg.solve(outer, (z - before - error)[..., None])[..., 0]
    degrees = 20.0
    stretch = np.sqrt(degrees / rng.chisquare(degrees, s))[:, None]
    away = stretch * (before + np.einsum("sij,sj->si", inner, change) - found)
    distance = (np.linalg.solve(root, away[..., None])[..., 0] ** 2).sum(axis=1)
    distance += (precision * away**2).sum(axis=1)
    volume = np.linalg.slogdet(outer)[1] + np.log(precision).sum(axis=1)
    halves = np.log(np.einsum("snn->sn", root)).sum(axis=1) - 0.5 * volume  # of the posterior
    constant = stats.multivariate_t(np.zeros(n), df=degrees).logpdf(np.zeros(n))
    log_proposal = constant - halves - (degrees + n) / 2 * np.log1p(distance / degrees)
    g = found + away
    return g, at(g).sum(axis=1) + normal(g - case.level, root) - log_proposal


def importance(case: Case, one: User, rng: np.random.Generator) -> Reference:
    """Return the reference by importance sampling, from the prior and then around its moments."""
    uniform = stats.qmc.Sobol(5, rng=rng).random(DRAWS // 2)
    prior = stats.multivariate_normal(CENTRE, np.diag(SPREAD**2))
    values = CENTRE + SPREAD * ndtri(uniform)
    weights = _shares(latent(case, one, values, rng)[1])
    mean = weights @ values
    spread = np.cov(values.T, aweights=weights) + np.diag(0.05 * SPREAD**2)
    law = stats.multivariate_t(mean, 1.2 * spread, df=6)
    around = law.rvs(DRAWS // 2, random_state=rng)
    values = np.concatenate([values, around])
    times = 1 if case.family is None else LATENT
    again = np.repeat(values, times, axis=0)
    g, log_weights = latent(case, one, values, rng, times)
    density = prior.logpdf(again)
    log_weights += density - np.logaddexp(density, law.logpdf(again)) + np.log(2)
    mean, sd = given(again, g, one.known, one.x, case.level)
    return Reference(_shares(log_weights), mean, sd, noises(again))


def _shares(log_weights: np.ndarray) -> np.ndarray:
    return np.exp(log_weights - logsumexp(log_weights))


def nuts(case: Case, one: User, seed: int) -> Reference:
    """Return the reference by PyMC's NUTS."""
    import pymc as pm
    import pytensor.tensor as pt

    n = len(one.x)
    with pm.Model():
        raw = pm.Normal("raw", 0, 1, shape=5)
        line, shift, wave, length, noise = (CENTRE[i] + SPREAD[i] * raw[i] for i in range(5))
        distance = one.x[:, None] - one.x
        straight = pt.exp(line) * pt.outer(one.x - shift, one.x - shift)
        smooth = pt.exp(wave - 0.5 * (distance / pt.exp(length)) ** 2)
        inner = straight + smooth + pt.maximum(pt.exp(noise), FLOOR) * pt.eye(n)
        if case.family is None:
            pm.MvNormal("y", case.level, cov=inner + np.diag(one.known), observed=one.y)
        else:
            free = pm.Normal("free", 0, 1, shape=n)
            g = pm.Deterministic("g", case.level + pt.linalg.cholesky(inner) @ free)
            match case.family.name:
                case "count":
                    pm.Poisson("y", pt.exp(g), observed=one.y)
                case "binary" | "binomial":
                    pm.Binomial("y", int(case.size or 1), logit_p=g, observed=one.y)
                case "ordinal":
                    cuts = np.array(case.family.parameters[1:])
                    pm.OrderedProbit("y", eta=g, cutpoints=cuts, observed=one.y.astype(int) - 1)
                case "positive":
                    shape = case.family.parameters[0]
                    pm.Gamma("y", alpha=shape, beta=shape / pt.exp(g), observed=one.y)
                case "student":
                    degrees, scale = case.family.parameters
                    pm.StudentT("y", nu=degrees, mu=g, sigma=scale, observed=one.y)
        drawn = pm.sample(
            draws=4000,
            tune=1000,
            chains=2,
            cores=1,
            target_accept=0.95,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        ).posterior
    values = CENTRE + SPREAD * drawn["raw"].to_numpy().reshape(-1, 5)
    g = np.tile(one.y, (len(values), 1))
    if case.family is not None:
        g = drawn["g"].to_numpy().reshape(-1, n)
    shares = np.full(len(values), 1 / len(values))
    mean, sd = given(values, g, one.known, one.x, case.level)
    return Reference(shares, mean, sd, noises(values))


def selected(case: Case, one: User) -> Selection:
    """Return KEM's selection of the composition with the pilot users' prior."""
    pool = CandidatePool(["LIN0", "SE0"], 1)
    scaling = Scaling(np.zeros(1), np.ones(1), case.level, 1.0, family=case.family)
    sizes = None if case.size is None else np.full(len(one.y), case.size)
    known = np.sqrt(one.known) if one.known.any() else None
    points = ScaledPoints.of(scaling, one.x[:, None], one.y, noise=known, sizes=sizes)
    scorer = Scorer(pool, "pilot", "posterior", 3, FLOOR)
    summary = KernelSummary(CENTRE, SPREAD, one.starts)
    proposal = Proposal(COMPOSITION, "fixed", 1.0, summary)
    rows = scorer.consider([proposal], Composition(), None, points)
    return Selection(
        tuple(rows),
        pool,
        scaling,
        points.x,
        points.y,
        0.0,
        known_noise=points.noise,
        recorded=points.recorded,
    )


def predicted(case: Case, one: User) -> Prediction:
    """Return KEM's prediction at new inputs."""
    sizes = None if case.size is None else np.full(len(NEW), case.size)
    return selected(case, one).predict(NEW[:, None], include_noise=True, sizes=sizes)


def errors(
    case: Case, reference: Reference, found: Prediction, later: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return errors at the new inputs (..., 3)."""
    mean, sd = reference.moments()
    middle, spread = found.function.moments()
    quantiles = np.array([found.function.quantile(level) for level in LEVELS])
    targets = np.array([found.quantile(level) for level in LEVELS])
    exact = reference.quantiles()
    half = np.abs(exact - exact[3])
    half[3] = sd
    made: dict[str, np.ndarray] = {
        "mean": (middle - mean) / sd,
        "sd": spread / sd - 1,
        "latent": (quantiles - exact) / half,
    }
    density = found.observation.log_density(later)
    if case.family is None:
        wide = np.sqrt(reference.sd**2 + reference.noises[:, None])
        exact = reference.quantiles(noisy=True)
        half = np.abs(exact - exact[3])
        half[3] = np.sqrt(sd**2 + reference.weights @ reference.noises)
        made["targets"] = (targets - exact) / half
        under = np.array([reference.weights @ ndtr((q - reference.mean) / wide) for q in targets])
        log_p = Mixture(reference.weights, reference.mean, wide).log_density(later)
    else:
        under = np.array(
            [reference.of_targets(case, rng, lambda law, q=q: law.cdf(q)) for q in targets]
        )
        log_p = np.log(reference.of_targets(case, rng, lambda law: np.exp(log_density(later, law))))
    made["probability"] = under - np.array([found.observation.cdf(q) for q in targets])
    made["log density"] = density - log_p
    return made


def summary(made: list[dict[str, np.ndarray]]) -> list[str]:
    """Return root mean squares of errors, and the largest, over users and places."""
    shown = []
    for name, rows in WAYS.items():
        values = np.array([one[name[0]][rows] if rows else one[name[0]] for one in made])
        shown.append(f"{np.sqrt((values**2).mean()):.3f} ({np.abs(values).max():.2f})")
    return shown


#: What is shown: errors, and the numbers of quantiles in `LEVELS`.
WAYS: dict[tuple[str, str], list[int] | None] = {
    ("mean", "mean, sds"): None,
    ("sd", "sd"): None,
    ("latent", "95 % interval"): [1, 5],
    ("latent", "99 % interval"): [0, 6],
    ("probability", "targets: probability"): None,
    ("log density", "log density"): None,
}


def main() -> None:
    """Print errors of predictions: root mean squares, and the largest in brackets."""
    parser = argparse.ArgumentParser(description="Compare predictions with NUTS.")
    parser.add_argument("--nuts", action="store_true", help="NUTS, of the first user of each size")
    parser.add_argument("--family", choices=list(CASES), action="append", help="repeatable")
    parser.add_argument("--users", type=int, default=5)
    parser.add_argument("--points", type=int, action="append", help="repeatable")
    asked = parser.parse_args()
    console = Console(width=max(150, Console().width))
    titles = ("targets", "points", "reference", *(title for _, title in WAYS))
    table = Table(*titles, title=f"{asked.users} users, {len(NEW)} new inputs each")
    for name in asked.family or CASES:
        for n in asked.points or SIZES:
            case, rng = CASES[name], np.random.default_rng(n)
            made, beside = [], []
            for number in range(1 if asked.nuts else asked.users):
                one = user(case, n, rng)
                reference = importance(case, one, rng)
                found = predicted(case, one)
                if asked.nuts:
                    drawn = nuts(case, one, number)
                    beside.append(between(reference, drawn))
                    reference = drawn
                made.append(errors(case, reference, found, one.later, rng))
            if beside:
                console.print(f"{name}, {n} points: NUTS less importance sampling {beside}")
            row = (name, str(n), "NUTS" if asked.nuts else "importance", *summary(made))
            console.print(*row, sep="  ")
            table.add_row(*row)
    console.print(table)


def between(one: Reference, other: Reference) -> str:
    """Return the largest difference of two references: means, sds, and inner quantiles, in sds."""
    (mean, sd), (middle, spread) = one.moments(), other.moments()
    apart = np.abs(one.quantiles() - other.quantiles())[1:-1] / sd
    worst = [np.abs(mean - middle) / sd, np.abs(spread / sd - 1), apart]
    return ", ".join(f"{each.max():.3f}" for each in worst)


if __name__ == "__main__":
    main()
