"""The Kernel Evolution Model of a cohort as a PyMC model."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal, Self

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc._system.display import plural
from kem_pymc._system.options import checked
from kem_pymc.data.categories import check_categories
from kem_pymc.data.cohort import BY_ROW, Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import (
    Likelihood,
    check_likelihood,
    default_priors,
    scaling_for,
)
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.engine import Engine
from kem_pymc.model.shared_functions import KnownByUser, shared_arrays
from kem_pymc.model.step import EvolutionStep  # noqa: F401  registers itself with PyMC
from kem_pymc.model.variables import (
    ConcentrationVariable,
    EngineDensity,
    HyperparametersVariable,
    LogLikelihood,
    NoiseVariable,
    PopulationVariable,
    StructureVariable,
    TargetsVariable,
)
from kem_pymc.population.fixed_mean import FixedMean
from kem_pymc.population.model import robust
from kem_pymc.population.shared_part import SharedPart, learn_shared
from kem_pymc.priors import Priors
from kem_pymc.priors.distributions import describe, random_variable
from kem_pymc.priors.population import PopulationParameter, parameters_in
from kem_pymc.sampler.moves.sweep import CUT, JOINT, Schedule

Feedback = Literal["cut", "joint"]

#: Largest number of inclusion indicators: with their hyperparameters, a draw is about 200 MB.
MOST_INDICATORS = 5_000_000

#: Names of the model's variables and dimensions, which population parameters may not have.
VARIABLES = (
    *("structure", "hyperparameters", "noise", "targets", "concentration"),
    *("assignment", "inclusion", "n_clusters", "log_joint", "dataset_log_likelihood"),
    *("study", "inputs", "n_points", "seating", "chain", "draw"),
    *(f"known_{name}" for name in (*BY_ROW, "targets")),
)


@checked
class EvolutionModel(pm.Model):
    """The Kernel Evolution Model of a pilot cohort (paper, section 5.2).

    ``pm.sample`` assigns the step method automatically and returns a DataTree whose ``posterior``
    has dims (chain, draw, user, time_step, ...). Its variables are indexed by dataset, so that
    labels of clusters can't switch: ``inclusion``, ``hyperparameters`` (NaN where a candidate is
    out), ``noise``, ``assignment`` (the first dataset in the same cluster), and
    ``dataset_log_likelihood``. There are also ``n_clusters``, ``log_joint`` and, if they are
    learned, the parameters that all clusters share: ``concentration``, and population parameters of
    the priors by name. ``constant_data`` contains ``inputs`` (user, point, feature), scaled as the
    model uses them and 0 beyond a user's last point, and ``n_points``, the number of points of each
    dataset; ``known_noise`` and the like (user, point) are what else the cohort has of rows.

    Parameters
    ----------
    cohort : Cohort
        Pilot users, in original units.
    pool : CandidatePool
        Candidates of which compositions consist.
    priors : Priors, optional
        Priors of hyperparameters, noise and inclusion; by default :func:`kem_pymc.priors.default`.
        Population parameters (:func:`kem_pymc.population_parameter`) in them are sampled.
    concentration : float or PyMC distribution
        alpha of every Dirichlet process: a positive number, or a Gamma prior
        (``pm.Gamma.dist(alpha=2, beta=2)``), under which one alpha for all processes is learned;
        the posterior then has a variable ``concentration``.
    feedback : {"cut", "joint"}
        Whether later data influence earlier kernels. Under "cut" they don't, as at deployment: the
        target is a modular posterior without a joint density. "joint" is the posterior of the whole
        model.
    scaling : Scaling, optional
        Scaling of features and targets; by default the identity or the unit scaling of this cohort,
        whichever `priors` were made for.
    likelihood : {"cumulative", "sequential"}
        Likelihood of dataset (u, t) under its kernel. "cumulative" is that of the paper: the
        density of all points of the user so far, so that early points count again at every time
        step. "sequential" is the density of the batch of time step t given the user's earlier
        points, so that every point counts once, and all targets have one density.
    shared : SharedPart, optional
        What all users share, in addition to each user's own function: a mean process (Leroy et al.
        2022), learned from the pilot users in the same scaled units (:meth:`from_cohort`,
        :func:`kem_pymc.learn_shared`). Every pilot user's kernels describe the residuals from the
        mean process of all OTHER users, so the density is a pseudo-likelihood
        (docs/explanation/model.md). By default users share nothing, as in the paper.
    likelihood_power : float
        Power of the likelihood; 1 gives the posterior, 0 the prior.
    schedule : Schedule, optional
        Moves of a sweep; by default those for `feedback`.
    observed : bool
        Whether the cohort's targets are observed; if not, ``pm.observe`` can set others.

    Raises
    ------
    InputError
        If dimensions disagree, a number is out of range, an option is unknown, there are too many
        candidates for so many users and time steps, `shared` hasn't been learned yet, the schedule
        is for the other target, or population parameters of the priors have the name of another
        variable or two different priors.
    """

    def __init__(
        self,
        cohort: Cohort,
        pool: CandidatePool,
        priors: Priors | None = None,
        concentration: float | TensorVariable = 1.0,
        feedback: Feedback = "cut",
        *,
        scaling: Scaling | None = None,
        likelihood: Likelihood = "cumulative",
        shared: SharedPart | Any = None,  # for "auto", `_check_options` says what to call
        likelihood_power: float = 1.0,
        schedule: Schedule | None = None,
        observed: bool = True,
    ) -> None:
        _check_pool(cohort, pool)
        cohort = robust(cohort)
        _check_options(feedback, likelihood_power, shared)
        check_likelihood(likelihood)
        alpha = Concentration.of(concentration)
        self.scaling = scaling_for(cohort, priors) if scaling is None else scaling
        scaled = self.scaling.apply(cohort)
        self.has_default_priors = priors is None
        priors = default_priors(scaled, pool, shared) if priors is None else priors
        self.cohort, self.pool, self.priors = cohort, pool, priors
        self.feedback, self.likelihood = feedback, likelihood
        self.concentration = concentration if alpha.learned else alpha.value
        if schedule is not None and schedule.joint != (feedback == "joint"):
            raise InputError(
                "The schedule isn't for {feedback}. "
                "Leave it out, or give a schedule for this feedback.",
                feedback=feedback,
            )
        schedule = schedule or (JOINT if feedback == "joint" else CUT)
        # Priors are made within the model's context, because some PyMC distributions use it.
        super().__init__()
        sequential = likelihood == "sequential"
        self.shared = None if shared is None or shared.nothing else shared
        functions = None if self.shared is None else self.shared.functions(cohort)
        known = KnownByUser.at(functions, scaled)
        self.engine = Engine(
            scaled, pool, priors, alpha, likelihood_power, schedule, sequential, known
        )
        coords = _coords(cohort, pool, self.settings())
        _check_names(self.engine.population, coords)
        self.add_coords(coords)
        with self:
            self._build(observed)

    @classmethod
    def from_cohort(
        cls,
        cohort: Cohort,
        pool: CandidatePool,
        priors: Priors | None = None,
        *,
        scaling: Scaling | None = None,
        shared: FixedMean | Sequence[str] | str = "auto",
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Learn what pilot users share, and return the model of what is left to explain.

        Parameters
        ----------
        cohort, pool, priors, scaling, **options
            As for the class. The default priors are in units of the variance that what users share
            leaves unexplained.
        shared : "auto", str, sequence of str, or FixedMean
            Terms of the mean process that users share. With "auto" it is one of a handful, or
            users share nothing, whichever predicts each pilot user best given all others. A
            user-defined mean and covariance, for instance PyMC functions, are given as
            :class:`kem_pymc.FixedMean`. See :func:`kem_pymc.learn_shared`.
        progress : bool
            Whether to show on the error stream that learning goes on, and the time left.

        Returns
        -------
        EvolutionModel

        Raises
        ------
        InputError
            As for the class and :func:`kem_pymc.learn_shared`.
        """
        _check_pool(cohort, pool)
        cohort = robust(cohort)
        scaling = scaling_for(cohort, priors) if scaling is None else scaling
        part = learn_shared(scaling.apply(cohort), shared, progress=progress)
        return cls(cohort, pool, priors, scaling=scaling, shared=part, **options)

    def register_rv(self, rv_var: Any, name: str, **options: Any) -> Any:
        """Register a random variable, as ``pm.Model`` does, without population parameters in it.

        Raises
        ------
        InputError
            If the variable depends on a population parameter. The model's variable of the same name
            has to be used instead.
        """
        _check_no_parameter(rv_var, name)
        return super().register_rv(rv_var, name, **options)

    def add_named_variable(self, var: Any, dims: Any = None) -> None:
        """Add a named variable, as ``pm.Model`` does; see :meth:`register_rv`.

        Raises
        ------
        InputError
            If the variable depends on a population parameter.
        """
        _check_no_parameter(var, var.name)
        super().add_named_variable(var, dims)

    def _build(self, observed: bool) -> None:
        engine, alpha = self.engine, self.engine.concentration
        by_dataset = ("user", "time_step")

        def variable(op: Any, *parameters: Any, dims: Any = None, **kwargs: Any) -> Any:
            return self.register_rv(random_variable(op, *parameters), op.name, dims=dims, **kwargs)

        if alpha.learned:
            concentration = variable(ConcentrationVariable(engine), alpha.shape, alpha.rate)
        else:
            concentration = pt.constant(alpha.value)
        structure = variable(
            StructureVariable(engine), concentration, dims=(*by_dataset, "structure_entry")
        )
        population = [
            variable(op, *op.constants)
            for op in (PopulationVariable(engine, i) for i in range(len(engine.population)))
        ]
        hyperparameters = variable(
            HyperparametersVariable(engine),
            *(structure, *population),
            dims=(*by_dataset, "hyperparameter"),
        )
        noise = variable(NoiseVariable(engine), structure, *population, dims=by_dataset)
        targets = variable(
            TargetsVariable(engine),
            structure,
            hyperparameters,
            noise,
            observed=engine.targets if observed else None,
            dims=(*by_dataset, "point"),
        )
        arrays = (structure, hyperparameters, noise)
        likelihood = LogLikelihood(engine)(*arrays, targets)
        log_joint = EngineDensity(engine, "log_joint")(
            concentration, structure, hyperparameters, noise, likelihood, *population
        )
        inclusion = structure[..., 1:].astype("int8")
        index = pt.arange(structure.shape[0] * structure.shape[1])
        pm.Deterministic("assignment", structure[..., 0], dims=by_dataset)
        pm.Deterministic("inclusion", inclusion, dims=(*by_dataset, "candidate"))
        pm.Deterministic("n_clusters", pt.eq(structure[..., 0].flatten(), index).sum())
        pm.Deterministic("log_joint", log_joint)
        pm.Deterministic("dataset_log_likelihood", likelihood, dims=by_dataset)
        # Settings are labels of a dimension, because `pm.sample` copies data and coordinates of a
        # model to the DataTree that it returns, but no attributes.
        pm.Data("study", np.arange(len(self.coords["setting"])), dims="setting")
        padded = engine.cohort.padded()
        inputs = padded.x.transpose(0, 2, 1).copy()
        pm.Data("inputs", inputs, dims=("user", "point", "feature"))
        pm.Data("n_points", padded.ends, dims=by_dataset)
        for name, values in self.cohort.padded_given().items():
            pm.Data(f"known_{name}", values, dims=("user", "point"))
        if self.shared is not None:
            for name, (values, dims) in shared_arrays(self.shared, self.cohort.users).items():
                pm.Data(name, values, dims=dims)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the study that are stored with a posterior, as plain data."""
        population = {p.name: describe(p.prior) for p in self.engine.population}
        levels = self.cohort.levels
        return {
            "pool": [str(c) for c in self.pool],
            "dimension": self.pool.dimension,
            "features": list(self.cohort.features),
            **({"levels": {n: list(names) for n, names in levels.items()}} if levels else {}),
            "target": self.cohort.target,
            **({"time": self.cohort.time} if self.cohort.time is not None else {}),
            "scaling": self.scaling.to_dict(),
            "priors": self.priors.to_dict(),
            **({"default_priors": True} if self.has_default_priors else {}),
            "concentration": self.engine.concentration.to_data(),
            **({"population": population} if population else {}),
            "feedback": self.feedback,
            "likelihood": self.likelihood,
            "likelihood_power": self.engine.likelihood_power,
            **({} if self.shared is None else {"shared": self.shared.to_dict()}),
            "versions": {name: version(name) for name in ("kem-pymc", "pymc", "pytensor")},
        }


def _coords(
    cohort: Cohort, pool: CandidatePool, settings: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    labelled = all(isinstance(u, int | np.integer) for u in cohort.users)
    return {
        "user": list(cohort.users) if labelled else [str(u) for u in cohort.users],
        "time_step": list(range(cohort.max_steps)),
        "candidate": pool.names,
        "hyperparameter": [h.name for h in pool.hyperparameters],
        "structure_entry": ["assignment", *pool.names],
        "point": list(range(int(max(e[-1] for e in cohort.ends)))),
        "feature": list(cohort.features),
        "setting": [f"{name}: {json.dumps(value)}" for name, value in settings.items()],
    }


def _check_no_parameter(variable: Any, name: str) -> None:
    inside = parameters_in([variable])
    if inside:
        parameter = inside[0].name
        raise InputError(
            f"The variable {name} depends on the population parameter {parameter}, which is for "
            f"priors only. Use model[{parameter!r}] instead, and only in deterministic variables."
        )


def _check_names(
    population: Sequence[PopulationParameter], coords: Mapping[str, Sequence[Any]]
) -> None:
    taken = {p.name for p in population} & {*VARIABLES, *coords}
    if taken:
        raise InputError(
            f"The name {min(taken)} of a population parameter is already used by the model. "
            "Give the parameter another name."
        )


def _check_pool(cohort: Cohort, pool: CandidatePool) -> None:
    if cohort.dimension != pool.dimension:
        raise InputError(
            f"The cohort has {plural(cohort.dimension, 'feature')}, but the candidate pool has "
            f"{plural(pool.dimension, 'dimension')}. Make a pool with one for each feature."
        )
    datasets = cohort.n_users * cohort.max_steps
    if datasets * len(pool) > MOST_INDICATORS:
        raise InputError(
            f"{len(pool)} candidates for {cohort.n_users} users with {cohort.max_steps} time steps "
            f"are {datasets * len(pool)} indicators per draw, more than {MOST_INDICATORS}. Give "
            "fewer candidates (fewer {features}, or no {interactions}), users or time steps.",
            features=...,
            interactions=...,
        )
    check_categories(pool, cohort)


def _check_options(feedback: str, power: float, shared: Any) -> None:
    if feedback not in ("cut", "joint"):
        raise InputError("{feedback} is unknown. Use 'cut' or 'joint'.", feedback=feedback)
    if not 0 <= power <= 1:
        raise InputError(
            f"The likelihood power is {power}. Give a number from 0 (prior) to 1 (posterior)."
        )
    if not isinstance(shared, SharedPart | None):
        raise InputError(
            f"shared={shared!r} isn't what users share, but how to learn it. "
            f"Use EvolutionModel.from_cohort(cohort, pool, shared={shared!r})."
        )
