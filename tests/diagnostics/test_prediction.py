import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

from kem_pymc.diagnostics.power_scaling import log_prior_group
from kem_pymc.diagnostics.prediction import log_likelihood_group, next_batch
from kem_pymc.errors import InputError
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.evolution_model import EvolutionModel
from tests.clusters import cluster_of
from tests.tiny_study import make_cohort


def test_next_batch_is_the_gaussian_process_conditional(sampled, cohort):
    model, idata = sampled
    batches = next_batch(idata, model)
    assert list(zip(batches["user"].values, batches["time_step"].values, strict=True)) == [
        *(("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1))
    ]
    for draw, place in ((3, 1), (19, 2)):
        here = idata["posterior"].isel(chain=1, draw=draw)
        user, step = (batches[n].values[place] for n in ("user", "time_step"))
        u = cohort.users.index(user)
        cluster = cluster_of(model, idata, 1, draw, user, int(step))
        own = here["hyperparameters"].isel(user=u, time_step=step).dropna("hyperparameter")
        values = dict(zip(own["hyperparameter"].values, own.values, strict=True))
        old, new = (int(n) for n in cohort.ends[u][step : step + 2])
        x, y = cohort.inputs[u][:new], cohort.targets[u][:new]
        k = np.asarray(cluster.composition_covariance(values, x).eval())
        k = k + float(here["noise"].isel(user=u, time_step=step)) * np.eye(new)
        weights = np.linalg.solve(k[:old, :old], k[:old, old:]).T
        mean, covariance = weights @ y[:old], k[old:, old:] - weights @ k[:old, old:]
        expected = multivariate_normal(mean, covariance).logpdf(y[old:])
        assert batches["log_density"].values[1, draw, place] == pytest.approx(expected, abs=1e-8)


def test_seen_are_batches_in_a_later_dataset_of_the_cluster(sampled):
    model, idata = sampled
    batches = next_batch(idata, model)
    labels = idata["posterior"]["assignment"].values[:, :, 0]
    first = (labels[..., 0] == labels[..., 1]) | (labels[..., 0] == labels[..., 2])
    np.testing.assert_array_equal(batches["seen"].values[..., 0], first)
    np.testing.assert_array_equal(batches["seen"].values[..., 1], labels[..., 1] == labels[..., 2])


@pytest.mark.parametrize("function", [next_batch, log_prior_group])
def test_the_model_has_to_be_the_posteriors(sampled, pool, table, function):
    other = EvolutionModel(make_cohort(((2, 4), (2, 4))), pool, table, shared=None)
    with pytest.raises(InputError, match="other users, time steps"):
        function(sampled[1], other)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # 40 draws of a tiny study
def test_arviz_leaves_datasets_out(sampled, cohort):
    _, idata = sampled
    with_group = log_likelihood_group(idata)
    values = with_group["log_likelihood"]["targets"]
    assert values.shape == (2, 20, 8)
    place = list(zip(values["user"].values, values["time_step"].values, strict=True)).index(
        ("c", 1)
    )
    expected = idata["posterior"]["dataset_log_likelihood"].sel(user="c", time_step=1)
    np.testing.assert_array_equal(values.isel(dataset=place), expected)
    assert az.loo(with_group).n_data_points == cohort.steps.sum()
    assert "log_likelihood" not in idata.children


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of draws from the prior
def test_arviz_leaves_members_of_a_cluster_out(cohort, pool, table):
    model = ClusterModel(cohort, pool, "LIN0", priors=table)
    values = table.draw("LIN0", pool, 200, rng=2)
    posterior = {name: (("chain", "draw"), v[None]) for name, v in values.items()}
    draws = xr.DataTree.from_dict({"posterior": xr.Dataset(posterior)})
    with model:
        draws = pm.compute_log_likelihood(draws, progressbar=False)
    together = log_likelihood_group(draws)["log_likelihood"]["targets"]
    assert together.dims == ("chain", "draw", "dataset")
    assert sorted(zip(together["user"].values, together["time_step"].values, strict=True)) == [
        *(("a", 2), ("b", 1), ("c", 2))
    ]
    x, y = cohort.inputs[1][:, 0], cohort.targets[1]
    shift, noise = values["LIN0.shift"][7], values["noise"][7] * np.eye(len(x))
    k = values["LIN0.amplitude"][7] * np.outer(x - shift, x - shift)
    own = together.sel(dataset="b, 1").values[0, 7]
    assert own == pytest.approx(multivariate_normal(cov=k + noise).logpdf(y), abs=1e-6)
    assert az.loo(log_likelihood_group(draws)).n_data_points == 3


def test_log_likelihoods_of_other_models_are_refused():
    other = xr.Dataset({"height": (("chain", "draw", "n"), np.zeros((2, 3, 4)))})
    draws = xr.DataTree.from_dict({"posterior": xr.Dataset(), "log_likelihood": other})
    with pytest.raises(InputError, match="height"):
        log_likelihood_group(draws)


def test_posterior_predictive_draws_from_the_draws_kernels(cohort, pool, table):
    """Of one cluster of known kernel: variance of targets is amplitude plus noise."""
    model = EvolutionModel(cohort, pool, table, shared=None)
    structure, hyperparameters, _ = model.engine.simplest()
    structure[..., 2] = model.engine.present  # SE0 at every dataset
    names = [h.name for h in pool.hyperparameters]
    hyperparameters[..., names.index("SE0.amplitude")] = 2.0
    hyperparameters[..., names.index("SE0.lengthscale")] = 1.0
    point = {"structure": structure, "hyperparameters": hyperparameters}
    point["noise"] = np.where(model.engine.present, 0.5, np.nan)
    many = {n: np.broadcast_to(v, (1, 400, *v.shape)).copy() for n, v in point.items()}
    posterior = az.from_dict({"posterior": many})
    with model:
        drawn = pm.sample_posterior_predictive(
            posterior, var_names=["targets"], random_seed=1, progressbar=False
        )
    y = drawn["posterior_predictive"]["targets"].values[0]
    assert y.shape == (400, *model.engine.targets.shape)
    x = cohort.inputs[0][:6, 0]
    covariance = 2 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.5 * np.eye(6)
    found = np.cov(y[:, 0, 2].T)
    # The sd of a sample covariance of 400 draws is below 2.5 sqrt(2 / 400) = 0.18.
    assert np.abs(found - covariance).max() < 4.5 * 0.18
    assert (y[:, 1, 2] == 0).all()  # user b has no third time step


@pytest.mark.filterwarnings("ignore:np.dot")  # in PyTensor's draws of a multivariate normal
def test_cluster_models_have_prior_predictive_too(cohort, pool, table):
    with ClusterModel(cohort, pool, "SE0", members=[("a", 1)], priors=table):
        drawn = pm.sample_prior_predictive(5, random_seed=0)
    assert drawn["prior_predictive"]["y[a, 1]"].sizes["draw"] == 5
