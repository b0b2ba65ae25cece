"""Which parts of kernels the posterior holds for needed, time step by time step."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kem_pymc.evolution.from_posterior import study_settings
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.plots.draws import inclusion_shares
from kem_pymc.reports.look import Look

if TYPE_CHECKING:
    from xarray import DataTree

#: Parts that are nowhere so probable aren't listed; of the others at most so many.
LEAST, LISTED = 0.05, 40


@dataclass(frozen=True)
class Parts:
    """Inclusion probabilities, the mean over pilot users.

    Attributes
    ----------
    steps : list of int
    rows : list of (label, words, probabilities)
        The most probable first.
    hidden : int
        How many parts aren't listed.
    """

    steps: list[int]
    rows: list[tuple[str, str, list[float]]]
    hidden: int


def parts_in(idata: "DataTree", look: Look) -> Parts:
    """Return how probable each candidate is, by time step.

    Raises
    ------
    InputError
        If it isn't the posterior of an ``EvolutionModel``.
    """
    shares = inclusion_shares(idata).mean("user")
    settings = study_settings(idata)
    pool = CandidatePool(settings["pool"], settings["dimension"])
    table = [
        (Composition((candidate,)), values)
        for candidate, values in zip(
            pool, shares.transpose("candidate", "time_step").values.tolist(), strict=True
        )
        if max(values) >= LEAST
    ]
    table.sort(key=lambda row: -max(row[1]))
    rows = [(look.label(one), look.words(one), values) for one, values in table[:LISTED]]
    return Parts(shares.coords["time_step"].values.tolist(), rows, len(pool) - len(rows))
