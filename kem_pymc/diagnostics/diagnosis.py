"""Diagnosis of a posterior: convergence of chains and warnings with suggested remedies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from kem_pymc._system.display import Display, Displayed, Listing, some
from kem_pymc._system.options import checked
from kem_pymc.diagnostics import convergence as agreement
from kem_pymc.diagnostics.convergence import Mode, find_modes
from kem_pymc.diagnostics.edges import carrying, edge_table
from kem_pymc.diagnostics.parts import PART, SURE, UNLIKELY, differing, headline, part_table
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.kernels.prose import named

if TYPE_CHECKING:
    from xarray import DataTree

#: A warning is given if a larger fraction of the factorisations failed.
FAILED = 1e-3

#: A warning is given if probabilities of an edge differ by more between chains.
EDGES_DIFFER = 0.2

#: Maximum number of differing parts (or edges) that a message names.
DIFFERING = 3

#: What helps if chains disagree.
REMEDY = "Sample more draws (--draws and --tune of kem fit)."

#: What there is to say without warnings.
FINE = (
    "No warnings: the chains agree in the means over users above and in the graph. This doesn't "
    "prove convergence: all chains may miss the same mode."
)

#: How quantities of final kernels begin, in the table of convergence.
OF_FINAL = "final "

#: Smallest probability of parts that the display lists.
LEAST_PART = 0.05


@dataclass(frozen=True, eq=False)
class Diagnosis(Displayed):
    """Result of :func:`diagnose`.

    Attributes
    ----------
    n_chains, n_draws : int
        Number of chains, and of draws per chain.
    features : tuple of str
        Names of the features.
    parts : DataFrame
        Probability of each part of users' final kernels, see
        :func:`kem_pymc.diagnostics.parts.part_table`.
    shares : bool
        Whether users share a mean process, in addition to which each user's kernel has its parts.
    convergence : DataFrame
        One row per quantity that doesn't depend on cluster labels, see
        :func:`kem_pymc.diagnostics.convergence.convergence`. Quantities of final kernels begin with
        "final".
    modes : tuple of Mode
        Groups of chains whose log joint densities overlap, the highest first.
    edges : DataFrame
        One row per evolution, see :func:`kem_pymc.diagnostics.edges.edge_table`.
    acceptance : DataFrame
        Acceptance rate of every move (rows) in every chain (columns); NaN if the move wasn't made.
    factorisations, failed_factorisations : int
        Number of factorisations, and of those that failed, over all draws that were kept.
    warnings : tuple of str
        Problems that change the probabilities of parts or of evolutions, and suggested remedies,
        the most serious first.
    notes : tuple of str
        What else chains disagree in, and which quantities are uncertain.
    """

    n_chains: int
    n_draws: int
    features: tuple[str, ...]
    parts: pd.DataFrame
    shares: bool
    convergence: pd.DataFrame
    modes: tuple[Mode, ...]
    edges: pd.DataFrame
    acceptance: pd.DataFrame
    factorisations: int
    failed_factorisations: int
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> pd.DataFrame:
        """One row per kind of quantity: worst and median R-hat and ESS, and numbers of bad ones."""
        ess = self.convergence[["ess_bulk", "ess_tail"]].min(axis=1)
        bad = {"beyond": self.convergence["r_hat"] > agreement.RHAT, "few": ess < agreement.ESS}
        by_kind = self.convergence.assign(ess=ess, **bad).groupby("quantity", sort=False)
        return by_kind.agg(
            number=("r_hat", "size"),
            r_hat_worst=("r_hat", "max"),
            r_hat_median=("r_hat", "median"),
            r_hat_beyond=("beyond", "sum"),
            ess_worst=("ess", "min"),
            ess_median=("ess", "median"),
            ess_below=("few", "sum"),
        )

    def __repr__(self) -> str:
        remarks = "\n".join(f"- {w}" for w in (*self.warnings, *self.notes)) or "No warnings."
        parts = "\n".join(headline(self.parts, self.shares))
        return f"Diagnosis of {self.n_chains} x {self.n_draws} draws\n{parts}\n{remarks}"

    def _display(self) -> Display:
        columns = (
            *("quantity", "number", "R-hat worst", "R-hat median", f"> {agreement.RHAT}"),
            *("ESS worst", "ESS median", f"< {agreement.ESS}"),
        )
        rows = list(self.summary.itertuples(name=None))
        forms = {name: ".2f" if "R-hat" in name else ".0f" for name in columns[2:]}
        return Display(
            f"Diagnosis of {self.n_chains} x {self.n_draws} draws",
            self._facts(),
            [Listing(columns, rows, forms, "Do the chains agree?")],
            [*(self.warnings or [FINE]), *self.notes],
            first=[self._part_listing()],
        )

    def _part_listing(self) -> Listing:
        """Return the most probable parts as a table for display, in decreasing order."""
        chains = [name for name in self.parts if str(name).startswith("chain ")]
        listed = self.parts[self.parts["probability"] >= LEAST_PART]
        several = ("by chain", "R-hat", "ESS") if len(chains) > 1 else ()
        counts = [f"above {SURE}", f"below {UNLIKELY}"]
        rows = []
        for _, row in listed.iterrows():
            low, high = row[chains].min(), row[chains].max()
            between = (f"{low:.2f} to {high:.2f}",) if several else ()
            name = named(row["name"], self.features) if row["kind"] == PART else row["name"]
            agreement = (*between, row["r_hat"], row["ess"]) if several else ()
            rows.append((name, row["probability"], *row[counts], *agreement, row["words"]))
        hidden = (self.parts["kind"] == PART).sum() - (listed["kind"] == PART).sum()
        return Listing(
            ("part", "mean", *(f"users {count}" for count in counts), *several, "description"),
            rows,
            {"mean": ".2f", "R-hat": ".2f", "ESS": ".0f"},
            "Which parts matter: probability that a user's final kernel has the part, mean over "
            "users, and number of users for whom it is above and below a value"
            + ("; beyond what all users share" if self.shares else ""),
            f"Parts that aren't shown, as their mean is below {LEAST_PART}: {hidden}. All are in "
            "parts.csv of kem diagnose, in Python in the attribute parts."
            if hidden
            else "",
        )

    def _facts(self) -> dict[str, str]:
        facts = {}
        if self.n_chains > 1:
            facts["Modes of chains"] = str(len(self.modes))
            apart = carrying(self.edges)["difference"].max()
            facts["Evolutions differ by"] = f"at most {apart:.2f} in probability"
        rates = self.acceptance.mean(axis=1).dropna()
        if len(rates):
            facts["Acceptance"] = ", ".join(f"{k} {100 * v:.0f} %" for k, v in rates.items())
        if self.factorisations:
            failed = self.failed_factorisations
            facts["Factorisations"] = f"{self.factorisations}, {failed} failed"
        return facts


@checked
def diagnose(
    idata: "DataTree", planned_chains: int | None = None, *, final: "DataTree | None" = None
) -> Diagnosis:
    """Diagnose the posterior of an ``EvolutionModel`` by quantities that don't depend on labels.

    Parameters
    ----------
    idata : DataTree
        Posterior from ``pm.sample``.
    planned_chains : int, optional
        Number of chains that were started. If the posterior has fewer, there is a warning.
    final : DataTree, optional
        Posterior of :func:`kem_pymc.final_model`, for the parts of final kernels and whether chains
        agree in them; by default parts are those of `idata` at users' last time step.

    Returns
    -------
    Diagnosis

    Raises
    ------
    InputError
        If `idata` isn't the posterior of an ``EvolutionModel``.

    Notes
    -----
    Agreement of chains doesn't prove convergence: all of them may miss the same mode.
    """
    draws, ends = Draws.of(idata), None if final is None else Draws.of(final)
    table = agreement.convergence(draws)
    if ends is not None:
        own = agreement.convergence(ends)
        # Their only time step is the last one of each user.
        own = own.assign(quantity=OF_FINAL + own["quantity"], time_step="")
        table = pd.concat([table, own], ignore_index=True)
    children = idata.children
    statistics = idata["sample_stats"].dataset if "sample_stats" in children else xr.Dataset()
    counts = ("factorisations", "failed_factorisations")
    done, failed = (int(statistics[n].sum()) if n in statistics else 0 for n in counts)
    diagnosis = Diagnosis(
        n_chains=draws.n_chains,
        n_draws=draws.n_draws,
        features=tuple(draws.settings["features"]),
        parts=part_table(draws if ends is None else ends),
        shares=bool(draws.settings.get("shared")),
        convergence=table,
        modes=find_modes(draws),
        edges=edge_table(draws),
        acceptance=_acceptance(statistics, draws.n_chains),
        factorisations=done,
        failed_factorisations=failed,
    )
    failures = [*_failed_chains(draws, planned_chains)]
    if ends is not None:
        failures += _failed_chains(ends, planned_chains, " of final kernels")
    warnings = (*failures, *_problems(diagnosis))
    notes = (*_modes(diagnosis), *_quantities(diagnosis)) if _enough(diagnosis) else ()
    return replace(diagnosis, warnings=warnings, notes=notes)


def _acceptance(statistics: xr.Dataset, chains: int) -> pd.DataFrame:
    """Return acceptance rates by move and chain; NaN if a move was never made."""
    prefix = "acceptance_"
    rates = {
        str(name).removeprefix(prefix): values.mean("draw").values
        for name, values in statistics.items()
        if str(name).startswith(prefix)
    }
    columns = [f"chain {k}" for k in range(chains)]
    return pd.DataFrame.from_dict(rates, orient="index", columns=columns, dtype=float).sort_index()


def _failed_chains(draws: Draws, planned: int | None, of: str = "") -> Iterator[str]:
    if planned is not None and planned > draws.n_chains:
        yield (
            f"{planned - draws.n_chains} of {planned} chains{of} have no draws. "
            "Check the output of the run, and sample these chains again."
        )
    for k, values in enumerate(draws.log_joint):
        fault = ""
        if not np.isfinite(values).all():
            fault = "failed: its log joint density isn't finite"
        elif draws.n_draws > 1 and np.ptp(values) == 0:
            fault = "never moved"
        if fault:
            yield (
                f"Chain {k}{of} {fault}. "
                "Exclude it with idata.sel(chain=...), and sample it again with another seed."
            )


def _enough(diagnosis: Diagnosis) -> bool:
    """Return whether there are enough chains and draws to tell whether chains agree."""
    return (
        diagnosis.n_chains >= agreement.ENOUGH_CHAINS
        and diagnosis.n_draws >= agreement.ENOUGH_DRAWS
    )


def _problems(diagnosis: Diagnosis) -> Iterator[str]:
    if not _enough(diagnosis):
        yield (
            f"{diagnosis.n_chains} x {diagnosis.n_draws} draws are too few to tell whether chains "
            f"agree. Sample at least 4 chains of {2 * agreement.ENOUGH_DRAWS} draws."
        )
    yield from (f"{text} {REMEDY}" for text in disagreements(diagnosis))
    tries, failed = diagnosis.factorisations, diagnosis.failed_factorisations
    if failed > FAILED * tries:
        yield (
            f"{failed} of {tries} factorisations failed, and the likelihood of these kernels was "
            "set to zero. Use a prior with less mass near zero for the noise or the lengthscale."
        )


def _modes(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield where chains stay, if they do so in several modes."""
    if len(diagnosis.modes) > 1:
        levels = "; ".join(
            f"chains {', '.join(map(str, m.chains))} at log joint {m.log_joint:.1f} with "
            f"{m.n_clusters:.1f} clusters"
            for m in diagnosis.modes
        )
        yield f"Chains stay in {len(diagnosis.modes)} modes: {levels}."


