"""Evolutions read off a posterior."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import kem_pymc as kem
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import pilot_population, read_cohort
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.runs.sampling import sample
from tests.evolutions.by_hand import (
    BOTH,
    LIN,
    POOL,
    WHITE,
    by_name,
)


def posterior(chains=2, draws=3, **settings):
    """Return a posterior of two users with 2 and 1 time steps.

    User 0 goes WHITE -> LIN0 -> LIN0 + PER0. User 1 shares the first cluster in even draws, and is
    alone with WHITE in odd ones. The shift of LIN0 tells chain and draw.
    """
    shape = (chains, draws, 2, 2)
    names = [h.name for h in POOL.hyperparameters]
    assignment = np.full(shape, -1)
    inclusion = np.zeros((*shape, 3), dtype=np.int8)
    hyperparameters = np.full((*shape, len(names)), np.nan)
    noise = np.full(shape, np.nan)
    shift, amplitude = names.index("LIN0.shift"), names.index("LIN0.amplitude")
    for c in range(chains):
        for d in range(draws):
            together = d % 2 == 0
            assignment[c, d] = [[0, 1], [0 if together else 2, -1]]
            inclusion[c, d, 0] = [[0, 1, 0], [1, 1, 0]]
            inclusion[c, d, 1, 0, 1] = together
            hyperparameters[c, d, 0, :, amplitude] = 2.0
            hyperparameters[c, d, 0, :, shift] = c + d / 10
            hyperparameters[c, d, 0, 1, :3] = 3.0
            hyperparameters[c, d, 1] = hyperparameters[c, d, 0, 0] if together else np.nan
            noise[c, d] = [[0.5, 0.25], [0.5 if together else 0.75, np.nan]]
    dims = ("chain", "draw", "user", "time_step")
    block = {
        "pool": POOL.names,
        "dimension": 1,
        "features": ["week"],
        "target": "steps",
        "scaling": Scaling.identity(1).to_dict(),
        "priors": {"stay": 0.9},
        "concentration": 1.0,
        "feedback": "cut",
        "likelihood_power": 1.0,
        "versions": {"kem_pymc": "0.1.0"},
    } | settings
    labels = [f"{name}: {json.dumps(value)}" for name, value in block.items()]
    group = xr.Dataset(
        {
            "assignment": (dims, assignment),
            "inclusion": ((*dims, "candidate"), inclusion),
            "hyperparameters": ((*dims, "hyperparameter"), hyperparameters),
            "noise": (dims, noise),
        },
        coords={"candidate": POOL.names, "hyperparameter": names},
    )
    study = xr.Dataset({"study": ("setting", np.zeros(len(labels)))}, coords={"setting": labels})
    return xr.DataTree.from_dict({"posterior": group, "constant_data": study})


def test_a_posterior_with_a_known_answer():
    learned = Evolutions.from_posterior(posterior())
    assert learned.n_draws == 6
    first = [c for c in learned.clusters if c.draw == 0]
    log = np.log
    assert first == [
        Cluster(0, WHITE, LIN, 2, (log(2.0), 0.0, log(0.5))),
        Cluster(0, LIN, BOTH, 1, (log(3.0), log(3.0), log(3.0), log(2.0), 0.0, log(0.25))),
    ]
    odd = [c for c in learned.clusters if c.draw == 1]
    assert [(c.parent, c.child, c.count) for c in odd] == [
        (WHITE, LIN, 1),
        (LIN, BOTH, 1),
        (WHITE, WHITE, 1),
    ]
    assert odd[2].values == (log(0.75),)
    children = by_name(learned.children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 * 2 / 3 + 2 * 1 / 3) / 6)
    assert learned.settings == {"feedback": "cut", "likelihood_power": 1.0}
    assert (learned.features, learned.target, learned.priors) == (("week",), "steps", {"stay": 0.9})


def test_a_user_who_is_left_out_is_in_no_cluster():
    """By hand: user 0 is alone at the second step; user 1 keeps the first cluster's values."""
    learned = Evolutions.from_posterior(posterior(), without=0)
    assert [(c.draw, c.parent, c.child, c.count) for c in learned.clusters[:2]] == [
        *((0, WHITE, LIN, 1), (1, WHITE, WHITE, 1)),
    ]
    others = Evolutions.from_posterior(posterior(), without=1)
    assert [c.count for c in others.clusters if c.draw == 0] == [1, 1]
    assert learned.clusters[0].values == others.clusters[0].values


