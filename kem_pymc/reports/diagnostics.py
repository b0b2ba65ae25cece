"""Report section on the diagnostics of a posterior, as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from kem_pymc.diagnostics.convergence import ENOUGH_CHAINS, ENOUGH_DRAWS
from kem_pymc.diagnostics.diagnosis import Diagnosis
from kem_pymc.reports import charts

if TYPE_CHECKING:
    from xarray import DataTree


@dataclass(frozen=True)
class DiagnosticsSummary:
    """Contents of the report section on diagnostics.

    Attributes
    ----------
    verdict : str
    fine : bool
        Whether there are no warnings.
    warnings : list of (problem, remedy)
    rows : list of list of str
        One row per kind of quantity: name, number, worst and median R-hat, worst and median ESS.
    acceptance : list of (move, rate)
    facts : list of str
    picture : Markup
    """

    verdict: str
    fine: bool
    warnings: list[tuple[str, str]]
    rows: list[list[str]]
    acceptance: list[tuple[str, str]]
    facts: list[str]
    picture: Markup


def summarise_diagnosis(found: Diagnosis, idata: "DataTree") -> DiagnosticsSummary:
    """Return the results of :func:`kem_pymc.diagnose` for a posterior, as text."""
    rates = found.acceptance.mean(axis=1).dropna()
    log_joint = idata["posterior"]["log_joint"].transpose("chain", "draw").values
    label = (
        f"The log joint density of {found.n_chains} chains, draw by draw. Its medians are "
        + ", ".join(charts.number(float(np.median(chain))) for chain in log_joint)
        + "."
    )
    return DiagnosticsSummary(
        verdict=_verdict(found),
        fine=not found.warnings,
        warnings=[_split(warning) for warning in found.warnings],
        rows=[
            [str(row.Index), str(row.number)]
            + [_written(v, ".2f") for v in (row.r_hat_worst, row.r_hat_median)]
            + [_written(v, ".0f") for v in (row.ess_worst, row.ess_median)]
            for row in found.summary.itertuples()
        ],
        acceptance=[(str(name), f"{rate:.1%}") for name, rate in rates.items()],
        facts=_facts(found),
        picture=charts.traces(log_joint, label),
    )


def _verdict(found: Diagnosis) -> str:
    if not found.warnings:
        return "The chains agree. This doesn't prove convergence: all may miss the same mode."
    if found.n_chains < ENOUGH_CHAINS or found.n_draws < ENOUGH_DRAWS:
        return "There are too few chains or draws to assess whether the results are reliable."
    number = len(found.warnings)
    things = "One warning indicates" if number == 1 else f"{number} warnings indicate"
    return f"{things} that some numbers in this report aren't reliable."


def _facts(found: Diagnosis) -> list[str]:
    facts = [f"{found.n_chains} chains of {found.n_draws} draws."]
    if found.n_chains > 1:
        between = found.distance[~np.eye(found.n_chains, dtype=bool)]
        facts.append(
            f"On average, compositions of a dataset differ by {between.mean():.2f} candidates "
            f"between chains, and by {np.diag(found.distance).mean():.2f} between the halves of a "
            "chain."
        )
        if np.isfinite(found.edge_agreement):
            facts.append(
                "The probability of an evolution differs between chains by at most "
                f"{found.edge_agreement:.2f}."
            )
    if found.factorisations:
        facts.append(
            f"{found.failed_factorisations} of {found.factorisations} factorisations of covariance "
            "matrices failed."
        )
    return facts


def _split(warning: str) -> tuple[str, str]:
    """Return the problem and the remedy of a warning; the remedy is its last sentence."""
    what, _, helps = warning.rpartition(". ")
    return f"{what}.", helps


def _written(value: float, form: str) -> str:
    return format(value, form) if not np.isnan(value) else charts.DASH


def headers() -> Sequence[str]:
    """Return the names of the columns of :attr:`DiagnosticsSummary.rows`."""
    return ("quantity", "number", "R-hat, worst", "median", "ESS, worst", "median")
