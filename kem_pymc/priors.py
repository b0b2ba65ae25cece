"""The priors of a study: one readable table, any entry of which PyMC can replace.

An entry is a plain PyMC distribution (``pm.LogNormal.dist(0, 2)``, a mixture, a truncated or a
custom one). It applies to a kind of hyperparameter (``"lengthscale"``), to a kind within a base
kernel (``"PER.lengthscale"``), within a candidate (``"LIN0 x PER0.amplitude"``), or to one
hyperparameter by its full name; the most specific entry wins. The prior of the noise variance is a
function of the parent composition. Inclusion probabilities (paper, 10.2.5) are numbers in the same
way: by candidate, or for all base kernels and all interactions. Distributions may depend on
population parameters (:func:`kem_pymc.population_parameter`), which all clusters share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from textwrap import TextWrapper
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc.compiled_priors import compile_priors
from kem_pymc.display import Display, Displayed, Listing
from kem_pymc.distributions import describe, fresh, from_data, to_data
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Composition, Hyperparameter
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.noise_priors import (
    NoisePrior,
    Parent,
    SameNoise,
    distributions_in,
    noise_at,
    noise_by_size,
    noise_from_data,
    noise_text,
    noise_to_data,
)
from kem_pymc.population import (
    PopulationParameter,
    names_of,
    parameters_in,
    population_parameter,
    with_values,
)
from kem_pymc.prior_table import NOISE_FLOOR, PriorTable, check_noise_floor

#: A table as text has room for so many letters of a prior in a line.
ACROSS = 56


@dataclass(frozen=True, eq=False, repr=False)
class Priors(Displayed):
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
    noise_floor : float
        Smallest noise variance of fits at selection, of every method; in the units of scaled
        targets. The sampler has none. It caps the log density of a prediction at
        -log(2 pi noise_floor) / 2 per point, 1.38 for the paper's 0.01.
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
            The same for names that are Python words: ``lengthscale=``, ``noise=`` (a function of
            the parent), ``stay=``, ``enter=`` (merged into the present ones), ``scaling=``,
            ``noise_floor=``.

        Raises
        ------
        InputError
            If an entry isn't a scalar PyMC distribution.
        """
        given = {**(entries or {}), **kinds}
        fields: dict[str, Any] = {
            name: given.pop(name)
            for name in ("noise", "noise_without_parent", "stay", "scaling", "noise_floor")
            if name in given
        }
        fields["enter"] = {**self.enter, **given.pop("enter", {})}
        return replace(self, hyperparameters={**self.hyperparameters, **given}, **fields)

    def without_parent(self) -> "Priors":
        """Return the table for methods that know no parent: one noise prior for all."""
        return self.replace(noise=SameNoise(self.noise_without_parent))

    def expecting(self, additions: float, pool: CandidatePool) -> "Priors":
        """Return the table with as many candidates entering below WHITE, on average.

        Probabilities to enter keep their ratios. With those of the paper 0.4 of the synthetic
        study's 8 candidates enter at a time step, and 6 of HeartSteps' 95: the more there are to
        choose from, the more are there that no data asked for. A prior of how many there are
        shouldn't depend on the number of candidates (Scott and Berger 2010).

        Parameters
        ----------
        additions : float
            Expected number of candidates of a composition whose parent has none.
        pool : CandidatePool

        Raises
        ------
        InputError
            If a probability wouldn't lie between 0 and 1.
        """
        factor = additions / sum(self.entering(candidate) for candidate in pool)
        return self.replace(enter={name: p * factor for name, p in self.enter.items()})

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

    def population(self, pool: CandidatePool) -> tuple[PopulationParameter, ...]:
        """Return the population parameters on which priors of a pool, or of the noise, depend.

        Raises
        ------
        InputError
            If an entry is missing, or two parameters of one name have different priors.
        """
        anyone = Parent(pt.vector("parent", dtype="bool"), pool)
        return parameters_in([*(self.of(h) for h in pool.hyperparameters), self.noise(anyone)])

    def at(self, values: Mapping[str, float]) -> "Priors":
        """Return the table with numbers in place of population parameters.

        Parameters
        ----------
        values : mapping of str to float
            By name, e.g. posterior medians. Parameters of other names stay; names of none are
            ignored.

        Raises
        ------
        InputError
            If a value isn't finite, or has density zero. (Parameters that stand in a function of
            the parent alone aren't looked at.)
        """
        try:
            numbers = {name: float(value) for name, value in values.items()}
        except (TypeError, ValueError):
            raise InputError(
                f"The values {dict(values)} of population parameters aren't all numbers. "
                "Give one number for each."
            ) from None
        if not np.isfinite(list(numbers.values())).all():
            raise InputError(
                f"The values {numbers} of population parameters aren't all finite. Give numbers."
            )
        for parameter in self._told(None):
            value = numbers.get(parameter.name)
            if value is not None and not np.isfinite(pm.logp(parameter.prior, value).eval()):
                raise InputError(
                    f"{parameter.name} = {value:.4g} is impossible by its prior, "
                    f"{describe(parameter.prior)}. Give a value that isn't."
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
        """Check that priors of a pool depend on no population parameter.

        Raises
        ------
        InputError
            If one does.
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
        """Draw what the table says of a composition's hyperparameters and noise.

        Parameters
        ----------
        composition, parent : Composition or str
            Made of the pool's candidates; the noise depends on the parent.
        pool : CandidatePool
        draws : int
        rng : Generator or int

        Returns
        -------
        dict of str to ndarray, shape (draws,)
            Natural values by name, and the noise variance as ``"noise"``; for
            :func:`kem_pymc.draw_functions`. Population parameters are drawn before, one value for
            all of a draw, and among them.

        Raises
        ------
        InputError
            If a candidate isn't in the pool, or has no prior.
        """
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
        """Return the table; with a pool, one row for every hyperparameter and candidate in it."""
        rows = [("noise", noise_text(self.noise))]
        rows.append(("noise without a parent", describe(self.noise_without_parent)))
        rows.append(("smallest noise of a fit", f"{self.noise_floor:g}"))
        if pool is None:
            rows += [(name, describe(rv)) for name, rv in self.hyperparameters.items()]
            rows += [(f"{name} enters", f"{p:g}") for name, p in self.enter.items()]
        else:
            rows += [(h.name, describe(self.of(h))) for h in pool.hyperparameters]
            rows += [(f"{c} enters", f"{self.entering(c):g}") for c in pool]
        rows += [(p.name, describe(p.prior)) for p in self._told(pool)]
        rows.append(("a candidate of the parent stays", f"{self.stay:g}"))
        return pd.DataFrame(rows, columns=["what", "prior"])

    def _told(self, pool: CandidatePool | None) -> tuple[PopulationParameter, ...]:
        """Return the population parameters of the table, as far as they are known without a pool.

        (A function of the parent can't be looked into without one.)
        """
        if pool is not None:
            return self.population(pool)
        noise = [*distributions_in(self.noise), self.noise_without_parent]
        return parameters_in([*self.hyperparameters.values(), *noise])

    def __repr__(self) -> str:
        frame = self.to_frame()
        wide = max(map(len, [*frame["what"], "what"])) + 2
        texts = TextWrapper(
            wide + ACROSS,
            subsequent_indent=wide * " ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = []
        for what, prior in [tuple(frame), *frame.itertuples(index=False)]:
            texts.initial_indent = f"{what:{wide}}"
            lines += texts.wrap(prior)
        return "\n".join(lines)

    def _display(self) -> Display:
        frame = self.to_frame()
        units = {
            "none": "data in their own units",
            "unit": "features scaled to [0, 1] and standardised targets",
        }
        rows = frame.to_numpy().tolist()
        return Display(f"Priors for {units[self.scaling]}", listings=[Listing((*frame,), rows)])

    def compile(self, pool: CandidatePool) -> PriorTable:
        """Return the priors as the engine wants them.

        Raises
        ------
        InputError
            If an entry is missing, the prior of a positive hyperparameter isn't positive, or
            population parameters can go where a prior is none.
        """
        return compile_priors(
            [(self.of(h), h.positive) for h in pool.hyperparameters],
            lambda inclusion: self.noise(Parent(inclusion, pool)),
            self.population(pool),
            stay=np.full(len(pool), self.stay),
            enter=np.array([self.entering(c) for c in pool]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data, for files; distributions outside PyMC's own as text.

        Population parameters are names among the parameters of a distribution. Priors that depend
        on expressions of them are text.
        """
        population = {p.name: to_data(p.prior) for p in self._told(None)}
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
        """Return the table that :meth:`to_dict` wrote.

        Raises
        ------
        InputError
            If an entry was written as text only.
        """
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
            noise_floor=data.get("noise_floor", NOISE_FLOOR),  # files of before have none
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


def paper() -> Priors:
    """Return the paper's priors for real data: features in [0, 1], standardised targets."""
    return _table(lengthscale=(np.log(0.2), 0.5), period=(np.log(0.2), 0.25), scaling="unit")


#: The name of :func:`paper` in earlier versions.
unit_scale = paper

#: How many candidates enter below WHITE, on average, by the priors of tables.
ADDITIONS = 1.0

#: Of the noise's and of amplitudes' logs, by the priors of tables: means and sds, where the
#: variance that is left to explain is one.
NOISE, AMPLITUDE = (-1.5, 1.2), (-0.7, 1.5)


def default(pool: CandidatePool, unexplained: float = 1.0) -> Priors:
    """Return the priors of tables: features in [0, 1], standardised targets.

    Noise and amplitudes are in units of what there is to explain: of the target's variance, or of
    what is left of it where users share something. The noise has the same prior below all parents.
    (By the paper's, :func:`paper`, its variance has the median 7.4 below an empty parent, so that
    noise alone explains a straight line.) One candidate enters below WHITE, on average, however
    many there are; one alone enters with probability 0.5. No fit has less noise than 1e-3 of the
    target's variance: with less, a single point that a curve misses costs more than all others
    gain.

    Parameters
    ----------
    pool : CandidatePool
        Of the study.
    unexplained : float
        The variance that there is to explain, as a share of the target's:
        :attr:`kem_pymc.SharedPart.unexplained`.

    Raises
    ------
    InputError
        If the variance isn't positive and finite.
    """
    if not 0 < unexplained < np.inf:
        raise InputError(f"unexplained={unexplained} is no variance. Give a positive number.")
    noise = pm.LogNormal.dist(NOISE[0] + np.log(unexplained), NOISE[1])
    table = Priors(
        hyperparameters={
            "lengthscale": pm.LogNormal.dist(np.log(0.4), 0.7),
            "period": pm.LogNormal.dist(np.log(0.2), 0.25),
            "amplitude": pm.LogNormal.dist(AMPLITUDE[0] + np.log(unexplained), AMPLITUDE[1]),
            "mixture": pm.LogNormal.dist(0, 1),
            "shift": pm.Normal.dist(0.5, 0.5),
        },
        noise=SameNoise(noise),
        noise_without_parent=noise,
        scaling="unit",
        noise_floor=1e-3,
    )
    return table.expecting(min(ADDITIONS, 0.5 * len(pool)), pool)
