"""The random variables of the model, each with an exact log density and a simulator.

The dependencies are structure -> hyperparameters, noise -> targets. The structure depends on the
concentration if that is learned, and hyperparameters and noise depend on the population parameters
of their priors. The first three are indexed by dataset (user, time step), see
:mod:`kem_pymc.model.engine`; members of a cluster have equal rows, and the density is that of
the distinct rows.
"""

import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import _support_point
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.random.op import RandomVariable

from kem_pymc.model.engine import UNSET, Engine
from kem_pymc.priors.distributions import constants, in_double

# These operations are Python functions that call compiled code, so object mode costs no time and
# the warning is not useful.
warnings.filterwarnings(
    "ignore",
    message="Numba will use object mode to run "
    "(Concentration|Population|Structure|Hyperparameters|Noise|Targets|LogLikelihood|EngineDensity)",
)


class _EvolutionVariable(RandomVariable):
    """Random variable of an engine, whose parameters are the variables that it depends on."""

    __props__: tuple[str, ...] = ("name", "signature", "dtype", "inplace", "engine")

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        self.engine = engine
        super().__init__(**kwargs)

    def _shape(self) -> tuple[int, ...]:
        raise NotImplementedError  # defined by every subclass that isn't scalar

    def _supp_shape_from_params(self, *_: Any, **__: Any) -> tuple[Any, ...]:
        return tuple(pt.constant(n, dtype="int64") for n in self._shape())


class ConcentrationVariable(_EvolutionVariable):
    """Learned alpha of every Dirichlet process: a Gamma variable with a shape and a rate."""

    name = "concentration"
    signature = "(),()->()"
    dtype = "float64"
    _print_name = ("Gamma", "\\operatorname{Gamma}")

    def rng_fn(self, rng, shape, rate, size):
        return rng.gamma(shape, 1 / rate, size)


class PopulationVariable(_EvolutionVariable):
    """A population parameter of the priors, with its own prior.

    Parameters
    ----------
    engine : Engine
    place : int
        Index of the parameter in ``engine.population``.
    """

    __props__ = (*_EvolutionVariable.__props__, "place")
    dtype = "float64"

    def __init__(self, engine: Engine, place: int, **kwargs: Any) -> None:
        self.place = place
        parameter = engine.population[place]
        self.prior = parameter.prior
        #: Parameters of the prior, for PyMC's displays; empty if they aren't scalar constants.
        self.constants = constants(self.prior) or []
        signature = ",".join("()" for _ in self.constants) + "->()"
        super().__init__(engine, **{"name": parameter.name, "signature": signature} | kwargs)

    @property
    def _print_name(self) -> tuple[str, str]:
        return self.prior.owner.op._print_name

    def rng_fn(self, rng, *constants_and_size):
        return self.engine.simulate_population(rng)[self.place]


class StructureVariable(_EvolutionVariable):
    """Assignments and compositions: Chinese restaurant processes and inclusion (eqs. 3, 4)."""

    name = "structure"
    signature = "()->(u,t,k)"
    dtype = "int32"
    _print_name = ("EvolutionStructure", "\\operatorname{EvolutionStructure}")

    def _shape(self) -> tuple[int, ...]:
        return (*self.engine.shape, 1 + len(self.engine.pool))

    def rng_fn(self, rng, concentration, size):
        return self.engine.simulate(rng, concentration)[0]


class _OfClusters(_EvolutionVariable):
    """Variable that depends on the structure and on all population parameters, if there are any."""

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        parameters, _, made = self.signature.partition("->")
        signature = parameters + ",()" * len(engine.population) + "->" + made
        super().__init__(engine, **{"signature": signature} | kwargs)

    def parameters(self, inputs: Any) -> tuple[Any, ...]:
        """Return the structure and the population parameters among the inputs of a node."""
        return inputs[-1 - len(self.engine.population) :]


