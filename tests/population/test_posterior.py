"""Posteriors and answers against dense normals, quadrature and simulation."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.integrate import trapezoid
from scipy.special import logsumexp
from scipy.stats import expon, halfnorm, invgamma, multivariate_normal, norm, uniform

import kem_pymc as kem
from kem_pymc.errors import InputError
from kem_pymc.population.hyperparameters import scales
from kem_pymc.population.importance import sample, smoothed
from kem_pymc.population.likelihood import Products
from kem_pymc.population.sentences import sentences
from kem_pymc.population.variances import total, variances
from tests.population.dense import (
    ARMS,
    ROWS,
    SDS,
    TARGETS,
    answers,
    covariances,
    known_noise,
    standardised,
)
from tests.population.trial import cohort_of, trial


@pytest.mark.parametrize("known", [False, True])
def test_the_likelihood_is_that_of_a_normal_distribution(trial_posterior, noisy, known):
    """By NumPy and by PyTensor, with shared and personal smooth functions and their groups.

    And with known noise that is in another unit, or of other rows, in neither.
    """
    model = noisy if known else trial_posterior.model
    point = model.initial_point()
    natural = {}
    for h, (name, value) in zip(model.hyperparameters, point.items(), strict=True):
        positive = name.endswith("_log__")
        natural[h.name] = float(np.exp(value) if positive else np.tanh(value / 2))
    arm = (ROWS["arm"].to_numpy()[:, None] == ROWS["arm"].to_numpy()) - 1 / 3
    week, base = (standardised(ROWS, name) for name in ("week", "base"))
    diffuse = (1 + arm) * (1 + np.outer(week, week)) + np.outer(base, base)
    covariance = sum(covariances(natural, ROWS, ROWS)) + 1e6 * diffuse
    covariance += np.diag(natural["noise.sd"] ** 2 + known_noise(model))
    expected = multivariate_normal(np.zeros(len(TARGETS)), covariance).logpdf(TARGETS)
    arrays = {name: np.array([value]) for name, value in natural.items()}
    assert model.log_likelihood(arrays, model.products)[0] == pytest.approx(expected, abs=1e-6)
    log_prior = sum(float(pm.logp(h.prior, natural[h.name]).eval()) for h in model.hyperparameters)
    total = model.compile_logp(jacobian=False)(point)
    assert float(total) - log_prior == pytest.approx(expected, abs=1e-6)
    assert not known or np.isfinite(model.compile_dlogp()(point)).all()


def test_targets_are_simulated_with_known_noise(noisy):
    """Less what the shared line explains, they have the variances of noise, to 4 sds."""
    model = kem.PopulationModel(noisy.cohort, ["week"], ["level"])
    op, rng = model["targets"].owner.op, np.random.default_rng(0)
    drawn = np.array([op.rng_fn(rng, 0.0, 0.3, None) for _ in range(400)])
    shared = np.linalg.qr(model.shared(np.concatenate(model.cohort.inputs)))[0]
    beyond = np.eye(len(shared)) - shared @ shared.T
    expected = np.diag(beyond @ np.diag(0.3**2 + known_noise(model)) @ beyond)
    found = np.var(drawn @ beyond, axis=0)
    assert np.abs(found / expected - 1).max() < 4 * np.sqrt(2 / 400)


def test_no_known_noise_is_none_that_is_known(trial_posterior):
    """Bit for bit, and with the same coordinates."""
    model = trial_posterior.model
    zeros = tuple(np.zeros(len(y)) for y in model.cohort.targets)
    other = kem.PopulationModel(replace(model.cohort, noise=zeros))
    assert [h.coordinate for h in other.hyperparameters] == [
        h.coordinate for h in model.hyperparameters
    ]
    assert not other.has_known_noise
    found, expected = (m.log_likelihood(trial_posterior.draws, m.products) for m in (other, model))
    np.testing.assert_array_equal(found, expected)


def test_the_share_of_noise_contains_what_is_known(few, noisy):
    known = replace(few, model=noisy)
    more = known._variances[0]["noise"] - few._variances[0]["noise"]
    np.testing.assert_allclose(more, known_noise(noisy).mean() * (1 - 1 / len(SDS)))
    words = "noise includes that which is known"
    assert [words in " ".join(sentences(p, [])) for p in (few, known)] == [False, True]


def test_priors_are_those_that_are_documented(trial_posterior):
    """Densities of the coordinates, with Jacobians by differences, against SciPy.

    Fails where a scale or a family is another, a Jacobian is wrong or missing, or lengthscales
    shorter than the gap between weeks, or longer than twice their range, have more than 1 %.
    """
    model = trial_posterior.model
    priors = {
        "s(week)": expon(),
        "s(week):arm": expon(),
        "personal level": halfnorm(scale=1.5),
        "personal week": halfnorm(scale=1.5),
        "personal s(week)": expon(),
        "noise": halfnorm(scale=1.0),
    }
    priors = {f"{name}.sd": prior for name, prior in priors.items()}
    priors["personal week.correlation"] = uniform(-1.0, 2.0)
    for h in model.hyperparameters:
        if h.name.endswith(".lengthscale"):
            shape, scale = (float(p.eval()) for p in h.prior.owner.op.dist_params(h.prior.owner))
            priors[h.name] = invgamma(shape, scale=scale)
            # Six weeks, of which one apart have a distance of .4 in halves of the range.
            ends = priors[h.name].cdf(0.4), priors[h.name].sf(4.0)
            assert ends == pytest.approx((0.01, 0.01), abs=1e-4)
    assert set(priors) == {h.name for h in model.hyperparameters}
    rng = np.random.default_rng(0)
    places = rng.uniform(0.3, 0.9, (5, len(priors)))
    natural, beside = model.named(places), [model.named(places + side) for side in (-1e-6, 1e-6)]
    found = model.log_posterior(places, model.products)
    found -= model.log_likelihood(natural, model.products)
    expected = sum(
        priors[name].logpdf(values) + np.log((beside[1][name] - beside[0][name]) / 2e-6)
        for name, values in natural.items()
    )
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def levels():
    """A model with two hyperparameters, and its posterior on a grid of them."""
    table = trial().drop(columns=["base"])
    model = kem.PopulationModel(cohort_of(table), ["arm"], ["level"])
    level, noise = np.exp(np.linspace(-4, 2.5, 181)), np.exp(np.linspace(-1.5, 0.5, 121))
    grid = {"personal level.sd": np.repeat(level, 121), "noise.sd": np.tile(noise, 181)}
    log_prior = -((grid["personal level.sd"] / 1.5) ** 2) / 2 + np.log(2 / 1.5)
    log_prior += -(grid["noise.sd"] ** 2) / 2 + np.log(2) - np.log(2 * np.pi)
    log_density = model.log_likelihood(grid, model.products) + log_prior
    log_density += np.log(grid["personal level.sd"]) + np.log(grid["noise.sd"])
    height = log_density.max()
    area = np.exp(log_density - height).reshape(181, 121)
    evidence = height + np.log(trapezoid(trapezoid(area, np.log(noise)), np.log(level)))
    weights = np.exp(log_density - logsumexp(log_density))
    exact = kem.population.PopulationPosterior(model, grid, weights, -np.inf, evidence)
    return model.fit(), exact


def test_importance_sampling_agrees_with_quadrature(levels):
    """Estimates and ends of intervals within .08 sd, the evidence within .02.

    A wrong Jacobian would change ends by .1 sd or more, and weights without the proposal's density
    by .3.
    """
    found, exact = levels
    assert found.pareto_k < 0.7
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=0.02)
    one, other = found.comparisons("arm"), exact.comparisons("arm")
    for column in ("estimate", "sd", "low_95", "high_95"):
        assert (np.abs(one[column] - other[column]) < 0.08 * other["sd"]).all()
    parts = found.variance_shares(), exact.variance_shares()
    assert parts[0]["share"].to_numpy() == pytest.approx(parts[1]["share"].to_numpy(), abs=0.01)


def test_densities_without_a_user_are_those_of_quadrature(levels):
    """PSIS over the draws against quadrature over the same user's posterior of the others."""
    found, exact = levels
    table = found.leave_one_out()
    rows = found.model.products.rows
    for user in (0, 7):
        others = replace(exact, left_out=user)
        ratios = exact.log_likelihood - others.log_likelihood
        log_density = -logsumexp(np.log(exact.weights + 1e-300) - ratios)
        log_density -= rows[user] * np.log(found.model.target_sd)
        assert table["log_density"][user] == pytest.approx(log_density, abs=0.05)


