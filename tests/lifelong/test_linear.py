"""Bayesian linear regression: both forms, gradients, and predictions in closed form."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.lifelong.linear import LinearPosterior, dual, primal

RNG = np.random.default_rng(0)


def data(n, p):
    return RNG.normal(size=(2, n, p)), RNG.normal(size=n)


@pytest.mark.parametrize(("n", "p"), [(4, 9), (9, 4)])
def test_primal_is_dual_is_the_normal_density(n, p):
    """The paper's primal form, without 1/2 of its quadratic term, is far from that."""
    phi, y = data(n, p)
    logs = pt.vector("logs")
    in_dual = dual(pt.as_tensor(phi @ phi.transpose(0, 2, 1)), pt.as_tensor(y), logs[0], logs[1])
    cross = pt.as_tensor(phi.transpose(0, 2, 1) @ phi)
    in_primal = primal(
        cross, pt.as_tensor(np.einsum("snp,n->sp", phi, y)), pt.as_tensor(y), logs[0], logs[1]
    )
    at = np.array([0.3, 1.7])
    both = pytensor.function([logs], [in_dual, in_primal])(at)
    slopes = pytensor.function(
        [logs], [pt.grad(in_dual.sum(), logs), pt.grad(in_primal.sum(), logs)]
    )(at)
    exact = [
        multivariate_normal(cov=own @ own.T / np.exp(at[0]) + np.eye(n) / np.exp(at[1])).logpdf(y)
        for own in phi
    ]
    np.testing.assert_allclose(both[0], exact, rtol=1e-10)
    np.testing.assert_allclose(both[1], exact, rtol=1e-8)
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-8)


def test_values_and_precisions_of_each_matrix():
    """As of tasks that share features; against one normal density for each."""
    n, p = 5, 3
    (phi, _), _ = data(n, p)
    phis, values, logs = (
        np.stack([phi, phi[::-1]]),
        RNG.normal(size=(2, n)),
        RNG.normal(size=(2, 2)),
    )
    gram, cross = (phis @ phis.transpose(0, 2, 1)), phis.transpose(0, 2, 1) @ phis
    along = np.einsum("snp,sn->sp", phis, values)
    both = [
        dual(*map(pt.as_tensor, (gram, values, *logs.T))).eval(),
        primal(*map(pt.as_tensor, (cross, along, values, *logs.T))).eval(),
    ]
    exact = [
        multivariate_normal(cov=f @ f.T / np.exp(a) + np.eye(n) / np.exp(b)).logpdf(v)
        for f, v, (a, b) in zip(phis, values, logs, strict=True)
    ]
    np.testing.assert_allclose(both, [exact, exact], rtol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(4, 9), (9, 4)])
def test_predictions_in_closed_form(n, p):
    """Posterior mean and covariance of the weights by inversion; eq. 4 with its 1 / lambda."""
    (phi, _), y = data(n, p)
    precision, noise_precision = 0.7, 12.0
    covariance = np.linalg.inv(precision * np.eye(p) + noise_precision * phi.T @ phi)
    new = RNG.normal(size=(5, p))
    mean, sd = LinearPosterior(phi, y, precision, noise_precision).predict(new)
    np.testing.assert_allclose(mean, noise_precision * new @ covariance @ phi.T @ y, rtol=1e-10)
    np.testing.assert_allclose(sd**2, np.einsum("ip,pq,iq->i", new, covariance, new), rtol=1e-9)
