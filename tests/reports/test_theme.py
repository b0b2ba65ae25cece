"""Labels, colours and letters of compositions."""

import re

from kem_pymc.kernels.composition import Composition
from kem_pymc.reports.theme import Look
from tests.evolutions.by_hand import BOTH, LIN, SE, evolutions


def test_the_most_frequent_have_letters_and_all_shown_have_colours():
    """Fails where letters and colours aren't by frequency, or one of them is used twice."""
    look = Look.of(evolutions(), [BOTH, BOTH, SE])
    letters = look.letters([SE, LIN, LIN, BOTH, BOTH, BOTH])
    assert letters == {BOTH: "a", LIN: "b", SE: "c"}
    assert len({look.colour(c) for c in (LIN, SE, BOTH)}) == 3
    classes = re.findall(r"^\.(c\d+)\{", look.css(), flags=re.MULTILINE)
    assert {look.colour(c) for c in (LIN, SE, BOTH)} <= set(classes)
    unknown = Composition.parse("PER0")
    assert look.colour(unknown) == "other"
    assert unknown not in look.letters([unknown, LIN])


def test_labels_name_features_where_there_are_several():
    one = Look(("week",), {})
    several = Look(("week", "age"), {})
    composition = Composition.parse("SE0")
    assert one.label(composition) == "SE0"
    assert several.label(composition) == "SE(week)"
    assert "week" in one.words(composition)