def test_leaving_a_user_out_is_dropping_the_user(few, noisy):
    model = noisy
    others = replace(few, model=model, left_out=3)
    fewer = Products.of(*([*part[:3], *part[4:]] for part in model._columns()))
    expected = model.log_likelihood(few.draws, fewer)
    assert others.log_likelihood == pytest.approx(expected, abs=1e-6)


def test_shares_add_up_and_are_the_variances_of_simulated_functions(trial_posterior):
    """Personal parts against a thousand simulated users' functions at the observed rows."""
    parts = trial_posterior.variance_shares()
    assert parts["share"].sum() == pytest.approx(1)
    assert (parts["low_95"] <= parts["share"]).all()
    one = replace(
        trial_posterior,
        draws={name: values[:1] for name, values in trial_posterior.draws.items()},
        weights=np.ones(1),
    )
    share = one.variance_shares().set_index("component")["share"]
    model, rng = trial_posterior.model, np.random.default_rng(0)
    root = scales(model.shared, model.personal, one.draws).personal[0]
    found = np.zeros(3)
    for _ in range(2000):
        functions = [
            model.personal(x) @ root @ rng.normal(size=len(root)) for x in model.cohort.inputs
        ]
        means = np.concatenate([np.full(len(f), f.mean()) for f in functions])
        lines = []
        for x, f in zip(model.cohort.inputs, functions, strict=True):
            week = x[:, 0] - x[:, 0].mean()
            lines.append(week * (week @ f) / (week @ week))
        rest = np.concatenate(functions) - means - np.concatenate(lines)
        found += (
            np.array([means.var(), np.mean(np.concatenate(lines) ** 2), np.mean(rest**2)]) / 2000
        )
    noise = one.draws["noise.sd"][0] ** 2 * (1 - 1 / len(means))
    expected = found / noise * share["noise"]
    names = ["personal level", "personal line", "personal curve"]
    assert share[names].to_numpy() == pytest.approx(expected, rel=0.1)


