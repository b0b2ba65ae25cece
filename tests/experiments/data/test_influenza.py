"""The model of infections: conservation, the final size, and the effect of vaccination."""

import numpy as np
import pytest
from scipy.optimize import brentq

from experiments.data.influenza import AGES, EFFICACY, FIRST, INFECTED_DAYS, Epidemic, epidemic
from kem_pymc.data.datasets import DataFileNotFoundError
from kem_pymc.errors import InputError
from tests.data_home import needs


def small(reproduction=1.6, contacts=None, susceptibility=None):
    shares = np.array([0.27, 0.41, 0.19, 0.04, 0.09])
    # Contacts in proportion to shares: every group meets people at random.
    contacts = 12 * np.tile(shares, (5, 1)) if contacts is None else contacts
    own = np.ones(5) if susceptibility is None else susceptibility
    return Epidemic(contacts, shares, own, reproduction)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("reproduction", [1.4, 2.0])
def test_final_size_of_a_well_mixed_population(rate, reproduction):
    """``z = s (1 - exp(-R (z + i)))`` with susceptible and infected shares s and i at first."""
    susceptible = (1 - EFFICACY * rate) * (1 - FIRST)
    size = brentq(lambda z: z - susceptible * (1 - np.exp(-reproduction * (z + FIRST))), 1e-9, 1.0)
    days = small(reproduction).sick_days(np.full((1, 5), rate))
    exact = (size + FIRST) * INFECTED_DAYS * small().shares
    # A year is long enough for large epidemics only.
    tolerance = 1e-3 if reproduction * susceptible > 1.3 else 0.2
    np.testing.assert_allclose(days[0], exact, rtol=tolerance)


def test_reproduction_number_is_the_eigenvalue():
    """Of the next generation, whose rows are weighted by shares: else it is another one."""
    rng = np.random.default_rng(0)
    made = small(1.7, rng.uniform(0.5, 5, (5, 5)), rng.uniform(0.5, 1.5, 5))
    generation = made.transmission * made.shares[:, None] / made.shares * INFECTED_DAYS
    assert np.abs(np.linalg.eigvals(generation)).max() == pytest.approx(1.7, rel=1e-10)


def test_vaccination_helps_and_groups_add_up():
    made = small(1.8, np.random.default_rng(1).uniform(1, 5, (5, 5)))
    x = np.vstack([np.zeros(5), 0.5 * np.eye(5), np.ones(5)])
    days = made.sick_days(x)
    assert (days[1:].sum(axis=1) < days[0].sum()).all()
    assert days.sum(axis=1).max() <= INFECTED_DAYS
    one_by_one = np.vstack([made.sick_days(row) for row in x])
    np.testing.assert_allclose(days, one_by_one, rtol=2e-4)
    assert (days[6] < days[1:6].min(axis=0) + 1e-12).all()


@needs("contact")
def test_contacts_are_the_same_from_both_sides():
    found = epidemic()
    both = found.shares[:, None] * found.contacts
    np.testing.assert_allclose(both, both.T, rtol=1e-6)
    assert found.shares.sum() == pytest.approx(1)
    assert found.sick_days(np.zeros((1, 5))).shape == (1, len(AGES))


def test_what_is_refused(tmp_path):
    with pytest.raises(InputError, match="between 0 and 1"):
        small().sick_days(np.full((1, 5), 1.1))
    with pytest.raises(InputError, match="positive reproduction"):
        epidemic(-1.0, data_home=tmp_path)
    with pytest.raises(DataFileNotFoundError, match="us_mistry2021"):
        epidemic(data_home=tmp_path)