class HyperparametersVariable(_OfClusters):
    """Hyperparameters of every cluster given the structure (eq. 6) and population parameters."""

    name = "hyperparameters"
    signature = "(u,t,k)->(u,t,h)"
    dtype = "float64"
    _print_name = ("ClusterHyperparameters", "\\operatorname{ClusterHyperparameters}")

    def _shape(self) -> tuple[int, ...]:
        return (*self.engine.shape, len(self.engine.pool.hyperparameters))

    def rng_fn(self, rng, structure, *others):
        *population, _ = others  # the last is the size
        return self.engine.simulate_kernels(structure, rng, *population)[1]


class NoiseVariable(_OfClusters):
    """Noise variance of every cluster given the structure and population parameters.

    It depends on the parent composition (eq. 5).
    """

    name = "noise"
    signature = "(u,t,k)->(u,t)"
    dtype = "float64"
    _print_name = ("ClusterNoise", "\\operatorname{ClusterNoise}")

    def _shape(self) -> tuple[int, ...]:
        return self.engine.shape

    def rng_fn(self, rng, structure, *others):
        *population, _ = others  # the last is the size
        return self.engine.simulate_kernels(structure, rng, *population)[2]


class TargetsVariable(_EvolutionVariable):
    """Targets of every dataset, given its cluster's kernel (eqs. 7, 8)."""

    name = "targets"
    signature = "(u,t,k),(u,t,h),(u,t)->(u,t,n)"
    dtype = "float64"
    _print_name = ("GaussianProcesses", "\\operatorname{GaussianProcesses}")

    def _shape(self) -> tuple[int, ...]:
        return self.engine.targets.shape

    def rng_fn(self, rng, structure, hyperparameters, noise, size):
        return self.engine.simulate_targets((structure, hyperparameters, noise), rng)


class EngineDensity(Op):
    """PyTensor operation, without gradient, that calls a method of an engine for a log density."""

    __props__ = ("engine", "method")
    method: str

    def __init__(self, engine: Engine, method: str) -> None:
        self.engine = engine
        self.method = method

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor(v) for v in inputs], [pt.dscalar()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(getattr(self.engine, self.method)(*inputs))

    def infer_shape(self, node, input_shapes):
        return [()]


class LogLikelihood(Op):
    """Log likelihood (U, T) of every dataset under its cluster's kernel."""

    __props__ = ("engine",)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor(v) for v in inputs], [pt.dmatrix()])

    def perform(self, node, inputs, output_storage):
        *arrays, y = inputs
        output_storage[0][0] = self.engine.log_likelihood(tuple(arrays), y)

    def infer_shape(self, node, input_shapes):
        return [input_shapes[2]]


@_logprob.register(ConcentrationVariable)
def _concentration_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    return EngineDensity(op.engine, "log_concentration")(values[0])


@_logprob.register(PopulationVariable)
def _population_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    return pm.logp(in_double(op.prior), values[0])


@_logprob.register(StructureVariable)
def _structure_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    return EngineDensity(op.engine, "log_structure")(values[0], inputs[-1])


@_logprob.register(HyperparametersVariable)
def _hyperparameters_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    structure, *population = op.parameters(inputs)
    return EngineDensity(op.engine, "log_hyperparameters")(structure, values[0], *population)


@_logprob.register(NoiseVariable)
def _noise_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    structure, *population = op.parameters(inputs)
    return EngineDensity(op.engine, "log_noise")(structure, values[0], *population)


@_logprob.register(TargetsVariable)
def _targets_logprob(op, values, *inputs, **kwargs):  # noqa: ARG001
    total = pt.sum(LogLikelihood(op.engine)(*inputs[-3:], values[0]))
    return op.engine.likelihood_power * total


@_support_point.register(ConcentrationVariable)
def _concentration_support(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(op.engine.concentration.value)


@_support_point.register(PopulationVariable)
def _population_support(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(op.engine.prior_table.reference[op.place])


@_support_point.register(StructureVariable)
def _structure_support(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(op.engine.simplest()[0])


@_support_point.register(HyperparametersVariable)
def _hyperparameters_support(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(np.full_like(op.engine.simplest()[1], UNSET))


@_support_point.register(NoiseVariable)
def _noise_support(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(op.engine.simplest()[2])