def test_curves_differences_and_slopes_agree_with_each_other(trial_posterior):
    """Differences and slopes are those of curves; changes since a week are zero there."""
    at = {"week": [0.0, 2.0, 2.002]}
    curves = trial_posterior.predictions("arm", at).set_index(["group", "week"])["mean"]
    pairs = trial_posterior.comparisons("arm", over=at).set_index(["contrast", "week"])["estimate"]
    for week in at["week"]:
        difference = curves["placebo", week] - curves["low", week]
        assert pairs["placebo - low", week] == pytest.approx(difference)
    slopes = trial_posterior.slopes(by="arm", over={"week": [2.001]}).set_index("group")["estimate"]
    rise = (curves["low", 2.002] - curves["low", 2.0]) / 0.002
    assert slopes["low"] == pytest.approx(rise, rel=1e-4)
    changes = trial_posterior.comparisons("arm", over=at, baseline=0.0).set_index(
        ["contrast", "week"]
    )
    assert np.abs(changes.loc[("placebo - low", 0.0), ["estimate", "sd"]]).max() < 1e-6
    change = pairs["placebo - low", 2.0] - pairs["placebo - low", 0.0]
    assert changes.loc[("placebo - low", 2.0), "estimate"] == pytest.approx(change, abs=1e-6)
    strata = trial_posterior.comparisons("arm", by="arm")
    assert list(strata["group"].unique()) == ["high", "low", "placebo"]


