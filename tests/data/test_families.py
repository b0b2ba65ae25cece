"""Families: what is learned is what was simulated, and what can't be is refused."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm

from kem_pymc.data.families import NAMES, Family, advice
from kem_pymc.data.likelihoods import CumulativeProbit, StudentT
from kem_pymc.errors import InputError

CUTS = (-1.0, 0.2, 1.5)


def simulated(name, rng, users=120, n=24):
    """Return targets and sizes of users with levels of their own, which also drift."""
    targets, sizes = [], []
    for _ in range(users):
        g = 0.4 + 0.8 * rng.normal() + 1.2 * np.sin(np.arange(n) / 5 + 6 * rng.uniform())
        size = rng.integers(1, 9, n).astype(float)
        targets.append(
            {
                "count": lambda g=g, size=size: rng.poisson(size * np.exp(g)),
                "binary": lambda g=g: rng.binomial(1, 1 / (1 + np.exp(-g))),
                "binomial": lambda g=g, size=size: rng.binomial(
                    size.astype(int), 1 / (1 + np.exp(-g))
                ),
                "ordinal": lambda g=g: 2 + np.searchsorted(CUTS, g + rng.normal(size=n)),
                "positive": lambda g=g: rng.gamma(4, np.exp(g) / 4),
                "student": lambda g=g: 30 + 10 * (g + 0.5 * rng.standard_t(4, size=n)),
            }[name]()
        )
        sizes.append(size)
    return targets, sizes if name in ("count", "binomial") else None


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_is_what_was_simulated(name):
    """Fails if drifts within users are taken for the spread of targets, as of one level a user."""
    family = Family.learn(name, *simulated(name, np.random.default_rng(3)))
    if name == "ordinal":
        lowest, *cuts = family.parameters
        assert lowest == 2
        assert np.diff(cuts) == pytest.approx(np.diff(CUTS), rel=0.1)
    elif name == "positive":
        assert family.parameters == pytest.approx((4,), rel=0.15)
    elif name == "student":
        assert family.parameters[0] == pytest.approx(4, rel=0.3)
        assert family.parameters[1] == pytest.approx(5, rel=0.15)
        assert family.latent is None
        return
    mean, sd = family.latent
    assert mean == pytest.approx(0 if name == "ordinal" else 0.4, abs=0.25)
    assert sd == pytest.approx(np.hypot(0.8, 1.2 / np.sqrt(2)), rel=0.2)


def test_latent_values_of_users_who_are_all_or_none_are_most_probable_by_a_fine_grid():
    """Within .2 nats of the best; with 15 nodes it is 2.2 nats, as an sd of 10 seems better."""
    rng, fine = np.random.default_rng(3), np.linspace(-80, 80, 4001)
    log_odds = np.repeat(rng.normal(-5, 6, size=(60, 1)), 6, axis=1)
    targets = rng.binomial(1, expit(log_odds)).astype(float)
    events = targets.reshape(-1, 2).sum(axis=1)[:, None]
    each = events * log_expit(fine) + (2 - events) * log_expit(-fine)

    def log_likelihood(mean, sd):
        return logsumexp(each + norm.logpdf(fine, mean, sd), axis=1).sum()

    best = max(log_likelihood(m, s) for m in np.arange(-12, 0) for s in np.arange(2, 11))
    assert log_likelihood(*Family.learn("binary", targets).latent) > best - 0.2


def test_levels_that_nobody_has_are_rare():
    """As rare as half of one observation; fails if cut points coincide, or move others."""
    targets, _ = simulated("ordinal", np.random.default_rng(5), users=40)
    gap = [np.where(y > 3, y + 1, y) for y in targets]  # there is no level 4
    family = Family.learn("ordinal", gap)
    assert family.levels.tolist() == [2, 3, 4, 5, 6]
    known = np.delete(family.parameters[1:], 2)
    assert known == pytest.approx(Family.learn("ordinal", targets).parameters[1:], abs=0.02)
    ends = np.array(family.parameters[2:4]) / np.hypot(1, family.latent[1])
    assert np.diff(norm.cdf(ends)) == pytest.approx(0.5 / np.concatenate(gap).size, rel=0.2)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("positive", [[1.0], [2.0], [0.3]]),
        ("positive", [[2.0, 2.0], [2.0]]),
        ("student", [[1.0], [5.0]]),
        ("student", [[1.0, 1.0], [1.0]]),
        ("ordinal", [[1.0], [3.0]]),
        ("count", [[0.0], [0.0, 0.0]]),
        ("binary", [[1.0, 1.0], [1.0]]),
    ],
)
def test_few_or_constant_targets_still_give_a_family(name, targets):
    family = Family.learn(name, targets)
    assert np.isfinite(family.parameters).all()
    if name == "student":
        assert family.parameters[0] == pytest.approx(4)
    z, v = family.pseudo_observations(np.concatenate(targets))
    assert np.isfinite(z).all()
    assert (v > 0).all()


def test_pseudo_observations_give_pilots_latent_values_their_moments():
    family = Family("count", (), (-1.5, 0.8))
    y, exposure = np.array([0.0, 2.0]), np.array([1.0, 4.0])
    z, v = family.pseudo_observations(y, exposure)
    g = np.linspace(-10, 6, 40_001)[:, None]
    weights = np.exp(family.log_density(y, g, exposure)) * norm.pdf(g, -1.5, 0.8)
    weights /= weights.sum(axis=0)
    mean = (weights * g).sum(axis=0)
    precision = 1 / (weights * (g - mean) ** 2).sum(axis=0)
    np.testing.assert_allclose(1 / v + 0.8**-2, precision, rtol=1e-7)
    np.testing.assert_allclose((z / v - 1.5 * 0.8**-2) / precision, mean, rtol=1e-7)


def test_families_are_plain_data_and_say_what_they_are():
    family = Family("ordinal", (1, -0.5, 1.25), (0.0, 1.0))
    assert Family(**asdict(family)) == family
    assert isinstance(family.likelihood, CumulativeProbit)
    assert str(family) == "ordinal, levels 1 to 3 cut at -0.50, 1.25"
    assert family.label("pain") == "probit score of pain"
    student = Family("student", [4, 0.5])
    assert (student.label("y"), student.discrete) == ("y", False)
    assert isinstance(student.likelihood, StudentT)
    assert Family("count").label("y") == "log rate of y"


@pytest.mark.parametrize(
    ("name", "y", "sizes", "message"),
    [
        ("count", [1.5], None, r"1.5 of user 3 isn't a whole number"),
        ("count", [-1.0], None, r"-1 of user 3 can't belong to the family count.*from 0 on"),
        ("count", [1.0], [0.0], r"exposure 0 of user 3"),
        ("count", [np.nan], None, r"nan of user 3"),
        ("binary", [2.0], None, r"0 and 1"),
        ("binary", [1.0], [1.0], r"have none"),
        ("binomial", [1.0], None, r"no numbers of trials of user 3"),
        ("binomial", [1.0], [2.5], r"number of trials 2.5 of user 3"),
        ("binomial", [3.0, 1.0], [2.0, 2.0], r"3 of user 3.*number of trials"),
        ("binomial", [3.0, 1.0], [2.0], r"shape \(1,\)"),
        ("ordinal", [4.0], None, r"levels 1 to 3 of the pilot"),
        ("positive", [0.0], None, r"numbers above 0"),
        ("student", [np.inf], None, r"finite numbers"),
    ],
)
def test_what_is_no_target_of_the_family_is_refused(name, y, sizes, message):
    parameters = {"ordinal": (1, 0, 1), "positive": (1,), "student": (4, 1)}.get(name, ())
    with pytest.raises(InputError, match=message):
        Family(name, parameters).check(y, sizes, " of user 3")


@pytest.mark.parametrize(
    ("name", "parameters", "latent"),
    [
        ("poisson", (), None),
        ("count", (1.0,), None),
        ("ordinal", (), None),
        ("ordinal", (1.0, 2.0, 2.0), None),
        ("ordinal", (0.5, 2.0), None),
        ("positive", (0.0,), None),
        ("student", (2.0, 1.0), None),
        ("student", (4.0, 1.0), (0.0, 1.0)),
        ("count", (), (0.0, 0.0)),
        ("count", (), (0.0,)),
        ("positive", ("wide",), None),
    ],
)
def test_what_is_no_family_is_refused(name, parameters, latent):
    with pytest.raises(InputError, match="family"):
        Family(name, parameters, latent)


@pytest.mark.parametrize("targets", [[3.0, 3.0], [1.0, 40.0], [1.0, 1.5]])
def test_what_are_no_levels_is_refused(targets):
    with pytest.raises(InputError, match=r"level|whole"):
        Family.learn("ordinal", [targets])


def test_families_are_advised_where_a_table_shows_them():
    assert advice(np.random.default_rng(0).normal(size=50)) is None
    assert advice([0.0, 1.0, 1.0])[0] == "binary"
    name, why = advice(np.tile([0.0, 3.0, 0.0, 7.0], 20))
    assert (name, why[:26]) == ("count", "is a count with 50 % zeros")
    name, why = advice([1.0, 2.0, 5.0, 4.0])
    assert (name, why[:32]) == ("ordinal", "is a whole number from 1 to 5; t")
    assert advice(np.arange(1.0, 60.0)) is None
