"""Studies of the paper and of the other tables: loaders, and what differs between trials."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.kem.panel import panel
from kem_pymc import datasets
from kem_pymc.comparison.study import Study, until_features_vary
from kem_pymc.data.cohort import Cohort, Split
from kem_pymc.data.datasets import default_pool
from kem_pymc.errors import InputError
from models import loaders

#: Name of the pool that stands for the default candidates of tables.
DEFAULT_POOL = "default"


@dataclass(frozen=True, kw_only=True)
class LoadedStudy(Study):
    """A study whose users come from a loader.

    Attributes
    ----------
    data : str
        Name of a loader in `LOADERS`.
    options : dict
        Options of the loader.
    pool_name : str
        Name of a pool of :func:`models.loaders.candidates`; "default" for the default candidates
        of tables, which depend on the pilot users; "" if `pool` lists the candidates.
    trials : int
        Number of trials.
    new_users : bool
        Whether every trial has different users; by default all trials split the same users again,
        and a user who is in several trials is counted once.
    folds : int, optional
        Number of folds in which pilot users are held out in turn, instead of test users: trials 0
        to folds - 1 share the pilot users of one draw, the next `folds` trials those of the next
        draw, and so on. Predictions are scored on the next batch then.
    """

    data: str
    options: dict[str, Any] = field(default_factory=dict)
    pool_name: str = ""
    trials: int = 10
    new_users: bool = False
    folds: int | None = None

    def deal(self, trial: int, seed: int) -> Split:
        """Return the pilot and test users of a trial.

        Raises
        ------
        InputError
            If the loader can't use its options or files, or there are too few users for the folds.
        """
        if self.folds is None:
            return self._loaded(trial, seed)
        drawn, part = divmod(trial, self.folds)
        pilot = self._loaded(drawn, seed).pilot
        return held_out(pilot, part, self.folds, self.generator(drawn, seed, "folds"))

    def _loaded(self, trial: int, seed: int) -> Split:
        rng = self.generator(trial, seed, "users")
        return until_features_vary(lambda: LOADERS[self.data](rng, **self.options))

    def candidates(self, pilot: Cohort) -> tuple[str, ...]:
        """Return the names of the candidates."""
        if self.pool_name == DEFAULT_POOL:
            return tuple(default_pool(pilot).names)
        return tuple(loaders.candidates(self.pool_name)) if self.pool_name else self.pool

    def key(self) -> dict[str, Any]:
        """Return, as plain data, what a training depends on."""
        names = ("data", "options", "pool_name", "folds")
        return super().key() | {name: getattr(self, name) for name in names}


def held_out(pilot: Cohort, part: int, parts: int, rng: np.random.Generator) -> Split:
    """Hold out one fold of the pilot users as test users; the others remain pilot users.

    Parameters
    ----------
    pilot : Cohort
    part, parts : int
        Index of the fold that is held out, and number of folds, from 2 to the number of users.
    rng : numpy.random.Generator
        Random number generator for the assignment to folds. It must be in the same state for all
        folds, so that they have no user in common.

    Raises
    ------
    InputError
        If there are fewer users than folds, or fewer than 2 folds, which would leave no pilot user.
    """
    if not 2 <= parts <= pilot.n_users:
        raise InputError(
            f"{pilot.n_users} pilot users can't be held out in {parts} folds. "
            "Give a number of folds from 2 to the number of users."
        )
    out = set(rng.permutation(pilot.n_users)[part::parts])
    users = [[u for k, u in enumerate(pilot.users) if (k in out) == held] for held in (False, True)]
    return Split(*(pilot.subset(part) for part in users))


def _synthetic(
    rng: np.random.Generator, *, pilot_users: int, test_users: int, **options: Any
) -> Split:
    pilot = datasets.synthetic(users=pilot_users, seed=rng, **options)
    return Split(pilot, datasets.synthetic(users=test_users, seed=rng, **options))


def _panel(rng: np.random.Generator, *, pilot_users: int, test_users: int, **options: Any) -> Split:
    # Split from one cohort, because pilot and test users have the same shared function.
    cohort = panel(users=pilot_users + test_users, seed=rng, **options)
    pilot, test = cohort.users[:pilot_users], cohort.users[pilot_users:]
    return Split(cohort.subset(pilot), cohort.subset(test))


def _loaded(loader: Callable[..., Split]) -> Callable[..., Split]:
    return lambda rng, **options: loader(None, rng, **options)


LOADERS: dict[str, Callable[..., Split]] = {
    "synthetic": _synthetic,
    "panel": _panel,
} | {
    loader.__name__: _loaded(loader)
    for loader in (
        *(loaders.energy, loaders.housing, loaders.fires, loaders.concrete),
        *(loaders.mimic, loaders.mimic_demo, loaders.heartsteps, loaders.heartsteps_daily),
        *(loaders.sleepstudy, loaders.chick_weight, loaders.orthodont, loaders.theoph),
        *(loaders.body_weight, loaders.oxboys, loaders.pbcseq),
    )
}