@pytest.fixture(scope="module")
def few(trial_posterior):
    """A posterior of ten draws with unequal weights."""
    rng = np.random.default_rng(0)
    chosen = rng.choice(1000, 10, p=trial_posterior.weights)
    draws = {name: values[chosen] for name, values in trial_posterior.draws.items()}
    return replace(trial_posterior, draws=draws, weights=rng.dirichlet(np.full(10, 2.0)))


def cells(user, weeks):
    """Return the trial's rows with every arm and each of some weeks, and averages over them."""
    n, every = len(ROWS), [(arm, week) for arm in ARMS for week in weeks]
    points = [ROWS.assign(arm=arm, week=week, user=user) for arm, week in every]
    averages = np.kron(np.eye(len(every)), np.full(n, 1 / n))
    return pd.concat(points, ignore_index=True), averages, every


@pytest.mark.parametrize("known", [False, True])
def test_users_deviate_as_in_a_dense_normal(few, noisy, known):
    """Levels, lines, intervals, and probabilities beyond two sds, of three users.

    With a limit of 1.9 sds the largest probability would be .04 higher.
    """
    few = replace(few, model=noisy) if known else few
    found = few.users().set_index("user")
    week = ROWS["week"] - ROWS["week"].mean()
    own = np.array([np.full(len(ROWS), 1 / len(ROWS)), week / (week @ week)])
    for user in (found.index[0], found.index[4], found.index[-1]):
        points = ROWS.assign(user=user)
        (centre, _, low, high), (mean, variance, prior) = answers(few, points, 0 * own, own)
        for i, name in enumerate(("level", "line")):
            row = found.loc[user, [name, f"{name}_low_95", f"{name}_high_95"]]
            expected = centre[i], low[i], high[i]
            assert row.to_numpy(dtype=float) == pytest.approx(expected, abs=1e-5)
        within = norm(mean, np.sqrt(variance))
        inside = within.cdf(2 * prior) - within.cdf(-2 * prior)
        unusual = few.weights @ (1 - inside)
        assert found.loc[user, "unusual"] == pytest.approx(unusual.max(), abs=1e-6)


def test_the_curve_of_a_new_user_is_that_of_a_dense_normal(few):
    """Of a user beside those of the trial; bands of the mean alone are half as wide."""
    weeks = [0.0, 2.5]
    table = few.predictions("arm", {"week": weeks})
    points, averages, every = cells("new", weeks)
    assert list(zip(table["group"], table["week"], strict=True)) == every
    for own, prefix in ((0.0, ""), (1.0, "user_")):
        (centre, _, low, high), _ = answers(few, points, averages, own * averages)
        mean = few.model.target_mean
        assert table["mean"].to_numpy() == pytest.approx(centre + mean, abs=1e-5)
        assert table[f"{prefix}low_95"].to_numpy() == pytest.approx(low + mean, abs=1e-5)
        assert table[f"{prefix}high_95"].to_numpy() == pytest.approx(high + mean, abs=1e-5)


def test_differences_of_changes_are_those_of_a_dense_normal(few):
    """Averaged over the other features of all rows, and over the draws."""
    weeks = [0.0, 1.0, 5.0]
    table = few.comparisons("arm", over={"week": weeks[1:]}, baseline=0.0)
    points, averages, every = cells("new user", weeks)
    place = {cell: averages[i] for i, cell in enumerate(every)}
    changes = {cell: place[cell] - place[cell[0], 0.0] for cell in every}
    pairs = [(*row.contrast.split(" - "), row.week) for row in table.itertuples()]
    common = np.array([changes[b, week] - changes[a, week] for b, a, week in pairs])
    expected, (mean, variance, _) = answers(few, points, common, 0 * common)
    found = table[["estimate", "sd", "low_95", "high_95"]].to_numpy().T
    assert found == pytest.approx(expected, abs=1e-5)
    positive = few.weights @ norm(mean, np.sqrt(variance)).sf(0)
    direction = table["probability_of_direction"].to_numpy()
    assert direction == pytest.approx(np.maximum(positive, 1 - positive), abs=1e-6)


