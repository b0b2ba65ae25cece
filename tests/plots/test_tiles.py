"""Trajectories: one tile per user and time step, with the colours and letters of the legend."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import composition_colours, trajectories

USERS = {
    "ann": ["WHITE", "LIN0", "LIN0 + PER0"],
    "bob": ["SE0", "SE0", "SE0"],
    "cyd": ["LIN0", "LIN0", "LIN0 + PER0"],
    "dan": ["SE0", "SE0"],
}


def tile(ax, user, step):
    """Return colour and side of the tile of a user, by tick label, and a time step."""
    row = [label.get_text() for label in ax.get_yticklabels()].index(user)
    for patch in ax.patches:
        left, top = patch.get_xy()
        side = patch.get_width()
        if (left + side / 2, top + side / 2) == pytest.approx((step + 1, row)):
            return to_hex(patch.get_facecolor()), side
    return None


def legend(ax):
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    colours = [to_hex(handle.get_facecolor()) for handle in ax.get_legend().get_patches()]
    return dict(zip(texts, colours, strict=True))


def test_tiles_have_the_colours_and_letters_of_the_legend(typed, texts):
    ax = trajectories(USERS)
    assert len(ax.patches) == 11
    by_label = {typed(text): colour for text, colour in legend(ax).items()}
    assert set(by_label) == {"a SE0", "b LIN0", "c LIN0 + PER0", "d noise only"}
    assert tile(ax, "ann", 2)[0] == by_label["c LIN0 + PER0"]
    assert tile(ax, "bob", 0)[0] == by_label["a SE0"]
    assert tile(ax, "dan", 2) is None
    assert sorted(texts(ax)) == sorted("dbcaaabbcaa")


def test_similar_users_are_put_together():
    order = [label.get_text() for label in trajectories(USERS).get_yticklabels()]
    assert order == ["bob", "cyd", "ann", "dan"]


def test_a_posterior_shows_its_modes_with_areas_as_probabilities(posterior, texts):
    ax = trajectories(posterior)
    assert len(ax.patches) == 8
    (mode, small), (sure, large) = tile(ax, "7", 1), tile(ax, "8", 1)
    assert (small / large) ** 2 == pytest.approx(0.75)
    colours = composition_colours(["LIN0", "LIN0 + PER0"])
    assert (mode, sure) == (colours["LIN0 + PER0"], colours["LIN0"])
    assert any("area is the probability" in text for text in texts(ax))


def test_one_user_may_be_given_as_selections_or_compositions(make_selection, points):
    x, y = points(6)
    steps = [Composition(), "LIN0", make_selection("PER0", x, y)]
    ax = trajectories(steps, ax=Figure().add_subplot())
    assert len(ax.patches) == 3
    assert ax.get_ylabel() == ""


def test_compositions_beyond_the_palette_are_hatched():
    names = ["SE0", "PER0", *(f"LIN{i} + SE{i}" for i in range(10))]
    ax = trajectories({name: [name, name] for name in names})
    assert sum(patch.get_hatch() is not None for patch in ax.patches) == 2 * (len(names) - 9)
    assert list(legend(ax))[-1] == "3 others"


def test_given_colours_are_used(typed):
    ax = trajectories(USERS, colours={"SE0": "#123456"})
    assert tile(ax, "bob", 1)[0] == "#123456"
    assert [typed(text) for text in legend(ax)] == ["a SE0", "3 others"]


def test_all_of_the_legend_and_the_users_fit_the_page(drawn):
    long = "LIN0 x PER0 + LIN0 x SE0 + PER0 + PER0 x PER0 + PER0 x SE0 + SE0"
    ax = trajectories({"participant 0001": ["WHITE", long, f"LIN0 + {long}"]})
    renderer, page = drawn(ax), ax.figure.bbox
    for extent in (ax.get_legend().get_window_extent(renderer), ax.get_tightbbox(renderer)):
        assert page.x0 <= extent.x0 <= extent.x1 <= page.x1
        assert page.y0 <= extent.y0 <= extent.y1 <= page.y1


@pytest.mark.parametrize("source", [{}, {"ann": []}, []])
def test_nothing_to_draw_is_refused(source):
    with pytest.raises(InputError, match="no compositions to draw"):
        trajectories(source)
