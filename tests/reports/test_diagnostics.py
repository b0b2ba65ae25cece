"""Diagnostics of a posterior as text."""

from dataclasses import replace

import xarray as xr

import kem_pymc as kem
from kem_pymc.reports.diagnostics import headers, summarise_diagnosis
from tests.diagnostics.conftest import mixing, posterior_of


def test_diagnostics_and_settings_are_reported(page, study):
    found = kem.diagnose(xr.open_datatree(study / "posterior.zarr", engine="zarr"), 3)
    assert len(found.warnings) == 2
    for warning in found.warnings:
        what, _, helps = warning.rpartition(". ")
        assert f"{what}. Remedy: {helps}" in page.text
    assert "too few chains or draws to assess" in page.text
    for words in ("1, fixed", "LogNormal(2, 0.5)", "kem-pymc", "Transactions on Machine Learning"):
        assert words in page.text


def test_the_verdict_follows_from_warnings_and_numbers():
    """Fails where two chains without a warning are called unreliable, or few draws reliable."""
    posterior = posterior_of(*mixing())
    found = kem.diagnose(posterior)
    fine = summarise_diagnosis(replace(found, warnings=()), posterior)
    assert fine.fine
    assert fine.verdict.startswith("The chains agree.")
    assert fine.facts[0] == "4 chains of 200 draws."
    two = summarise_diagnosis(
        replace(found, warnings=("A is so. Do B.", "C is so, too. Do D.")), posterior
    )
    assert not two.fine
    assert two.verdict.startswith("2 warnings indicate")
    assert two.warnings == [("A is so.", "Do B."), ("C is so, too.", "Do D.")]
    few = summarise_diagnosis(replace(found, warnings=("A. Do B.",), n_draws=10), posterior)
    assert few.verdict.startswith("There are too few")
    assert len(fine.rows[0]) == len(headers())
