"""Conversion of PyMC distributions to text, plain data, and compiled densities and samplers.

Densities are those of unconstrained coordinates: of the log of positive quantities (with the
Jacobian), of the value of all others. Their parameters may be population parameters; compiled
functions take the natural values of these, in an order chosen by the caller, as a further argument.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.exceptions import NotConstantValueError
from pymc.printing import str_for_dist
from pymc.pytensorf import collect_default_updates, constant_fold
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomGeneratorType, random_generator_type
from pytensor.tensor.variable import TensorVariable

from kem_pymc._system.jit.decorators import (
    GENERATOR,
    FunctionPointer,
    compiled,
    graph_function,
    pointer,
    types,
)
from kem_pymc.errors import InputError
from kem_pymc.priors.population import PopulationParameter, parameters_in, with_values

#: Number of draws from which a prior's median and scale, used by proposals, are estimated.
SCALE_DRAWS = 4000


def describe(rv: TensorVariable) -> str:
    """Return a distribution as text, e.g. ``LogNormal(0, 2)``.

    The parameters are those of the PyTensor random variable.
    """
    values = _arguments(rv)
    if values is None:
        # PyMC prints the names of random variables only, so these stand in for parameters.
        named = {p.name: pm.Normal.dist() for p in parameters_in([rv])}
        for name, stand_in in named.items():
            stand_in.name = name
        return str_for_dist(with_values(rv, named))
    texts = (v.name if isinstance(v, PopulationParameter) else f"{v:.4g}" for v in values)
    return f"{rv.owner.op._print_name[0]}({', '.join(texts)})"


def _arguments(rv: TensorVariable) -> list[float | PopulationParameter] | None:
    """Return the parameters of a distribution that is one random variable with scalar parameters.

    Each is a constant or a population parameter. The result is None for all other distributions,
    including those whose parameters are expressions of population parameters.
    """
    node = rv.owner
    if not isinstance(node.op, RandomVariable):
        return None
    arguments: list[float | PopulationParameter] = []
    for argument in node.op.dist_params(node):
        if isinstance(argument, PopulationParameter):
            arguments.append(argument)
            continue
        try:
            (value,) = constant_fold([argument])
        except NotConstantValueError:
            return None
        if np.ndim(value) != 0:
            return None
        arguments.append(float(value))
    return arguments


def constants(rv: TensorVariable) -> list[float] | None:
    """Return the parameters of a random variable with scalar constant parameters, else None."""
    values = _arguments(rv) or []
    numbers = [v for v in values if not isinstance(v, PopulationParameter)]
    return numbers if numbers and len(numbers) == len(values) else None


def gamma_parameters(rv: TensorVariable) -> tuple[float, float] | None:
    """Return shape and rate of a scalar Gamma distribution with constant parameters, else None."""
    if rv.owner is None or type(rv.owner.op) is not type(pm.Gamma.rv_op) or rv.ndim != 0:
        return None
    values = constants(rv)
    return None if values is None else (values[0], 1 / values[1])


def random_variable(op: RandomVariable, *parameters: Any) -> TensorVariable:
    """Return a random variable of an operation, with a separate random generator."""
    generator = pytensor.shared(np.random.default_rng())  # PyMC reseeds shared generators
    return op.make_node(generator, None, *map(pt.as_tensor, parameters)).outputs[1]


def fresh(rv: TensorVariable) -> TensorVariable:
    """Return an unnamed copy of a distribution with separate random generators.

    The copy can be registered in a PyMC model.
    """
    swapped = {g: pytensor.shared(np.random.default_rng()) for g in _generators(rv)}
    (copy,) = clone_replace([rv], swapped)
    copy.name = None
    return copy


def in_double(rv: TensorVariable) -> TensorVariable:
    """Return a distribution with its parameters in double precision, if it is a random variable.

    PyTensor stores a number such as 0.5 in single precision, and computes its logarithm in single
    precision too.
    """
    if not isinstance(rv.owner.op, RandomVariable):
        return rv
    parameters = rv.owner.op.dist_params(rv.owner)
    return random_variable(rv.owner.op, *(pt.cast(v, "float64") for v in parameters))


def to_data(rv: TensorVariable) -> dict[str, Any]:
    """Return a distribution as plain data; as text if PyMC doesn't provide it."""
    values = _arguments(rv)
    if values is not None:
        name = rv.owner.op._print_name[0]
        family = getattr(getattr(pm, name, None), "rv_op", None)
        if type(family) is type(rv.owner.op):
            plain = [v.name if isinstance(v, PopulationParameter) else v for v in values]
            # JSON has no infinite numbers.
            plain = [str(v) if v in (np.inf, -np.inf) else v for v in plain]
            return {"distribution": name, "parameters": plain}
    return {"text": describe(rv)}


