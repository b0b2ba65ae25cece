"""Summaries of draws that plots show."""

import numpy as np

from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.plots.draws import candidate_labels, inclusion_shares, modal_compositions


def test_shares_of_candidates_are_over_draws(posterior):
    """Fails where a time step that a user lacks counts as one without candidates."""
    shares = inclusion_shares(posterior)
    assert shares.dims == ("user", "time_step", "candidate")
    np.testing.assert_array_equal(shares.sel(user=7, candidate="PER0"), [0, 0.75, 0.75])
    np.testing.assert_array_equal(shares.sel(user=8, candidate="LIN0"), 1)
    np.testing.assert_array_equal(shares.sel(user=9, candidate="LIN0"), [1, 1, np.nan])


def test_the_most_probable_composition_of_each_dataset(posterior):
    labels, shares = modal_compositions(Draws.of(posterior))
    assert labels[0] == ["LIN0", "LIN0 + PER0", "LIN0 + PER0"]
    assert labels[1] == ["LIN0"] * 3
    assert labels[2] == ["LIN0", "LIN0", None]
    np.testing.assert_array_equal(shares, [[1, 0.75, 0.75], [1, 1, 1], [1, 1, 0]])


def test_candidates_are_typeset_with_features_by_name(posterior, typed):
    assert list(map(typed, candidate_labels(posterior, False))) == ["LIN0", "PER0", "SE0"]
    assert list(map(typed, candidate_labels(posterior, True))) == [
        "LIN(week)",
        "PER(week)",
        "SE(week)",
    ]
