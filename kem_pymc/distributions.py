"""PyMC distributions as text, as plain data, and as compiled densities and samplers.

Densities are those of unconstrained coordinates: of the log where the quantity is positive, with
the Jacobian, of the value otherwise.
"""

from collections.abc import Callable, Mapping
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

from kem_pymc.compiled import (
    GENERATOR,
    FunctionPointer,
    compiled,
    graph_function,
    pointer,
    types,
)
from kem_pymc.errors import InputError

#: Draws from which a prior's median and scale are estimated (they only make proposals).
SCALE_DRAWS = 4000


def describe(rv: TensorVariable) -> str:
    """Return a distribution as text, e.g. ``LogNormal(0, 2)``, with PyTensor's parameters."""
    values = _constants(rv)
    if values is None:
        return str_for_dist(rv)
    return f"{rv.owner.op._print_name[0]}({', '.join(f'{v:.4g}' for v in values)})"


def _constants(rv: TensorVariable) -> list[float] | None:
    """Return the parameters of a distribution, if it is one random variable of scalar constants."""
    node = rv.owner
    if not isinstance(node.op, RandomVariable):
        return None
    parameters = node.op.dist_params(node)
    try:
        values = constant_fold(parameters)
    except NotConstantValueError:
        return None
    return [float(v) for v in values] if all(np.ndim(v) == 0 for v in values) else None


def gamma_parameters(rv: TensorVariable) -> tuple[float, float] | None:
    """Return shape and rate of a scalar Gamma distribution of constants; None of anything else."""
    if rv.owner is None or type(rv.owner.op) is not type(pm.Gamma.rv_op) or rv.ndim != 0:
        return None
    values = _constants(rv)
    return None if values is None else (values[0], 1 / values[1])


def random_variable(op: RandomVariable, *parameters: Any) -> TensorVariable:
    """Return a variable of a random operation with a generator of its own."""
    generator = pytensor.shared(np.random.default_rng())  # PyMC reseeds shared generators
    return op.make_node(generator, None, *map(pt.as_tensor, parameters)).outputs[1]


def fresh(rv: TensorVariable) -> TensorVariable:
    """Return a copy of a distribution with random generators of its own, fit to be registered."""
    swapped = {g: pytensor.shared(np.random.default_rng()) for g in _generators(rv)}
    (copy,) = clone_replace([rv], swapped)
    copy.name = None
    return copy


def in_double(rv: TensorVariable) -> TensorVariable:
    """Return a distribution with its constant parameters as doubles.

    PyTensor keeps a number such as 0.5 in single precision, and takes its logarithm so.
    """
    values = _constants(rv)
    if values is None:
        return rv
    return random_variable(rv.owner.op, *(pt.constant(v, dtype="float64") for v in values))


def to_data(rv: TensorVariable) -> dict[str, Any]:
    """Return a distribution as plain data; as text, where it isn't one of PyMC's own."""
    values = _constants(rv)
    if values is not None:
        name = rv.owner.op._print_name[0]
        own = getattr(getattr(pm, name, None), "rv_op", None)
        if type(own) is type(rv.owner.op):
            return {"distribution": name, "parameters": values}
    return {"text": describe(rv)}


def from_data(data: Mapping[str, Any]) -> TensorVariable:
    """Return the distribution that `to_data` wrote.

    Raises
    ------
    InputError
        If it was written as text.
    """
    if "distribution" not in data:
        raise InputError(
            f"The prior {data['text']} was stored as text only. "
            "Pass the study's own priors instead."
        )
    return random_variable(getattr(pm, data["distribution"]).rv_op, *data["parameters"])


def _family(rv: TensorVariable) -> tuple[TensorVariable, list, list[float]]:
    """Return a distribution with its constant parameters as inputs, and their values.

    Distributions that differ in their parameters only are then compiled once.
    """
    values = _constants(rv)
    if values is None:
        return rv, [], []
    inputs = [pt.dscalar(f"parameter_{i}") for i in range(len(values))]
    return random_variable(rv.owner.op, *inputs), inputs, values


def _density(rv: TensorVariable, positive: bool) -> tuple[Any, Any, Any]:
    """Return v, the log density of the unconstrained coordinate at v, and its derivative."""
    v = pt.dscalar("v")
    value = pt.exp(v) if positive else v
    density = pm.logp(rv, value) + (v if positive else 0.0)
    return v, density, pytensor.grad(density, v, disconnected_inputs="ignore")