def _quantities(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what R-hats and effective sample sizes say.

    With hundreds of quantities some are beyond their bounds by chance, or because few users'
    kernels are hard to tell apart.
    """
    table, before = diagnosis.convergence, "Sample more draws before you quote them singly."
    beyond = table["r_hat"] > agreement.RHAT
    if beyond.any():
        worst = table.loc[table["r_hat"].idxmax()]
        yield (
            f"R-hat of {beyond.sum()} of {len(table)} single quantities is above {agreement.RHAT}, "
            f"at worst {worst['r_hat']:.2f} for {describe(worst, diagnosis.features)}. {before}"
        )
    least = table[["ess_bulk", "ess_tail"]].min(axis=1)
    few = least < agreement.ESS
    if few.any():
        worst = table.loc[least.idxmin()]
        yield (
            f"{few.sum()} of {len(table)} single quantities have fewer than {agreement.ESS} "
            f"effective draws, of {diagnosis.n_chains * diagnosis.n_draws} draws in all, at worst "
            f"{least.min():.0f} for {describe(worst, diagnosis.features)}. {before}"
        )


def disagreements(diagnosis: Diagnosis) -> list[str]:
    """Return a sentence for each respect in which chains disagree: the graph, and parts.

    There is none if there are too few draws or chains to assess that.
    """
    if not _enough(diagnosis):
        return []
    texts = []
    edges = [
        " -> ".join(named(edge[end], diagnosis.features) for end in ("parent", "child"))
        + f" by {edge['difference']:.2f}"
        for _, edge in carrying(diagnosis.edges).nlargest(DIFFERING, "difference").iterrows()
        if edge["difference"] > EDGES_DIFFER
    ]
    if edges:
        texts.append(
            f"Chains learned different graphs: they differ in {', '.join(edges)}. Such chains can "
            "be weighted with kem.diagnostics.stack in Python."
        )
    parts = differing(diagnosis.parts, diagnosis.features)
    if parts:
        listed = some(parts, DIFFERING)
        texts.append(f"Chains disagree in which parts matter: {listed}.")
    return texts


def describe(row: pd.Series, features: Sequence[str]) -> str:
    """Return the quantity of a row of the convergence table as text; time steps count from 1."""
    what = row["quantity"]
    if row["candidate"]:
        of_part = what.endswith("inclusion")
        what += f" {named(row['candidate'], features) if of_part else row['candidate']}"
    whose = f" of user {row['user']}" if row["user"] else ""
    when = f" at time step {int(row['time_step']) + 1}" if row["time_step"] != "" else ""
    return what + whose + when
