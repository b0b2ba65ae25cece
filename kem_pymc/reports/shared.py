"""What all users share: in words, as shares of the variance, and as pictures."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from kem_pymc.diagnostics.groups import contrasts, grouping_features
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.plots.mean_process import Section, shared_sections
from kem_pymc.reports import charts
from kem_pymc.shared.choice import in_words

if TYPE_CHECKING:
    from xarray import DataTree

#: What the parts of the variance are, in words.
PARTS = {
    "shared": "what all users have in common",
    "personal": "each user's own function",
    "noise": "noise",
}

NOTHING = "Users share nothing in this study: all but the noise is each user's own kernel."


@dataclass(frozen=True)
class Shared:
    """What the section on the shared part shows.

    Attributes
    ----------
    sentence : str
    shares : list of (str, float)
        Parts of the variance in words, and their shares; empty where nothing is shared.
    rows : list of (str, float, float)
        Features with their total effects in the shared and in the personal part, as shares of the
        variance, the largest in the shared part first.
    pictures : list of (Markup, str)
        Pictures and captions.
    groups : list of (str, str, float, float, float)
        Features, pairs of their levels, and by how much these differ: mean, and ends of the 95 %
        interval, in the target's unit, or that of the transformed target.
    """

    sentence: str
    shares: list[tuple[str, float]]
    rows: list[tuple[str, float, float]]
    pictures: list[tuple[Markup, str]]
    groups: list[tuple[str, str, float, float, float]] = field(default_factory=list)


def shared_part(evolutions: Evolutions, idata: "DataTree | None" = None) -> Shared:
    """Return what a report says on what users share; how groups differ needs the posterior."""
    if evolutions.shared is None:
        return Shared(NOTHING, [], [], [])
    found = evolutions.settings.get("shared", {})
    shares, relevance = found.get("shares", {}), found.get("relevance")
    rows = []
    if relevance:
        own = relevance["shared"], relevance["personal"]
        rows = sorted(zip(evolutions.features, *own, strict=True), key=lambda row: -row[1])
    composition = evolutions.shared.kernel.composition
    return Shared(
        sentence=in_words(composition, evolutions.features, shares),
        shares=[(PARTS.get(part, part), share) for part, share in shares.items()],
        rows=rows,
        pictures=_pictures(
            shared_sections(evolutions), evolutions.scaling.target_label(evolutions.target)
        ),
        groups=[] if idata is None else _groups(idata),
    )


def _groups(idata: "DataTree") -> list[tuple[str, str, float, float, float]]:
    return [
        (feature, row.contrast, row.mean, row.low, row.high)
        for feature in grouping_features(idata)
        for row in contrasts(idata, feature).itertuples()
    ]


def _pictures(sections: list[Section], target: str) -> list[tuple[Markup, str]]:
    if not sections:
        return []
    ends = [(s.mean + side * s.sd) for s in sections for side in (-2, 2)]
    low, high = min(e.min() for e in ends), max(e.max() for e in ends)
    pictures = []
    for own in sections:
        label = f"What all users share, against {own.feature}: mean, and 2 sd to either side"
        frame = charts.frame(own.at, (low, high), own.feature, target)
        share = "" if own.share is None else f", {own.share:.0%} of the variance"
        picture = charts.section(own.at, own.mean, own.sd, frame, label)
        pictures.append((picture, f"{own.feature}{share}"))
    return pictures
