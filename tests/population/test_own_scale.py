"""Answers on the scale of rates, probabilities and levels, against Monte Carlo and closed forms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import halfnorm, norm
from statsmodels.genmod import cov_struct, families
from statsmodels.genmod.generalized_estimating_equations import GEE

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.population.hyperparameters import DIFFUSE, NOISE
from kem_pymc.population.sentences import _direction, sentences
from kem_pymc.population.sites import matched
from tests.population.dense import ROWS
from tests.population.trial import cohort_of

#: Draws of one posterior, in scaled units.
DRAWS = {
    "personal level.sd": np.full(4000, 0.8),
    "personal week.sd": np.full(4000, 0.3),
    "personal week.correlation": np.full(4000, 0.4),
    "noise.sd": np.full(4000, 0.5),
}


def posterior_of(y, family, **options):
    """Return the posterior of targets in the trial, given variances."""
    cohort = cohort_of(ROWS.assign(y=y), family=family, **options)
    model = kem.PopulationModel(cohort, ["arm", "week", "base"], ["level", "week"])
    equal = np.full(4000, 1 / 4000)
    return kem.population.PopulationPosterior(model, DRAWS, equal, -np.inf, np.nan)


@pytest.fixture(scope="module")
def targets():
    """Counts, successes and levels from 1 to 5 in the trial, and what they have in common."""
    rng = np.random.default_rng(0)
    g = 0.6 + 0.5 * (ROWS["arm"] == "high") - 0.1 * ROWS["week"] + rng.normal(0, 0.3, len(ROWS))
    return {
        "count": rng.poisson(np.exp(g)),
        "binary": (rng.random(len(ROWS)) < expit(g)).astype(int),
        "ordinal": 1 + np.searchsorted([-1, 0, 1, 2], g + rng.normal(size=len(ROWS))),
        "positive": np.exp(g) * rng.gamma(4, 1 / 4, len(ROWS)),
    }


@pytest.mark.parametrize("name", ["count", "binary", "ordinal", "positive"])
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.01), (-1.5, 2.0), (2.0, 9.0)])
def test_means_over_latent_values_are_those_of_quadrature(name, mean, variance):
    """To 1e-8. Of binary targets, 40 Gauss-Hermite nodes are wrong by 1e-5 at a variance of 9."""
    parameters = {"ordinal": (1, -0.5, 0.4, 1.0), "positive": (2.0,)}.get(name, ())
    family, sd = Family(name, parameters), variance**0.5

    def integrand(g):
        return float(family.mean(g)) * norm.pdf(g, mean, sd)

    centre = mean + variance if name in ("count", "positive") else mean
    expected, _ = quad(integrand, centre - 10 * sd, centre + 10 * sd, epsabs=1e-12, limit=400)
    assert family.averaged(mean, variance) == pytest.approx(expected, rel=1e-8)


def test_shares_are_of_latent_values(targets):
    """The variance of yes or no, which stands in pseudo-observations, is in none of them."""
    posterior = posterior_of(targets["binary"], "binary")
    table, n = posterior.variance_shares().set_index("component"), len(ROWS)
    noise = 0.5 * posterior.model.target_sd * np.sqrt(1 - 1 / n)
    assert table.loc["noise", "sd"] == pytest.approx(noise)
    text = " ".join(sentences(posterior, ["arm"]))
    assert "log odds of y that the model expects" in text
    assert "targets vary around these latent values besides" in text
    assert "noise includes" not in text


@pytest.fixture(scope="module", params=["count", "binary", "ordinal", "positive"])
def answered(targets, request):
    """A posterior given variances, and simulated answers to questions.

    They are means with one arm and another in all rows, the curve of a new user, and that of a
    user whose function is drawn from a dense normal.
    """
    posterior = posterior_of(targets[request.param], request.param)
    model, rng = posterior.model, np.random.default_rng(1)
    family, unit, middle = model.original.family, model.target_sd, model.target_mean
    centre, covariance = posterior.moments()  # the same for all draws, which are equal
    factor = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(centre)))
    lower = np.linalg.cholesky([[0.64, 0.4 * 0.24], [0.4 * 0.24, 0.09]])
    x = np.concatenate(model.cohort.inputs)
    week = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()
    columns = []
    for arm in model.shared.category("arm").values[:2]:
        rows = x.copy()
        rows[:, 1] = arm
        columns.append(model.shared(rows))
    differences, curves = [], []
    for _ in range(1500):
        weights = centre + factor @ rng.normal(size=len(centre))
        level, line = lower @ rng.normal(size=(2, 300))
        own = level[:, None] + line[:, None] * week
        away = own + 0.5 * rng.normal(size=own.shape)
        one, other = (family.mean((c @ weights + away) * unit + middle).mean() for c in columns)
        differences.append(other - one)
        # The first user's function in the first row, with the first arm, over 300 errors.
        g = columns[0][0] @ weights + own[0, 0] + 0.5 * rng.normal(size=300)
        curves.append(family.mean(g * unit + middle).mean())
    return posterior, x[0], differences, curves


def test_standardised_differences_are_those_of_simulated_users(answered):
    """Means and intervals to 5 % of their length: over users, errors and the rows of both arms.

    Fails where the variance of users' functions or of errors is left out, answers are in scaled
    units, or the rows of one arm aren't used.
    """
    posterior, _, differences, _ = answered
    row = posterior.comparisons("arm").iloc[0]
    ends = row[["difference_low_95", "difference", "difference_high_95"]].to_numpy(float)
    expected = np.quantile(differences, (0.025, 0.5, 0.975))
    assert ends == pytest.approx(expected, abs=0.05 * np.ptp(expected))


def test_the_curve_of_a_new_user_is_simulated(answered):
    """Ends to 8 % of the interval's length, at one user's values of the features."""
    posterior, first, _, curves = answered
    cohort = posterior.model.cohort
    alike = replace(cohort, inputs=tuple(0 * x + first for x in cohort.inputs))
    values = posterior.model.shared.category("arm").values
    at = {"week": float(first[0]), "arm": float(values[0]), "base": float(first[2])}
    rows = np.concatenate(alike.inputs)
    ends = np.quantile(posterior._own_scale.new_user(rows, [at]), (0.025, 0.975))
    expected = np.quantile(curves, (0.025, 0.975))
    assert ends == pytest.approx(expected, abs=0.08 * np.ptp(expected))


def test_curves_differ_by_the_differences(answered):
    """Of the same draws: medians of rows' means, so to 1 % of the interval's length."""
    posterior = answered[0]
    at = {"week": [2.0]}
    scale, values = posterior._own_scale, posterior.model.shared.category("arm").values
    rows = np.concatenate(posterior.model.cohort.inputs)
    one, other = (scale.population(rows, [{"arm": v, "week": 2.0}])[:, 0] for v in values[:2])
    row = posterior.comparisons("arm", over=at).iloc[0]
    assert row["difference"] == pytest.approx(np.median(other - one), rel=1e-3, abs=1e-4)
    curves = posterior.predictions("arm", at).set_index("group")
    assert curves["mean"].iloc[0] == pytest.approx(np.median(one), rel=1e-3)
    assert (curves["user_low_95"] < curves["low_95"]).all()
    label = posterior.model.cohort.users[3]
    own = posterior.predictions(user=label, over=at)
    model = posterior.model
    x = model.cohort.inputs[3].copy()
    x[:, 0] = 2.0
    mean, _ = posterior._of_user(3, model.shared(x[:1]), model.personal(x[:1]))
    family, unit = model.original.family, model.target_sd
    # The median of an increasing function is the function of the median.
    middle = mean[0, 0] * unit + model.target_mean
    expected = family.averaged(middle, (0.5 * unit) ** 2)
    assert own["mean"].iloc[0] == pytest.approx(float(expected), rel=0.05)
    step, moved = 1e-3, {}
    for side in (-step, step):
        shifted = rows.copy()
        shifted[:, 0] = 2.0 + side
        moved[side] = scale.population(shifted, [{}])[:, 0]
    slope = posterior.slopes(over=at).iloc[0]["difference"]
    expected = np.median(moved[step] - moved[-step]) / (2 * step)
    assert slope == pytest.approx(expected, rel=1e-3)


def test_sentences_are_on_the_targets_own_scale(targets):
    """Numbers are those of the tables, and probabilities are in percentage points."""
    for name, words, times in (
        ("count", "The rate of y with arm", "A user's rate of y with arm"),
        ("binary", "The probability of y with arm", "A user's odds of y with arm"),
        ("positive", "The mean of y with arm", "A user's mean of y with arm"),
        ("ordinal", "The mean of y with arm", None),
    ):
        posterior = posterior_of(targets[name], name)
        row = posterior.comparisons("arm").iloc[0]
        said = sentences(posterior, ["arm"])[0]
        size = 100 * row["difference"] if name == "binary" else row["difference"]
        unit = " percentage points" if name == "binary" else ""
        assert said.startswith(words)
        assert f" is {size:#.3g}".rstrip(".") + f"{unit} (95 %" in said
        if times is None:
            assert "ratio" not in row.index
            assert "A user's" not in said
            continue
        assert row["ratio_low_95"] == pytest.approx(np.exp(row["low_95"]))
        assert row["ratio"] == pytest.approx(np.exp(row["estimate"]), rel=1e-3)  # of a normal
        assert times in said
        assert f" {row['ratio']:#.3g}".rstrip(".") in said


def test_outliers_move_a_contrast_little_in_the_family_student():
    """A twentieth of rows, all of one arm, are 15 sds too high.

    The contrast of the normal model moves by a third of a residual's sd or more, that of the family
    by less than a quarter of that; without reweighting, by as much.
    """
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        [
            (f"u{u}", float(t), "ab"[u % 2], rng.normal(u % 3, 0.5))
            for u in range(20)
            for t in range(8)
        ],
        columns=["user", "week", "arm", "y"],
    )
    gross = table.copy()
    gross.loc[gross.index[gross["arm"] == "b"][::10], "y"] += 8.0
    moved = {}
    for family in (None, "student"):
        found = []
        for rows in (table, gross):
            model = kem.PopulationModel(cohort_of(rows, family=family), ["arm"], ["level"])
            found.append(model.fit(draws=200).comparisons("arm")["estimate"][0])
        moved[family] = found[1] - found[0]
    assert moved[None] > 0.5
    assert abs(moved["student"]) < 0.25 * moved[None]


def test_pseudo_observations_are_matched(targets):
    """Matched once more, they move by less than .05 sd; the family's own are further away."""
    cohort = cohort_of(ROWS.assign(y=targets["count"]), family="count")
    model = kem.PopulationModel(cohort, ["arm", "week"], ["level"])
    assert model.original.latent is not None
    again, _ = matched(model.fit(draws=200))
    moved = np.concatenate(again.latent) - np.concatenate(model.original.latent)
    noise = np.concatenate(model.original.latent_noise)
    assert np.sqrt(np.mean((moved / noise) ** 2)) < 0.05
    own = np.concatenate(cohort.on_latent_scale().targets)
    assert np.sqrt(np.mean(((own - np.concatenate(again.latent)) / noise) ** 2)) > 0.05


