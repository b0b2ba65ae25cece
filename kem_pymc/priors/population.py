"""Population parameters: unknown parameters of a study's priors that all clusters share.

A population parameter, made by :func:`population_parameter`, is an input of PyMC distributions with
a prior attached to it. The parameters that a study samples are found in the graphs of its priors.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import _default_transform, log
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomGeneratorType
from pytensor.tensor.variable import TensorVariable

from kem_pymc.errors import InputError

#: Names with another meaning in stored draws and tables (names that PyMC reserves end in two
#: underscores).
TAKEN = ("noise", "about", "inf", "nan")


class PopulationParameter(TensorVariable):
    """Sampled number that priors depend on; see :func:`population_parameter`."""

    @property
    def prior(self) -> TensorVariable:
        """The prior of the parameter."""
        return self.tag.prior  # tags are copied with a variable

    @property
    def positive(self) -> bool:
        """Return whether the unconstrained coordinate is the log, as in PyMC's default transform.

        The coordinate of all other parameters is the value, even if the support is bounded.
        """
        return _default_transform(self.prior.owner.op, self.prior) is log


def population_parameter(name: str, prior: TensorVariable) -> PopulationParameter:
    """Return a parameter of priors that is shared by all clusters and sampled.

    It can be used wherever a prior of a study takes a number, and in several priors::

        typical = kem.population_parameter("typical_log_lengthscale", pm.Normal.dist(0, 1))
        spread = kem.population_parameter("spread", pm.HalfNormal.dist(0.5))
        priors = priors.replace(lengthscale=pm.LogNormal.dist(typical, spread))

    An ``EvolutionModel`` with these priors has one variable for each of these names.

    Parameters
    ----------
    name : str
        Name of the variable: a Python identifier that isn't reserved.
    prior : PyMC distribution
        Continuous scalar distribution whose parameters are numbers.

    Returns
    -------
    PopulationParameter

    Raises
    ------
    InputError
        If the name isn't such an identifier, or the prior isn't such a distribution.
    """
    if not (isinstance(name, str) and name.isidentifier()) or name.endswith("__") or name in TAKEN:
        raise InputError(
            f"{name!r} can't be the name of a population parameter. "
            "Use letters, digits and underscores, as in 'typical_log_lengthscale', and no name "
            "that is reserved in files or models."
        )
    if not _is_of_numbers(prior):
        raise InputError(
            f"The prior of the population parameter {name} isn't a continuous scalar PyMC "
            "distribution of numbers. Give one like pm.Normal.dist(0, 1)."
        )
    made = PopulationParameter(pt.dscalar().type, None, name=name)
    made.tag.prior = prior
    return made


def _is_of_numbers(prior: Any) -> bool:
    """Return whether a prior has a density that depends only on its value."""
    if not isinstance(prior, TensorVariable) or prior.owner is None or prior.ndim != 0:
        return False
    if prior.dtype not in ("float32", "float64"):
        return False
    if isinstance(prior.owner.op, type(pm.Flat.rv_op) | type(pm.HalfFlat.rv_op)):
        return False  # draws aren't possible
    value = pt.dscalar("value")
    try:
        density = pm.logp(prior, value, warn_rvs=False)
    except (NotImplementedError, TypeError, ValueError):
        return False
    roots = [v for v in ancestors([density]) if v.owner is None]
    return all(v is value or isinstance(v, Constant) for v in roots)


def parameters_in(variables: Iterable[Variable]) -> tuple[PopulationParameter, ...]:
    """Return the population parameters that variables depend on, each name once.

    Raises
    ------
    InputError
        If two parameters with the same name have different priors.
    """
    parameters: dict[str, PopulationParameter] = {}
    for variable in variables:
        inside = [v for v in ancestors([variable]) if isinstance(v, PopulationParameter)]
        for parameter in sorted(inside, key=lambda p: p.name):
            first = parameters.setdefault(parameter.name, parameter)
            if not _same_distribution(first.prior, parameter.prior):
                raise InputError(
                    f"Two population parameters called {parameter.name} have different priors. "
                    "Make it once and use it where it is needed, or give them different names."
                )
    return tuple(parameters.values())


def names_of(population: Iterable[PopulationParameter]) -> str:
    """Return the names of population parameters, for messages."""
    return ", ".join(p.name for p in population)


def _same_distribution(one: TensorVariable, other: TensorVariable) -> bool:
    if one is other:
        return True
    generators = [
        [v for v in ancestors([rv]) if isinstance(v.type, RandomGeneratorType) and v.owner is None]
        for rv in (one, other)
    ]
    same_number = len(generators[0]) == len(generators[1])
    return same_number and equal_computations([one], [other], *generators)


def with_values(variable: Variable, values: Mapping[str, Any]) -> Variable:
    """Return a variable with population parameters replaced by numbers or variables, by name."""
    inside = {v for v in ancestors([variable]) if isinstance(v, PopulationParameter)}
    swapped = {
        parameter: pt.as_tensor(values[parameter.name], dtype="float64")
        for parameter in inside
        if parameter.name in values
    }
    if variable in swapped:
        return swapped[variable]
    return graph_replace([variable], swapped)[0] if swapped else variable
