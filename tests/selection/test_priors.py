"""The priors of a study as priors of a fit."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from kem_pymc.errors import InputError
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.priors import study_prior
from tests.gp.objectives import coordinates, data, gradient, scattered, stand_in_priors


def test_study_prior_uses_entries_and_parent():
    where, parent = coordinates("LIN0 + PER0"), Composition.parse("LIN0 + SE1", 2)
    problem = Objective(where, *data(0), study_prior(stand_in_priors(), where, parent))
    values = scattered(problem, 1)[0]
    entries = where.places % 3
    by_hand = -0.5 * ((values[:-1] - entries) ** 2).sum() - 0.5 * (values[-1] - 2) ** 2
    assert problem.terms(values)[1] == pytest.approx(by_hand)
    numeric = approx_fprime(values, lambda v: sum(problem.terms(v)), 1e-6)
    np.testing.assert_allclose(gradient(problem, values), numeric, rtol=1e-3, atol=1e-3)


def test_a_parent_from_elsewhere_is_refused():
    with pytest.raises(InputError, match="RQ0 is not in the candidate pool"):
        study_prior(stand_in_priors(), coordinates("LIN0"), Composition.parse("RQ0", 2))
