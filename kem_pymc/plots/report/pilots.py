"""Posterior predictions for pilot users, averaged over the draws of each dataset's kernel."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.quantities import Draws, compositions
from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import read_shared, spread_draws
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.gp.prediction import Prediction, averaged, in_target_unit
from kem_pymc.selection.online import QUANTILES

if TYPE_CHECKING:
    from xarray import DataTree

#: Maximum number of draws that predictions average over, and minimum number for large data.
DRAWS, FEWEST = 40, 5

#: Approximate maximum number of operations of all factorisations of a report.
OPERATIONS = 1e11


@one_blas_thread()
def pilot_predictions(idata: "DataTree") -> pd.DataFrame | None:
    """Return the predictions for every pilot user at every time step, one row per point.

    A prediction is a mixture over posterior draws: each draw has its own composition and values for
    the dataset, conditioned on the user's points up to the time step.

    Returns
    -------
    DataFrame or None
        Columns as those of :func:`kem_pymc.selection.online.predictions`, without moments. None if
        the posterior doesn't contain the data.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.
    """
    draws = Draws.of(idata)
    try:
        constant, posterior = idata["constant_data"], idata["posterior"]
        inputs = constant["inputs"].transpose("user", "point", "feature").values
        ends = constant["n_points"].transpose("user", "time_step").values
        targets = idata["observed_data"]["targets"].transpose("user", "time_step", "point").values
        order = ("chain", "draw", "user", "time_step", ...)
        values = posterior["hyperparameters"].transpose(*order).values
    except (KeyError, ValueError):
        return None
    scaling = Scaling.from_dict(draws.settings["scaling"])
    low, extent = scaling.feature_low, scaling.feature_high - scaling.feature_low
    operations = max(float((ends.astype(float) ** 3).sum()) / 3, 1.0)
    most = int(np.clip(OPERATIONS / operations, FEWEST, DRAWS))
    kept = spread_draws(draws.n_chains, draws.n_draws, most)
    code, named = compositions(draws)
    code, values, noise = (
        array.reshape(-1, *array.shape[2:])[kept] for array in (code, values, draws.noise)
    )
    coordinates = {int(c): Coordinates(draws.pool, named[c]) for c in np.unique(code)}
    shared = read_shared(idata, draws.settings)
    frames = []
    for u, t in np.argwhere(draws.present):
        n, m = int(ends[u, t]), int(ends[u, : t + 2].max())  # m equals n after the last time step
        x, y = inputs[u, :m], targets[u, draws.present[u].sum() - 1, :m]
        process = None
        if shared is not None:
            process = MeanAtPoints(shared.posterior.without(int(u)), x[:n])
        predicted: list[Prediction] = []
        for s in range(len(kept)):
            where = coordinates[int(code[s, u, t])]
            natural = where.from_natural(values[s, u, t][where.places], float(noise[s, u, t]))
            try:
                objective = Objective(where, x[:n], y[:n], shared=process)
                one = Conditioned.of(objective, natural).predict(x, include_noise=True)
            except InputError:  # numerically impossible in this draw; the others are used
                continue
            predicted.append(in_target_unit(one, scaling))
        table = dict(zip(draws.settings["features"], (low + extent * x).T, strict=True))
        table |= {"user": str(draws.users[u]), "time_step": int(t), "point": np.arange(m)}
        table |= {"seen": np.arange(m) < n, "observed": scaling.targets_back(y)}
        mixture = averaged(predicted, [1 / len(predicted)] * len(predicted)) if predicted else None
        table |= {name: mixture.quantile(p) if mixture else np.nan for name, p in QUANTILES.items()}
        frames.append(pd.DataFrame(table))
    return pd.concat(frames, ignore_index=True)
