"""Smooth functions of several features: their columns, inducing points and lengthscales."""

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.population.design import Surface, inducing_points, similar
from kem_pymc.population.model import PopulationModel


@pytest.fixture(scope="module")
def cohort():
    rng = np.random.default_rng(0)
    inputs = [np.column_stack([rng.uniform(size=(12, 2)), np.full(12, u % 2)]) for u in range(5)]
    targets = [np.sin(5 * x[:, 0] * x[:, 1]) + 0.3 * rng.normal(size=12) for x in inputs]
    ends = (np.array([12]),) * 5
    return Cohort(tuple(range(5)), tuple(inputs), tuple(targets), ends, ("a", "b", "arm"))


def test_log_likelihood_has_the_derivatives_of_lengthscales(cohort):
    """Fails where a derivative is wrong by 1e-6 of itself: of groups' and users' functions, too."""
    lengthscales = {
        "s(a, b)": np.array([0.7, 0.9]),
        "s(a, b):arm": np.array([1.0, 0.8]),
        "personal s(a, b, arm)": np.array([0.5, 1.2, 2.0]),
    }
    shared, personal = ("a", "s(a, b)", "s(a, b):arm"), ("level", "a", "s(a, b, arm)")
    model = PopulationModel(cohort, shared, personal, lengthscales=lengthscales)
    size = len(model.hyperparameters)
    x = np.random.default_rng(1).normal(-0.5, 0.3, size=size) * (model.lower_ends < 0) + 0.4
    found = model._in_lengthscales(x, np.concatenate(cohort.inputs))

    def log_likelihood(name, i, step):
        moved = lengthscales[name] * np.exp(step * np.eye(len(lengthscales[name]))[i])
        model._use(lengthscales | {name: moved})
        return model.log_likelihood(model.named(x[None]), model._products())[0]

    for name, derivatives in found.items():
        for i, derivative in enumerate(derivatives):
            after, before = (log_likelihood(name, i, step) for step in (1e-5, -1e-5))
            assert derivative == pytest.approx((after - before) / 2e-5, rel=1e-6, abs=1e-7)


def test_points_explain_all_places():
    rng = np.random.default_rng(0)
    places, lengthscales = rng.uniform(-1, 1, (300, 2)), np.array([0.8, 5.0])
    points = inducing_points(places, lengthscales)
    columns = Surface(points, lengthscales).basis(places)
    scaled = places / lengthscales
    np.testing.assert_allclose(columns @ columns.T, similar(scaled, scaled), atol=1e-5)
    assert len(points) < 40  # they are chosen one by one where the others explain least
    spread = inducing_points(np.linspace(0, 1, 101)[:, None], np.array([0.1]), 3)
    assert sorted(spread.ravel()) == pytest.approx([0, 0.5, 1], abs=0.02)
