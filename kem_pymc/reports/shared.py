"""Report section on what all users share: a sentence, shares of the variance and plots."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from kem_pymc.diagnostics.groups import contrasts, grouping_features
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots.mean_process import Section, shared_sections
from kem_pymc.reports import charts
from kem_pymc.shared.choice import in_words

if TYPE_CHECKING:
    from xarray import DataTree

#: Descriptions of the parts of the variance.
PARTS = {
    "shared": "what all users have in common",
    "personal": "each user's own function",
    "noise": "noise",
}

NOTHING = (
    "Users share nothing in this study: apart from noise, the target is each user's own function."
)


@dataclass(frozen=True)
class Shared:
    """Contents of the report section on the shared part.

    Attributes
    ----------
    sentence : str
    shares : list of (str, float)
        Descriptions of the parts of the variance, and their shares; empty if nothing is shared.
    rows : list of (str, float, float)
        Features with their total effects in the shared and in the personal part, as shares of the
        variance, the largest in the shared part first.
    pictures : list of (Markup, str)
        Plots and captions.
    groups : list of (str, str, float, float, float)
        Features, pairs of their levels, and the difference between the levels: mean, and ends of
        the 95 % interval, in the unit of the target, or of the transformed target.
    """

    sentence: str
    shares: list[tuple[str, float]]
    rows: list[tuple[str, float, float]]
    pictures: list[tuple[Markup, str]]
    groups: list[tuple[str, str, float, float, float]] = field(default_factory=list)


def shared_part(evolutions: Evolutions, idata: "DataTree | None" = None) -> Shared:
    """Return the contents of the section; differences between groups need the posterior."""
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
        label = (
            f"Shared part as a function of {own.feature}: mean, and a band of 2 sd to either side"
        )
        frame = charts.frame(own.at, (low, high), own.feature, target)
        share = "" if own.share is None else f", {own.share:.0%} of the variance"
        picture = charts.section(own.at, own.mean, own.sd, frame, label)
        pictures.append((picture, f"{own.feature}{share}"))
    return pictures
