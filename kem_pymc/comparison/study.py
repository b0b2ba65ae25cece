"""Studies: users on whom methods are compared, dealt at random into pilot and test users."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from zlib import crc32

import numpy as np

import kem_pymc.priors as prior_tables
from kem_pymc.data.cohort import Cohort, Split
from kem_pymc.data.families import Family
from kem_pymc.data.transforms import Name
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors import Priors, Unexplained

#: Largest number of random splits that are tried until every feature varies among pilot users.
SPLITS = 20


@dataclass(frozen=True, kw_only=True)
class Study:
    """Users on whom methods are compared, with the candidates and priors of all methods.

    Attributes
    ----------
    name, title : str
        Name in results, on which random numbers depend, and in figures and tables.
    cohort : Cohort, optional
        Users who are split at random; a subclass may have other users.
    pool : tuple of str
        Names of the candidates.
    priors : {"default", "unit", "synthetic"}
        Table of priors: `kem_pymc.priors.default`, `paper` or `synthetic`.
    transform : {"sqrt", "log", "log1p", "yeo-johnson"}, optional
        Transform of the target.
    target : {"next", "truth"}
        Points against which predictions are scored: the next batch, or the true function on a grid.
    """

    name: str
    title: str
    cohort: Cohort | None = None
    pool: tuple[str, ...] = ()
    priors: Literal["default", "unit", "synthetic"] = "default"
    transform: Name | None = None
    target: Literal["next", "truth"] = "next"

    def deal(self, trial: int, seed: int) -> Split:
        """Return the pilot and test users of a trial: two random halves of the cohort.

        Parameters of a family are those of the pilot users, but its levels are those of all users.
        """
        cohort, rng = self.cohort, self.generator(trial, seed, "users")
        assert cohort is not None
        split = until_features_vary(lambda: cohort.split(rng))
        if cohort.family is None:
            return split
        name, levels, pilot = cohort.family.name, cohort.family.support(), split.pilot
        family = Family.learn(name, pilot.targets, pilot.sizes, levels=levels)
        return Split(*(replace(part, family=family) for part in split))

    def candidates(self, pilot: Cohort) -> tuple[str, ...]:
        """Return the names of the candidates, which may depend on the pilot users."""
        return self.pool

    def generator(self, trial: int, seed: int, purpose: str) -> np.random.Generator:
        """Return a generator for a purpose, seeded by experiment, study and trial."""
        key = [seed, crc32(self.name.encode()), trial, crc32(purpose.encode())]
        return np.random.default_rng(key)

    def key(self) -> dict[str, Any]:
        """Return, as plain data, what a training depends on."""
        settings = {"pool": self.pool, "priors": self.priors, "transform": self.transform}
        return settings | {"cohort": None if self.cohort is None else self.cohort.digest()}


def until_features_vary(draw: Callable[[], Split]) -> Split:
    """Draw users until every feature varies among the pilot users, which scaling requires.

    After `SPLITS` draws the last one is returned as it is.
    """
    for _ in range(SPLITS):
        users = draw()
        if np.all(np.ptp(np.concatenate(users.pilot.inputs), axis=0) > 0):
            break
    return users


def priors_of(
    name: str,
    pool: CandidatePool,
    unexplained: Unexplained | None = None,
    family: Family | None = None,
) -> Priors:
    """Return a table of priors by name.

    Parameters
    ----------
    name : {"default", "unit", "synthetic"}
    pool : CandidatePool
    unexplained : Unexplained, optional
        What the shared part leaves to explain; only used for "default".
    family : Family, optional
        Family of targets that aren't normal; only used for "default".
    """
    if name == "default":
        return prior_tables.default(pool, unexplained, family)
    return prior_tables.paper() if name == "unit" else prior_tables.synthetic()