def test_posterior_and_evidence_are_those_of_quadrature():
    """Of binary targets of users who differ much: over the intercept, the sd and users' levels.

    The log Bayes factor to .5 nats, log probabilities of users given the others to .1, means of the
    sd and the intercept to .2 sd and their sds to 10 %. With pseudo-observations that don't depend
    on hyperparameters the sd of the sd is a fifth too small.
    """
    rng = np.random.default_rng(5)
    level, users, days = 1.5 * rng.normal(size=25), range(25), range(8)
    table = pd.DataFrame(
        [
            (f"u{u:02d}", float(t), rng.binomial(1, expit(0.5 + level[u])))
            for u in users
            for t in days
        ],
        columns=["user", "week", "y"],
    )
    priors = {NOISE: pm.HalfNormal.dist(0.001)}
    model = kem.PopulationModel(cohort_of(table, family="binary"), [], ["level"], priors=priors)
    posterior, unit = model.fit(draws=4000), model.target_sd
    a, sds = np.linspace(-6, 8, 281), np.linspace(0.005, 8, 400)
    nodes, shares = hermegauss(60)
    g = a[:, None, None] + sds[:, None] * nodes
    ones = table.groupby("user")["y"].sum().to_numpy()
    of = {
        k: logsumexp(k * log_expit(g) + (8 - k) * log_expit(-g), b=shares / shares.sum(), axis=-1)
        for k in range(9)
    }
    prior = norm.logpdf(a, model.target_mean, DIFFUSE * unit)[:, None] + np.log(a[1] - a[0])
    of_sd = halfnorm.logpdf(sds, 0, 1.5 * unit) + np.log(sds[1] - sds[0])
    joint = sum(of[k] for k in ones) + prior + of_sd
    evidence = logsumexp(joint)
    none = logsumexp(ones.sum() * log_expit(a) + (200 - ones.sum()) * log_expit(-a) + prior[:, 0])
    compared = posterior.compare("personal level").iloc[0]
    assert compared["log_bayes_factor"] == pytest.approx(evidence - none, abs=0.5)
    left_out = posterior.leave_one_out().set_index("user")["log_density"]
    expected = [evidence - logsumexp(joint - of[k]) for k in ones]
    np.testing.assert_allclose(left_out[[f"u{u:02d}" for u in users]], expected, atol=0.1)
    shares = np.exp(joint - evidence)
    mean, (own, covariance) = posterior.weights, posterior.moments()
    sd = posterior.draws["personal level.sd"] * unit
    ours = mean @ sd, np.sqrt(mean @ (sd - mean @ sd) ** 2)
    intercept = own[0] * unit + model.target_mean, np.sqrt(covariance[0, 0]) * unit
    for (centre, spread), values, axis in ((ours, sds, 0), (intercept, a, 1)):
        weights = shares.sum(axis=axis)
        exact = weights @ values
        exact_sd = np.sqrt(weights @ (values - exact) ** 2)
        assert centre == pytest.approx(exact, abs=0.2 * exact_sd)
        assert spread == pytest.approx(exact_sd, rel=0.1)


