"""Posterior probabilities that users' kernels contain each part at their last time steps.

A part is a candidate of the pool. If many compositions have similar probabilities, the most
probable one isn't informative; the probability of a part sums over all compositions with that part.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from kem_pymc._system.display import number
from kem_pymc.diagnostics.convergence import RHAT, measures
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.kernels.prose import NOISE_ONLY, describe_candidate, named

#: Kinds of rows: a candidate, any candidate in a feature, and no candidate at all.
PART, FEATURE, NOTHING = "part", "feature", "nothing"

#: Users whose kernel has a part with more than the first probability, or less than the second, are
#: counted.
SURE, UNLIKELY = 0.9, 0.1

#: Chains disagree in the probability of a part if its R-hat is above `RHAT`, or its effective
#: sample size below the first number, with which the standard error may be .07; and if the standard
#: error is above the second number: then the probability isn't known to a tenth.
FEW, SHOWS = 50, 0.025

#: Maximum number of parts that the headline names, and their smallest probability.
NAMED, LEAST = 3, 0.1


def part_table(draws: Draws) -> pd.DataFrame:
    """Return the probability of every part, of every feature and of noise only, one per row.

    Rows are sorted by kind, then by decreasing probability. Columns: ``kind``, one of `PART`,
    `FEATURE` (any part in this feature, for features in which the pool has several parts) and
    `NOTHING` (no part at all); ``name``, the name of the candidate or the feature; ``words``, its
    description; ``probability``, the mean over users of the probability that a user's kernel has it
    at the user's last time step; ``above 0.9`` and ``below 0.1``, the numbers of users for whom
    that probability is; ``chain 0``, ``chain 1``, ..., the mean in each chain; and of the share of
    users who have it in a draw, ``sd`` over draws, ``r_hat`` and the effective sample size ``ess``.
    """
    last = draws.present.sum(axis=1) - 1
    at_last = draws.inclusion[:, :, np.arange(len(last)), last]
    rows, shares = [], []
    for kind, name, words, places in _rows(draws):
        chosen = at_last if kind == NOTHING else at_last[..., places]
        held = chosen.any(axis=-1) != (kind == NOTHING)
        shares.append(held.mean(axis=-1))
        by_chain, of_users = shares[-1].mean(axis=1), held.mean(axis=(0, 1))
        rows.append(
            {
                **{"kind": kind, "name": name, "words": words},
                "probability": of_users.mean(),
                f"above {SURE}": (of_users > SURE).sum(),
                f"below {UNLIKELY}": (of_users < UNLIKELY).sum(),
                **{f"chain {k}": value for k, value in enumerate(by_chain)},
            }
        )
    agreement = measures(np.stack(shares, axis=-1)).rename(columns={"ess_bulk": "ess"})
    table = pd.DataFrame(rows).join(agreement[["sd", "r_hat", "ess"]])
    by_kind = table.groupby("kind", sort=False, group_keys=False)
    return pd.concat(
        rows.sort_values("probability", ascending=False, kind="stable") for _, rows in by_kind
    ).reset_index(drop=True)


def headline(table: pd.DataFrame, shares: bool = False) -> list[str]:
    """Summarise the posterior of parts at users' last time step in a few sentences.

    Parameters
    ----------
    table : DataFrame
        Table from :func:`part_table`.
    shares : bool
        Whether users share a mean process, in addition to which each user's kernel has its parts.

    Returns
    -------
    list of str
        One sentence per element.
    """
    parts, features = (table[table["kind"] == kind] for kind in (PART, FEATURE))
    nothing = table[table["kind"] == NOTHING].iloc[0]
    when = "With all of a user's data" + (", beyond what all users share," if shares else ",")
    likely = parts[parts["probability"] >= LEAST].head(NAMED)
    sentences = [
        f"{when} the probability, as a mean over users, is {_listed(likely)}."
        if len(likely)
        else f"{when} no part is likely: the most probable one as a mean over users is "
        f"{_listed(parts.head(1))}."
    ]
    shown = features[features["probability"] >= LEAST].head(NAMED)
    if len(shown):
        sentences.append(f"Whatever its shape, it is {_listed(shown)}.")
    sentences.append(
        f"That a user's kernel is {NOISE_ONLY}, without any part, has probability "
        f"{nothing['probability']:.2f}."
    )
    return sentences


def _listed(rows: pd.DataFrame) -> str:
    """Return probabilities with the descriptions of their rows, as text."""
    pairs = zip(rows["words"], rows["probability"], strict=True)
    return ", ".join(f"{probability:.2f} for {words}" for words, probability in pairs)


def differing(table: pd.DataFrame, features: Sequence[str]) -> list[str]:
    """Return the parts in whose probabilities chains disagree, as text; see `FEW` and `SHOWS`.

    The part with the largest R-hat comes first.
    """
    # The ESS is NaN of what never changes within chains; it matters if chains differ.
    error = table["sd"] / np.sqrt(table["ess"].fillna(1))
    apart = (table["r_hat"] > RHAT) | (table["ess"] < FEW)
    rows = table[(table["kind"] != FEATURE) & apart & (error > SHOWS)]
    chains = [name for name in table if str(name).startswith("chain ")]
    return [
        f"{_name(row, features)} ({row[chains].min():.2f} to {row[chains].max():.2f}, "
        f"R-hat {row['r_hat']:.2f}, ESS {number(round(row['ess'], 0))})"
        for _, row in rows.sort_values("r_hat", ascending=False, kind="stable").iterrows()
    ]


def _name(row: pd.Series, features: Sequence[str]) -> str:
    return named(row["name"], features) if row["kind"] == PART else row["name"]


def _rows(draws: Draws) -> Iterator[tuple[str, str, str, list[int]]]:
    """Yield kind, name, description and indices in the pool of every row."""
    features = draws.settings["features"]
    for place, candidate in enumerate(draws.pool):
        yield PART, draws.pool.names[place], describe_candidate(candidate, features), [place]
    for d, feature in enumerate(features):
        places = [i for i, candidate in enumerate(draws.pool) if d in candidate.dimensions]
        if len(places) > 1:
            yield FEATURE, feature, f"some part in {feature}", places
    yield NOTHING, NOISE_ONLY, "no part at all", []
