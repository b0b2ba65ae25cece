"""Standard tables of priors against the paper's numbers."""

import numpy as np
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc.data.families import Family
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors import Unexplained
from kem_pymc.priors.distributions import constants


def values(table, name):
    """Return the parameters of a prior, which is log-normal or, of a shift, normal."""
    rv = table.hyperparameters[name]
    assert rv.owner.op._print_name[0] == ("Normal" if name == "shift" else "LogNormal")
    return constants(rv)


@pytest.mark.parametrize(
    ("table", "lengthscale", "period"),
    [
        (prior_tables.synthetic, (0, 2), (np.log(5), 0.25)),
        (prior_tables.paper, (np.log(0.2), 0.5), (np.log(0.2), 0.25)),
    ],
)
def test_tables_are_the_papers(pool, table, lengthscale, period):
    made = table()
    expected = {"lengthscale": lengthscale, "period": period}
    expected |= {"amplitude": (0, 2), "shift": (0, 0.1)}
    for name, parameters in expected.items():
        assert values(made, name) == pytest.approx(parameters, abs=1e-7)
    assert (made.noise.mu, made.noise.sigma) == ((2, 1, 0), (0.5, 1, 2))
    assert (made.stay, made.noise_floor) == (0.9, 0.01)
    assert list(map(made.entering, pool)) == [0.1, 0.1, 0.02]


@pytest.mark.parametrize("unexplained", [None, Unexplained(0.25, 0.04)])
def test_defaults_scale_with_what_is_to_be_explained(pool, unexplained):
    """Noise, amplitudes and the floor do, nothing else; one candidate enters on average."""
    table = prior_tables.default(pool, unexplained)
    total, within = unexplained or (1.0, 1.0)
    shift = np.log(total)
    expected = {
        "amplitude": (-0.7 + shift, 1.5),
        "lengthscale": (np.log(0.4), 0.7),
        "period": (np.log(0.2), 0.25),
        "shift": (0.5, 0.5),
    }
    for name, parameters in expected.items():
        assert values(table, name) == pytest.approx(parameters, abs=1e-6)
    noise = (-1.5 + shift, 1.2)
    assert constants(table.noise_without_parent) == pytest.approx(noise, abs=1e-6)
    assert constants(table.noise(None)) == pytest.approx(noise, abs=1e-6)
    assert sum(map(table.entering, pool)) == pytest.approx(1)
    assert (table.noise_floor, table.scaling) == (pytest.approx(1e-3 * within), "unit")


def test_what_is_to_be_explained_leaves_out_users_means_and_known_noise():
    levels = [np.array([9.0, 11.0]), np.array([-4.0]), np.array([0.0, 1.0, 2.0])]
    total, within = (81 + 121 + 16 + 0 + 1 + 4) / 6, (1 + 1 + 0 + 1 + 0 + 1) / (1 + 0 + 2)
    assert Unexplained.of(levels) == pytest.approx((total, within))
    noise = [np.full(len(y), 0.5) for y in levels]
    assert Unexplained.of(levels, noise) == pytest.approx((total - 0.25, within - 0.25))
    much = [np.full(len(y), 9.0) for y in levels]
    assert Unexplained.of(levels, much) == pytest.approx((0.1 * total, 0.1 * within))
    assert Unexplained.of([y[:1] for y in levels]) == pytest.approx(((81 + 16) / 3,) * 2)
    constant = Unexplained.of([np.full(3, 2.0), np.full(3, -2.0)])
    assert constant == pytest.approx((4, 4e-3))  # so that noise has a floor


def test_a_lone_candidate_enters_half_of_the_time():
    pool = CandidatePool(["SE0"])
    assert prior_tables.default(pool).entering(pool.candidates[0]) == pytest.approx(0.5)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        for unexplained in (Unexplained(wrong, 1.0), Unexplained(1.0, wrong)):
            with pytest.raises(InputError, match=r"isn't valid\. Give positive, finite variances"):
                prior_tables.default(pool, unexplained)


@pytest.mark.parametrize(("name", "level"), [("binary", 0.9), ("count", 1 / 3)])
def test_users_of_single_trials_have_a_level(name, level):
    """So little is seen of them that the prior decides; nothing else is other than usual."""
    pool = CandidatePool(["CONST", "LIN0", "SE0"])
    usual = prior_tables.default(pool)
    table = prior_tables.default(pool, family=Family(name))
    assert [*map(table.entering, pool)] == pytest.approx([level, 1 / 3, 1 / 3])
    assert {**table.to_dict(), "enter": None} == {**usual.to_dict(), "enter": None}
