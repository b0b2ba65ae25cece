"""Probabilities of the parts of kernels, at the head of a report and in its tables."""

import numpy as np
import pytest
import xarray as xr

import kem_pymc as kem
from kem_pymc.diagnostics.parts import headline
from kem_pymc.reports.inclusion import bars, parts_in
from kem_pymc.reports.theme import Look
from tests.diagnostics.conftest import posterior_of
from tests.evolutions.by_hand import evolutions


def test_the_headline_is_the_probabilities_of_parts(page, study):
    """It comes first, before the verdict and the graph, and agrees with the table below it."""
    found = kem.diagnose(xr.open_datatree(study / "posterior.zarr", engine="zarr"), 3)
    sentences = [" ".join(s.split()) for s in headline(found.parts)]
    places = [page.text.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert (
        places[-1]
        < page.text.index("too few chains or draws to assess")
        < page.text.index("The graph of evolutions")
    )
    for row in found.parts.itertuples():
        chains = row[6:8]
        between = f" ({min(chains):.2f}\N{EN DASH}{max(chains):.2f})" * (chains[0] != chains[1])
        if row.probability >= 0.05:
            assert f"{row.probability:.2f}{between}" in page.text
    for word in ("Composition", "Part", "Parent", "Time step", "Noise only", "Evolution"):
        assert any(word == text.strip() for text in page.texts)


@pytest.fixture(scope="module")
def posterior():
    """LIN0 always; PER0 in 3 draws of 4, at the second time step, which the second user lacks."""
    inclusion = np.zeros((1, 4, 2, 2, 3), dtype=bool)
    inclusion[..., 0] = True
    inclusion[0, :3, 0, 1, 1] = True
    assignment = np.broadcast_to([[0, 1], [0, -1]], (1, 4, 2, 2)).copy()
    return posterior_of(inclusion, assignment)


def test_parts_by_time_step_are_averages_over_users(posterior):
    """Fails where a user who lacks a time step counts as one without the part."""
    found = parts_in(posterior, Look(("week",), {}))
    assert found.steps == [1, 2]
    assert [(label, shares) for label, _, shares in found.rows] == [
        *(("LIN0", [1, 1]), ("PER0", [0, 0.75]))
    ]
    assert found.hidden == 1


def test_bars_leave_out_the_improbable_but_never_noise_only(posterior):
    found = kem.diagnose(posterior)
    shown = bars(found.parts, evolutions(), Look(("week",), {}))
    kinds = [bar.kind for bar in shown]
    assert "nothing" in kinds
    assert "SE0" not in [bar.label for bar in shown]
    (per,) = [bar for bar in shown if bar.label == "PER0"]
    assert (per.low, per.high) == (per.probability, per.probability)
    assert per.first == 0
