"""The priors of a study: one readable table, any entry of which PyMC can replace.

An entry is a plain PyMC distribution (``pm.LogNormal.dist(0, 2)``, a mixture, a truncated or a
custom one). It applies to a kind of hyperparameter (``"lengthscale"``), to a kind within a base
kernel (``"PER.lengthscale"``), within a candidate (``"LIN0 x PER0.amplitude"``), or to one
hyperparameter by its full name; the most specific entry wins. The prior of the noise variance is a
function of the parent composition. Inclusion probabilities (paper, 10.2.5) are numbers in the same
way: by candidate, or for all base kernels and all interactions.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.printing import str_for_dist
from pymc.pytensorf import collect_default_updates
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomGeneratorType, random_generator_type
from pytensor.tensor.variable import TensorConstant, TensorVariable

from kem_pymc.compiled import (
    GENERATOR,
    FunctionPointer,
    compiled,
    graph_function,
    pointer,
    types,
)
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Composition, Hyperparameter
from kem_pymc.kernels.pool import CandidatePool

#: Draws from which the scale of a prior is estimated (it only sets step sizes).
SCALE_DRAWS = 4000


class Parent:
    """What the noise prior may look at: the parent composition, as PyTensor expressions.

    Attributes
    ----------
    inclusion : vector (C,) of bool
        Which candidates the parent has.
    size : scalar
        How many.
    """

    def __init__(self, inclusion: Any, pool: CandidatePool) -> None:
        self.inclusion = inclusion
        self.size = pt.sum(inclusion)
        self._pool = pool

    def includes(self, candidate: str) -> Any:
        """Return whether a candidate is in the parent (scalar of bool).

        Raises
        ------
        InputError
            If the pool has no such candidate.
        """
        single = Composition((Candidate.parse(candidate, self._pool.dimension),))
        return self.inclusion[int(np.argmax(self._pool.inclusion(single)))]


NoisePrior = Callable[[Parent], TensorVariable]


def noise_by_size(mu: Sequence[float], sigma: Sequence[float]) -> NoisePrior:
    """Return the paper's noise prior: LogNormal(mu[k], sigma[k]) below a parent of size k.

    Parents with more candidates than the last entry get the last entry.
    """
    centres, spreads = tuple(map(float, mu)), tuple(map(float, sigma))

    def noise(parent: Parent) -> TensorVariable:
        k = pt.minimum(parent.size, len(centres) - 1)
        return pm.LogNormal.dist(pt.as_tensor(centres)[k], pt.as_tensor(spreads)[k])

    text = ", ".join(f"LogNormal({m:g}, {s:g})" for m, s in zip(centres, spreads, strict=True))
    noise.__doc__ = f"{text}, ... below a parent of size 0, 1, ..."
    noise.by_size = {"mu": centres, "sigma": spreads}  # type: ignore[attr-defined]
    return noise


class CompiledPriors(NamedTuple):
    """The priors of a study as the engine wants them.

    Densities are those of unconstrained coordinates: logs of positive hyperparameters and of the
    noise variance (the Jacobian is included), values of the others.

    Attributes
    ----------
    log_density, gradient : pointer
        ``f(entry, v) -> float``
    draw : pointer
        ``f(entry, generator) -> float``
    noise_log_density, noise_gradient : pointer
        ``f(parent, v) -> float`` with the parent's inclusion indicators (C,) bool
    noise_draw : pointer
        ``f(parent, generator) -> float``
    entry : (H,) int64
        Which distinct prior each hyperparameter has.
    scale : (H,) float64
        min(prior standard deviation, 1) of each coordinate: the unit of proposals.
    stay, enter : (C,) float64
        Probability that a candidate is in, given that the parent has it or hasn't.
    """

    log_density: FunctionPointer
    gradient: FunctionPointer
    draw: FunctionPointer
    noise_log_density: FunctionPointer
    noise_gradient: FunctionPointer
    noise_draw: FunctionPointer
    entry: np.ndarray
    scale: np.ndarray
    stay: np.ndarray
    enter: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Priors:
    """The table of priors.

    Attributes
    ----------
    hyperparameters : mapping of str to PyMC distribution
        By kind, ``base.kind``, ``candidate.kind`` or full name.
    noise : callable
        ``noise(parent)`` returns the PyMC distribution of the noise VARIANCE, given a
        :class:`Parent`.
    noise_without_parent : PyMC distribution
        For methods that know no parent (baselines).
    stay : float
        Probability that a candidate of the parent is in the child as well.
    enter : mapping of str to float
        Probability that another candidate is in: for ``"base kernel"``, ``"interaction"`` (ARD
        among them), or a candidate by name.
    scaling : {"none", "unit"}
        What the table was made for: data in their own units, or features scaled to [0, 1] and
        standardised targets.
    """

    hyperparameters: Mapping[str, TensorVariable]
    noise: NoisePrior
    noise_without_parent: TensorVariable
    stay: float = 0.9
    enter: Mapping[str, float] = field(
        default_factory=lambda: {"base kernel": 0.1, "interaction": 0.02}
    )
    scaling: Literal["none", "unit"] = "none"

    def __post_init__(self) -> None:
        for name, value in {**self.hyperparameters, "noise": self.noise_without_parent}.items():
            if not isinstance(value, TensorVariable) or value.owner is None or value.ndim != 0:
                raise InputError(
                    f"The prior of {name} is {value!r}, not a scalar PyMC distribution. "
                    "Give one like pm.LogNormal.dist(0, 2)."
                )
        if not callable(self.noise):
            raise InputError(
                "The noise prior is not a function of the parent. "
                "Give a function that takes the parent and returns a PyMC distribution."
            )
        for name, p in {"stay": self.stay, **self.enter}.items():
            if not 0 < p < 1:
                raise InputError(
                    f"The inclusion probability {name} is {p}. Give a number between 0 and 1."
                )

    def replace(self, entries: Mapping[str, Any] | None = None, /, **kinds: Any) -> "Priors":
        """Return the table with some entries replaced.

        Parameters
        ----------
        entries : mapping, optional
            Priors by name, e.g. ``{"PER.lengthscale": pm.InverseGamma.dist(5, 5)}``.
        **kinds
            The same for names that are Python words: ``lengthscale=``, ``noise=`` (a function of
            the parent), ``stay=``, ``enter=`` (merged into the present ones), ``scaling=``.

        Raises
        ------
        InputError
            If an entry isn't a scalar PyMC distribution.
        """
        given = {**(entries or {}), **kinds}
        fields: dict[str, Any] = {
            name: given.pop(name)
            for name in ("noise", "noise_without_parent", "stay", "scaling")
            if name in given
        }
        fields["enter"] = {**self.enter, **given.pop("enter", {})}
        return replace(self, hyperparameters={**self.hyperparameters, **given}, **fields)

    def of(self, hyperparameter: Hyperparameter) -> TensorVariable:
        """Return the prior of one hyperparameter: the most specific entry.

        Raises
        ------
        InputError
            If no entry applies to it.
        """
        candidate = hyperparameter.name.split(".")[0]
        kind, base = hyperparameter.kind, hyperparameter.base
        for name in (hyperparameter.name, f"{candidate}.{kind}", f"{base}.{kind}", kind):
            if name in self.hyperparameters:
                return self.hyperparameters[name]
        raise InputError(
            f"There is no prior for {hyperparameter.name}. Add an entry for {kind!r} to the table."
        )

    def entering(self, candidate: Candidate) -> float:
        """Return the probability that a candidate is in though the parent hasn't got it."""
        for name in (str(candidate), "interaction" if candidate.is_interaction else "base kernel"):
            if name in self.enter:
                return self.enter[name]
        raise InputError(f"There is no inclusion probability for {candidate}. Add it to enter=.")

    def noise_below(self, parent: Composition, pool: CandidatePool) -> TensorVariable:
        """Return the PyMC distribution of the noise variance below a parent composition."""
        return self.noise(Parent(pt.constant(pool.inclusion(parent)), pool))

    def to_frame(self, pool: CandidatePool | None = None) -> pd.DataFrame:
        """Return the table; with a pool, one row for every hyperparameter and candidate in it."""
        rows = [("noise", inspect.getdoc(self.noise) or "a function of the parent")]
        rows.append(("noise without a parent", describe(self.noise_without_parent)))
        if pool is None:
            rows += [(name, describe(rv)) for name, rv in self.hyperparameters.items()]
            rows += [(f"{name} enters", f"{p:g}") for name, p in self.enter.items()]
        else:
            rows += [(h.name, describe(self.of(h))) for h in pool.hyperparameters]
            rows += [(f"{c} enters", f"{self.entering(c):g}") for c in pool]
        rows.append(("a candidate of the parent stays", f"{self.stay:g}"))
        return pd.DataFrame(rows, columns=["what", "prior"])

    def __repr__(self) -> str:
        return self.to_frame().to_string(index=False, justify="left")

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False)

    def compile(self, pool: CandidatePool) -> CompiledPriors:
        """Return the priors as the engine wants them.

        Raises
        ------
        InputError
            If an entry is missing, or the prior of a positive hyperparameter isn't positive.
        """
        distinct: list[tuple[TensorVariable, bool]] = []
        entry = np.empty(len(pool.hyperparameters), dtype=np.int64)
        for i, hyperparameter in enumerate(pool.hyperparameters):
            found = (self.of(hyperparameter), hyperparameter.positive)
            if found not in distinct:
                distinct.append(found)
            entry[i] = distinct.index(found)
        pointers = _compile_entries(distinct)
        scales = np.array([_scale(pointers[2], i) for i in range(len(distinct))])
        if not np.isfinite(scales).all():
            wrong = distinct[int(np.flatnonzero(~np.isfinite(scales))[0])][0]
            raise InputError(
                f"The prior {describe(wrong)} of a positive hyperparameter gives negative values. "
                "Truncate it, or use a positive distribution."
            )
        log_density, gradient, draw = pointers
        noise_log_density, noise_gradient, noise_draw = _compile_noise(self.noise, pool)
        return CompiledPriors(
            log_density=log_density,
            gradient=gradient,
            draw=draw,
            noise_log_density=noise_log_density,
            noise_gradient=noise_gradient,
            noise_draw=noise_draw,
            entry=entry,
            scale=np.minimum(scales, 1.0)[entry],
            stay=np.full(len(pool), self.stay),
            enter=np.array([self.entering(c) for c in pool]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data, for files; distributions outside PyMC's own as text."""
        by_size = getattr(self.noise, "by_size", None)
        return {
            "hyperparameters": {n: _to_data(rv) for n, rv in self.hyperparameters.items()},
            "noise": {"by_size": by_size} if by_size else {"text": inspect.getdoc(self.noise)},
            "noise_without_parent": _to_data(self.noise_without_parent),
            "stay": self.stay,
            "enter": dict(self.enter),
            "scaling": self.scaling,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Priors":
        """Return the table that :meth:`to_dict` wrote.

        Raises
        ------
        InputError
            If an entry was written as text only.
        """
        by_size = data["noise"].get("by_size")
        if by_size is None:
            raise InputError(
                "The noise prior was stored as text only. Pass the study's own priors instead."
            )
        return cls(
            hyperparameters={n: _from_data(d) for n, d in data["hyperparameters"].items()},
            noise=noise_by_size(**by_size),
            noise_without_parent=_from_data(data["noise_without_parent"]),
            stay=data["stay"],
            enter=data["enter"],
            scaling=data["scaling"],
        )


def _table(
    lengthscale: tuple[float, float], period: tuple[float, float], scaling: Literal["none", "unit"]
) -> Priors:
    return Priors(
        hyperparameters={
            "lengthscale": pm.LogNormal.dist(*lengthscale),
            "period": pm.LogNormal.dist(*period),
            "amplitude": pm.LogNormal.dist(0, 2),
            "mixture": pm.LogNormal.dist(0, 1),
            "shift": pm.Normal.dist(0, 0.1),
        },
        noise=noise_by_size(mu=(2, 1, 0), sigma=(0.5, 1, 2)),
        noise_without_parent=pm.LogNormal.dist(0, 2),
        scaling=scaling,
    )


def synthetic() -> Priors:
    """Return the paper's priors for the synthetic study: inputs on [0, 20], data as they are."""
    return _table(lengthscale=(0, 2), period=(np.log(5), 0.25), scaling="none")


def unit_scale() -> Priors:
    """Return the paper's priors for real data: features in [0, 1], standardised targets."""
    return _table(lengthscale=(np.log(0.2), 0.5), period=(np.log(0.2), 0.25), scaling="unit")


def describe(rv: TensorVariable) -> str:
    """Return a distribution as text, e.g. ``LogNormal(0, 2)``."""
    node = rv.owner
    if isinstance(node.op, RandomVariable):
        parameters = node.op.dist_params(node)
        if all(isinstance(p, TensorConstant) for p in parameters):
            name = node.op._print_name[0]
            return f"{name}({', '.join(f'{float(p.data):.4g}' for p in parameters)})"
    return str_for_dist(rv)


def fresh(rv: TensorVariable) -> TensorVariable:
    """Return a copy of a distribution with random generators of its own, fit to be registered."""
    # PyMC seeds shared generators by itself.
    swapped = {g: pytensor.shared(np.random.default_rng()) for g in _generators(rv)}
    (copy,) = clone_replace([rv], swapped)
    copy.name = None
    return copy


def _to_data(rv: TensorVariable) -> dict[str, Any]:
    node = rv.owner
    if isinstance(node.op, RandomVariable):
        parameters = node.op.dist_params(node)
        name = node.op._print_name[0]
        own = getattr(getattr(pm, name, None), "rv_op", None)
        if type(own) is type(node.op) and all(isinstance(p, TensorConstant) for p in parameters):
            return {"distribution": name, "parameters": [float(p.data) for p in parameters]}
    return {"text": describe(rv)}


def _from_data(data: Mapping[str, Any]) -> TensorVariable:
    if "distribution" not in data:
        raise InputError(
            f"The prior {data['text']} was stored as text only. "
            "Pass the study's own priors instead."
        )
    return getattr(pm, data["distribution"]).rv_op(*data["parameters"])


def _family(rv: TensorVariable) -> tuple[TensorVariable, list, list[float]]:
    """Return a distribution with its constant parameters as inputs, and their values.

    Distributions that differ in their parameters only are then compiled once.
    """
    node = rv.owner
    if isinstance(node.op, RandomVariable):
        parameters = node.op.dist_params(node)
        if all(isinstance(p, TensorConstant) and p.ndim == 0 for p in parameters):
            inputs = [pt.dscalar(f"parameter_{i}") for i in range(len(parameters))]
            return node.op(*inputs), inputs, [float(p.data) for p in parameters]
    return rv, [], []


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


def _compile_entries(distinct: list[tuple[TensorVariable, bool]]) -> list[FunctionPointer]:
    """Compile densities, gradients and draws of the distinct priors into three dispatchers."""
    functions: dict[Any, tuple[tuple, tuple, tuple]] = {}
    branches: list[tuple[int, list[float]]] = []
    for rv, positive in distinct:
        family, inputs, values = _family(rv)
        identity = (family.owner.op, positive) if inputs else (rv, positive)
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


def _compile_noise(noise: NoisePrior, pool: CandidatePool) -> list[FunctionPointer]:
    parent = pt.TensorType("bool", (None,))("parent")
    rv = noise(Parent(parent, pool))
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


def _scale(draw: FunctionPointer, entry: int) -> float:
    """Return the standard deviation of a prior's coordinate; NaN if it leaves the support."""
    out = np.empty(SCALE_DRAWS)
    _draws(draw, entry, np.random.default_rng(0), out)
    return float(np.std(out))
