"""A two-level model of two features with inducing points, and four users' data."""

import numpy as np
import pytest

from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.inducing import with_inducing_points
from kem_pymc.shared.two_level import TwoLevel

SHARED = Composition.parse("CONST + LIN1 + SE0 x SE1")
VALUES = {
    "CONST.amplitude": 2.0,
    "LIN1.amplitude": 0.7,
    "LIN1.shift": 0.4,
    "SE0 x SE1.amplitude": 1.3,
    "SE0 x SE1.SE0.lengthscale": 0.8,
    "SE0 x SE1.SE1.lengthscale": 0.6,
}
PERSONAL = Composition.parse("CONST + LIN0")
OWN = {"CONST.amplitude": 0.5, "LIN0.amplitude": 0.3, "LIN0.shift": 0.5}
NOISE = 0.05


@pytest.fixture(scope="module")
def users():
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(size=(n, 2)) for n in (7, 4, 9, 1)]
    return inputs, [
        np.sin(5 * x[:, 0]) + rng.normal() + 0.2 * rng.normal(size=len(x)) for x in inputs
    ]


@pytest.fixture(scope="module")
def model(users):
    kernel = SharedKernel(SHARED, VALUES, 2, np.empty((0, 2)))
    plain = TwoLevel(kernel, PERSONAL, OWN, NOISE)
    return with_inducing_points(plain, users[0], np.random.default_rng(0))
