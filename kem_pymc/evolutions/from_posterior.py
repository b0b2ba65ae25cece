"""Extract clusters and settings from the DataTree that sampling an ``EvolutionModel`` returns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kem_pymc._system.options import check_whole
from kem_pymc.data.cohort import BY_ROW, Cohort
from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.data.scaling import Scaling, transformed
from kem_pymc.data.validation import filled
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.files import check_settings
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.shared_functions import ARRAYS
from kem_pymc.population import PopulationModel, PopulationPosterior
from kem_pymc.population.mean_process import MeanProcess, read
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors.unexplained import Unexplained

if TYPE_CHECKING:
    from xarray import DataTree

#: Dimensions of variables with one value per draw, and with one per draw and dataset.
DRAW = ("chain", "draw")
DATASET = (*DRAW, "user", "time_step")


def study_settings(idata: "DataTree") -> dict[str, Any]:
    """Return the settings of a study from its posterior's ``constant_data``.

    Settings are stored as the labels of dimension ``setting`` of variable ``study``: each label is
    a name, a colon and JSON.

    Raises
    ------
    InputError
        If there are no settings, or an entry is missing or has a wrong type, range or size.
    """
    try:
        labels = idata["constant_data"]["study"].coords["setting"].values
        pairs = (str(label).split(":", 1) for label in labels)
        settings = {name: json.loads(text) for name, text in pairs}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            "The posterior contains no settings of a study. Sample it with an EvolutionModel."
        ) from error
    check_settings(settings)
    return settings


def _values(idata: "DataTree", name: str, dims: Sequence[str], group: str = "posterior") -> Any:
    """Return the values of a variable whose first dimensions are `dims`.

    Raises
    ------
    InputError
        If there is no such variable.
    """
    try:
        return idata[group][name].transpose(*dims, ...).values
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The posterior lacks the variable {name} with dims {', '.join(dims)}. "
            "Sample it with an EvolutionModel."
        ) from error


def read_clusters(
    idata: "DataTree",
    pool: CandidatePool,
    max_draws: int,
    weights: npt.ArrayLike | None = None,
    without: int | None = None,
) -> tuple[tuple[Cluster, ...], np.ndarray]:
    """Return the clusters of at most `max_draws` draws, and the indices of these draws.

    Draws are spread evenly over all chains, or according to the chains' weights, and numbered from
    0. The indices are those of the draws of all chains, concatenated chain after chain. The user
    with the index `without` isn't a member of any cluster.

    Raises
    ------
    InputError
        If a variable is missing, the posterior's candidates aren't those of the pool, `max_draws`
        is below 1, or `weights` isn't one non-negative number for each chain, with a positive sum.
    """
    check_whole(1, inf, max_draws=max_draws)
    arrays = {}
    for name in ("assignment", "inclusion", "hyperparameters", "noise"):
        values = _values(idata, name, DATASET)
        arrays[name] = values.reshape(-1, *values.shape[2:])
    if list(idata["posterior"]["inclusion"].coords["candidate"].values) != pool.names:
        raise InputError(
            "The posterior's candidates aren't those of its settings. "
            "Sample it again, or restore the file."
        )
    if without is not None:
        check_whole(0, arrays["assignment"].shape[1] - 1, without=without)
        arrays["assignment"] = arrays["assignment"].copy()
        arrays["assignment"][:, without] = -1
    sizes = idata["posterior"].sizes
    kept = spread_draws(sizes["chain"], sizes["draw"], max_draws, weights)
    clusters = [
        cluster
        for number, index in enumerate(kept)
        for cluster in _clusters_of_draw(number, pool, *(arrays[name][index] for name in arrays))
    ]
    return tuple(clusters), kept


def read_concentration(idata: "DataTree", settings: Mapping[str, Any]) -> np.ndarray:
    """Return alpha in every draw (chain, draw), whether it was learned or fixed.

    Raises
    ------
    InputError
        If alpha was learned, but the posterior lacks it.
    """
    if not isinstance(settings["concentration"], Mapping):
        sizes = idata["posterior"].sizes
        return np.full((sizes["chain"], sizes["draw"]), float(settings["concentration"]))
    return _values(idata, "concentration", DRAW)


def read_population(idata: "DataTree", settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the population parameters of the priors in every draw (chain, draw), by name.

    Raises
    ------
    InputError
        If the posterior lacks a parameter that the settings contain.
    """
    return {name: _values(idata, name, DRAW) for name in settings.get("population", {})}


