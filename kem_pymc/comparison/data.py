"""Loading of the pilot and test users of a study and trial."""

from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from kem_pymc import datasets
from kem_pymc.comparison.settings import Study
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError

type Folder = str | PathLike[str] | None


#: Largest number of random splits that are tried until every feature varies among pilot users.
SPLITS = 20


class Users(NamedTuple):
    """A pilot cohort to learn from, and a test cohort of other users to select kernels for."""

    pilot: Cohort
    test: Cohort


def load(study: Study, rng: np.random.Generator, data_home: Folder = None) -> Users:
    """Load the pilot and test users of one trial.

    Parameters
    ----------
    study : Study
    rng : numpy.random.Generator
        Random number generator for the split or the simulation.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.datasets.data_home`.

    Raises
    ------
    InputError
        If there is no loader of that name, or the loader can't use its options or files.
    """
    if study.data not in LOADERS:
        raise InputError(f"There is no data set {study.data!r}. Use one of {', '.join(LOADERS)}.")
    return _scalable(lambda: LOADERS[study.data](rng, data_home, **study.options))


def split(cohort: Cohort, rng: np.random.Generator) -> Users:
    """Split the users of a cohort at random into halves: pilot users and test users."""
    return _scalable(lambda: cohort.split(rng))


def held_out(pilot: Cohort, part: int, parts: int, rng: np.random.Generator) -> Users:
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
    return Users(*(pilot.subset(own) for own in users))


def _scalable(draw: Callable[[], tuple[Cohort, Cohort]]) -> Users:
    for _ in range(SPLITS):
        users = Users(*draw())
        if _vary(users.pilot):
            break
    return users


def _vary(cohort: Cohort) -> bool:
    """Return whether every feature varies among the pilot users, which scaling requires."""
    return bool(np.all(np.ptp(np.concatenate(cohort.inputs), axis=0) > 0))


def _synthetic(
    rng: np.random.Generator,
    data_home: Folder,  # noqa: ARG001  simulated
    *,
    pilot_users: int,
    test_users: int,
    **options: Any,
) -> tuple[Cohort, Cohort]:
    pilot = datasets.synthetic(users=pilot_users, seed=rng, **options)
    return pilot, datasets.synthetic(users=test_users, seed=rng, **options)


def _panel(
    rng: np.random.Generator,
    data_home: Folder,  # noqa: ARG001  simulated
    *,
    pilot_users: int,
    test_users: int,
    **options: Any,
) -> tuple[Cohort, Cohort]:
    # Split from one cohort, because pilot and test users have the same shared function.
    cohort = datasets.panel(users=pilot_users + test_users, seed=rng, **options)
    return cohort.subset(cohort.users[:pilot_users]), cohort.subset(cohort.users[pilot_users:])


def _loaded(loader: Callable[..., tuple[Cohort, Cohort]]) -> Callable[..., tuple[Cohort, Cohort]]:
    def load(rng: np.random.Generator, data_home: Folder, **options: Any) -> tuple[Cohort, Cohort]:
        return loader(data_home, rng, **options)

    return load


LOADERS: dict[str, Callable[..., tuple[Cohort, Cohort]]] = {
    "synthetic": _synthetic,
    "panel": _panel,
    "energy": _loaded(datasets.energy),
    "housing": _loaded(datasets.housing),
    "fires": _loaded(datasets.fires),
    "concrete": _loaded(datasets.concrete),
    "mimic": _loaded(datasets.mimic),
    "mimic_demo": _loaded(datasets.mimic_demo),
    "heartsteps": _loaded(datasets.heartsteps),
    "heartsteps_daily": _loaded(datasets.heartsteps_daily),
    "sleepstudy": _loaded(datasets.sleepstudy),
    "chick_weight": _loaded(datasets.chick_weight),
    "orthodont": _loaded(datasets.orthodont),
    "theoph": _loaded(datasets.theoph),
}
