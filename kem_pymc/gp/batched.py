"""Log likelihoods of one composition for more users than fit in memory at once."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc._system.executors import Executor, make_executor
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool

#: Number of users in a block of a single cohort.
BLOCK = 100


def log_likelihoods(
    cohorts: Cohort | Iterable[Cohort],
    composition: Composition | str,
    hyperparameters: Mapping[str, float],
    noise: float,
    executor: Executor | None = None,
) -> Iterator[np.ndarray]:
    """Yield every user's log likelihoods at all time steps, one block of users at a time.

    Blocks are requested as workers become free, at most two per worker, and yielded in order, so
    that neither this process nor a worker ever holds all users. One factorisation serves all time
    steps of a user.

    Parameters
    ----------
    cohorts : Cohort or iterable of Cohort
        Blocks of users, which may be generated lazily; a hundred users per block is a good size. A
        single cohort is split into such blocks. Inputs and targets are used as they are: scale them
        before.
    composition : Composition or str
        The composition, or its printed form such as ``"LIN0 + PER0"``.
    hyperparameters : mapping of str to float
        Natural values by name, like ``{"LIN0.amplitude": 1.0, ...}``.
    noise : float
        Noise variance.
    executor : Executor, optional
        Executor, from :func:`kem_pymc._system.executors.make_executor`; by default this
        process. Results are the same.

    Yields
    ------
    ndarray, shape (U, T)
        log p(y_1..n | x_1..n) for the block's users and time steps; NaN after a user's last time
        step, and minus infinity where the covariance isn't positive definite.

    Raises
    ------
    InputError
        If a hyperparameter is missing or out of range, a block isn't a cohort, or a block has fewer
        features than the composition uses.

    Examples
    --------
    >>> total = sum(block[:, -1].sum() for block in log_likelihoods(cohort, "LIN0", values, 0.5))
    """
    if isinstance(composition, str):
        composition = Composition.parse(composition)
    least = 1 + max((f.dimension for c in composition.candidates for f in c.factors), default=0)
    coordinates = Coordinates(CandidatePool(composition.candidates, least), composition)
    values = coordinates.from_named(hyperparameters, noise)
    executor = executor or make_executor(1)
    source = enumerate(_blocks(cohorts))
    first = list(islice(source, executor.width))
    come: dict[int, np.ndarray] = {}
    awaited = 0
    function = partial(_of_block, composition, values)
    for _, (number, block) in executor.map_unordered(
        function, first, lambda *_: next(source, None)
    ):
        come[number] = block
        while awaited in come:
            yield come.pop(awaited)
            awaited += 1


def _blocks(cohorts: Cohort | Iterable[Cohort]) -> Iterator[Cohort]:
    if isinstance(cohorts, Cohort):
        for first in range(0, len(cohorts), BLOCK):
            yield cohorts.subset(cohorts.users[first : first + BLOCK])
        return
    for block in cohorts:
        if not isinstance(block, Cohort):
            raise InputError(
                f"A block of users is a {type(block).__name__}. Give a Cohort, or several."
            )
        yield block


def _of_block(
    composition: Composition, values: np.ndarray, task: tuple[int, Cohort]
) -> tuple[int, np.ndarray]:
    """Return the number and the log likelihoods (U, T) of a block."""
    number, cohort = task
    pool = CandidatePool(composition.candidates, cohort.dimension)
    coordinates = Coordinates(pool, composition)
    x, y, ends, steps = cohort.padded()
    y = np.repeat(y[:, None], ends.shape[1], axis=1)
    out = np.full(ends.shape, np.nan)
    all_prefixes(
        kernels(),
        pool.layout,
        as_active(coordinates.inclusion),
        *coordinates.expand(values),
        Data(x, y, ends, steps, nested=True),
        out,
        np.zeros(2, dtype=np.int64),
    )
    return number, out


@compiled
def all_prefixes(kernels, layout, active, h, log_noise, data, out, counts):
    """Write the log likelihoods of all users' datasets to `out` (U, T)."""
    for user in range(data.steps.shape[0]):
        steps = data.steps[user]
        prefix_log_likelihood(
            kernels, layout, active, h, log_noise, data, user, steps, out[user], counts
        )