def test_terms_that_matter_are_told_from_those_that_do_not(mixed):
    """Users' levels have e^10 in their favour, in evidence and in predictions of other users."""
    row = mixed.fit().compare("personal level").iloc[0]
    assert row["log_bayes_factor"] > 10
    assert row["log_density"] > 2 * row["se"] > 0


def test_draws_of_other_samplers_are_read(trial_posterior):
    model = trial_posterior.model
    names = [h.name for h in model.hyperparameters]
    chosen = np.random.default_rng(0).choice(1000, 4000, p=trial_posterior.weights)
    draws = {name: trial_posterior.draws[name][chosen].reshape(4, 1000) for name in names}
    import arviz as az

    again = model.posterior(az.from_dict({"posterior": draws}))
    one, other = again.comparisons("arm"), trial_posterior.comparisons("arm")
    assert np.abs(one["estimate"] - other["estimate"]).max() < 0.15 * other["sd"].min()
    with pytest.raises(InputError, match=r"doesn't have"):
        model.posterior(az.from_dict({"posterior": {"noise.sd": draws["noise.sd"]}}))


def test_priors_can_be_replaced(mixed):
    """A prior that fixes the noise moves it there; its density is part of the evidence."""
    shared = [term.name for term in mixed.shared.terms]
    prior = {"noise.sd": pm.LogNormal.dist(np.log(0.9), 0.01)}
    model = kem.PopulationModel(mixed.cohort, shared, ["level", "week"], priors=prior)
    found = model.fit()
    assert found.weights @ found.draws["noise.sd"] == pytest.approx(0.9, abs=0.03)


def called(posterior, time):
    """Return a posterior given one draw, whose time has another name."""
    cohort = replace(posterior.model.cohort, features=(time, "arm", "base"), time=time)
    model = kem.PopulationModel(cohort, [time], ["level"])
    draws = {"personal level.sd": np.ones(1), "noise.sd": np.ones(1)}
    return kem.population.PopulationPosterior(model, draws, np.ones(1), -np.inf, np.nan)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.comparisons("week"), "has numbers"),
        (lambda p: p.comparisons("sex"), "no feature 'sex'"),
        (lambda p: p.slopes("arm"), "has categories"),
        (lambda p: p.comparisons("arm", baseline=0.0), "Give both"),
        (lambda p: p.comparisons("arm", over={"week": [5.0]}, baseline=-2.0), "isn't known beyond"),
        (lambda p: p.predictions(over={"week": [1.0, 30.0]}), r"s\(week\) isn't known beyond"),
        (lambda p: p.slopes(over={"week": [1.0], "base": [1.0]}), "doesn't name one"),
        (lambda p: p.predictions(user="nobody"), "no user 'nobody'"),
        (lambda p: p.compare("arm"), "isn't a term that can be left out"),
        (lambda p: called(p, "sd"), "'sd' is the name of a column of the answers"),
        (lambda p: type(p.model)(p.model.cohort, ["dose"]), "no feature 'dose'"),
        (lambda p: type(p.model)(p.model.cohort, ["s(arm)"]), "is a category"),
        (lambda p: type(p.model)(p.model.cohort, ["week", "week"]), "repeat one"),
        (lambda p: type(p.model)(p.model.cohort, None, ["arm:week"]), "personal term"),
        (lambda p: type(p.model)(p.model.cohort, priors={"x": 1}), "doesn't have"),
    ],
)
def test_questions_that_have_no_answer_are_refused(trial_posterior, ask, message):
    with pytest.raises(InputError, match=message):
        ask(trial_posterior)


