"""Predictions for pilot users, against Gaussian processes written out in numpy."""

from collections import Counter

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from kem_pymc.data.scaling import Scaling
from kem_pymc.reports.pilots import pilots
from tests.reports.conftest import FEATURE, USER, cohort


@pytest.fixture(scope="module")
def idata(study):
    return xr.open_datatree(study / "posterior.zarr", engine="zarr").load()


@pytest.fixture(scope="module")
def found(idata):
    return pilots(idata)


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
    means, variances, noises = [], [], []
    for kernel, noise in draws_of(idata, u, t):
        inverse = np.linalg.inv(kernel(x[:n], x[:n]) + noise * np.eye(n))
        cross = kernel(x[n:m], x[:n])
        means.append(cross @ inverse @ y[:n])
        variances.append(np.diag(kernel(x[n:m], x[n:m]) - cross @ inverse @ cross.T))
        noises.append(noise)
    message = found[u].steps[t].predicted
    sds = np.sqrt(variances)
    observed = np.sqrt(np.array(variances) + np.array(noises)[:, None])
    for sd, ends, share in [
        (sds, message.ahead.median, 0.5),
        (sds, message.ahead.function[0], 0.025),
        (sds, message.ahead.function[1], 0.975),
        (observed, message.ahead.observed[0], 0.025),
        (observed, message.ahead.observed[1], 0.975),
    ]:
        # A kernel of noise alone has no spread: the distribution function may jump over the share.
        up_to, sd = np.array(means) + np.array([[[-1e-7]], [[1e-7]]]), np.maximum(sd, 1e-12)
        above, below = stats.norm.cdf(scaling.targets(ends), up_to, sd).mean(axis=1)
        assert (below - 1e-6 <= share).all()
        assert (share <= above + 1e-6).all()
    np.testing.assert_allclose(message.seen[:, 1], pilot.targets[u][:n])
    np.testing.assert_allclose(message.seen[:, 0], pilot.inputs[u][:n, 0])
    np.testing.assert_allclose(message.following[:, 1], pilot.targets[u][n:m])
    low, high = message.ahead.observed
    inside = (low < pilot.targets[u][n:m]) & (pilot.targets[u][n:m] < high)
    assert message.covered == inside.sum()


def test_compositions_are_the_most_frequent_ones(idata, found):
    inclusion = idata["posterior"]["inclusion"].stack(s=("chain", "draw"))
    rows = inclusion.isel(user=1, time_step=2).transpose("s", "candidate").values
    names = ["LIN0", "SE0"]
    counts = Counter(
        " + ".join(n for n, on in zip(names, row, strict=True) if on) or "WHITE" for row in rows
    )
    likely = {str(c): p for c, p in found[1].steps[2].likely}
    assert likely == {name: n / len(rows) for name, n in counts.items() if n / len(rows) >= 0.02}
    shares = [p for _, p in found[1].steps[2].likely]
    assert shares == sorted(shares, reverse=True)


def test_users_have_their_own_time_steps_and_points(found):
    assert [p.user for p in found] == [USER, "u1", "u2"]
    assert [[s.n_points for s in p.steps] for p in found] == [[3, 6], [3, 6, 9], [3, 6, 9]]
    assert not len(found[0].steps[-1].predicted.following)
    assert found[0].steps[-1].predicted.continuous


def test_several_features_are_drawn_by_order_of_arrival(wide_study):
    idata = xr.open_datatree(wide_study / "posterior.zarr", engine="zarr").load()
    message = pilots(idata)[1].steps[1].predicted
    assert not message.continuous
    np.testing.assert_array_equal(message.seen[:, 0], np.arange(1, 7))
    np.testing.assert_array_equal(message.curve.at, message.seen[:, 0])
    np.testing.assert_array_equal(message.ahead.at, [7, 8, 9])


def test_a_posterior_without_its_data_has_kernels_but_no_predictions(idata, found):
    constant = idata["constant_data"].dataset
    assert constant["inputs"].dims == ("user", "point", "feature")
    assert constant["feature"].values.tolist() == [FEATURE]
    bare = idata.copy()
    bare["constant_data"] = xr.DataTree(constant[["study"]])
    message = pilots(bare)
    assert [s.likely for p in message for s in p.steps] == [
        s.likely for p in found for s in p.steps
    ]
    assert all(s.predicted is None for p in message for s in p.steps)