def from_data(
    data: Mapping[str, Any], population: Mapping[str, PopulationParameter] | None = None
) -> TensorVariable:
    """Return the distribution from the data that :func:`to_data` returned.

    Parameters
    ----------
    data : mapping
    population : mapping, optional
        Population parameters by name.

    Returns
    -------
    TensorVariable

    Raises
    ------
    InputError
        If the distribution was stored as text.
    """
    if "distribution" not in data:
        raise InputError(
            f"The prior {data['text']} was stored as text only. "
            "Pass the study's own priors instead."
        )
    parameters_by_name = population or {}
    parameters = [
        parameters_by_name[v] if v in parameters_by_name else float(v) if isinstance(v, str) else v
        for v in data["parameters"]
    ]
    return random_variable(getattr(pm, data["distribution"]).rv_op, *parameters)


def _family(rv: TensorVariable) -> tuple[TensorVariable, list, list]:
    """Return a distribution with its parameters as inputs, the inputs, and the parameters' values.

    Distributions that only differ in their parameters can then share a compiled function. If the
    parameters aren't constants or population parameters, the distribution is returned unchanged,
    without inputs.
    """
    values = _arguments(rv)
    if values is None:
        return rv, [], []
    inputs = [pt.dscalar(f"parameter_{i}") for i in range(len(values))]
    return random_variable(rv.owner.op, *inputs), inputs, values


def _at_population(
    rv: TensorVariable, names: Sequence[str]
) -> tuple[TensorVariable, list[TensorVariable]]:
    """Return a distribution as a function of the population parameters' values (P,), and the input.

    There is no input if the distribution doesn't depend on population parameters.
    """
    if not parameters_in([rv]):
        return rv, []
    population = pt.dvector("population")
    values = {name: population[i] for i, name in enumerate(names)}
    return with_values(in_double(rv), values), [population]


def _generators(rv: TensorVariable) -> dict[Any, Any]:
    """Return the random generators of a distribution, each with its state after a draw."""
    updates = collect_default_updates([rv], must_be_shared=False)
    generators = {v: n for v, n in updates.items() if isinstance(v.type, RandomGeneratorType)}
    order = [v for node in io_toposort([], [rv]) for v in node.inputs if v in generators]
    return {v: generators[v] for v in order}


def _sampler(rv: TensorVariable, positive: bool) -> tuple[Any, Any]:
    """Return a generator variable and an unconstrained draw that only uses this generator.

    If a distribution has several generators (e.g. a mixture), each continues from the state of the
    one before.
    """
    generator = current = random_generator_type("generator")
    generators = _generators(rv)
    graphs = [rv, *generators.values()]
    for i, other in enumerate(generators):
        graphs = clone_replace(graphs, {other: current})
        current = graphs[1 + i]
    draw = graphs[0]
    return generator, pt.log(draw) if positive else draw.astype("float64")


def _compiled(
    rv: TensorVariable, positive: bool, inputs: Sequence[TensorVariable], varies: bool
) -> list[tuple[Callable, str]]:
    """Compile log density and slope of the unconstrained coordinate v, and draws.

    The arguments of the functions are the inputs, then v or a generator. `varies` is whether they
    depend on population parameters, for whose values the distribution may be impossible.
    """
    v = pt.dscalar("v")
    density = pm.logp(rv, pt.exp(v) if positive else v) + (v if positive else 0.0)
    slope = pytensor.grad(density, v, disconnected_inputs="ignore")
    generator, draw = _sampler(rv, positive)
    return [
        graph_function([*inputs, v], [density], impossible=varies),
        graph_function([*inputs, v], [slope], impossible=varies),
        graph_function([*inputs, generator], [draw]),
    ]


