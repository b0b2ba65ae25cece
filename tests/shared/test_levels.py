"""Levels of categories in what users share, against dense algebra."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.inducing import with_inducing_points
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel
from tests.gp.problems import composition_covariance

ROLES = {"user": "Subject", "time": "age", "target": "distance"}


def table(users=24, levels=("Male", "Female"), effect=2.0, seed=4):
    """Orthodont's columns and quirks: row numbers, a sex by child, four visits."""
    rng = np.random.default_rng(seed)
    subject = np.repeat([f"S{k:02}" for k in range(users)], 4)
    age = np.tile([8.0, 10, 12, 14], users)
    group = np.repeat(np.arange(users) % len(levels), 4)
    level = np.repeat(rng.normal(0, 1.8, users), 4)
    distance = 17 + 0.6 * age - effect * group + level + rng.normal(0, 1.2, len(age))
    return pd.DataFrame(
        {
            "rownames": np.arange(1, len(age) + 1),
            "distance": distance,
            "age": age,
            "Subject": subject,
            "Sex": np.array(levels)[group],
        }
    )


@pytest.fixture(scope="module")
def posterior():
    """Three levels, with an inducing-point part in which they change over time."""
    cohort = Cohort.from_frame(table(levels=("a", "b", "c"), users=9), **ROLES, gaps="skip")
    scaled = Scaling.unit(cohort).apply(cohort)
    shared = Composition.parse("CONST + LIN0 + CAT1 + CAT1 x SE0")
    values = {
        **{"CONST.amplitude": 1.0, "LIN0.amplitude": 2.0, "LIN0.shift": 0.4},
        **{"CAT1.amplitude": 0.5, "CAT1 x SE0.amplitude": 0.3, "CAT1 x SE0.SE0.lengthscale": 0.7},
    }
    own = {"CONST.amplitude": 0.6, "SE0.amplitude": 0.2, "SE0.lengthscale": 0.5}
    kernel = SharedKernel(shared, values, 2, np.empty((0, 2)))
    model = TwoLevel(kernel, Composition.parse("CONST + SE0"), own, 0.2)
    model = with_inducing_points(model, scaled.inputs, np.random.default_rng(0))
    return SharedPosterior.of(model, scaled.inputs, scaled.targets), scaled


def test_means_of_levels_are_those_of_dense_algebra(posterior):
    """Fails where a level is taken for another, or covariances between levels are lost."""
    found, scaled = posterior
    model, codes = found.model, np.unique(np.concatenate(scaled.inputs)[:, 1])
    rows, y = np.concatenate(scaled.inputs), np.concatenate(scaled.targets)
    own = [
        composition_covariance(model.personal, model.hyperparameters, x, x) for x in scaled.inputs
    ]

    def k(x, z):
        kernel = model.kernel
        return composition_covariance(kernel.composition, kernel.hyperparameters, x, z)

    total = k(rows, rows) + block_diag(*own) + model.noise * np.eye(len(rows))
    at = np.concatenate([np.column_stack([rows[:, 0], np.full(len(rows), c)]) for c in codes])
    weights = np.kron(np.eye(3), np.full(len(rows), 1 / len(rows)))
    mean = weights @ found.process.mean(at)
    covariance = weights @ found.process.covariance(at, at) @ weights.T
    cross = weights @ k(at, rows)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(total, y), rtol=1e-3)
    dense = weights @ k(at, at) @ weights.T - cross @ np.linalg.solve(total, cross.T)
    np.testing.assert_allclose(covariance, dense, rtol=1e-2)


def test_inducing_points_have_levels_and_nothing_between(posterior):
    found, scaled = posterior
    codes = np.unique(np.concatenate(scaled.inputs)[:, 1])
    assert set(found.model.kernel.inducing[:, 1]) == set(codes)


def test_components_add_up_to_the_whole(posterior):
    """Fails where a component gets another one's weights."""
    found, scaled = posterior
    rows = np.concatenate(scaled.inputs)
    parts = [found.process.mean(rows, c) for c in found.model.kernel.composition]
    np.testing.assert_allclose(np.sum(parts, axis=0), found.process.mean(rows), atol=1e-10)