def test_a_learned_alpha_comes_from_the_draws_that_are_kept():
    prior = {"shape": 3.0, "rate": 2.0}
    tree = posterior(chains=3, draws=10, concentration=prior)
    values = np.arange(30.0).reshape(3, 10) + 0.5
    alpha = xr.Dataset({"concentration": (("draw", "chain"), values.T)})
    tree["posterior"] = tree["posterior"].to_dataset().merge(alpha)
    learned = Evolutions.from_posterior(tree, max_draws=6)
    assert learned.concentration == (2.5, 7.5, 12.5, 17.5, 22.5, 27.5)
    assert learned.settings["concentration"] == prior
    without = posterior(chains=3, draws=10, concentration=prior)
    with pytest.raises(InputError, match="lacks the variable concentration"):
        Evolutions.from_posterior(without)


def test_thinning_spreads_over_all_chains():
    learned = Evolutions.from_posterior(posterior(chains=3, draws=10), max_draws=6)
    shifts = [c.values[1] for c in learned.clusters if c.child == LIN]
    assert learned.n_draws == 6
    np.testing.assert_allclose(shifts, [0.2, 0.7, 1.2, 1.7, 2.2, 2.7])


def test_the_order_of_dimensions_does_not_matter():
    tree = posterior()
    turned = tree["posterior"].to_dataset().transpose("user", "candidate", ...)
    turned = xr.DataTree.from_dict({"posterior": turned, "constant_data": tree["constant_data"]})
    assert Evolutions.from_posterior(turned) == Evolutions.from_posterior(tree)


def test_a_posterior_that_went_through_a_file_gives_the_same(tmp_path):
    tree = posterior()
    tree.to_zarr(tmp_path / "posterior.zarr", consolidated=False)
    with xr.open_datatree(tmp_path / "posterior.zarr", engine="zarr", consolidated=False) as opened:
        assert Evolutions.from_posterior(opened) == Evolutions.from_posterior(tree)


def test_posteriors_of_something_else_are_refused():
    tree = posterior()
    without_study = xr.DataTree.from_dict({"posterior": tree["posterior"]})
    with pytest.raises(InputError, match=r"no settings of a study\. Sample"):
        Evolutions.from_posterior(without_study)
    without_noise = xr.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset().drop_vars("noise"),
            "constant_data": tree["constant_data"],
        }
    )
    with pytest.raises(InputError, match=r"lacks the variable noise with .* time_step\. Sample"):
        Evolutions.from_posterior(without_noise)
    with pytest.raises(InputError, match=r"aren't those of its settings\. Sample"):
        Evolutions.from_posterior(posterior(pool=["SE0", "LIN0", "PER0"]))
    with pytest.raises(InputError, match="max_draws is 0"):
        Evolutions.from_posterior(tree, max_draws=0)


def test_the_pilot_users_are_read_back_and_described():
    """Users with labels of numbers and fewer steps, a category, a time and a transform.

    A wrong scaling, code of a level, or step of a user's data would differ; and a target that is
    transformed twice or not at all.
    """
    rng = np.random.default_rng(0)
    arm, weeks = rng.permuted(np.repeat(["a", "b"], 5)), [9, 6, *[4] * 8]
    table = pd.DataFrame(
        [(u, w, arm[u], rng.gamma(9)) for u, last in enumerate(weeks) for w in range(last)],
        columns=["user", "week", "arm", "steps"],
    )
    names: dict = {"user": "user", "time": "week", "target": "steps", "gaps": "skip"}
    cohort = kem.Cohort.from_frame(table, **names, batch=3)
    scaling = Scaling.unit(cohort, "yeo-johnson")
    pool = CandidatePool(["LIN0"], dimension=2)
    model = kem.EvolutionModel(cohort, pool, kem.priors.paper(), scaling=scaling, shared=None)
    options = {"draws": 1, "tune": 1, "chains": 1, "cores": 1, "random_seed": 1}
    idata = sample(model, **options, progress=False)
    found = read_cohort(idata)
    for name in ("users", "features", "target", "levels", "time"):
        assert getattr(found, name) == getattr(cohort, name)
    for name in ("inputs", "targets", "ends"):
        for one, other in zip(getattr(found, name), getattr(cohort, name), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
    described = pilot_population(idata).model.cohort
    assert described.target == scaling.transform.label("steps")
    expected = scaling.transform.forward(np.concatenate(cohort.targets))
    np.testing.assert_allclose(np.concatenate(described.targets), expected, atol=1e-10)
