"""Report section on the posterior inclusion probabilities of the parts of kernels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kem_pymc.diagnostics.parts import FEATURE, NOTHING, PART, in_words
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import study_settings
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.plots.draws import inclusion_shares
from kem_pymc.reports.theme import Look

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

#: Least probability, at any time step, of a listed part; maximum number of listed parts.
LEAST, LISTED = 0.05, 40


@dataclass(frozen=True)
class Parts:
    """Posterior inclusion probabilities by time step, averaged over pilot users.

    Attributes
    ----------
    steps : list of int
        Time steps, counted from 1.
    rows : list of (label, description, probabilities)
        Listed parts, the most probable first.
    hidden : int
        Number of parts that aren't listed.
    """

    steps: list[int]
    rows: list[tuple[str, str, list[float]]]
    hidden: int


def parts_in(idata: "DataTree", look: Look) -> Parts:
    """Return the inclusion probability of each candidate, by time step.

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.
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
    steps = [int(t) + 1 for t in shares.coords["time_step"].values]
    return Parts(steps, rows, len(pool) - len(rows))


@dataclass(frozen=True)
class Bar:
    """Probability of a part at users' last time step.

    Attributes
    ----------
    kind : {"part", "feature", "nothing"}
    label, words : str
        Label and description of the part.
    probability, first : float
        Probabilities at the last and at the first time step, averaged over users and draws.
    likely : str
        The probability as a verbal expression.
    low, high : float
        The smallest and the largest probability of any chain.
    """

    kind: str
    label: str
    words: str
    probability: float
    first: float
    likely: str
    low: float
    high: float


def bars(table: "pd.DataFrame", evolutions: Evolutions, look: Look) -> list[Bar]:
    """Return the rows of :func:`kem_pymc.diagnostics.parts.part_table` that the report shows."""
    chains = [name for name in table if str(name).startswith("chain ")]
    kept = []
    for _, row in table.iterrows():
        if row["probability"] < LEAST and row["kind"] != NOTHING:
            continue
        label = {FEATURE: row["name"], NOTHING: look.label(Composition())}.get(row["kind"])
        if row["kind"] == PART:
            candidate = Candidate.parse(row["name"], evolutions.pool.dimension)
            label = look.label(Composition((candidate,)))
        kept.append(
            Bar(
                row["kind"],
                str(label),
                row["words"],
                float(row["probability"]),
                float(row["first"]),
                in_words(row["probability"]),
                *(float(ends) for ends in (row[chains].min(), row[chains].max())),
            )
        )
    return kept