def _generators(rv: TensorVariable) -> dict[Any, Any]:
    """Return the random generators that a distribution draws from, each with its next state."""
    updates = collect_default_updates([rv], must_be_shared=False)
    own = {v: n for v, n in updates.items() if isinstance(v.type, RandomGeneratorType)}
    order = [v for node in io_toposort([], [rv]) for v in node.inputs if v in own]
    return {v: own[v] for v in order}


def _sampler(rv: TensorVariable, positive: bool) -> tuple[Any, Any]:
    """Return a generator variable and an unconstrained draw that uses nothing else.

    Where a distribution has several generators (a mixture), each takes over from the one before.
    """
    generator = current = random_generator_type("generator")
    generators = _generators(rv)
    graphs = [rv, *generators.values()]
    for i, own in enumerate(generators):
        graphs = clone_replace(graphs, {own: current})
        current = graphs[1 + i]
    draw = graphs[0]
    return generator, pt.log(draw) if positive else draw.astype("float64")


_FLOAT, _ENTRY = types.float64, types.int64


def compile_entries(distinct: list[tuple[TensorVariable, bool]]) -> list[FunctionPointer]:
    """Compile densities, gradients and draws of the distinct priors into three dispatchers."""
    functions: dict[Any, tuple[tuple, tuple, tuple]] = {}
    branches: list[tuple[int, list[float]]] = []
    for rv, positive in distinct:
        family, inputs, values = _family(rv)
        identity = (type(family.owner.op), positive) if inputs else (rv, positive)
        if identity not in functions:
            v, density, slope = _density(family, positive)
            generator, draw = _sampler(family, positive)
            functions[identity] = (
                graph_function([*inputs, v], [density]),
                graph_function([*inputs, v], [slope]),
                graph_function([*inputs, generator], [draw]),
            )
        branches.append((list(functions).index(identity), values))

    def dispatcher(which: int, argument: str, signature: Any) -> FunctionPointer:
        lines = [f"def prior(entry, {argument}):"]
        last = argument if argument == "generator" else f"np.array({argument})"
        for i, (family_, values) in enumerate(branches):
            constants = "".join(f"np.array({value!r}), " for value in values)
            lines.append(f"    if entry == {i}:")
            lines.append(f"        return f{family_}({constants}{last})[0].item()")
        lines.append("    return np.nan")
        chosen = [triple[which] for triple in functions.values()]
        environment = {"np": np, "inf": np.inf, **{f"f{i}": f for i, (f, _) in enumerate(chosen)}}
        return pointer("\n".join(lines), "prior", signature, environment, _joint_key(chosen))

    return [
        dispatcher(0, "v", _FLOAT(_ENTRY, _FLOAT)),
        dispatcher(1, "v", _FLOAT(_ENTRY, _FLOAT)),
        dispatcher(2, "generator", _FLOAT(_ENTRY, GENERATOR)),
    ]


def compile_noise(noise: Callable[[Any], TensorVariable]) -> list[FunctionPointer]:
    """Compile density, gradient and draws of the noise, a function of the parent's inclusion."""
    parent = pt.TensorType("bool", (None,))("parent")
    rv = in_double(noise(parent))
    v, density, slope = _density(rv, positive=True)
    generator, draw = _sampler(rv, positive=True)
    row = types.boolean[::1]

    def made(argument: str, output: Any, variable: Any, signature: Any) -> FunctionPointer:
        function, key = graph_function([parent, variable], [output])
        last = argument if argument == "generator" else f"np.array({argument})"
        source = f"def noise(parent, {argument}):\n    return f(parent, {last})[0].item()"
        return pointer(source, "noise", signature, {"np": np, "f": function}, key)

    return [
        made("v", density, v, _FLOAT(row, _FLOAT)),
        made("v", slope, v, _FLOAT(row, _FLOAT)),
        made("generator", draw, generator, _FLOAT(row, GENERATOR)),
    ]


def _joint_key(functions: list[tuple[Callable, str]]) -> str:
    keys = [key for _, key in functions]
    return " ".join(keys) if all(keys) else ""


@compiled
def _draws(draw, entry, generator, out):
    for i in range(out.shape[0]):
        out[i] = draw(entry, generator)


def location_and_scale(draw: FunctionPointer, entry: int) -> tuple[float, float]:
    """Return a prior's median and standard deviation, as coordinates; NaN beyond its support."""
    out = np.empty(SCALE_DRAWS)
    _draws(draw, entry, np.random.default_rng(0), out)
    return float(np.median(out)), float(np.std(out))
