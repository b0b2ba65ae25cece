"""Standard tables of priors against the paper's numbers."""

import numpy as np
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc.data.families import Family
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
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


@pytest.mark.parametrize("unexplained", [1.0, 0.25])
def test_defaults_scale_with_what_is_to_be_explained(pool, unexplained):
    """Noise and amplitudes do, nothing else; one candidate enters on average."""
    table = prior_tables.default(pool, unexplained)
    shift = np.log(unexplained)
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
    assert (table.noise_floor, table.scaling) == (1e-3, "unit")


def test_a_lone_candidate_enters_half_of_the_time():
    pool = CandidatePool(["SE0"])
    assert prior_tables.default(pool).entering(pool.candidates[0]) == pytest.approx(0.5)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match=r"isn't a valid variance\. Give a positive number"):
            prior_tables.default(pool, wrong)


@pytest.mark.parametrize(("name", "level"), [("binary", 0.9), ("count", 1 / 3)])
def test_users_of_single_trials_have_a_level(name, level):
    """So little is seen of them that the prior decides; nothing else is other than usual."""
    pool = CandidatePool(["CONST", "LIN0", "SE0"])
    usual = prior_tables.default(pool, 0.5)
    table = prior_tables.default(pool, 0.5, Family(name))
    assert [*map(table.entering, pool)] == pytest.approx([level, 1 / 3, 1 / 3])
    assert {**table.to_dict(), "enter": None} == {**usual.to_dict(), "enter": None}
