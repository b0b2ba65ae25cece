"""Selections for targets of a family: likelihoods and predictions are those of the targets."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import multivariate_normal, multivariate_t, norm

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import KernelSummary
from kem_pymc.evolutions.from_posterior import read_cohort
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.plots import predictions
from kem_pymc.selection import online
from kem_pymc.selection import pilots as as_if_new
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scorer import Proposal, Scorer
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import ScaledPoints
from tests.model.conftest import SAMPLING
from tests.refusals import refused
from tests.selection.pilots import POOL, user

FAMILIES = {
    "count": (Family("count", (), (0.5, 1.0)), np.linspace(0.5, 3, 12)),
    "binary": (Family("binary", (), (0.0, 2.0)), None),
    "binomial": (Family("binomial", (), (0.0, 1.5)), np.arange(1.0, 13.0)),
    "ordinal": (Family("ordinal", (1.0, -1.0, 0.0, 1.2), (0.0, 1.0)), None),
    "positive": (Family("positive", (3.0,), (0.5, 1.0)), None),
    "student": (Family("student", (4.0, 0.5)), None),
}

#: Of the scaled latent values: the centre and unit that the pilots' had.
CENTRE, UNIT = 0.4, 1.5


def data(name):
    """Return inputs, targets drawn from the family, sizes, and the scaling of its pilots."""
    family, sizes = FAMILIES[name]
    x, latent = user(12, linear=0.1, periodic=0.5)
    level = CENTRE + UNIT * (latent - latent.mean()) / 2
    draws = np.random.default_rng(3).uniform(size=12)
    y = np.array(
        [
            family.quantile(p, g[None], None if sizes is None else n[None])[0]
            for p, g, n in zip(
                draws, level, sizes if sizes is not None else np.ones(12), strict=True
            )
        ]
    )
    scaling = Scaling(np.zeros(1), np.ones(1), CENTRE, UNIT, family=family)
    return x, y, sizes, scaling


@pytest.mark.parametrize("name", FAMILIES)
def test_before_any_data_a_new_user_is_predicted(name, learned):
    """By the same kernels with the same weights as without a family; medians by drawing."""
    family, scaling = FAMILIES[name][0], data(name)[-1]
    given = {} if FAMILIES[name][1] is None else {"sizes": []}
    nothing = np.empty((0, 1)), np.empty(0)
    selection = KEMSelector(replace(learned, scaling=scaling)).select(*nothing, **given)
    plain = KEMSelector(replace(learned, scaling=replace(scaling, family=None))).select(*nothing)
    weights = [[row.weight for row in each.considered] for each in (selection, plain)]
    np.testing.assert_allclose(*weights, rtol=1e-6)
    at = np.array([[3.0], [22.0]])
    latent, rng = plain.predict(at), np.random.default_rng(0)
    kernels = rng.choice(len(latent.noises), 200_000, p=latent.function.weights)
    drawn = rng.normal(latent.function.mean[kernels], latent.function.sd[kernels])
    nodes, shares = np.polynomial.hermite_e.hermegauss(20)
    noise = np.sqrt(latent.noises[kernels])
    curves = sum(p * family.mean(drawn + noise * z) for z, p in zip(nodes, shares, strict=True))
    expected = np.median(curves / shares.sum(), axis=0)
    found = selection.predict(at).observation.curve_quantile(0.5)
    np.testing.assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("name", FAMILIES)
def test_likelihood_and_predictions_are_those_of_importance_sampling(name, learned):
    """Of the fitted values; fails where a constant, the scaling or the sizes are left out."""
    x, y, sizes, scaling = data(name)
    family = scaling.family
    given = {} if sizes is None else {"sizes": sizes}
    found = KEMSelector(replace(learned, scaling=scaling)).select(x, y, **given)
    best = found.considered[0]
    where = Coordinates(POOL, best.composition)
    kernel = FixedKernel.of(where, where.from_named(best.hyperparameters, best.noise))
    x_new = np.array([[3.0], [22.0]])
    every = np.vstack([x, x_new])
    prior = UNIT**2 * (kernel.cross(every, every) + best.noise * np.eye(14))
    mean = np.full(14, CENTRE)
    # A proposal from the normal posterior of the sites.
    z, v = CENTRE + UNIT * best.sites.targets, UNIT**2 * best.sites.noise
    gain = np.linalg.solve(prior[:12, :12] + np.diag(v), prior[:12]).T
    centre, spread = mean + gain @ (z - mean[:12]), prior - gain @ prior[:12]
    proposal = multivariate_t(centre, 1.1 * spread, df=10)
    g = proposal.rvs(40_000, random_state=np.random.default_rng(2))
    log_weights = (
        family.log_density(y, g[:, :12], sizes).sum(axis=1)
        + multivariate_normal(mean, prior).logpdf(g)
        - proposal.logpdf(g)
    )
    total = np.logaddexp.reduce(log_weights)
    weights = np.exp(log_weights - total)
    evidence = total - np.log(len(g))
    assert best.log_likelihood == pytest.approx(evidence, abs=0.05)
    # A new observation has an error of its own, as the draws of g at new inputs have.
    new = np.array([2.0, 4.0]) if name == "binomial" else None
    predicted = found.predict(x_new, include_noise=True, single=True, sizes=new)
    exact = weights @ family.mean(g[:, 12:], new)
    sd = np.sqrt(
        weights @ (family.variance(g[:, 12:], new) + (family.mean(g[:, 12:], new) - exact) ** 2)
    )
    if name not in ("count", "positive"):  # of exponentials few draws decide
        np.testing.assert_allclose((predicted.mean - exact) / sd, 0, atol=0.05)
        np.testing.assert_allclose(predicted.sd / sd, 1, atol=0.05)
    at = family.quantile(0.7, np.full(2, CENTRE), new)
    expected = np.log(weights @ np.exp(family.log_density(at, g[:, 12:], new)))
    np.testing.assert_allclose(predicted.log_predictive_density(at), expected, atol=0.03)
    np.testing.assert_array_equal(found.targets, y)


def test_every_draw_of_values_has_observations_of_its_own():
    """Fails where all have those of the fitted values: the lower end would be .9 too high.

    The more the function varies, the less five zeros say of where it is. The reference are draws of
    everything from the prior, weighted by the likelihood.
    """
    x, y, pool = np.linspace(0, 1, 5), np.zeros(5), CandidatePool(["SE0"], 1)
    scaling = Scaling(np.zeros(1), np.ones(1), 0.0, 1.0, family=Family("count"))
    points = ScaledPoints.of(scaling, x[:, None], y)
    centre, spread = np.array([0.0, -0.7, -1.5]), np.array([0.8, 0.3, 0.5])
    summary = KernelSummary(centre, spread, centre[None])
    proposal = Proposal(Composition.parse("SE0", 1), "fixed", 1.0, summary)
    scorer = Scorer(pool, "pilot", "posterior", 1, 1e-4)
    rows = tuple(scorer.consider([proposal], Composition(), None, points))
    data = {"known_noise": points.noise, "recorded": points.recorded}
    found = Selection(rows, pool, scaling, points.x, points.y, 0.0, **data)
    function = found.predict([0.5]).function
    rng = np.random.default_rng(0)
    values = centre + spread * rng.standard_normal((100_000, 3))
    height, length, noise = (np.exp(column)[:, None, None] for column in values.T)
    distance = np.append(x, 0.5)[:, None] - np.append(x, 0.5)
    covariance = height * np.exp(-0.5 * (distance / length) ** 2) + np.diag([1.0] * 5 + [0]) * noise
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(6))
    g = np.einsum("sij,sj->si", root, rng.standard_normal((100_000, 6)))
    weights = np.exp(-np.exp(g[:, :5]).sum(axis=1))
    probabilities = [0.025, 0.5, 0.975]
    exact = np.quantile(g[:, 5], probabilities, weights=weights, method="inverted_cdf")
    ends = [function.quantile(p)[0] for p in probabilities]
    np.testing.assert_allclose(ends, exact, atol=0.45)


@pytest.mark.parametrize("name", ["count", "binary", "ordinal"])
def test_curves_are_drawn_on_the_targets_own_scale(name, learned):
    """Fails where the noise of latent values widens the band, or exposures are left out."""
    x, y, sizes, scaling = data(name)
    given = {} if sizes is None else {"sizes": sizes}
    found = KEMSelector(replace(learned, scaling=scaling)).select(x, y, **given)
    ax = predictions(found)
    lines = {one.get_label(): one.get_xydata() for one in ax.lines}
    np.testing.assert_allclose(lines["data"][:, 1], y if sizes is None else y / sizes)
    at, middle = lines["mean"].T
    observation = found.predict(at).observation
    np.testing.assert_allclose(middle, observation.curve_quantile(0.5))
    bands = {c.get_label(): c.get_paths()[0].vertices[:, 1] for c in ax.collections}
    low, high = observation.curve_quantile(0.025).min(), observation.curve_quantile(0.975).max()
    band = bands["mean, 95 % interval"]
    np.testing.assert_allclose([band.min(), band.max()], [low, high])
    assert ("observation, 95 % interval" in bands) == (name == "ordinal")
    least, most = scaling.family.support()
    assert least <= band.min() <= band.max() <= most
    rows = {"ends": (np.array([12]),), "sizes": None if sizes is None else (sizes,)}
    cohort = kem.Cohort(("u",), (x,), (y,), features=("x",), family=scaling.family, **rows)
    table = online.predictions({"u": [found]}, cohort)
    observation = found.predict(x, **given).observation
    quantile = observation.curve_quantile if name == "binary" else observation.quantile
    np.testing.assert_allclose(table["low_95"], quantile(0.025))


def test_targets_that_are_0_or_1_are_not_calibrated(learned, monkeypatch):
    """But how well they are predicted is kept: densities are probabilities of what was observed."""
    x, y, _, scaling = data("binary")
    family, selector = scaling.family, KEMSelector(replace(learned, scaling=scaling))
    cohort = kem.Cohort((0, 1), (x, x), (y, y), (np.array([6, 12]),) * 2, ("x",), family=family)
    made = [selector.select(x[:6], y[:6]), None]
    monkeypatch.setattr(as_if_new, "read_cohort", lambda _: cohort)
    users = [(u, selector, made) for u in (0, 1)]
    monkeypatch.setattr(as_if_new, "as_if_new", lambda *_: users)
    found = kem.calibrate(learned, xr.DataTree())
    assert found.calibration is None
    assert [one[:3] for one in found.held_out] == [(0, 1, 6), (1, 1, 6)]
    p = made[0].predict(x[6:], include_noise=True).mean
    assert found.held_out[0].log_density == pytest.approx(np.log(np.where(y[6:], p, 1 - p)).sum())
    # The middle of the probabilities of at most, and less than, what was observed.
    middle = norm.ppf(np.where(y[6:], 1 - p / 2, (1 - p) / 2))
    assert found.held_out[0].probit == pytest.approx(middle.sum(), abs=1e-3)


def test_an_infinite_sd_of_counts_is_no_error_and_intervals_are_shown(learned):
    """Fails where moments have to be finite, though medians and intervals are."""
    x, y, sizes, scaling = data("count")
    wide = replace(scaling, target_sd=400.0)
    predicted = KEMSelector(replace(learned, scaling=wide)).select(x, y, sizes=sizes).predict(x)
    assert not np.isfinite(predicted.sd).all() or predicted.sd.max() > 1e100
    assert np.isfinite(predicted.quantile(0.5)).all()
    assert "97.5 %" in predicted._repr_html_()


def test_what_the_pilots_family_lacks_is_refused(learned):
    x, y, sizes, scaling = data("count")
    counts = KEMSelector(replace(learned, scaling=scaling))
    refused(lambda: counts.select(x, y - 1), "-1", "whole numbers from 0 on")
    refused(lambda: counts.select(x, y, noise=sizes), "can't be known beside")
    refused(lambda: counts.select(x, y, sizes=sizes[:3]), "shape (3,)")
    refused(lambda: counts.select(x, y).predict(x, noise=sizes), "isn't normal")
    refused(lambda: KEMSelector(learned).select(x, y, sizes=sizes), "without a family")


def test_a_family_goes_from_the_table_to_files_and_scores(tmp_path):
    """The whole way; fails where the family, the targets or the exposures are lost on it."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"user": np.repeat(list("abcd"), 5), "week": np.tile(np.arange(5.0), 4)})
    table["hours"] = rng.uniform(1, 3, 20)
    table["steps"] = rng.poisson(table["hours"] * np.exp(0.3 * table["week"]))
    roles = {"user": "user", "time": "week", "target": "steps", "size": "hours"}
    pilot = kem.Cohort.from_frame(table, **roles, family="count")
    pool = kem.CandidatePool.from_base(["LIN"], pilot.dimension)
    with kem.EvolutionModel(pilot, pool):
        idata = pm.sample(draws=10, tune=10, chains=1, random_seed=1, **SAMPLING)
    back = read_cohort(idata)
    assert back.family == pilot.family
    for one, other in zip(
        (*back.targets, *back.sizes), (*pilot.targets, *pilot.sizes), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    kem.Evolutions.from_posterior(idata).save(tmp_path / "evolutions.json")
    learned = kem.Evolutions.load(tmp_path / "evolutions.json")
    assert learned.scaling.family == pilot.family
    new = kem.Cohort.from_frame(table, **roles, family=learned.scaling.family, scope="new")
    paths = kem.select_online(KEMSelector(learned), new)
    scores = kem.scores(paths, new)
    first = new.users[0]
    coming = slice(*new.ends[0][:2])
    predicted = paths[first][0].predict(new.inputs[0][coming], sizes=new.sizes[0][coming])
    density = predicted.log_predictive_density(new.targets[0][coming])
    assert scores["log_likelihood"][0] == pytest.approx(density.mean())
    assert (density < 0).all()
