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
    dtype = "float64"

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        self.engine = engine
        super().__init__(**kwargs)

    def _shape(self) -> tuple[int, ...]:
        raise NotImplementedError  # defined by every subclass that isn't scalar

    def _supp_shape_from_params(self, *_: Any, **__: Any) -> tuple[Any, ...]:
        return tuple(pt.constant(n, dtype="int64") for n in self._shape())

    def log_density(self, value: Any, *parameters: Any) -> Any:
        """Return the log density at a value, given the parameters, as a PyTensor variable."""
        return EngineDensity(self.engine, f"log_{self.name}")(value, *parameters)

    def start(self) -> Any:
        """Return the value in the default initial point."""
        raise NotImplementedError  # defined by every subclass that is sampled


@_logprob.register(_EvolutionVariable)
def _logprob_of_variable(op, values, _rng, _size, *parameters, **kwargs):  # noqa: ARG001
    return op.log_density(values[0], *parameters)


@_support_point.register(_EvolutionVariable)
def _support_point_of_variable(op, rv, *inputs):  # noqa: ARG001
    return pt.constant(op.start())


class ConcentrationVariable(_EvolutionVariable):
    """Learned alpha of every Dirichlet process: a Gamma variable with a shape and a rate."""

    name = "concentration"
    signature = "(),()->()"
    _print_name = ("Gamma", "\\operatorname{Gamma}")

    def rng_fn(self, rng, shape, rate, size):
        return rng.gamma(shape, 1 / rate, size)

    def log_density(self, value, *_):
        return super().log_density(value)

    def start(self):
        return self.engine.concentration.value


class PopulationVariable(_EvolutionVariable):
    """A population parameter of the priors, with its own prior.

    Parameters
    ----------
    engine : Engine
    place : int
        Index of the parameter in ``engine.population``.
    """

    __props__ = (*_EvolutionVariable.__props__, "place")

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

    def log_density(self, value, *_):
        return pm.logp(in_double(self.prior), value)

    def start(self):
        return self.engine.prior_table.reference[self.place]


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

    def start(self):
        return self.engine.simplest()[0]


class _OfClusters(_EvolutionVariable):
    """Variable that depends on the structure and on all population parameters, if there are any."""

    #: Index among the engine's arrays.
    place: int

    def __init__(self, engine: Engine, **kwargs: Any) -> None:
        parameters, _, made = self.signature.partition("->")
        signature = parameters + ",()" * len(engine.population) + "->" + made
        super().__init__(engine, **{"signature": signature} | kwargs)

    def rng_fn(self, rng, structure, *population_and_size):
        *population, _ = population_and_size
        return self.engine.simulate_kernels(structure, rng, *population)[self.place]

    def log_density(self, value, structure, *population):
        return super().log_density(structure, value, *population)

    def start(self):
        return self.engine.simplest()[self.place]


class HyperparametersVariable(_OfClusters):
    """Hyperparameters of every cluster given the structure (eq. 6) and population parameters."""

    name = "hyperparameters"
    signature = "(u,t,k)->(u,t,h)"
    place = 1
    _print_name = ("ClusterHyperparameters", "\\operatorname{ClusterHyperparameters}")

    def _shape(self) -> tuple[int, ...]:
        return (*self.engine.shape, len(self.engine.pool.hyperparameters))

    def start(self):
        return np.full_like(super().start(), UNSET)


class NoiseVariable(_OfClusters):
    """Noise variance of every cluster given the structure and population parameters.

    It depends on the parent composition (eq. 5).
    """

    name = "noise"
    signature = "(u,t,k)->(u,t)"
    place = 2
    _print_name = ("ClusterNoise", "\\operatorname{ClusterNoise}")

    def _shape(self) -> tuple[int, ...]:
        return self.engine.shape


class TargetsVariable(_EvolutionVariable):
    """Targets of every dataset, given its cluster's kernel (eqs. 7, 8)."""

    name = "targets"
    signature = "(u,t,k),(u,t,h),(u,t)->(u,t,n)"
    _print_name = ("GaussianProcesses", "\\operatorname{GaussianProcesses}")

    def _shape(self) -> tuple[int, ...]:
        return self.engine.targets.shape

    def rng_fn(self, rng, structure, hyperparameters, noise, size):
        return self.engine.simulate_targets((structure, hyperparameters, noise), rng)

    def log_density(self, value, *arrays):
        total = pt.sum(LogLikelihood(self.engine)(*arrays, value))
        return self.engine.likelihood_power * total


class EngineDensity(Op):
    """PyTensor operation, without gradient, that calls a method of an engine for a log density."""

    __props__ = ("engine", "method")
    method: str
    output = pt.dscalar

    def __init__(self, engine: Engine, method: str) -> None:
        self.engine = engine
        self.method = method

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor(v) for v in inputs], [self.output()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(getattr(self.engine, self.method)(*inputs))

    def infer_shape(self, node, input_shapes):
        return [()]


class LogLikelihood(EngineDensity):
    """Log likelihood (U, T) of every dataset under its cluster's kernel."""

    output = pt.dmatrix

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "log_likelihood")

    def perform(self, node, inputs, output_storage):
        *arrays, y = inputs
        output_storage[0][0] = self.engine.log_likelihood(tuple(arrays), y)

    def infer_shape(self, node, input_shapes):
        return [input_shapes[2]]