def read_cohort(idata: "DataTree") -> Cohort:
    """Return the pilot users of a posterior, in the units in which they were given.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``, or lacks the data.
    """
    settings = study_settings(idata)
    scaling, names = Scaling.from_dict(settings["scaling"]), settings["features"]
    scaled = _values(idata, "inputs", ("user", "point", "feature"), "constant_data")
    ends = _values(idata, "n_points", ("user", "time_step"), "constant_data")
    targets = _values(idata, "targets", ("user", "time_step", "point"), "observed_data")
    levels = {name: tuple(texts) for name, texts in settings.get("levels", {}).items()}
    inputs = scaling.feature_low + scaled * (scaling.feature_high - scaling.feature_low)
    codes = [names.index(name) for name in levels]
    inputs[..., codes] = np.round(inputs[..., codes])
    counts = ends.max(axis=1).astype(int)
    last = np.argmax(ends, axis=1)
    known: dict[str, Any] = {
        name: tuple(
            values[:n]
            for values, n in zip(
                _values(idata, f"known_{name}", ("user", "point"), "constant_data"),
                counts,
                strict=True,
            )
        )
        for name in (*BY_ROW, "targets")
        if f"known_{name}" in idata["constant_data"]
    }
    if "targets" not in known:
        own = zip(targets, last, counts, strict=True)
        known["targets"] = tuple(scaling.targets_back(y[t, :n]) for y, t, n in own)
    return Cohort(
        users=tuple(idata["constant_data"].coords["user"].values.tolist()),
        inputs=tuple(x[:n] for x, n in zip(inputs, counts, strict=True)),
        ends=tuple(np.unique(row[row > 0]) for row in ends.astype(int)),
        features=tuple(names),
        target=settings["target"],
        levels=levels,
        time=settings.get("time"),
        time_kind=scaling.time_kind,
        family=scaling.family,
        **known,
    )


def read_distribution(idata: "DataTree", without: int | None) -> FeatureDistribution | None:
    """Return the distribution of pilot users' features, without the user of this index.

    It is None if the time is the only feature, no user is left or the posterior lacks the data.
    """
    if "inputs" not in idata["constant_data"]:
        return None
    cohort = read_cohort(idata)
    others = [user for u, user in enumerate(cohort.users) if u != without]
    if not others or cohort.features == (cohort.time,):
        return None
    return FeatureDistribution.learn(cohort.subset(others))


def pilot_population(idata: "DataTree") -> PopulationPosterior | None:
    """Return what the pilot users of a posterior share and how they differ; None of one user.

    If the posterior is one of transformed targets, so is this.
    """
    transform = Scaling.from_dict(study_settings(idata)["scaling"]).transform
    cohort = transformed(read_cohort(idata), transform)
    return None if cohort.n_users < 2 else PopulationModel(cohort).fit()


def read_shared(idata: "DataTree", settings: Mapping[str, Any]) -> SharedPart | None:
    """Return the part that the pilot users of a posterior share; None if they share nothing.

    Raises
    ------
    InputError
        If the posterior lacks this part, although its settings contain it.
    """
    data = settings.get("shared")
    if data is None:
        return None
    weights, root, every_weights, every_root = (
        _values(idata, name, dims, "constant_data") for name, dims in ARRAYS.items()
    )
    design, smooths, variances = read(data)
    process = MeanProcess(design, smooths, weights, root, variances)
    without = [
        MeanProcess(design, smooths, *values, variances)
        for values in zip(every_weights, every_root, strict=True)
    ]
    users = tuple(idata["constant_data"]["shared_weights_without"].coords["user"].values.tolist())
    return SharedPart(process, without, users, {}, Unexplained(**data["unexplained"]))


def spread_draws(
    chains: int, draws: int, max_draws: int, weights: npt.ArrayLike | None = None
) -> np.ndarray:
    """Return at most `max_draws` indices of the concatenated draws of all chains.

    Without weights, they are spread evenly over all draws. With weights, each chain gets its share
    of the number, rounded by largest remainders, spread evenly over the chain. If a chain's share
    is more than its number of draws, draws occur more than once.

    Raises
    ------
    InputError
        If there isn't one weight for each chain, or weights are negative, not finite or all zero.
    """
    number = min(chains * draws, max_draws)
    if weights is None:
        return ((np.arange(number) + 0.5) * chains * draws / number).astype(int)
    weights = filled(weights)
    if weights.shape != (chains,):
        raise InputError(
            f"The weights have shape {weights.shape}, but the posterior has {chains} chains. "
            "Give one weight for each chain."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InputError(
            "Some weights are negative or not finite, or all are zero. "
            "Give non-negative weights with a positive sum."
        )
    quota = number * weights / weights.sum()
    counts = np.floor(quota).astype(int)
    largest = np.argsort(counts - quota, kind="stable")[: number - counts.sum()]
    counts[largest] += 1
    return np.concatenate(
        [
            k * draws + ((np.arange(n) + 0.5) * draws / max(n, 1)).astype(int)
            for k, n in enumerate(counts)
        ]
    )


def _clusters_of_draw(
    number: int,
    pool: CandidatePool,
    assignment: np.ndarray,
    inclusion: np.ndarray,
    hyperparameters: np.ndarray,
    noise: np.ndarray,
) -> Iterator[Cluster]:
    """Yield the clusters of one draw, given as arrays (user, time step, ...)."""
    steps = assignment.shape[1]
    firsts, counts = np.unique(assignment[assignment >= 0], return_counts=True)
    for first, count in zip(firsts, counts, strict=True):
        user, step = divmod(int(first), steps)
        parent = Composition() if step == 0 else pool.composition(inclusion[user, step - 1])
        child = pool.composition(inclusion[user, step])
        coordinates = Coordinates(pool, child)
        natural = hyperparameters[user, step][coordinates.places]
        values = coordinates.from_natural(natural, float(noise[user, step]))
        yield Cluster(number, parent, child, int(count), tuple(values.tolist()))
