"""The priors of a study: a table whose entries are PyMC distributions and can be replaced.

An entry is a PyMC distribution (``pm.LogNormal.dist(0, 2)``, or a mixture, a truncated or a custom
distribution). It applies to a kind of hyperparameter (``"lengthscale"``), to a kind within a base
kernel (``"PER.lengthscale"``), to a kind within a candidate (``"LIN0 x PER0.amplitude"``), or to
one hyperparameter by its full name. The most specific entry is used. The prior of the noise
variance is a function of the parent composition. Inclusion probabilities (paper, 10.2.5) are
numbers, given by candidate, or for all base kernels and for all interactions. Distributions may
depend on population parameters (:func:`kem_pymc.population_parameter`), which all clusters share.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import isfinite
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc._system.display import Display, Displayed, Listing
from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import NOISE_FLOOR
from kem_pymc.kernels.base import base_kernels
from kem_pymc.kernels.composition import Candidate, Composition, Hyperparameter
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.compilation import compile_priors
from kem_pymc.priors.compiled_table import PriorTable, check_noise_floor
from kem_pymc.priors.distributions import describe, fresh, from_data, to_data
from kem_pymc.priors.noise import (
    NoisePrior,
    Parent,
    SameNoise,
    distributions_in,
    noise_at,
    noise_from_data,
    noise_text,
    noise_to_data,
)
from kem_pymc.priors.population import (
    PopulationParameter,
    names_of,
    parameters_in,
    population_parameter,
    with_values,
)

#: Entries of a table that aren't priors of hyperparameters, or probabilities of candidates.
FIELDS = ("noise", "noise_without_parent", "stay", "scaling", "noise_floor")


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Priors(Displayed):
    """Table of all priors of a study.

    Attributes
    ----------
    hyperparameters : mapping of str to PyMC distribution
        Priors of hyperparameters by kind, ``base.kind``, ``candidate.kind`` or full name.
    noise : callable
        Function such that ``noise(parent)`` is the PyMC distribution of the noise variance (not the
        standard deviation), given a :class:`Parent`.
    noise_without_parent : PyMC distribution
        Prior of the noise variance for methods without parents (baselines).
    stay : float
        Probability that a candidate of the parent is included in the child.
    enter : mapping of str to float
        Probability that a candidate that the parent doesn't have is included in the child: for
        ``"base kernel"``, ``"interaction"`` (which includes ARD), or a candidate by name.
    scaling : {"none", "unit"}
        Units for which the table was made: data in their own units, or features scaled to [0, 1]
        and standardised targets.
    noise_floor : float
        Smallest noise variance of fits at selection, for every method, in units of the scaled
        targets squared. The sampler has no floor. It bounds the log density of a prediction by
        -log(2 pi noise_floor) / 2 per point, which is 1.38 for the paper's 0.01.

    Raises
    ------
    InputError
        If a prior isn't a scalar PyMC distribution, `noise` isn't callable, an inclusion
        probability isn't between 0 and 1, or the noise floor isn't positive and finite.
    """

    hyperparameters: Mapping[str, TensorVariable]
    noise: NoisePrior
    noise_without_parent: TensorVariable
    stay: float = 0.9
    enter: Mapping[str, float] = field(
        default_factory=lambda: {"base kernel": 0.1, "interaction": 0.02}
    )
    scaling: Literal["none", "unit"] = "none"
    noise_floor: float = NOISE_FLOOR

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
            if not (isinstance(p, Real) and 0 < p < 1):
                raise InputError(
                    f"The inclusion probability {name} is {p}. Give a number between 0 and 1."
                )
        check_noise_floor(self.noise_floor)

    def replace(self, entries: Mapping[str, Any] | None = None, /, **kinds: Any) -> "Priors":
        """Return the table with some entries replaced.

        Parameters
        ----------
        entries : mapping, optional
            Priors by name, e.g. ``{"PER.lengthscale": pm.InverseGamma.dist(5, 5)}``.
        **kinds
            Entries whose names are Python identifiers: ``lengthscale=``, ``noise=`` (a function of
            the parent), ``noise_without_parent=``, ``stay=``, ``enter=`` (merged into the present
            mapping), ``scaling=``, ``noise_floor=``.

        Returns
        -------
        Priors

        Raises
        ------
        InputError
            If a value isn't valid, e.g. a prior isn't a scalar PyMC distribution, or a name is none
            of a hyperparameter or, in `enter`, of a candidate. Kernels of your own have to be
            registered before.
        """
        mapped = entries is None or isinstance(entries, Mapping)
        given = {**(entries or {}), **kinds} if mapped else {}
        fields: dict[str, Any] = {name: given.pop(name) for name in FIELDS if name in given}
        enter = given.pop("enter", {})
        if not mapped or not isinstance(enter, Mapping):
            raise InputError(
                "Priors, and the probabilities in {enter}, are mappings by name. Give a dict, like "
                "{'SE0': 0.1}.",
                enter=...,
            )
        for name in {*given} - {*self.hyperparameters}:
            _check_entry(name)
        for name in {*enter} - {*self.enter, "base kernel", "interaction"}:
            _check_candidate(name)
        fields["enter"] = {**self.enter, **enter}
        return replace(self, hyperparameters={**self.hyperparameters, **given}, **fields)

    def without_parent(self) -> "Priors":
        """Return the table for methods without parents, with a single noise prior."""
        return self.replace(noise=SameNoise(self.noise_without_parent))

    def expecting(self, additions: float, pool: CandidatePool) -> "Priors":
        """Return the table scaled to an expected number of candidates that enter below WHITE.

        The probabilities in `enter` keep their ratios. With those of the paper, on average 0.4 of
        the synthetic study's 8 candidates enter at a time step, but 6 of HeartSteps' 95: the larger
        the pool, the more candidates are included without support from the data. The prior of the
        number of candidates shouldn't depend on the size of the pool (Scott and Berger 2010).

        Parameters
        ----------
        additions : float
            Expected number of candidates of a composition whose parent is WHITE (empty).
        pool : CandidatePool

        Returns
        -------
        Priors

        Raises
        ------
        InputError
            If a resulting probability isn't between 0 and 1, or a candidate has no probability.
        """
        factor = additions / sum(self.entering(candidate) for candidate in pool)
        return self.replace(enter={name: p * factor for name, p in self.enter.items()})

    def of(self, hyperparameter: Hyperparameter) -> TensorVariable:
        """Return the prior of one hyperparameter, which is the most specific entry.

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
        """Return the inclusion probability of a candidate that the parent doesn't have."""
        for name in (str(candidate), "interaction" if candidate.is_interaction else "base kernel"):
            if name in self.enter:
                return self.enter[name]
        raise InputError(f"There is no inclusion probability for {candidate}. Add it to enter=.")

    def population(self, pool: CandidatePool | None = None) -> tuple[PopulationParameter, ...]:
        """Return the population parameters on which the priors of a pool and its noise depend.

        Without a pool they are those of the whole table, except those that only occur in a function
        of the parent, which can't be found.

        Raises
        ------
        InputError
            If an entry is missing, or two parameters with the same name have different priors.
        """
        if pool is None:
            noise = [*distributions_in(self.noise), self.noise_without_parent]
            return parameters_in([*self.hyperparameters.values(), *noise])
        anyone = Parent(pt.vector("parent", dtype="bool"), pool)
        return parameters_in([*(self.of(h) for h in pool.hyperparameters), self.noise(anyone)])

    def at(self, values: Mapping[str, float]) -> "Priors":
        """Return the table with population parameters replaced by numbers.

        Parameters
        ----------
        values : mapping of str to float
            Values by name, e.g. posterior medians. Parameters that aren't named are kept; names
            without a parameter are ignored.

        Returns
        -------
        Priors

        Raises
        ------
        InputError
            If a value isn't a finite number, or has density zero. (The density isn't checked for
            parameters that only occur in a function of the parent.)
        """
        try:
            numbers = {name: float(value) for name, value in values.items()}
            finite = all(map(isfinite, numbers.values()))
        except (TypeError, ValueError):
            finite = False
        if not finite:
            raise InputError(
                f"The values {dict(values)} of population parameters aren't all finite numbers. "
                "Give one number for each."
            )
        for parameter in self.population():
            value = numbers.get(parameter.name)
            if value is not None and not np.isfinite(pm.logp(parameter.prior, value).eval()):
                raise InputError(
                    f"{parameter.name} = {value:.4g} is impossible under its prior, "
                    f"{describe(parameter.prior)}. Give a value that the prior allows."
                )
        return replace(
            self,
            hyperparameters={
                name: with_values(rv, numbers) for name, rv in self.hyperparameters.items()
            },
            noise=noise_at(self.noise, numbers),
            noise_without_parent=with_values(self.noise_without_parent, numbers),
        )

    def check_values(self, pool: CandidatePool) -> None:
        """Check that the priors of a pool don't depend on population parameters.

        Raises
        ------
        InputError
            If a prior depends on a population parameter.
        """
        unknown = self.population(pool)
        if unknown:
            raise InputError(
                f"These priors depend on population parameters ({names_of(unknown)}), which are "
                "learned from pilot users. Give numbers for them by priors.at({name: value})."
            )

    def noise_below(self, parent: Composition, pool: CandidatePool) -> TensorVariable:
        """Return the PyMC distribution of the noise variance below a parent composition."""
        return self.noise(Parent(pt.constant(pool.inclusion(parent)), pool))

    def draw(
        self,
        composition: Composition | str,
        pool: CandidatePool,
        draws: int = 1,
        *,
        parent: Composition | str = "WHITE",
        rng: np.random.Generator | int = 0,
    ) -> dict[str, np.ndarray]:
        """Draw a composition's hyperparameters and noise variance from the priors.

        Parameters
        ----------
        composition, parent : Composition or str
            Compositions of the pool's candidates. The noise depends on the parent.
        pool : CandidatePool
        draws : int
            Number of draws.
        rng : Generator or int

        Returns
        -------
        dict of str to ndarray, shape (draws,)
            Natural values by name, and the noise variance as ``"noise"``, which
            :func:`kem_pymc.gp.draw_functions` accepts. Population parameters are drawn first, with
            one value per draw for all priors, and are included by name.

        Raises
        ------
        InputError
            If a candidate isn't in the pool, or has no prior.
        """
        if not isinstance(rng, np.random.Generator):
            check_seed(rng=rng)
        check_whole(draws=draws)
        made, above = (
            Composition.parse(c, pool.dimension) if isinstance(c, str) else c
            for c in (composition, parent)
        )
        pool.inclusion(made)  # raises where a candidate isn't in the pool
        variables = {h.name: fresh(self.of(h)) for h in made.hyperparameters}
        variables["noise"] = fresh(self.noise_below(above, pool))
        shared = {p.name: fresh(p.prior) for p in parameters_in(variables.values())}
        variables = {name: with_values(rv, shared) for name, rv in variables.items()} | shared
        seed = int(np.random.default_rng(rng).integers(2**32))
        drawn = pm.draw(list(variables.values()), draws=draws, random_seed=seed)
        return {
            name: np.reshape(values, draws) for name, values in zip(variables, drawn, strict=True)
        }

    def to_frame(self, pool: CandidatePool | None = None) -> pd.DataFrame:
        """Return the table as text; with a pool, one row per hyperparameter and candidate of it."""
        rows = [("noise", noise_text(self.noise))]
        rows.append(("noise without a parent", describe(self.noise_without_parent)))
        rows.append(("smallest noise of a fit", f"{self.noise_floor:g}"))
        if pool is None:
            rows += [(name, describe(rv)) for name, rv in self.hyperparameters.items()]
            rows += [(f"{name} enters", f"{p:g}") for name, p in self.enter.items()]
        else:
            rows += [(h.name, describe(self.of(h))) for h in pool.hyperparameters]
            rows += [(f"{c} enters", f"{self.entering(c):g}") for c in pool]
        rows += [(p.name, describe(p.prior)) for p in self.population(pool)]
        rows.append(("a candidate of the parent stays", f"{self.stay:g}"))
        return pd.DataFrame(rows, columns=["what", "prior"])

    def __repr__(self) -> str:
        frame = self.to_frame()
        wide = max(map(len, frame["what"])) + 2
        rows = [tuple(frame), *frame.itertuples(index=False)]
        return "\n".join(f"{what:{wide}}{prior}" for what, prior in rows)

    def _display(self) -> Display:
        frame = self.to_frame()
        units = {
            "none": "unscaled data",
            "unit": "features scaled to [0, 1] and standardised targets",
        }
        rows = frame.to_numpy().tolist()
        return Display(f"Priors for {units[self.scaling]}", listings=[Listing((*frame,), rows)])

    def compile(self, pool: CandidatePool) -> PriorTable:
        """Return the priors in compiled form, for the engine.

        Raises
        ------
        InputError
            If an entry is missing, the prior of a positive hyperparameter has negative values, the
            prior of a population parameter is too vague, or population parameters can have values
            for which a prior isn't a valid distribution.
        """
        return compile_priors(
            [(self.of(h), h.positive) for h in pool.hyperparameters],
            lambda inclusion: self.noise(Parent(inclusion, pool)),
            self.population(pool),
            stay=np.full(len(pool), self.stay),
            enter=np.array([self.entering(c) for c in pool]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data that can be written to files.

        Distributions that PyMC doesn't provide are stored as text. Population parameters are stored
        as names among the parameters of a distribution; distributions that depend on expressions of
        population parameters are stored as text.
        """
        population = {p.name: to_data(p.prior) for p in self.population()}
        return {
            "hyperparameters": {n: to_data(rv) for n, rv in self.hyperparameters.items()},
            "noise": noise_to_data(self.noise),
            "noise_without_parent": to_data(self.noise_without_parent),
            "stay": self.stay,
            "enter": dict(self.enter),
            "scaling": self.scaling,
            "noise_floor": self.noise_floor,
            **({"population": population} if population else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Priors":
        """Return the table from the data that :meth:`to_dict` returned.

        Raises
        ------
        InputError
            If an entry was stored as text only, or is missing.
        """
        for name in (
            "hyperparameters",
            "noise",
            "noise_without_parent",
            "stay",
            "enter",
            "scaling",
        ):
            if name not in data:
                raise InputError(f"The priors have no {name}. Give what `to_dict` returned.")
        population = {
            name: population_parameter(name, from_data(prior))
            for name, prior in data.get("population", {}).items()
        }
        return cls(
            hyperparameters={
                n: from_data(d, population) for n, d in data["hyperparameters"].items()
            },
            noise=noise_from_data(data["noise"], population),
            noise_without_parent=from_data(data["noise_without_parent"], population),
            stay=data["stay"],
            enter=data["enter"],
            scaling=data["scaling"],
            noise_floor=data.get("noise_floor", NOISE_FLOOR),  # missing in older files
        )


def _check_entry(name: str) -> None:
    """Check that an entry is the prior of hyperparameters, which may be none of a pool's.

    Raises
    ------
    InputError
        If it would never be used.
    """
    if _applies(name):
        return
    owner, point, kind = str(name).rpartition(".")
    kinds = ["amplitude", *dict.fromkeys(k for one in base_kernels() for k in one.hyperparameters)]
    close = get_close_matches(kind, kinds if point else [*kinds, *FIELDS, "enter"], 1)
    near = [f"{owner}{point}{one}" for one in close]
    meant = next((one for one in near if one in (*FIELDS, "enter") or _applies(one)), None)
    raise InputError(
        f"No hyperparameter is called {name!r}, so that its prior would never be used. "
        + (
            f"Did you mean {meant!r}?"
            if meant
            else f"Give a kind ({', '.join(kinds)}), alone or after a base kernel or candidate "
            "that has it, as in SE.lengthscale and LIN0 x PER0.amplitude."
        )
    )


def _applies(name: str) -> bool:
    """Return whether an entry is found by :meth:`Priors.of` for some hyperparameter."""
    owner, point, kind = str(name).rpartition(".")
    if not point:
        return kind == "amplitude" or any(kind in one.hyperparameters for one in base_kernels())
    for kernel in base_kernels():
        tied = kernel.tied and re.fullmatch(rf"{kernel.tied}\d+@\d+", owner)
        if kind in kernel.hyperparameters and (owner == kernel.name or tied):
            return True
    try:
        candidate = Candidate.parse(owner.split(".")[0])
    except InputError:
        return False
    own = [*candidate.hyperparameters, *(h for _, named in candidate.by_factor for h in named)]
    return name in {each for h in own for each in (h.name, f"{candidate}.{h.kind}")}


def _check_candidate(name: str) -> None:
    """Check that a candidate has a name as it is printed.

    Raises
    ------
    InputError
        If it hasn't: its inclusion probability would never be used.
    """
    try:
        printed = str(Candidate.parse(str(name)))
    except InputError:
        printed = ""
    if printed != name:
        raise InputError(
            f"No candidate is called {name!r}, so that its inclusion probability would never be "
            f"used. Give {printed or 'base kernel, interaction, or a candidate such as SE0'}."
        )
