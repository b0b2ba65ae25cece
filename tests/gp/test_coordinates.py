"""Coordinates and natural values are two ways to write the same."""

import math

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from tests.gp.objectives import POOL, coordinates


def test_coordinates_are_in_the_pools_order_and_read_back():
    pool = CandidatePool(["SE0", "LIN0"])  # not the composition's own order
    where = Coordinates(pool, Composition.parse("LIN0 + SE0"))
    expected = ("log SE0.amplitude", "log SE0.lengthscale", "log LIN0.amplitude", "LIN0.shift")
    assert where.names == (*expected, "log noise")
    values = np.array([0.1, -0.2, 0.3, -0.4, 0.5])
    named, noise = where.named(values)
    assert named["LIN0.shift"] == -0.4
    assert named["SE0.lengthscale"] == pytest.approx(math.exp(-0.2))
    np.testing.assert_allclose(where.from_named(named, noise), values, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("named", "noise"),
    [
        ({"LIN0.amplitude": 1.0}, 1.0),
        ({"LIN0.amplitude": -1.0, "LIN0.shift": 0.0}, 1.0),
        ({"LIN0.amplitude": 1.0, "LIN0.shift": math.inf}, 1.0),
        ({"LIN0.amplitude": 1.0, "LIN0.shift": 0.0}, 0.0),
    ],
)
def test_unusable_values_are_refused(named, noise):
    with pytest.raises(InputError, match=r"LIN0.*\. Give"):
        coordinates("LIN0").from_named(named, noise)


def test_expanded_values_stand_at_the_places_of_their_names():
    """Catches values in the composition's order, and values of candidates that aren't in."""
    where = coordinates("LIN0 x SE1 + PER1")
    values = np.arange(1.0, len(where) + 1)
    h, log_noise = where.expand(values)
    by_name = {name.removeprefix("log "): v for name, v in zip(where.names, values, strict=True)}
    assert log_noise == by_name.pop("noise")
    assert set(by_name) == {own.name for own in where.composition.hyperparameters}
    assert h.tolist() == [by_name.get(own.name, 0.0) for own in POOL.hyperparameters]


def test_logs_are_of_what_is_positive_and_other_names_are_ignored():
    where = coordinates("LIN0")
    assert where.positive.tolist() == [True, False, True]
    natural = {"LIN0.amplitude": 2.0, "SE0.amplitude": -7.0, "LIN0.shift": -0.5}
    np.testing.assert_allclose(
        where.from_named(natural, 0.25), [math.log(2), -0.5, math.log(0.25)], rtol=0, atol=1e-15
    )
    given = np.array([2.0, -0.5])
    np.testing.assert_array_equal(where.from_natural(given, 0.25), where.from_named(natural, 0.25))
    assert given.tolist() == [2.0, -0.5]


def test_compositions_from_elsewhere_are_refused_at_once():
    with pytest.raises(InputError, match="RQ0 is not in the candidate pool"):
        coordinates("LIN0 + RQ0")
