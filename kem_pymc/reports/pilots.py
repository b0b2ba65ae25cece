"""Posterior predictions for pilot users, averaged over the draws of each dataset's kernel."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.quantities import Draws, compositions
from kem_pymc.errors import InputError
from kem_pymc.evolutions.from_posterior import read_shared, spread_draws
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.kernels.composition import Composition
from kem_pymc.reports.intervals import Band, Predicted, grid_over

if TYPE_CHECKING:
    from xarray import DataTree

#: Maximum number of draws that predictions average over, and minimum number for large data.
DRAWS, FEWEST = 40, 5

#: Approximate maximum number of operations of all factorisations of a report.
OPERATIONS = 1e11

#: Least posterior probability of the compositions kept for a dataset.
LIKELY = 0.02


@dataclass(frozen=True)
class Step:
    """The kernels of one pilot dataset.

    Attributes
    ----------
    likely : tuple of (Composition, float)
        The three most probable compositions and all others of at least 2 %, with their posterior
        probabilities.
    n_points : int or None
    predicted : Predicted or None
        Predictions; None if the posterior doesn't contain the data.
    """

    likely: tuple[tuple[Composition, float], ...]
    n_points: int | None = None
    predicted: Predicted | None = None


@dataclass(frozen=True)
class Pilot:
    """A pilot user with all time steps, in order."""

    user: Any
    steps: tuple[Step, ...]


def pilots(idata: "DataTree") -> list[Pilot]:
    """Return the kernels and predictions of every pilot user at every time step.

    A prediction is a mixture over posterior draws: each draw has its own composition and values for
    the dataset, conditioned on the user's points up to the time step.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.
    """
    draws = Draws.of(idata)
    code, named = compositions(draws)
    flat = code.reshape(-1, *code.shape[2:])
    data = _Data.of(idata, draws)
    kernels = None if data is None else _Kernels(idata, draws, flat, named, data)
    found = []
    for u, user in enumerate(draws.users):
        steps = []
        for t in np.flatnonzero(draws.present[u]):
            likely = _likely(flat[:, u, t], named)
            if data is None or kernels is None:
                steps.append(Step(likely))
                continue
            steps.append(Step(likely, int(data.ends[u, t]), data.predicted(u, int(t), kernels)))
        found.append(Pilot(user, tuple(steps)))
    return found


def _likely(code: np.ndarray, named: list[Composition]) -> tuple[tuple[Composition, float], ...]:
    shares = np.bincount(code) / len(code)
    order = np.argsort(-shares, kind="stable")
    kept = [i for place, i in enumerate(order) if shares[i] >= LIKELY or (place < 3 and shares[i])]
    return tuple((named[i], float(shares[i])) for i in kept)


class _Kernels:
    """Kernels of all datasets in a subset of draws, spread evenly over the posterior."""

    def __init__(
        self,
        idata: "DataTree",
        draws: Draws,
        code: np.ndarray,
        named: list[Composition],
        data: "_Data",
    ) -> None:
        cost = float((data.ends.astype(float) ** 3).sum()) / 3
        most = int(np.clip(OPERATIONS / max(cost, 1.0), FEWEST, DRAWS))
        self.kept = spread_draws(draws.n_chains, draws.n_draws, most)
        order = ("chain", "draw", "user", "time_step")
        arrays = (
            idata["posterior"][n].transpose(*order, ...) for n in ("hyperparameters", "noise")
        )
        self.hyperparameters, self.noise = (
            a.values.reshape(-1, *a.shape[2:])[self.kept] for a in arrays
        )
        self.code = code[self.kept]
        self.coordinates = {int(c): Coordinates(draws.pool, named[c]) for c in np.unique(self.code)}
        self.shared = read_shared(idata, draws.settings)

    def mixture(
        self, u: int, t: int, x: np.ndarray, y: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the functions' means and variances (K, m) at scaled inputs, and noises (K,)."""
        means, variances, noises = [], [], []
        shared = None if self.shared is None else self.shared.posterior.without(u).at(x)
        for s in range(len(self.kept)):
            coordinates = self.coordinates[int(self.code[s, u, t])]
            natural = self.hyperparameters[s, u, t][coordinates.places]
            values = coordinates.from_natural(natural, float(self.noise[s, u, t]))
            try:
                objective = Objective(coordinates, x, y, shared=shared)
                predicted = Conditioned.of(objective, values).predict(at)
            except InputError:  # numerically impossible in this draw; the others are used
                continue
            means.append(predicted.mean)
            variances.append(predicted.sd**2)
            noises.append(predicted.noise)
        return np.array(means), np.array(variances), np.array(noises)


@dataclass(frozen=True, eq=False)
class _Data:
    """Pilot users' points in scaled units: inputs (U, n, D), targets (U, n), ends (U, T)."""

    inputs: np.ndarray
    targets: np.ndarray
    ends: np.ndarray
    scaling: Scaling

    @classmethod
    def of(cls, idata: "DataTree", draws: Draws) -> "_Data | None":
        """Read the points from a posterior; None if it doesn't contain them."""
        try:
            inputs = idata["constant_data"]["inputs"].transpose("user", "point", "feature")
            ends = idata["constant_data"]["n_points"].transpose("user", "time_step")
            targets = idata["observed_data"]["targets"].transpose("user", "time_step", "point")
            idata["posterior"]["hyperparameters"]
        except (KeyError, ValueError):
            return None
        last = draws.present.sum(axis=1) - 1
        own = targets.values[np.arange(len(last)), last]
        scaling = Scaling.from_dict(draws.settings["scaling"])
        return cls(inputs.values, own, ends.values, scaling)

    def predicted(self, u: int, t: int, kernels: _Kernels) -> Predicted:
        """Return the predictions for a user at a time step."""
        n = int(self.ends[u, t])
        m = int(self.ends[u, : t + 2].max())  # m equals n after the last time step
        x, y = self.inputs[u, :m], self.scaling.targets_back(self.targets[u, :m])
        if x.shape[1] == 1:
            place = self._places(x)
            everything = self.inputs[u, : self.ends[u].max()]
            grid = grid_over(everything)
            at, curve = np.concatenate([grid, x[n:]]), self._places(grid)
        else:
            place = np.arange(1.0, m + 1)
            at, curve = x, place[:n]
        mixture = kernels.mixture(u, t, x[:n], self.targets[u, :n], at)
        band = Band.of(np.concatenate([curve, place[n:]]), *mixture, self.scaling)
        points = np.column_stack([place, y])
        split = len(curve)
        parts = band.part(slice(split)), band.part(slice(split, None))
        return Predicted(points[:n], points[n:], *parts, continuous=x.shape[1] == 1)

    def _places(self, x: np.ndarray) -> np.ndarray:
        """Return the values (m,) of the only feature of scaled inputs (m, 1), in its unit."""
        low, high = self.scaling.feature_low[0], self.scaling.feature_high[0]
        return low + (high - low) * x[:, 0]
