"""Users who may not follow what the others share."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.priors import synthetic
from kem_pymc.selection import kem
from kem_pymc.selection.ablations import FinalSelector
from kem_pymc.selection.ard import ARDSelector
from kem_pymc.selection.departure import DepartureSelector
from kem_pymc.selection.kem import DEPARTURE, KEMSelector
from kem_pymc.selection.selection import LEAST_WEIGHT


def curve(x):
    return 6 * np.sin(x / 4)


def points(n, share, seed):
    """Return a user whose function is a level, and this share of the curve."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 20, n))
    return x, share * curve(x) + rng.normal() + 0.5 * rng.normal(size=n)


def pilot_users():
    """Return eight pilot users, who share the curve."""
    users = [points(15, 1.0, seed) for seed in range(8)]
    return Cohort(
        users=tuple(range(8)),
        inputs=tuple(x[:, None] for x, _ in users),
        targets=tuple(y for _, y in users),
        ends=(np.array([15]),) * 8,
        features=("week",),
        target="steps",
    )


@pytest.fixture(scope="module")
def pilots():
    return pilot_users()


@pytest.fixture(scope="module")
def part(pilots):
    return learn_shared(pilots, "additive")


@pytest.fixture(scope="module")
def sharing(learned, part):
    early = tuple(c for c in learned.clusters if c.parent == Composition())
    return replace(learned, shared=part.process, unshared=replace(learned, clusters=early))


def evidence(selection):
    return logsumexp([row.score for row in selection.considered])


def test_users_who_follow_and_users_who_do_not(sharing):
    selector = KEMSelector(sharing)
    assert selector.select(*points(15, 1.0, 20)).departure < DEPARTURE / 2
    x, y = points(15, -1.0, 20)
    departs = selector.select(x, y)
    assert departs.departure > 0.95
    at = np.linspace(0, 20, 21)
    follows = KEMSelector(sharing, departure=0).select(x, y)
    error, alone = (np.abs(s.predict(at).mean + curve(at)).mean() for s in (follows, departs))
    assert alone < error


def test_predictions_are_the_mixture_by_bayes_theorem(sharing):
    x, y = points(8, 0.6, 3)
    new = np.linspace(0, 20, 9), np.linspace(-5, 5, 9)
    selection = KEMSelector(sharing, departure=0.3).select(x, y)
    own = KEMSelector(sharing, departure=0).select(x, y)
    alone = FinalSelector(sharing.unshared).select(x, y)
    departure = expit(logit(0.3) + evidence(alone) - evidence(own))
    assert selection.departure == pytest.approx(departure, rel=1e-9)
    assert 0.05 < departure < 0.95  # both count
    densities = [np.exp(s.log_predictive_density(*new)) for s in (own, alone)]
    mixture = np.log((1 - departure) * densities[0] + departure * densities[1])
    np.testing.assert_allclose(selection.log_predictive_density(*new), mixture, rtol=1e-9)
    # The selected kernel, and what it predicts alone, are those beside what is shared.
    assert selection.considered == own.considered
    single = [s.predict(new[0], single=True).mean for s in (selection, own)]
    np.testing.assert_array_equal(*single)
    averaged = json.loads(selection.to_row()["averaged"])
    weights = {k: sum(p["weight"] for p in averaged if p["shared"] is k) for k in (True, False)}
    assert weights == pytest.approx({True: 1 - departure, False: departure})


def test_with_many_points_it_is_settled(sharing, monkeypatch):
    """What is selected without sharing would double the seconds that a selection takes then."""
    monkeypatch.setattr(kem, "MANY", 10)
    selector = KEMSelector(sharing)
    for share, settled in ((1.0, True), (-1.0, False)):
        x, y = points(15, share, 20)
        before = selector.select(x[:9], y[:9])
        assert before.unshared is not None
        assert (before.departure < LEAST_WEIGHT) is settled
        assert (selector.select(x, y, before).unshared is None) is settled


def test_other_methods_mix_alike(sharing, pilots, part):
    x, y = points(10, 0.5, 5)
    ard = ARDSelector(1, "pilot", priors=synthetic(), pilot=pilots, shared=part)
    selection = DepartureSelector(ard, sharing.unshared).select(x, y)
    own, alone = ard.select(x, y), KEMSelector(sharing.unshared).select(x, y)
    expected = expit(logit(DEPARTURE) + evidence(alone) - evidence(own))
    assert selection.departure == pytest.approx(expected, rel=1e-9)
    assert selection.composition == own.composition


def test_it_is_kept_in_files(sharing, tmp_path):
    sharing.save(tmp_path / "e.json")
    again = Evolutions.load(tmp_path / "e.json")
    assert again == sharing
    x, y = points(8, 0.6, 3)
    found, expected = (KEMSelector(e).select(x, y) for e in (again, sharing))
    assert found.departure == expected.departure


def test_what_does_not_fit_is_refused(learned, sharing):
    with pytest.raises(InputError, match="only for evolutions with a shared part"):
        replace(learned, unshared=sharing.unshared)
    for wrong in (
        {"unshared": learned},  # over several time steps
        {"pool": CandidatePool(["LIN0", "PER0", "SE0"])},
    ):
        with pytest.raises(InputError):
            replace(sharing, **wrong)
    with pytest.raises(InputError, match="departure=1"):
        KEMSelector(sharing, departure=1.5)
