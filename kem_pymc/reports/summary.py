"""Summary at the head of a report: main findings, list of evolutions and missing data."""

from collections.abc import Sequence

from kem_pymc.diagnostics.diagnosis import Diagnosis
from kem_pymc.diagnostics.parts import headline
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.reports.gather import Material
from kem_pymc.reports.theme import Look
from kem_pymc.reports.users import UserReport
from kem_pymc.shared.choice import in_words

#: Least probability of the listed evolutions, and their maximum number.
LEAST, LISTED = 0.01, 300

#: Maximum number of listed compositions with which pilot users end up.
ENDS = 10


def headline_of(found: Diagnosis | None) -> list[str]:
    """Return sentences on the probabilities of parts; empty without a posterior."""
    return [] if found is None else headline(found.parts, found.shares)


def lines(
    evolutions: Evolutions, look: Look, user_reports: Sequence[UserReport], found: Diagnosis | None
) -> list[str]:
    """Return the main findings, other than the probabilities of parts, as sentences."""
    sentences = []
    if evolutions.shared is not None:
        shares = evolutions.settings.get("shared", {}).get("shares", {})
        composition = evolutions.shared.kernel.composition
        sentences.append(in_words(composition, evolutions.features, shares))
    if found is not None and found.parts.iloc[-1]["probability"] > 0.5:
        sentences.append(
            "Most users get noise only, even with all of their data; the noise prior may dominate "
            "the data. To check this, learn again with --feedback joint, or with your own noise "
            "prior in a study file."
        )
    likely = evolutions.children(Composition())
    if likely:
        first = likely[0]
        sentences.append(
            "The most probable single kernel of a user with little data is "
            f"{look.label(first.composition)}: probability {first.probability:.2f}, 90 % interval "
            f"{first.interval[0]:.2f} to {first.interval[1]:.2f}."
        )
    if found is not None:
        sentences.append(
            f"A user's kernel changes {found.mean_changes:.1f} times on average over all time "
            "steps."
        )
    shares = [m.share for p in user_reports for m in p.moments]
    if shares:
        sentences.append(
            "The most probable single kernel of a user at a time step has probability "
            f"{sum(shares) / len(shares):.2f} on average. If it is low, the probabilities of parts "
            "are more informative than a single kernel."
        )
    return sentences


def rows(evolutions: Evolutions) -> tuple[list[tuple[Composition, Child]], int]:
    """Return the probable evolutions as pairs of parent and child, and the number of others."""
    every = [(p, c) for p in evolutions.parents for c in evolutions.children(p)]
    worth = [row for row in every if row[1].probability >= LEAST and row[1].occurrence >= LEAST]
    kept = sorted(worth, key=lambda row: -row[1].count * row[1].occurrence)[:LISTED]
    place = {row[0]: i for i, row in reversed(list(enumerate(kept)))}
    kept.sort(key=lambda row: (place[row[0]], -row[1].probability))
    return kept, len(every) - len(kept)


def ends(evolutions: Evolutions) -> tuple[list[Child], float]:
    """Return the compositions with which pilot users end up, and the probability of all others.

    The list is empty, and the probability 0, if the final compositions weren't learned.
    """
    if evolutions.final is None:
        return [], 0.0
    every = evolutions.final.children(Composition())
    listed = [child for child in every if child.probability >= LEAST][:ENDS]
    return listed, 1 - sum(child.probability for child in listed)


def missing(material: Material) -> list[tuple[str, str]]:
    """Return the contents that a folder lacks, with the commands that write them."""
    lacks = []
    if material.idata is None:
        lacks.append(("Pilot users, their predictions and diagnostics", "kem fit"))
    elif "inputs" not in material.idata["constant_data"]:
        lacks.append(("Predictions for pilot users", "kem fit (of this version)"))
    if material.selections is None:
        lacks.append(("Kernels for new users", "kem select --out FOLDER/selections.csv"))
    elif material.predictions is None:
        lacks.append(
            ("Predictions for new users", "kem select --predictions FOLDER/predictions.csv")
        )
    return lacks
