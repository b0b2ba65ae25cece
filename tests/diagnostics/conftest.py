"""Posteriors by hand, whose answers are known."""

import json

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from kem_pymc import priors as prior_tables
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.sampler.moves.sweep import CUT
from tests.tiny_study import make_cohort

POOL = ["LIN0", "PER0", "SE0"]


def posterior_of(inclusion, assignment, *, noise=None, log_joint=None, concentration=1.0, **stats):
    """Return a DataTree from arrays (chain, draw, user, time step, ...)."""
    shape = assignment.shape
    rng = np.random.default_rng(7)
    noise = np.exp(rng.normal(size=shape)) if noise is None else noise
    log_joint = rng.normal(size=shape[:2]) if log_joint is None else log_joint
    dims = ("chain", "draw", "user", "time_step")
    clusters = [[len(np.unique(a[a >= 0])) for a in chain] for chain in assignment]
    alpha = {} if isinstance(concentration, float) else {"concentration": (dims[:2], concentration)}
    prior = {"shape": 2.0, "rate": 2.0} if alpha else concentration
    settings = {
        **{"pool": POOL, "dimension": 1, "features": ["week"], "target": "steps"},
        **{"scaling": Scaling.identity(1).to_dict(), "priors": {}},
        **{"concentration": prior, "versions": {}},
    }
    posterior = xr.Dataset(
        {
            "inclusion": ((*dims, "candidate"), inclusion.astype("int8")),
            "assignment": (dims, assignment.astype("int32")),
            "noise": (dims, np.where(assignment >= 0, noise, np.nan)),
            "n_clusters": (dims[:2], np.array(clusters)),
            "log_joint": (dims[:2], log_joint),
            **alpha,
        },
        coords={
            **{"chain": range(shape[0]), "draw": range(shape[1]), "candidate": POOL},
            **{"user": [f"u{u}" for u in range(shape[2])], "time_step": range(shape[3])},
        },
    )
    study = xr.Dataset(
        {"study": ("setting", np.arange(len(settings)))},
        coords={"setting": [f"{k}: {json.dumps(v)}" for k, v in settings.items()]},
    )
    statistics = xr.Dataset({name: (dims[:2], values) for name, values in stats.items()})
    return xr.DataTree.from_dict(
        {"posterior": posterior, "sample_stats": statistics, "constant_data": study}
    )


def mixing(chains=4, draws=200, users=2, steps=2, seed=0):
    """Return independent draws: LIN0 always, PER0 in half of the draws for all datasets at once."""
    rng = np.random.default_rng(seed)
    inclusion = np.zeros((chains, draws, users, steps, 3), dtype=bool)
    inclusion[..., 0] = True
    inclusion[..., 1] = rng.random((chains, draws))[..., None, None] < 0.5
    assignment = np.broadcast_to(np.arange(steps), (chains, draws, users, steps)).copy()
    return inclusion, assignment


@pytest.fixture(scope="session")
def mixed():
    """Four chains that agree, with statistics of the step."""
    shape = (4, 200)
    return posterior_of(
        *mixing(),
        acceptance_add=np.full(shape, 0.25),
        acceptance_path=np.full(shape, np.nan),
        factorisations=np.full(shape, 10),
        failed_factorisations=np.zeros(shape, dtype=int),
    )


@pytest.fixture(scope="session")
def cohort():
    return make_cohort()


@pytest.fixture(scope="session")
def pool():
    return CandidatePool(["LIN0", "SE0", "LIN0 x PER0"])


@pytest.fixture(scope="session")
def table():
    return prior_tables.synthetic().replace(lengthscale=pm.LogNormal.dist(0.2, 1))


@pytest.fixture(scope="session")
def sampled(cohort, pool, table):
    """A small model, and draws from it."""
    model = EvolutionModel(
        cohort, pool, table, schedule=CUT._replace(seating=1, n_mh=5), shared=None
    )
    options = {"progressbar": False, "compute_convergence_checks": False}
    with model:
        return model, pm.sample(draws=20, tune=5, chains=2, cores=1, random_seed=4, **options)


def levels(*means, draws=200):
    """Return log joint densities (K, draws) of unit variance around a mean for each chain."""
    noise = np.random.default_rng(3).normal(size=(len(means), draws))
    return noise + np.array(means)[:, None]
