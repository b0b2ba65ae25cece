"""Evolutions by hand: probabilities, summaries, how they show."""

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.kernels.composition import Composition
from tests.evolutions.by_hand import LIN, SE, WHITE, by_name, cluster, evolutions


def test_probabilities_and_the_new_kernels_add_up_to_one():
    learned = evolutions()
    for parent in learned.parents:
        seen = sum(c.probability for c in learned.children(parent))
        assert seen + learned.probability_of_new(parent) == pytest.approx(1)


def test_probabilities_use_the_alpha_of_every_draw():
    learned = evolutions(concentration=(2.0, 0.5))
    children = by_name(learned.children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 / 7 + 5 / 5.5) / 2)
    assert by_name(learned.children("SE0"))["SE0"].probability == pytest.approx(4 / 4.5)
    assert learned.probability_of_new("WHITE") == pytest.approx((2 / 7 + 0.5 / 5.5) / 2)
    assert learned.probability_of_new("LIN0") == pytest.approx(2 / 4)
    assert learned.single_draw(1).concentration == (0.5,)
    assert learned.single_draw(1).probability_of_new("SE0") == pytest.approx(0.5 / 4.5)


def test_every_draw_needs_its_alpha():
    with pytest.raises(InputError, match=r"concentrations is 3, and that of draws 2\. Give"):
        evolutions(concentration=(1.0, 2.0, 3.0))


def test_children_come_most_probable_first_and_parents_most_frequent_first():
    learned = evolutions()
    assert [str(c.composition) for c in learned.children(WHITE)] == ["LIN0", "SE0"]
    assert learned.parents == (WHITE, SE, LIN)
    assert learned.children("PER0") == ()


def test_the_floor_is_that_of_the_priors():
    assert evolutions().noise_floor == 0.01  # files of before name none
    lower = evolutions(priors={"noise_floor": 1e-4})
    assert lower.noise_floor == 1e-4
    assert evolutions().with_noise_floor(1e-4).noise_floor == 1e-4


def test_typical_pools_over_parents():
    learned = evolutions()
    typical = learned.typical("SE0")
    np.testing.assert_allclose(typical.centre, [0, 0.1, 0.2])
    assert learned.typical("PER0") is None


def test_single_draws_split_the_clusters():
    learned = evolutions()
    first, second = learned.single_draw(0), learned.single_draw(1)
    assert by_name(first.children(WHITE))["LIN0"].probability == pytest.approx(4 / 7)
    assert by_name(second.children(WHITE))["LIN0"].probability == pytest.approx(5 / 7)
    assert second.children(LIN) == ()
    assert learned.draws_with(LIN).tolist() == [0]
    assert learned.single_draw(0) is first
    with pytest.raises(InputError, match=r"no draw 2\. Give 0 to 1"):
        learned.single_draw(2)


def test_the_frame_shows_the_same_evolutions():
    learned = evolutions()
    rows = learned.to_frame().set_index(["parent", "child"])
    assert rows.loc[("WHITE", "LIN0"), "probability"] == pytest.approx(9 / 14)
    one = {"probability": 4 / 6, "lower": 4 / 6, "upper": 4 / 6, "count": 2.0, "occurrence": 0.5}
    assert rows.loc[("SE0", "SE0")].to_dict() == pytest.approx(one)
    # 4/7 in one draw and 5/7 in the other: the interval's ends lie between them.
    ends = (4 / 7 + 0.05 / 7, 5 / 7 - 0.05 / 7)
    assert by_name(learned.children(WHITE))["LIN0"].interval == pytest.approx(ends)


def test_it_shows_itself():
    assert "2 draws, 3 parents: week -> steps" in repr(evolutions())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clusters": ()}, "no clusters"),
        ({"features": ("a", "b")}, "features is 2, and that of dimensions 1"),
        ({"clusters": (Cluster(0, WHITE, LIN, 1, (0.0,)),)}, "LIN0 doesn't fit"),
        ({"clusters": (cluster(2, WHITE, LIN, 1),)}, "LIN0 doesn't fit"),
        ({"clusters": (Cluster(0, WHITE, Composition.parse("RQ0"), 1, (0.0,)),)}, "RQ0 is not in"),
    ],
)
def test_parts_must_fit_together(fields, message):
    with pytest.raises(InputError, match=message):
        evolutions(**fields)