def test_users_with_one_point_are_described_but_not_learned_from():
    table = pd.concat(
        [trial(), pd.DataFrame([("new", 2.0, "low", 50.0, 25.0)], columns=trial().columns)]
    )
    assert cohort_of(table).n_users == 13
    with pytest.raises(InputError, match="has one point"):
        kem.Cohort.from_frame(table, user="user", time="week", target="y", gaps="skip")


def test_the_mode_is_searched_for_in_every_region():
    """Of two regions, the one with little of the density has the first start.

    There are rounds until the weights are worth half of the draws asked for.
    """

    def log_density(points):
        near = norm.logpdf(points).sum(axis=1) + np.log(0.02)
        return np.logaddexp(near, norm.logpdf(points, -6.0, 0.3).sum(axis=1) + np.log(0.98))

    starts, low = np.array([[np.zeros(3)], [np.full(3, -5.0)]]), np.full(3, -np.inf)
    found = sample(log_density, starts, low, 400, np.random.default_rng(0))
    assert found.weights @ found.draws == pytest.approx(np.full(3, -6.0), abs=0.1)
    assert found.log_evidence == pytest.approx(np.log(0.98), abs=0.1)
    assert found.effective >= 200
    assert len(found.draws) == 400


def test_draws_of_all_rounds_have_weights_of_their_mixture():
    """Curvature at the mode is that of a narrow part, so the first round differs from the next.

    With weights of the last round's distribution alone, the log evidence is wrong by .2 to 1.8.
    """

    def log_density(points):
        narrow = norm.logpdf(points, scale=0.2).sum(axis=1) + np.log(0.1)
        return np.logaddexp(narrow, norm.logpdf(points).sum(axis=1) + np.log(0.9))

    starts, low = np.zeros((1, 1, 4)), np.full(4, -np.inf)
    found = sample(log_density, starts, low, 4000, np.random.default_rng(0))
    assert found.log_evidence == pytest.approx(0, abs=0.06)
    assert found.weights @ found.draws**2 == pytest.approx(np.full(4, 0.904), abs=0.1)


def test_repeated_draws_have_weights():
    log_weights, pareto_k = smoothed(np.zeros(100) - 5.0)
    np.testing.assert_allclose(np.exp(log_weights), 0.01)
    assert pareto_k == np.inf


def test_shares_of_effects_are_covered():
    """Of a line whose estimates are spread by their standard error around none to three of it.

    If the posterior variance were subtracted from ends, too, 92 % would hold the share of an effect
    of one and a half standard errors.
    Without bias, shares of other parts are covered, too: with eight users 89 % would hold that of
    noise if it were subtracted once, 95 % do (benchmarks/population.py).
    """
    model = kem.PopulationModel(cohort_of(trial()), ["week"], ["level"])
    spread = np.array([[0.0, 0.05]])
    draws = {"personal level.sd": np.full(2000, 0.5), "noise.sd": np.full(2000, 0.5)}
    every = scales(model.shared, model.personal, draws)
    root = np.broadcast_to(np.diag(spread[0]), (2000, 2, 2))
    for effect in (0, 1.5, 2, 3):
        parts, _ = variances(model, every.at(slice(1)), effect * spread, 0 * root[:1])
        truth = parts["week"][0] / total(parts)[0]
        held = []
        for away in norm.ppf((np.arange(200) + 0.5) / 200):
            estimate = np.broadcast_to((effect + away) * spread, (2000, 2))
            parts, lengthwise = variances(model, every, estimate, root)
            draws_of_share = (parts["week"] + lengthwise["week"]) / total(parts)
            low, high = np.quantile(draws_of_share, (0.025, 0.975))
            held.append(round(low, 2) <= truth <= high)
        assert np.mean(held) >= 0.95


def test_a_model_is_forgotten_with_its_data(mixed):
    """Not kept by PyMC's registers, as those of pm.CustomDist are: 20,000 rows, at each fit."""
    model = kem.PopulationModel(mixed.cohort, ["week"], ["level"])
    model.fit(draws=100).users()
    kept = weakref.ref(model)
    del model
    gc.collect()
    assert kept() is None
