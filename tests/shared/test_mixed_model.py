"""The linear mixed model is a special case of the two-level model."""

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.linalg import block_diag

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.mean_process import MeanAtPoints, SharedKernel
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

LINEAR = Composition.parse("CONST + LIN0")
#: Fixed effects have hardly any prior.
WIDE = {"CONST.amplitude": 1e8, "LIN0.amplitude": 1e8, "LIN0.shift": 0.0}


def test_means_are_fixed_effects_plus_blups():
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(14), 7)
    x = rng.uniform(0, 3, len(user))
    effects = rng.multivariate_normal([0, 0], [[1.0, 0.3], [0.3, 0.4]], 14)
    y = 2 + 1.5 * x + effects[user, 0] + effects[user, 1] * x + 0.5 * rng.normal(size=len(user))
    table = pd.DataFrame({"y": y, "x": x, "user": user})
    model = sm.MixedLM.from_formula("y ~ x", table, groups="user", re_formula="~x")
    fitted = model.fit(reml=False)
    # Covariance G of intercept and slope: a_1 (x - c)(z - c) + a_0 has the same where
    # a_1 = G_11, c = -G_01 / G_11 and a_0 = G_00 - c^2 G_11.
    g = np.asarray(fitted.cov_re)
    shift = -g[0, 1] / g[1, 1]
    own = {
        "CONST.amplitude": g[0, 0] - shift**2 * g[1, 1],
        "LIN0.amplitude": g[1, 1],
        "LIN0.shift": shift,
    }
    kernel = SharedKernel(LINEAR, WIDE, 1, np.empty((0, 1)))
    two_level = TwoLevel(kernel, LINEAR, own, float(fitted.scale))
    inputs = [x[user == u][:, None] for u in range(14)]
    targets = [y[user == u] for u in range(14)]
    posterior = SharedPosterior.of(two_level, inputs, targets)
    # The last user is new to the others: fixed effects and BLUP rest on all rows all the same.
    mean_process = posterior.without(13)
    coordinates = Coordinates(CandidatePool(LINEAR.candidates), LINEAR)
    shared = MeanAtPoints(mean_process, inputs[13])
    objective = Objective(coordinates, inputs[13], targets[13], shared=shared)
    values = coordinates.from_named(own, two_level.noise)
    new = np.linspace(0, 4, 9)
    found = Conditioned.of(objective, values).predict(new[:, None]).mean
    fixed, random = fitted.fe_params.to_numpy(), fitted.random_effects[13].to_numpy()
    expected = fixed[0] + random[0] + (fixed[1] + random[1]) * new
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # And by generalised least squares, whatever statsmodels does.
    design = np.column_stack([np.ones_like(x), x])
    parts = [d @ g @ d.T for d in (design[user == u] for u in range(14))]
    total = block_diag(*parts) + fitted.scale * np.eye(len(x))
    weighted = np.linalg.solve(total, design)
    effect = np.linalg.solve(design.T @ weighted, weighted.T @ y)
    residual = np.linalg.solve(total, y - design @ effect)[user == 13]
    blup = g @ design[user == 13].T @ residual
    np.testing.assert_allclose(found, (effect + blup) @ np.vstack([np.ones(9), new]), rtol=1e-6)
