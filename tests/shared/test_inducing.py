"""Inducing points."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared import inducing
from kem_pymc.shared.inducing import FEWEST, TOLERANCE, places_near, with_inducing_points
from kem_pymc.shared.two_level import TwoLevel
from tests.gp.problems import composition_covariance
from tests.shared.two_levels import NOISE, OWN, PERSONAL, SHARED, VALUES


def test_inducing_points_are_no_rows_of_users(model, users):
    rows = np.concatenate(users[0])
    gaps = np.abs(model.kernel.inducing[:, None] - rows[None]).max(axis=2)
    assert gaps.min() > 1e-6


def variances_left(chosen, places):
    """Return the variances at places that are left given the function at the chosen ones."""
    rest = Composition.parse("SE0 x SE1")
    cross = composition_covariance(rest, VALUES, chosen, places)
    gram = composition_covariance(rest, VALUES, chosen, chosen)
    return 1.3 - np.einsum("ij,ij->j", cross, np.linalg.solve(gram, cross))


def test_the_next_point_is_where_most_variance_is_left(model, users):
    """The places by brute force: Schur complements instead of a running factor."""
    places = places_near(users[0], np.random.default_rng(0), [])
    points = model.kernel.inducing
    for n in range(1, 12):
        left = variances_left(points[:n], places)
        np.testing.assert_array_equal(places[np.argmax(left)], points[n])


def test_points_are_added_until_hardly_any_variance_is_left(model, users):
    places = places_near(users[0], np.random.default_rng(0), [])
    points = model.kernel.inducing
    limit = TOLERANCE * NOISE
    assert variances_left(points, places).max() < 1.05 * limit
    assert variances_left(points[:-1], places).max() > 0.95 * limit


def test_there_are_no_more_points_than_allowed(model, users, monkeypatch):
    monkeypatch.setattr(inducing, "MOST", 5)
    plain = replace(model, kernel=replace(model.kernel, inducing=np.empty((0, 2))))
    few = with_inducing_points(plain, users[0], np.random.default_rng(0))
    np.testing.assert_array_equal(few.kernel.inducing, model.kernel.inducing[:5])


def test_lines_need_no_points(users):
    kernel = SharedKernel(Composition.parse("CONST + LIN1"), VALUES, 2, np.empty((0, 2)))
    plain = TwoLevel(kernel, PERSONAL, OWN, NOISE)
    assert with_inducing_points(plain, users[0], np.random.default_rng(0)) is plain
    assert len(SHARED) == 3


@pytest.mark.parametrize("categories", [[], [1]])
def test_places_mix_two_users_except_in_categories(categories):
    """Catches places that are rows, mixtures within a user, and values between levels."""
    rng = np.random.default_rng(3)
    inputs = [np.column_stack([rng.uniform(u, u + 0.01, 10), np.full(10, 2.0 * u)]) for u in (0, 1)]
    places = places_near(inputs, rng, categories)
    assert len(places) >= FEWEST
    # A quarter to three quarters of the way from one user to the other, but for the shift.
    assert ((places[:, 0] > 0.24) & (places[:, 0] < 0.77)).all()
    levels = np.isin(places[:, 1], [0.0, 2.0])
    assert levels.all() if categories else not levels.any()
