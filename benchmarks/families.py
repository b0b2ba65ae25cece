"""Evidence and predictions of targets of a family, beside importance sampling.

Of every family there are 50 users with 12 to 30 points: a kernel of one length, values from its
Gaussian process with errors, and targets from the family. With the kernel's true values, the log
evidence and the moments of the latent function at three new inputs are compared with those of
200,000 draws by importance sampling, for the observations that stand for the targets in selections
and the pseudo-observations of the sampler, and for GPBoost with the same values where it has the
family.

    uv run --extra peers --with gpboost python benchmarks/families.py [--users N]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import multivariate_normal, multivariate_t

from kem_pymc.data.families import Family
from kem_pymc.gp.sites import sites

DRAWS = 200_000

#: Variance and length of the kernel, and variance of errors.
HEIGHT, LENGTH, ERROR = 0.8, 1.0, 0.2

#: GPBoost's names of families.
GPBOOST = {"count": "poisson", "binary": "bernoulli_logit"}

#: Families, with the mean of latent values and sizes: 80 % zeros, 5 % events, a rare level.
FAMILIES = {
    "count, mean 0.2": (Family("count", (), (-1.9, 1.0)), -1.9, None),
    "count, mean 5": (Family("count", (), (1.4, 1.0)), 1.4, None),
    "binary, 5 %": (Family("binary", (), (-3.2, 1.0)), -3.2, None),
    "binary, 50 %": (Family("binary", (), (0.0, 1.0)), 0.0, None),
    "binomial of 10": (Family("binomial", (), (-1.0, 1.0)), -1.0, 10.0),
    "ordinal of 5": (Family("ordinal", (1.0, -1.5, -0.5, 1.0, 2.8), (0.0, 1.0)), 0.0, None),
    "positive, shape 2": (Family("positive", (2.0,), (1.0, 1.0)), 1.0, None),
    "student, 4 degrees": (Family("student", (4.0, 0.5)), 0.0, None),
}


def problem(family: Family, level: float, size: float | None, rng: np.random.Generator):
    """Return n, inputs of data and three new points, latent values' prior, targets, sizes."""
    n = int(rng.integers(12, 31))
    x = np.append(np.sort(rng.uniform(0, 3, n)), [0.7, 2.0, 3.3])
    smooth = HEIGHT * np.exp(-0.5 * ((x[:, None] - x) / LENGTH) ** 2)
    errors = np.append(np.full(n, ERROR), np.zeros(3))
    covariance = smooth + np.diag(errors) + 1e-9 * np.eye(n + 3)
    g = level + np.linalg.cholesky(covariance) @ rng.normal(size=n + 3)
    sizes = None if size is None else np.full(n, size)
    each = np.ones(n) if sizes is None else sizes
    u = rng.uniform(size=n)
    y = np.array([family.quantile(p, v, s) for p, v, s in zip(u, g[:n], each, strict=True)])
    return n, x, np.full(n + 3, level), covariance, y, sizes


def moments(n, mean, covariance, z, v):
    """Return means and covariance of all latent values, given observations of the first n."""
    gain = np.linalg.solve(covariance[:n, :n] + np.diag(v), covariance[:n]).T
    return mean + gain @ (z - mean[:n]), covariance - gain @ covariance[:n]


def gpboost(family: Family, x: np.ndarray, y: np.ndarray, level: float):
    """Return GPBoost's log evidence, and its means and variances (3,) at new points."""
    import gpboost as gpb

    n, places = len(y), np.arange(len(x))
    model = gpb.GPModel(
        likelihood=GPBOOST[family.name],
        group_data=places[:n],
        gp_coords=x[:n, None],
        cov_function="gaussian",
    )
    values, offset = np.array([ERROR, HEIGHT, np.sqrt(2) * LENGTH]), np.full(len(x), level)
    evidence = -model.neg_log_likelihood(values, y, fixed_effects=offset[:n])
    found = model.predict(
        y=y,
        cov_pars=values,
        group_data_pred=places[n:],
        gp_coords_pred=x[n:, None],
        offset=offset[:n],
        offset_pred=offset[n:],
        predict_var=True,
        predict_response=False,
    )
    return evidence, found["mu"], found["var"] - ERROR


def main() -> None:
    """Print a table of the largest errors of evidence, means and sds, with medians in brackets."""
    parser = argparse.ArgumentParser(description="Compare sites with importance sampling.")
    parser.add_argument("--users", type=int, default=50)
    users = parser.parse_args().users
    table = Table("family", "observations", "evidence, nats", "mean, sds", "ratio of sds")
    for name, (family, level, size) in FAMILIES.items():
        rng = np.random.default_rng(7)
        errors: dict[str, list[tuple[float, ...]]] = {}
        noisy = 0
        for _ in range(users):
            n, x, mean, covariance, y, sizes = problem(family, level, size, rng)
            found = sites(mean[:n], covariance[:n, :n], family, y, sizes)
            centre, spread = moments(n, mean, covariance, found.z, found.v)
            proposal = multivariate_t(centre, 1.2 * spread, df=8)
            g = proposal.rvs(DRAWS, random_state=rng)
            log_weights = (
                family.log_density(y, g[:, :n], sizes).sum(axis=1)
                + multivariate_normal(mean, covariance).logpdf(g)
                - proposal.logpdf(g)
            )
            total = np.logaddexp.reduce(log_weights)
            weights = np.exp(log_weights - total)
            noisy += 1 / (weights**2).sum() < DRAWS / 20
            exact = weights @ g[:, n:]
            sd = np.sqrt(weights @ (g[:, n:] - exact) ** 2)
            pseudo = *family.pseudo_observations(y, sizes), np.nan
            observations = {"sites": found, "pseudo": pseudo}
            ways = {}
            for way, (z, v, constant) in observations.items():
                law = multivariate_normal(mean[:n], covariance[:n, :n] + np.diag(v))
                middle, left = moments(n, mean, covariance, z, v)
                ways[way] = law.logpdf(z) + constant, middle[n:], np.diag(left)[n:]
            if family.name in GPBOOST:
                ways["GPBoost"] = gpboost(family, x, y, level)
            for way, (evidence, middle, left) in ways.items():
                apart = abs(evidence - (total - np.log(DRAWS)))
                off, ratio = np.abs(middle - exact) / sd, np.sqrt(left) / sd
                errors.setdefault(way, []).append((apart, off.max(), ratio.min(), ratio.max()))
        for way, rows in errors.items():
            evidence, off, low, high = np.array(rows).T
            largest = [f"{each.max():.3f} ({np.median(each):.3f})" for each in (evidence, off)]
            table.add_row(name, way, *largest, f"{low.min():.2f} to {high.max():.2f}")
        if noisy:
            table.add_row(name, f"few effective draws for {noisy} users")
    Console(width=max(100, Console().width)).print(table)


if __name__ == "__main__":
    main()
