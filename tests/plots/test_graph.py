"""The graph of evolutions: what is drawn, what is left out, and that all of it can be read."""

from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from kem_pymc.errors import InputError
from kem_pymc.plots import evolution_graph

PAPER = (
    *(("WHITE", "LIN0", 7), ("WHITE", "SE0", 3), ("LIN0", "LIN0", 5)),
    *(("LIN0", "LIN0 + PER0", 10), ("LIN0", "SE0", 4), ("SE0", "SE0", 8)),
    *(("SE0", "LIN0 + PER0", 1), ("LIN0 + PER0", "LIN0 + PER0", 20)),
)


def arrows(ax):
    return [p for p in ax.patches if isinstance(p, FancyArrowPatch)]


def boxes(ax):
    return [p for p in ax.patches if isinstance(p, FancyBboxPatch)]


@pytest.fixture(scope="module")
def crowded(make_evolutions):
    """Thirty long compositions that follow WHITE, and each other, in all directions."""
    parts = ["LIN0", "PER0", "LIN0 x PER0", "PER0 x PER0", "SE0"]
    named = [" + ".join(c) for k in range(1, 6) for c in combinations(parts, k)]
    rows = [("WHITE", name, 12 - len(name) // 6) for name in named]
    rows += [(a, b, 2) for a, b in zip(named, named[6:], strict=False)]
    rows += [(b, a, 3) for a, b in zip(named, named[9:], strict=False)]
    return make_evolutions(rows)


def test_the_papers_graph_has_its_nodes_edges_and_numbers(make_evolutions, texts):
    ax = evolution_graph(make_evolutions(PAPER))
    assert len(boxes(ax)) == 4
    assert len(arrows(ax)) == 5
    shown = texts(ax)
    assert {"noise only", "LIN(week)", "SE(week)", "LIN(week) + PER(week)"} <= set(shown)
    # alpha is 1: LIN0 after WHITE 7 / 11, LIN0 + PER0 after LIN0 10 / 20, SE0 after LIN0 4 / 20.
    assert {"0.64", "0.27", "0.50", "0.20", "0.10"} <= set(shown)
    assert "31.0 datasets · stays 0.95" in shown
    assert "0.0 datasets" in shown  # WHITE has none, and doesn't stay


def test_columns_are_the_steps_from_white(make_evolutions, typed):
    ax = evolution_graph(make_evolutions(PAPER))
    across = {typed(text.get_text()): text.get_position()[0] for text in ax.texts}
    # More datasets come to SE0 from LIN0 than from WHITE.
    assert across["noise only"] < across["LIN(week)"] < across["SE(week)"]
    assert across["SE(week)"] == across["LIN(week) + PER(week)"]


def test_wider_arrows_are_more_probable_and_fuller_boxes_darker(make_evolutions):
    rows = [("WHITE", "LIN0", 8), ("WHITE", "SE0", 1)]
    ax = evolution_graph(make_evolutions(rows), colours={"LIN0": "#ff0000", "SE0": "#0000ff"})
    widths = sorted(a.get_linewidth() for a in arrows(ax))
    assert widths[1] > 2 * widths[0]
    lightness = {p.get_edgecolor()[0]: sum(p.get_facecolor()[:3]) for p in boxes(ax)[1:]}
    assert lightness[1.0] < lightness[0.0]


def test_improbable_evolutions_are_left_out_and_the_caption_says_so(make_evolutions, texts):
    evolutions = make_evolutions(PAPER)
    ax = evolution_graph(evolutions, minimum_probability=0.15)
    assert len(arrows(ax)) == 4
    assert "0.10" not in texts(ax)
    assert any("below 0.15" in text for text in texts(ax))
    ax = evolution_graph(evolutions, minimum_probability=0.3)
    assert len(boxes(ax)) == 3
    assert any("1 kernel, with 26 % of the datasets" in text for text in texts(ax))


def test_an_evolution_of_few_draws_is_left_out_however_probable_there(make_evolutions):
    usual = [("WHITE", "LIN0", 9), ("LIN0", "LIN0", 9)]
    rare = [*usual, ("WHITE", "SE0", 9)]
    ax = evolution_graph(make_evolutions(rare, *[usual] * 19), minimum_probability=0.02)
    assert len(boxes(ax)) == 3
    ax = evolution_graph(make_evolutions(rare, *[usual] * 29), minimum_probability=0.04)
    assert len(boxes(ax)) == 2


def test_ways_are_as_travelled_as_over_all_draws(make_evolutions, typed):
    # 9 datasets come to SE0 from LIN0, but in one draw of four; 3 from WHITE in every draw.
    usual = [("WHITE", "LIN0", 5), ("WHITE", "SE0", 3)]
    rare = [*usual, ("LIN0", "SE0", 9)]
    ax = evolution_graph(make_evolutions(rare, usual, usual, usual))
    across = {typed(text.get_text()): text.get_position()[0] for text in ax.texts}
    assert across["SE(week)"] == across["LIN(week)"]


def test_the_threshold_falls_until_something_follows_white(make_evolutions, texts):
    evolutions = make_evolutions([("WHITE", "WHITE", 50), ("WHITE", "SE0", 2)])
    ax = evolution_graph(evolutions, minimum_probability=0.1)
    assert len(arrows(ax)) == 1
    assert any("below 0.025" in text for text in texts(ax))


def test_white_alone_is_drawn_where_nothing_else_follows(make_evolutions, texts):
    ax = evolution_graph(make_evolutions([("WHITE", "WHITE", 3)], others=["SE0"]))
    assert len(boxes(ax)) == 1
    assert "3.0 datasets · stays 0.75" in texts(ax)


def test_the_most_travelled_nodes_stay(make_evolutions, texts):
    shown = texts(evolution_graph(make_evolutions(PAPER), max_nodes=3))
    assert "LIN(week) + PER(week)" in shown
    assert "SE(week)" not in shown


def test_features_are_written_by_name(make_evolutions, texts):
    rows = [("WHITE", "SE1", 3), ("WHITE", "LIN0 x SE1", 3), ("WHITE", "ARD", 3)]
    named = texts(evolution_graph(make_evolutions(rows, features=("age", "bmi"))))
    assert {"SE(bmi)", "LIN(age) x SE(bmi)", "ARD"} <= set(named)


def overlaps(one, other):
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > 0.5
        and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5
    )


def test_no_text_is_cut_or_leaves_its_box_in_a_crowded_graph(crowded, drawn):
    ax = evolution_graph(crowded, minimum_probability=0.01)
    renderer = drawn(ax)
    assert len(boxes(ax)) == 20
    page = ax.figure.bbox
    extents = [text.get_window_extent(renderer) for text in ax.texts]
    for extent in extents:
        assert page.x0 <= extent.x0
        assert page.x1 >= extent.x1
        assert page.y0 <= extent.y0
        assert page.y1 >= extent.y1
    frames = [box.get_window_extent(renderer) for box in boxes(ax)]
    for one, other in combinations(frames, 2):
        assert not overlaps(one, other)
    # Every box holds two texts entirely, and no other text touches it.
    for frame in frames:
        touching = [e for e in extents if overlaps(frame, e)]
        assert len(touching) == 2
        assert all(frame.x0 <= e.x0 and e.x1 <= frame.x1 for e in touching)
        assert not overlaps(*touching)


def test_given_axes_are_used_and_too_small_ones_get_fewer_nodes(crowded, drawn):
    figure = Figure(figsize=(5, 4))
    ax = figure.add_subplot()
    assert evolution_graph(crowded, minimum_probability=0.01, ax=ax) is ax
    assert 2 <= len(boxes(ax)) < 20
    renderer = drawn(ax)
    assert min(text.get_fontsize() for text in ax.texts) >= 5
    extents = [text.get_window_extent(renderer) for text in ax.texts]
    assert all(ax.bbox.x0 <= e.x0 and e.x1 <= ax.bbox.x1 for e in extents)


def test_a_second_frame_is_where_users_end_up(make_evolutions, texts):
    """Catches frames around compositions that few end up with, or that aren't in the graph."""
    ends = [("WHITE", "LIN0", 1), ("WHITE", "LIN0 + PER0", 40), ("WHITE", "LIN0 + SE0", 9)]
    learned = make_evolutions(PAPER)
    learned = replace(learned, final=make_evolutions(ends))
    ax = evolution_graph(learned)
    (frame,) = [box for box in boxes(ax) if not box.get_facecolor()[3]]
    assert len(boxes(ax)) == 5
    title = next(t for t in ax.texts if "PER(week)" in t.get_text())
    around = [b for b in boxes(ax) if b.get_path().get_extents().contains(*title.get_position())]
    assert frame in around
    widths = sorted(box.get_path().get_extents().width for box in around)
    assert widths[1] == pytest.approx(widths[0] + 5)
    assert any("Second frame: final kernel of pilot users" in text for text in texts(ax))
    assert not any("frame" in text for text in texts(evolution_graph(make_evolutions(PAPER))))


@pytest.mark.parametrize("options", [{"minimum_probability": 1.5}, {"max_nodes": 1}])
def test_a_graph_of_nothing_is_refused(make_evolutions, options):
    with pytest.raises(InputError, match="There is no graph with minimum_probability="):
        evolution_graph(make_evolutions(PAPER), **options)
