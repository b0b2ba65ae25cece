"""Smooth functions of several features: their columns, inducing points and lengthscales."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import softmax

from kem_pymc.data.cohort import Cohort
from kem_pymc.population.design import Surface, inducing_points, similar
from kem_pymc.population.model import PopulationModel
from kem_pymc.population.shared_part import mean_process
from kem_pymc.population.surfaces import LONGER, SHORTER, usual

#: Logs of lengthscales on a grid, from their mode.
STEPS = np.linspace(-1.5, 1.5, 7)


@pytest.fixture(scope="module")
def cohort():
    rng = np.random.default_rng(0)
    inputs = [np.column_stack([rng.uniform(size=(12, 2)), np.full(12, u % 2)]) for u in range(5)]
    targets = [np.sin(5 * x[:, 0] * x[:, 1]) + 0.3 * rng.normal(size=12) for x in inputs]
    ends, noise = (np.array([12]),) * 5, tuple(0.1 * np.arange(60.0).reshape(5, 12))
    names = ("a", "b", "arm")
    return Cohort(tuple(range(5)), tuple(inputs), tuple(targets), ends, names, noise=noise)


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


def test_functions_are_as_uncertain_as_lengthscales_make_them():
    """The variance at new inputs is nearly that of a mixture over a grid of lengthscales.

    With lengthscales taken as known it is too small by a third.
    """
    rng = np.random.default_rng(3)
    inputs = tuple(rng.uniform(-1, 1, size=(6, 2)) for _ in range(6))
    targets = tuple(np.sin(3 * x[:, 0]) * x[:, 1] + 0.4 * rng.normal(size=6) for x in inputs)
    ends = (np.array([6]),) * 6
    cohort, new = (
        Cohort(tuple(range(6)), inputs, targets, ends, ("a", "b")),
        rng.uniform(-1, 1, (40, 2)),
    )
    names = ["s(a, b).sd", "personal level.sd", "noise.sd"]
    known = {
        n: pm.LogNormal.dist(np.log(v), 1e-3) for n, v in zip(names, [1, 0.1, 0.8], strict=True)
    }

    def fitted(logs=None):
        given = None if logs is None else {"s(a, b)": np.exp(logs)}
        how = {"priors": known, "lengthscales": given}
        return PopulationModel(cohort, ["s(a, b)"], ["level"], **how).fit(draws=100)

    def moments(posterior):
        process = mean_process(posterior)
        return process.mean(new), np.diag(process.covariance(new, new))

    found = fitted()
    mode = np.log(found.model.lengthscales["s(a, b)"])
    every = [fitted(mode + np.array([i, j])) for i in STEPS for j in STEPS]
    away = [
        np.log(p.model.lengthscales["s(a, b)"]) - np.log(usual(found.model.shared.terms[1]))
        for p in every
    ]
    spread = np.where(np.array(away) > 0, LONGER, SHORTER)
    weights = softmax(
        [p.log_evidence for p in every] - (np.array(away) ** 2 / spread**2).sum(axis=1) / 2
    )
    assert weights.reshape(len(STEPS), -1)[[0, -1]].sum() < 0.02  # the grid is wide enough
    means, variances = np.array([moments(p) for p in every]).transpose(1, 0, 2)
    expected = weights @ (variances + means**2) - (weights @ means) ** 2
    ratios = [np.median(moments(p)[1] / expected) for p in (found, fitted(mode))]
    assert 0.85 < ratios[0] < 1.15
    assert ratios[1] < 0.7


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