def test_answers_are_near_those_of_estimating_equations():
    """Of counts in a balanced table: the rate ratio and the difference of rates, within .3 sd.

    Estimating equations (GEE) have no distribution of users, and no priors.
    """
    rng = np.random.default_rng(4)
    level = rng.normal(0, 0.4, 40)
    table = pd.DataFrame(
        [
            (f"u{u}", float(t), "ab"[u % 2], rng.poisson(np.exp(1 + level[u] + 0.5 * (u % 2))))
            for u in range(40)
            for t in range(4)
        ],
        columns=["user", "week", "arm", "y"],
    )
    cohort = cohort_of(table, family="count")
    row = kem.PopulationModel(cohort, ["arm"], ["level"]).fit(draws=400).comparisons("arm").iloc[0]
    b = (table["arm"] == "b").to_numpy(float)
    columns = np.column_stack([np.ones(len(b)), b])
    users = pd.factorize(table["user"])[0]
    family = families.Poisson()
    equal = cov_struct.Exchangeable()
    found = GEE(table["y"], columns, users, family=family, cov_struct=equal).fit()
    assert np.log(row["ratio"]) == pytest.approx(found.params.iloc[1], abs=0.3 * found.bse.iloc[1])
    rates = np.exp(found.params.iloc[0]), np.exp(found.params.sum())
    width = (row["difference_high_95"] - row["difference_low_95"]) / 3.92
    assert row["difference"] == pytest.approx(rates[1] - rates[0], abs=0.3 * width)


def test_the_direction_is_that_of_the_number_before_it():
    """Fails where the sign is that of latent values, on the other side of zero."""
    said = SimpleNamespace(estimate=-0.01, probability_of_direction=0.52, difference=0.002)
    assert _direction(said) == "it is positive with probability 0.480"
    latent = SimpleNamespace(estimate=-0.01, probability_of_direction=0.52)
    assert _direction(latent) == "it is negative with probability 0.520"
