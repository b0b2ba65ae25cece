import json
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.runs import fingerprint as module
from kem_pymc.runs.fingerprint import differences, fingerprint
from kem_pymc.sampler.moves.sweep import CUT
from tests.tiny_study import make_cohort


def described(cohort, pool, table, *arguments, **options):
    model = EvolutionModel(cohort, pool, table, *arguments, **options, shared=None)
    return json.loads(json.dumps(fingerprint(model, model.engine.targets)))


@pytest.fixture(scope="module")
def usual(cohort, pool, table):
    return described(cohort, pool, table)


def test_the_same_study_made_anew_is_the_same(usual, cohort, pool, table):
    assert not differences(usual, described(replace(cohort), pool, table.replace()))


def noisier(parent):
    return pm.LogNormal.dist(0.1 * parent.size, 1)


def noisy(parent):
    return pm.LogNormal.dist(0.2 * parent.size, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, p, t: (make_cohort(seed=4), p, t), ["data"]),
        (lambda c, p, t: (replace(c, features=("z",)), p, t), ["data"]),
        (lambda c, p, t: (c, p, t.replace(stay=0.8)), ["priors"]),
        (lambda c, p, t: (c, p, t.replace({"SE.lengthscale": pm.Gamma.dist(2, 1)})), ["priors"]),
        (lambda c, p, t: (c, p, t, 2.0), ["concentration (was 1.0, is 2.0)"]),
    ],
)
def test_what_differs_is_reported(usual, cohort, pool, table, change, message):
    assert differences(usual, described(*change(cohort, pool, table))) == message


def test_other_settings_are_reported(usual, cohort, pool, table):
    fewer = CUT._replace(n_mh=7)
    now = described(
        cohort, pool, table, schedule=fewer, likelihood_power=0.5, scaling=Scaling.unit(cohort)
    )
    text = ", ".join(differences(usual, now))
    steps = f"n_mh was {CUT.n_mh}, is 7"
    assert f"likelihood power (was 1.0, is 0.5), schedule ({steps}), scaling" in text


def test_another_target_is_reported(usual, cohort, pool, table):
    now = described(cohort, pool, table, feedback="joint")
    assert differences(usual, now)[0] == "feedback (was cut, is joint)"
    now = described(cohort, pool, table, likelihood="sequential")
    assert differences(usual, now) == ["likelihood (was cumulative, is sequential)"]


def test_other_candidates_are_reported(usual, cohort, table):
    now = described(cohort, CandidatePool(["LIN0", "SE0", "PER0"]), table)
    assert "candidates" in differences(usual, now)


def test_functions_are_distinguished_by_their_values(cohort, pool, table):
    then = described(cohort, pool, table.replace(noise=noisier))
    assert differences(then, described(cohort, pool, table.replace(noise=noisy))) == ["priors"]
    again = described(cohort, pool, table.replace(noise=lambda parent: noisier(parent)))
    assert not differences(then, again)


def test_kernels_are_distinguished_by_their_values(usual, engine, monkeypatch):
    monkeypatch.setattr(module, "PLACES", module.PLACES + 0.1)
    other = module._hash(*module._kernel_values(engine))
    assert other != usual["kernels"]


def test_versions_are_reported(usual):
    now = usual | {"versions": usual["versions"] | {"numpy": "9.9"}}
    (text,) = differences(usual, now)
    assert text == f"versions (numpy was {np.__version__}, is 9.9)"
