"""Posterior probabilities that users' kernels contain each part at their last time steps.

A part is a candidate of the pool. If many compositions have similar probabilities, the most
probable one isn't informative; the probability of a part sums over all compositions with that part.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.kernels.prose import NOISE_ONLY, describe_candidate

#: Kinds of rows: a candidate, any candidate in a feature, and no candidate at all.
PART, FEATURE, NOTHING = "part", "feature", "nothing"

#: Verbal expressions for probabilities of at least these values: the scale of the IPCC's reports.
WORDS = (
    (0.9, "very likely"),
    (0.66, "likely"),
    (0.33, "about as likely as not"),
    (0.1, "unlikely"),
    (0.0, "very unlikely"),
)

#: Maximum number of parts that the headline names, and their smallest probability.
NAMED, LEAST = 3, 0.1


def part_table(draws: Draws) -> pd.DataFrame:
    """Return the probability of every part, of every feature and of noise only, one per row.

    Rows are sorted by kind, then by decreasing probability. Columns: ``kind``, one of `PART`,
    `FEATURE` (any part in this feature, for features in which the pool has several parts) and
    `NOTHING` (no part at all); ``name``, the name of the candidate or the feature; ``words``, its
    description; ``probability``, the probability that a user's kernel has it at the user's last
    time step, averaged over users and draws; ``first``, the same at the first time step;
    ``chain 0``, ``chain 1``, ..., the probability in each chain; ``difference``, the largest
    difference of that between chains.
    """
    last = draws.present.sum(axis=1) - 1
    at_last = draws.inclusion[:, :, np.arange(len(last)), last]
    at_first = draws.inclusion[:, :, :, 0]
    rows = []
    for kind, name, words, places in _rows(draws):
        held, before = (
            ~here.any(axis=-1) if kind == NOTHING else here[..., places].any(axis=-1)
            for here in (at_last, at_first)
        )
        by_chain = held.mean(axis=(1, 2))
        rows.append(
            {
                **{"kind": kind, "name": name, "words": words},
                **{"probability": by_chain.mean(), "first": before.mean()},
                **{f"chain {k}": value for k, value in enumerate(by_chain)},
                "difference": by_chain.max() - by_chain.min(),
            }
        )
    table = pd.DataFrame(rows)
    by_kind = table.groupby("kind", sort=False, group_keys=False)
    return pd.concat(
        rows.sort_values("probability", ascending=False, kind="stable") for _, rows in by_kind
    ).reset_index(drop=True)


def in_words(probability: float) -> str:
    """Return the verbal expression for a probability, e.g. "likely"."""
    return next(words for least, words in WORDS if probability >= least)


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
    when = "With all of a user's data,"
    if shares:
        when += " in addition to what users share,"
    named = parts[parts["probability"] >= LEAST].head(NAMED)
    top = parts.iloc[0]
    sentences = [
        f"{when} {_listed(named)}."
        if len(named)
        else f"{when} no part is likely: the most probable one, {top['words']}, has probability "
        f"{top['probability']:.2f}."
    ]
    shown = features[features["probability"] >= LEAST].head(NAMED)
    if len(shown):
        sentences.append(f"Whatever its shape, {_listed(shown)}.")
    sentences.append(
        f"{NOISE_ONLY.capitalize()}, without any part, has probability "
        f"{nothing['probability']:.2f} then, and {nothing['first']:.2f} at the first time step."
    )
    return sentences


def _listed(rows: pd.DataFrame) -> str:
    """Return the descriptions of rows with their probabilities, as text."""
    (words, probability), *others = zip(rows["words"], rows["probability"], strict=True)
    return ", ".join(
        [f"{words} has probability {probability:.2f}", *(f"{w} {p:.2f}" for w, p in others)]
    )


def differing(table: pd.DataFrame, least: float) -> list[str]:
    """Return the parts whose probabilities differ by more than `least` between chains, as text.

    The part with the largest difference comes first.
    """
    apart = table[(table["kind"] == PART) & (table["difference"] > least)]
    chains = [name for name in table if str(name).startswith("chain ")]
    return [
        f"{row['name']} ({row[chains].min():.2f} to {row[chains].max():.2f})"
        for _, row in apart.sort_values("difference", ascending=False, kind="stable").iterrows()
    ]


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