def _pointers(
    first: str, kind: Any, branches: Sequence[tuple[str, int, str]], functions: Sequence[list]
) -> list[FunctionPointer]:
    """Return pointers ``f(first, v or generator, population)`` that dispatch to compiled functions.

    Parameters
    ----------
    first : str
        Name of the first argument, of which `kind` is the type.
    branches : sequence of (str, int, str)
        Condition, index of the function, and source code of its arguments before the last.
    functions : sequence of list
        Results of :func:`_compiled`.
    """
    pointers = []
    for which, (argument, second) in enumerate(
        [("v", types.float64), ("v", types.float64), ("generator", GENERATOR)]
    ):
        last = argument if argument == "generator" else f"np.array({argument})"
        lines = [f"def prior({first}, {argument}, population):"]
        for condition, number, arguments in branches:
            lines.append(f"    if {condition}:")
            lines.append(f"        return f{number}({arguments}{last})[0].item()")
        lines.append("    return np.nan")
        chosen, keys = zip(*(triple[which] for triple in functions), strict=True)
        environment = {"np": np, "inf": np.inf, **{f"f{i}": f for i, f in enumerate(chosen)}}
        signature = types.float64(kind, second, types.float64[::1])
        key = " ".join(keys) if all(keys) else ""
        pointers.append(pointer("\n".join(lines), "prior", signature, environment, key))
    return pointers


def compile_entries(
    distinct: Sequence[tuple[TensorVariable, bool]], names: Sequence[str] = ()
) -> list[FunctionPointer]:
    """Compile densities, gradients and draws of the distinct priors into three dispatchers.

    Parameters
    ----------
    distinct : sequence of (distribution, bool)
        Distributions, and whether the unconstrained coordinate is the log.
    names : sequence of str
        Names of the population parameters, in the order of their values.

    Returns
    -------
    list of FunctionPointer
        ``f(entry, v, population)`` for the log density and its derivative, and
        ``f(entry, generator, population)`` for draws, where ``entry`` is the index in `distinct`.
    """
    functions: dict[Any, list] = {}
    branches = []
    for entry, (rv, positive) in enumerate(distinct):
        family, inputs, values = _family(rv)
        arguments = "".join(f"np.array({_source(value, names)}), " for value in values)
        varies = bool(parameters_in([rv]))
        identity = (type(family.owner.op), positive, varies) if inputs else (rv, positive)
        if not inputs:
            family, inputs = _at_population(rv, names)
            arguments = "population, " * len(inputs)
        if identity not in functions:
            functions[identity] = _compiled(family, positive, inputs, varies)
        branches.append((f"entry == {entry}", list(functions).index(identity), arguments))
    return _pointers("entry", types.int64, branches, list(functions.values()))


def _source(value: float | PopulationParameter, names: Sequence[str]) -> str:
    """Return the source code of a distribution's parameter in a compiled function."""
    if isinstance(value, PopulationParameter):
        return f"population[{list(names).index(value.name)}]"
    return repr(value)


def compile_noise(
    noise: Callable[[Any], TensorVariable], names: Sequence[str] = ()
) -> list[FunctionPointer]:
    """Compile density, gradient and draws of the noise prior, which depends on the parent.

    Parameters
    ----------
    noise : callable
        Function from a parent's inclusion indicators (C,) to the prior of the noise variance.
    names : sequence of str
        Names of the population parameters, in the order of their values.

    Returns
    -------
    list of FunctionPointer
        ``f(parent, v, population)`` for the log density and its derivative, and
        ``f(parent, generator, population)`` for draws.
    """
    parent = pt.TensorType("bool", (None,))("parent")
    rv, population = _at_population(in_double(noise(parent)), names)
    functions = _compiled(rv, True, [parent, *population], bool(population))
    branches = [("True", 0, "parent, " + "population, " * len(population))]
    return _pointers("parent", types.boolean[::1], branches, [functions])


@compiled
def _draws(draw, entry, generator, population, out):
    for i in range(out.shape[0]):
        out[i] = draw(entry, generator, population)


def location_and_scale(
    draw: FunctionPointer, entry: int, population: np.ndarray
) -> tuple[float, float]:
    """Return the median and standard deviation of a prior's unconstrained coordinate, from draws.

    Draws that overflow are ignored; if all do, both are infinite. Both are NaN if a draw is NaN,
    e.g. the log of a negative value.

    Parameters
    ----------
    draw : FunctionPointer
        Sampler ``f(entry, generator, population)``.
    entry : int
        Index of the prior.
    population : ndarray, shape (P,)
        Values of the population parameters.

    Returns
    -------
    tuple of float
    """
    out = np.empty(SCALE_DRAWS)
    _draws(draw, entry, np.random.default_rng(0), population, out)
    if np.isinf(out).any():
        out = out[~np.isinf(out)]
    return (float(np.median(out)), float(np.std(out))) if len(out) else (np.inf, np.inf)
