"""Lengthscales of smooth functions of several features.

A lengthscale of each feature would be too many hyperparameters for importance sampling, and would
change the columns with each draw. So they are found first, at the mode of their posterior together
with all other hyperparameters. That they are uncertain is part of the functions' covariance: with
S the covariance of their logs in a normal approximation, and J the derivatives of the posterior
mean of the weights, it is larger by J S J'.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.linalg import solve_triangular

from kem_pymc.population.design import Design, Surface, Term, similar
from kem_pymc.population.likelihood import Scales

#: Prior of the log of a lengthscale, in halves of the range, for a function of one feature: mean,
#: and sds on either side. Of many features few may matter, so long lengthscales are likely, too.
CENTRE, SHORTER, LONGER = 0.0, 1.0, 4.0

#: Largest number of steps for given inducing points, and step of differences of derivatives.
STEPS, STEP = 60, 0.02


class Adjoints(NamedTuple):
    """Derivatives of the log likelihood in the columns.

    Attributes
    ----------
    shared, personal : ndarray, shape (n, P) and (n, q)
        In those of what users share, and of their own parts.
    """

    shared: np.ndarray
    personal: np.ndarray


def adjoints(
    shared: Sequence[np.ndarray],
    personal: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    noise: Sequence[np.ndarray],
    scales: Scales,
) -> Adjoints:
    """Return the derivatives of the log likelihood in each user's columns (n, P) and (n, q).

    Of the covariance K = F F' + A with F = H T and blocks A_u = s^2 I + D_u + Z_u L L'Z_u', of
    which `noise` has the diagonals of D_u, the log likelihood has the derivative
    G = (a a' - K^-1) / 2 with a = K^-1 y, so that it has 2 G F in F, and 2 G_u Z_u L in Z_u L. With
    V = A^-1 F and B = I + F'V, K^-1 = A^-1 - V B^-1 V' and K^-1 F = V B^-1.
    """
    sds, root = scales.shared, scales.personal
    spread = [z @ root for z in personal]
    factors = [h * sds for h in shared]
    variances = [np.diag(scales.noise**2 + known) for known in noise]
    inverses = [np.linalg.inv(v + w @ w.T) for v, w in zip(variances, spread, strict=True)]
    white = [a @ f for a, f in zip(inverses, factors, strict=True)]
    precision = np.eye(len(sds)) + sum(f.T @ v for f, v in zip(factors, white, strict=True))
    inverse = np.linalg.inv(precision)
    weights = inverse @ sum(v.T @ y for v, y in zip(white, targets, strict=True))
    every = zip(inverses, white, targets, strict=True)
    residuals = [a @ y - v @ weights for a, v, y in every]
    total = sum(f.T @ r for f, r in zip(factors, residuals, strict=True))
    of_shared = [np.outer(r, total) - v @ inverse for r, v in zip(residuals, white, strict=True)]
    of_personal = [
        np.outer(r, r @ w) - a @ w + v @ (inverse @ (v.T @ w))
        for r, w, a, v in zip(residuals, spread, inverses, white, strict=True)
    ]
    return Adjoints(np.vstack(of_shared) * sds, np.vstack(of_personal) @ root.T)


def slopes(surface: Surface, places: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
    """Return derivatives (d,) of a function of a surface's columns in the logs of its lengthscales.

    Parameters
    ----------
    surface : Surface
    places : ndarray, shape (n, d)
    adjoint : ndarray, shape (n, M)
        Derivatives of the function in the columns k(x, Z) L'^-1. It must depend on the products of
        columns only, as in a covariance.
    """
    x, z = places / surface.lengthscales, surface.points / surface.lengthscales
    # Of the products C k(Z, x), with C = k(x, Z) k(Z, Z)^-1.
    right = np.linalg.inv(surface.factor)
    cross, inner = adjoint @ right, (surface.basis(places) @ right).T
    inner = -inner @ cross / 2
    total = np.zeros(x.shape[1])
    for weights, a in ((cross * similar(x, z), x), (inner * similar(z, z), z)):
        total += weights.sum(axis=1) @ a**2 + weights.sum(axis=0) @ z**2
        total -= 2 * np.einsum("id,ij,jd->d", a, weights, z, optimize=True)
    return total


def usual(term: Term) -> np.ndarray:
    """Return the medians of the lengthscales' prior."""
    return np.full(len(term.smooth), np.exp(CENTRE) * np.sqrt(len(term.smooth)))


def in_lengthscales(design: Design, rows: np.ndarray, adjoint: np.ndarray) -> dict[str, np.ndarray]:
    """Return a function's derivatives in the logs of lengthscales, by name of the term.

    `adjoint` (n, P) are its derivatives in the columns of the design.
    """
    found = {}
    for term, span in zip(design.terms, design.spans(), strict=True):
        if term.joint:
            surface = design.surfaces[term.name]
            of_features = design.feature_columns(term, rows)
            parts = adjoint[:, span].reshape(len(rows), -1, len(surface.points))
            parts = (of_features[:, :, None] * parts).sum(axis=1)
            found[term.name] = slopes(surface, design.places(term, rows), parts)
    return found


def carried(design: Design, other: Design, weights: np.ndarray) -> np.ndarray:
    """Return weights (P,) with which another design has the same functions at inducing points.

    The designs differ in lengthscales only.
    """
    weights = weights.copy()
    for term, span in zip(design.terms, design.spans(), strict=True):
        if term.joint:
            one, onto = (d.surfaces[term.name].factor for d in (design, other))
            values = weights[span].reshape(-1, len(one)) @ one.T
            weights[span] = solve_triangular(onto, values.T, lower=True).T.ravel()
    return weights


def climb(
    height: Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]],
    coordinates: np.ndarray,
    low: np.ndarray,
    logs: np.ndarray,
    centre: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates (d,) and logs of lengthscales (m,) of higher posterior density.

    The last result is the covariance (m, m) of the logs in a normal approximation there.

    Parameters
    ----------
    height : callable
        Function from coordinates and logs to the log posterior density with a flat prior of the
        lengthscales, and its derivatives in both.
    coordinates, low : ndarray, shape (d,)
        Coordinates of the other hyperparameters to begin with, and their lower ends.
    logs, centre : ndarray, shape (m,)
        Logs of lengthscales to begin with, and their prior medians.
    """
    d = len(coordinates)

    def negative(values: np.ndarray) -> tuple[float, np.ndarray]:
        away = values[d:] - centre
        spread = np.where(away > 0, LONGER, SHORTER)
        total, slope, in_logs = height(values[:d], values[d:])
        total -= ((away / spread) ** 2).sum() / 2
        slopes = np.concatenate([slope, in_logs - away / spread**2])
        return (-total, -slopes) if np.isfinite(total) else (1e10, np.zeros(len(values)))

    bounds = [(end if np.isfinite(end) else -8.0, 4.0) for end in low]
    bounds += [(value - 3 * SHORTER, value + 2 * LONGER) for value in centre]
    how = {"method": "L-BFGS-B", "options": {"maxiter": STEPS, "ftol": 1e-6, "gtol": 1e-2}}
    start = np.concatenate([coordinates, logs])
    found = optimize.minimize(negative, start, jac=True, bounds=bounds, **how).x
    least, largest = np.array(bounds).T
    inside = np.clip(found, least + STEP, largest - STEP)
    pairs = [(negative(inside + e)[1], negative(inside - e)[1]) for e in STEP * np.eye(len(found))]
    second = np.array([up - down for up, down in pairs]) / (2 * STEP)
    # Where there is no maximum, as at a bound, the sd is the largest that the prior has.
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    inverse = (vectors / np.maximum(values, LONGER**-2)) @ vectors.T
    return found[:d], found[d:], inverse[d:, d:]
