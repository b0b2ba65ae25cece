"""The model of one cluster as a plain PyMC model."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from kem_pymc import priors as prior_tables
from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors import Priors
from kem_pymc.priors.distributions import fresh
from kem_pymc.priors.population import parameters_in, with_values
from kem_pymc.priors.unexplained import Unexplained

if TYPE_CHECKING:
    from xarray import DataTree

Likelihood = Literal["cumulative", "sequential"]


@checked
class ClusterModel(pm.Model):
    """The hyperparameter posterior of one cluster, as a plain PyMC model.

    ``pm.sample`` samples its hyperparameters with NUTS, and ``pm.model_to_graphviz`` draws its
    graph if the package graphviz is installed. Its density is the one that the sampler of
    :class:`EvolutionModel` uses for the cluster. Population parameters of the priors are random
    variables of this model, unless they are fixed with ``priors.at``.

    Parameters
    ----------
    cohort : Cohort
        Users, in original units.
    pool : CandidatePool
    composition : Composition or str
        Composition of the cluster; all its candidates have to be in the pool.
    parent : Composition or str
        Composition one time step earlier, on which the noise prior depends.
    members : sequence of (user, time step), optional
        Datasets in the cluster; by default the last dataset of every user.
    priors : Priors, optional
        Priors of hyperparameters and noise; by default :func:`kem_pymc.priors.default`.
    scaling : Scaling, optional
        Scaling of features and targets; the default is that of :class:`EvolutionModel`.
    likelihood : {"cumulative", "sequential"}
        Likelihood of the members, as for :class:`EvolutionModel`; under "sequential" only the last
        batch of each member is observed, given the user's earlier points.
    shared : SharedPart, optional
        Part that all users share, learned before. Each member's targets have its mean given all
        other users' data, and its covariance is added to that of the composition.

    Raises
    ------
    InputError
        If a user or a time step isn't in the cohort, a candidate isn't in the pool, or the
        likelihood is unknown.

    Notes
    -----
    PyTensor's arithmetic may round differently in a process that compiles the model and in one that
    loads the compiled code from the cache, so draws with the same seed agree to eight digits at
    first, and then to fewer. With ``PYTENSOR_FLAGS=numba__fastmath=False`` they agree to the last
    bit, as those of an ``EvolutionModel`` always do.
    """

    def __init__(
        self,
        cohort: Cohort,
        pool: CandidatePool,
        composition: Composition | str,
        *,
        parent: Composition | str = "WHITE",
        members: Sequence[tuple[Hashable, int]] | None = None,
        priors: Priors | None = None,
        scaling: Scaling | None = None,
        likelihood: Likelihood = "cumulative",
        shared: SharedPart | None = None,
    ) -> None:
        priors = prior_tables.default(pool) if priors is None else priors
        check_likelihood(likelihood)
        scaling = scaling_for(cohort, priors) if scaling is None else scaling
        self.composition = _as_composition(composition, pool)
        self.parent_composition = _as_composition(parent, pool)
        self.members = _check_members(cohort, members)
        self.scaling = scaling
        super().__init__()
        scaled = scaling.apply(cohort)
        with self:
            tables = {h.name: priors.of(h) for h in self.composition.hyperparameters}
            tables["noise"] = priors.noise_below(self.parent_composition, pool)
            population = {
                p.name: self.register_rv(fresh(p.prior), p.name)
                for p in parameters_in(tables.values())
            }
            values = {
                name: self.register_rv(with_values(fresh(rv), population), name)
                for name, rv in tables.items()
            }
            noise = values.pop("noise")
            for user, step in self.members:
                u = scaled.users.index(user)
                n = scaled.ends[u][step]
                earlier = scaled.ends[u][step - 1] if likelihood == "sequential" and step else 0
                x, y = scaled.inputs[u][:n], scaled.targets[u][:n]
                covariance, factors = self.composition_covariance(values, x), np.ones(n)
                mean = np.zeros(n)
                function = None if shared is None else shared.function(user)
                known = KnownPart.of(function, x, scaled.noise_of(u, n))
                if known is not None:
                    mean, covariance = known.mean, covariance + known.covariance
                    factors = known.factors if len(known.factors) else factors
                covariance = covariance + noise * np.diag(factors)
                mu, cov = _given_first(covariance, y[:earlier] - mean[:earlier])
                mu = mu + mean[earlier:]
                pm.MvNormal(f"y[{user}, {step}]", mu=mu, cov=cov, observed=y[earlier:])

    def composition_covariance(self, values: Mapping[str, Any], x: np.ndarray) -> Any:
        """Return the noise-free covariance of the composition.

        Parameters
        ----------
        values : mapping of str to float or TensorVariable
            Values of the hyperparameters, by name.
        x : ndarray, shape (n, D)
            Inputs, in scaled units.

        Returns
        -------
        TensorVariable, shape (n, n)
        """
        return self.composition.to_pymc(values, x.shape[1])(x)

    def processes(self, idata: "DataTree", count: int = 20) -> list[GaussianProcess]:
        """Return draws of the cluster's Gaussian process, in the users' units.

        A bandit averages over them, see :class:`kem_pymc.bandits.Bandit`.

        Parameters
        ----------
        idata : DataTree
            Posterior of this model, such as that of ``pm.sample``.
        count : int
            Number of draws, evenly spread over all of them.

        Returns
        -------
        list of GaussianProcess

        Raises
        ------
        InputError
            If the posterior is that of another model, has fewer draws, or the target is
            transformed.
        """
        names = [*(h.name for h in self.composition.hyperparameters), "noise"]
        posterior = idata["posterior"].to_dataset() if "posterior" in idata.children else None
        if posterior is None or any(name not in posterior for name in names):
            raise InputError(
                f"The posterior doesn't have {', '.join(names)}. Give that of this model."
            )
        draws = {name: posterior[name].values.ravel() for name in names}
        total = len(draws["noise"])
        if not 1 <= count <= total:
            raise InputError(f"The number of draws is {total}. Give a count from 1 to that.")
        places = np.linspace(0, total - 1, count).round().astype(int)
        return [
            GaussianProcess(
                self.composition,
                {name: float(draws[name][place]) for name in names[:-1]},
                float(draws["noise"][place]),
                self.scaling,
            )
            for place in places
        ]


def _given_first(covariance: Any, y: np.ndarray) -> tuple[Any, Any]:
    """Return mean and covariance of zero-mean normal targets, given the first of them `y` (k,)."""
    k = len(y)
    if k == 0:
        return pt.zeros_like(covariance[0]), covariance
    across = covariance[:k, k:]
    weights = pt.linalg.solve(covariance[:k, :k], across, assume_a="pos").T
    return weights @ y, covariance[k:, k:] - weights @ across


def to_explain(scaled: Cohort, shared: SharedPart | None = None) -> Unexplained:
    """Return what is to be explained of a scaled cohort, given what its users share."""
    if shared is not None:
        return shared.unexplained
    return Unexplained(within=Unexplained.of(scaled.targets, scaled.noise).within)


def default_priors(scaled: Cohort, pool: CandidatePool, shared: SharedPart | None) -> Priors:
    """Return the default priors for a scaled cohort, and for what its users share."""
    family = scaled.family or scaled.latent_of
    return prior_tables.default(pool, to_explain(scaled, shared), family)


def scaling_for(cohort: Cohort, priors: Priors | None) -> Scaling:
    """Return the scaling that priors were made for, estimated from this cohort only.

    Without priors it is that of the default ones.
    """
    unit = priors is None or priors.scaling == "unit"
    return Scaling.unit(cohort) if unit else Scaling.none(cohort)


def _as_composition(composition: Composition | str, pool: CandidatePool) -> Composition:
    if isinstance(composition, str):
        composition = Composition.parse(composition, pool.dimension)
    pool.inclusion(composition)  # raises where a candidate isn't in the pool
    return composition


def _check_members(
    cohort: Cohort, members: Sequence[tuple[Hashable, int]] | None
) -> list[tuple[Hashable, int]]:
    if members is None:
        return [(u, int(t) - 1) for u, t in zip(cohort.users, cohort.steps, strict=True)]
    steps = dict(zip(cohort.users, cohort.steps, strict=True))
    for user, step in members:
        if user not in steps or not 0 <= step < steps[user]:
            raise InputError(
                f"The cohort has no dataset of user {user!r} at time step {step}. "
                "Give users of the cohort, and time steps counted from 0."
            )
    return list(members)


def check_likelihood(likelihood: str) -> None:
    if likelihood not in ("cumulative", "sequential"):
        raise InputError(
            "{likelihood} is unknown. Use 'cumulative' or 'sequential'.", likelihood=likelihood
        )
