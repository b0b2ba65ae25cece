"""Predictions for pilot users, against Gaussian processes written out in numpy."""

import re
from collections import Counter

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots.report.pilots import pilot_predictions
from kem_pymc.plots.report.sections import pilot_users
from kem_pymc.selection.online import QUANTILES
from tests.plots.report.conftest import FEATURE, USER, cohort


@pytest.fixture(scope="module")
def idata(study):
    return xr.open_datatree(study / "posterior.zarr", engine="zarr").load()


@pytest.fixture(scope="module")
def found(idata):
    return pilot_predictions(idata)


def draws_of(idata, u, t):
    """Yield the kernel of a dataset, as a function of two columns, and its noise, in each draw."""
    posterior = idata["posterior"].dataset.isel(user=u, time_step=t).stack(s=("chain", "draw"))
    for s in range(posterior.sizes["s"]):
        one = posterior.isel(s=s)
        value = dict(zip(one["hyperparameter"].values, one["hyperparameters"].values, strict=True))
        within = dict(zip(one["candidate"].values, one["inclusion"].values, strict=True))

        def kernel(a, b, value=value, within=within):
            total = np.zeros((len(a), len(b)))
            if within["LIN0"]:
                c = value["LIN0.shift"]
                total += value["LIN0.amplitude"] * np.outer(a - c, b - c)
            if within["SE0"]:
                apart = (a[:, None] - b) / value["SE0.lengthscale"]
                total += value["SE0.amplitude"] * np.exp(-0.5 * apart**2)
            return total

        yield kernel, float(one["noise"])


@pytest.mark.parametrize(("u", "t"), [(0, 0), (1, 1), (2, 0)])
def test_predictions_are_the_mixture_over_all_draws(idata, found, u, t):
    pilot = cohort()
    scaling = Scaling.unit(pilot)
    x, y = scaling.inputs(pilot.inputs[u])[:, 0], scaling.targets(pilot.targets[u])
    n, m = pilot.ends[u][t], pilot.ends[u][t + 1]
    means, sds = [], []
    for kernel, noise in draws_of(idata, u, t):
        inverse = np.linalg.inv(kernel(x[:n], x[:n]) + noise * np.eye(n))
        cross = kernel(x[:m], x[:n])
        means.append(cross @ inverse @ y[:n])
        variance = np.diag(kernel(x[:m], x[:m]) - cross @ inverse @ cross.T)
        sds.append(np.sqrt(variance + noise))
    own = found[(found["user"] == pilot.users[u]) & (found["time_step"] == t)]
    for name, probability in QUANTILES.items():
        shares = stats.norm.cdf(scaling.targets(own[name].to_numpy()), means, sds).mean(axis=0)
        np.testing.assert_allclose(shares, probability, atol=1e-6)
    np.testing.assert_allclose(own["observed"], pilot.targets[u][:m])
    np.testing.assert_allclose(own[FEATURE], pilot.inputs[u][:m, 0])
    assert own["seen"].tolist() == [True] * n + [False] * (m - n)


def test_users_have_their_own_time_steps_and_points(found):
    """Up to the end of the next time step; after the last one, the user's points."""
    sizes = found.groupby(["user", "time_step"], sort=False).size()
    assert sizes.loc[USER].tolist() == [6, 6]
    assert sizes.loc["u1"].tolist() == sizes.loc["u2"].tolist() == [6, 9, 9]
    assert found[(found["user"] == USER) & (found["time_step"] == 1)]["seen"].all()


def test_several_features_have_their_columns(wide_study):
    idata = xr.open_datatree(wide_study / "posterior.zarr", engine="zarr").load()
    found = pilot_predictions(idata)
    own = found[(found["user"] == "u1") & (found["time_step"] == 2)]
    features = cohort(features=(FEATURE, "age", "third")).inputs[1]
    np.testing.assert_allclose(own[idata["constant_data"]["feature"].values], features)


def test_a_posterior_without_its_data_has_no_predictions(idata):
    bare = idata.copy()
    bare["constant_data"] = xr.DataTree(idata["constant_data"].dataset[["study"]])
    assert pilot_predictions(bare) is None


def test_the_most_probable_compositions_are_listed(idata, study):
    """By hand, from the inclusion indicators of one dataset."""
    learned = Evolutions.load(study / "evolutions.json")
    users = pilot_users(None, learned, idata)["users"]
    inclusion = idata["posterior"]["inclusion"].stack(s=("chain", "draw"))
    rows = inclusion.isel(user=1, time_step=2).transpose("s", "candidate").values
    names = ["LIN0", "SE0"]
    counts = Counter(
        " + ".join(n for n, on in zip(names, row, strict=True) if on) or "noise only"
        for row in rows
    )
    (first, n), *others = counts.most_common(3)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", users[1]["table"])
    assert cells[10:12] + cells[13:15] == [
        *("3", first, f"{n / len(rows):.2f}"),
        ", ".join(f"{name} {count / len(rows):.2f}" for name, count in others),
    ]
