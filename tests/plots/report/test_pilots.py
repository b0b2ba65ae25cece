"""Pilot users as if they were new: without their draws."""

import pytest
import xarray as xr

import kem_pymc as kem
from kem_pymc.plots.report.pilots import selected_without
from kem_pymc.plots.report.report import report
from kem_pymc.selection import pilots
from tests.plots.report.conftest import USER, cohort
from tests.shown import Page


@pytest.fixture(scope="module")
def idata(study):
    return xr.open_datatree(study / "posterior.zarr", engine="zarr").load()


def test_selections_are_those_of_a_new_user(idata):
    """Fails where a user's own draws take part, or the data of another user."""
    kernels, predictions = selected_without(idata)
    own = cohort()
    for u, user in enumerate(own.users):
        learned = kem.Evolutions.from_posterior(idata, without=u)
        previous = None
        mine = kernels[kernels["user"] == user]
        for end, composition in zip(own.ends[u], mine["composition"], strict=True):
            x, y = own.inputs[u][:end], own.targets[u][:end]
            previous = kem.KEMSelector(learned).select(x, y, previous)
            assert previous.composition == composition
        last = predictions[(predictions["user"] == user) & (predictions["time_step"] == 1)]
        assert last["seen"].sum() == own.ends[u][1]
    assert kernels["user"].nunique() == 3


def test_with_many_time_steps_users_are_spread(folder, monkeypatch):
    monkeypatch.setattr(pilots, "SELECTIONS", 3)
    page = Page(report(folder).read_text("utf-8"))
    assert "The kernel of 1 of 3 pilot users at every time step" in page.text
    assert "Kernels of user u1 " in page.text
    assert f"Kernels of user {USER}" not in page.text[: page.text.index("New users The kernel")]
    assert "learned from 3 pilot users" in page.text
