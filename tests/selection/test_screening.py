"""Approximate fits for many points."""

import math

import numpy as np
import pytest

from kem_pymc.gp import fit as fit_module
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import fit, thinned
from kem_pymc.gp.laplace import Laplace
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection import scorer
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.screening import rough_fit
from tests.selection.pilots import POOL, VALUES, names, pilot_cluster, row, user, with_clusters


def test_many_points_are_screened_and_the_best_two_fitted_to_all(learned, monkeypatch):
    """Catches a rough fit that is selected, and a rough comparison that drops the best."""
    more = with_clusters(
        learned,
        pilot_cluster(0, "LIN0", "SE0", 2, 1.0),
        pilot_cluster(1, "LIN0", "PER0 + SE0", 2, 1.0),
    )
    data = user(150)
    whole = KEMSelector(more).select(*data, previous="LIN0")
    monkeypatch.setattr(scorer, "MANY", 150)
    monkeypatch.setattr(fit_module, "MANY", 150)
    monkeypatch.setattr(fit_module, "FEW", 60)
    screened = KEMSelector(more).select(*data, previous="LIN0")
    assert screened.composition == whole.composition
    assert names(screened) == names(whole)
    assert screened.considered[0].score == pytest.approx(whole.considered[0].score, abs=0.05)
    assert screened.considered[0].converged
    assert sum(c.converged for c in screened.considered) == 2
    for rough in screened.considered:
        assert rough.score <= row(whole, str(rough.composition)).score + 0.5
    # Rough scores are by the selector's criterion.
    evidence = KEMSelector(more, criterion="laplace").select(*data, previous="LIN0")
    pairs = [(found, row(screened, str(found.composition))) for found in evidence.considered]
    rough_pairs = [(a, b) for a, b in pairs if not (a.converged or b.converged)]
    assert rough_pairs
    for one, other in rough_pairs:
        assert other.score - one.score == pytest.approx(math.log(other.probability), abs=1e-9)
    by_bic = KEMSelector(more, criterion="bic").select(*data, previous="LIN0").considered
    assert sum(found.converged for found in by_bic) == 2
    assert all(found.criterion == pytest.approx(found.bic, abs=1e-9) for found in by_bic)


@pytest.mark.parametrize("text", ["LIN0", "LIN0 + PER0"])
def test_a_rough_fit_is_near_that_of_all_points(monkeypatch, text):
    """Catches the subset's optimum, its likelihood and a curvature that isn't scaled up."""
    monkeypatch.setattr(fit_module, "FEW", 60)
    where = Coordinates(POOL, Composition.parse(text))
    prior = normal_prior(np.zeros(len(where)), np.full(len(where), 2.0))
    objective = Objective(where, *user(200), prior)
    starts = [where.from_named(VALUES, 1.0)]
    near = fit(thinned(objective), starts, 1)
    rough = rough_fit(objective, starts, 1)
    evidence = rough.height + Laplace(rough.curvature).log_volume
    exact = fit(objective, starts)
    assert not rough.converged
    terms = rough.log_likelihood, rough.log_prior
    assert terms == pytest.approx(objective.terms(rough.values), abs=1e-9)
    assert sum(objective.terms(near.values)) < rough.height <= exact.height + 1e-6
    assert exact.height - rough.height < 0.1
    # Without the factor, every coordinate's share of the volume would be 0.6 larger.
    expected = laplace(objective, exact)[1].value
    assert evidence == pytest.approx(expected, abs=0.4 * len(where))
    assert near.evaluations < rough.evaluations <= near.evaluations + 3
