"""The layered layout: columns, order, distances and routes of small graphs."""

from itertools import combinations

import pytest

from kem_pymc.plots.layout import layered

SIZES = dict.fromkeys("abcdef", (40.0, 20.0))
GAP = (30.0, 10.0)


def test_boxes_of_a_column_are_above_each_other_and_never_closer_than_the_gap():
    columns = {"a": 0, "b": 1, "c": 1, "d": 1}
    boxes, _ = layered(columns, SIZES, [("a", "b"), ("a", "c"), ("a", "d")], GAP)
    assert boxes["b"].x == boxes["c"].x == boxes["d"].x
    for one, other in combinations("bcd", 2):
        assert abs(boxes[one].y - boxes[other].y) >= 20 + GAP[1] - 1e-9
    assert boxes["a"].y == pytest.approx(sum(boxes[n].y for n in "bcd") / 3)


def test_a_column_is_as_wide_as_its_widest_box_and_the_next_starts_after_the_gap():
    sizes = SIZES | {"b": (100.0, 20.0)}
    boxes, _ = layered({"a": 0, "b": 1, "c": 1}, sizes, [("a", "b"), ("a", "c")], GAP)
    assert boxes["b"].width == boxes["c"].width == 100
    assert boxes["b"].x_range[0] - boxes["a"].x_range[1] == pytest.approx(GAP[0])


def test_a_crossing_that_can_be_avoided_is():
    columns = {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2}
    edges = [("a", "b"), ("a", "c"), ("b", "e"), ("c", "d")]
    boxes, _ = layered(columns, SIZES, edges, GAP)
    assert (boxes["b"].y < boxes["c"].y) == (boxes["e"].y < boxes["d"].y)


def test_an_edge_over_a_column_passes_between_its_boxes():
    columns = {"a": 0, "b": 1, "c": 1, "d": 2}
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]
    boxes, routes = layered(columns, SIZES, edges, GAP)
    assert len(routes["a", "d"]) == 4
    assert len(routes["a", "b"]) == 2
    for x, y in routes["a", "d"][1:3]:
        assert x in boxes["b"].x_range
        for node in "bc":
            assert not boxes[node].y_range[0] < y < boxes[node].y_range[1]


@pytest.mark.parametrize(
    ("edge", "sides"), [(("a", "b"), (1, 0)), (("b", "a"), (0, 1)), (("b", "c"), (1, 1))]
)
def test_edges_leave_and_arrive_on_the_side_that_they_point_to(edge, sides):
    boxes, routes = layered({"a": 0, "b": 1, "c": 1}, SIZES, [edge], GAP)
    for node, side, point in zip(edge, sides, (routes[edge][0], routes[edge][-1]), strict=True):
        assert point[0] == pytest.approx(boxes[node].x_range[side])


def test_a_way_back_over_a_column_runs_from_right_to_left():
    _, routes = layered({"a": 0, "b": 1, "c": 2}, SIZES, [("a", "b"), ("b", "c"), ("c", "a")], GAP)
    across = [x for x, _ in routes["c", "a"]]
    assert across == sorted(across, reverse=True)


def test_edges_of_one_side_have_ports_of_their_own_in_the_order_of_their_ends():
    columns = {"a": 0, "b": 1, "c": 1, "d": 1}
    boxes, routes = layered(columns, SIZES, [("a", n) for n in "bcd"], GAP)
    by_end = sorted("bcd", key=lambda n: boxes[n].y)
    starts = [routes["a", n][0][1] for n in by_end]
    assert starts == sorted(starts)
    assert len(set(starts)) == 3
    assert boxes["a"].y_range[0] < starts[0] < starts[-1] < boxes["a"].y_range[1]


def test_more_edges_get_more_room():
    columns = dict.fromkeys("bcdef", 1)
    few, _ = layered({"a": 0, "b": 1}, SIZES, [("a", "b")], GAP)
    many, _ = layered({"a": 0} | columns, SIZES, [("a", n) for n in columns], GAP)
    assert many["b"].x > few["b"].x


def test_edges_within_a_column_that_overlap_turn_back_at_different_distances():
    columns = {"a": 0, "b": 1, "c": 1, "d": 1, "e": 1}
    ways = [("a", n) for n in "bcde"]
    boxes, _ = layered(columns, SIZES, ways, GAP)
    one, two, three, four = sorted("bcde", key=lambda n: boxes[n].y)
    around, inside, below = (one, three), (two, one), (four, three)
    boxes, routes = layered(columns, SIZES, [*ways, around, inside, below], GAP)
    turns = {edge: routes[edge][1][0] for edge in (around, inside, below)}
    assert boxes[one].x_range[1] < turns[inside] == turns[below] < turns[around]


def test_a_column_with_edges_of_its_own_keeps_the_next_at_a_distance():
    columns = {"a": 0, "b": 1, "c": 1, "d": 2}
    ways = [("a", "b"), ("a", "c"), ("b", "d")]
    plain, _ = layered(columns, SIZES, ways, GAP)
    more, routes = layered(columns, SIZES, [*ways, ("b", "c"), ("c", "b")], GAP)
    assert more["d"].x > plain["d"].x
    assert max(routes[edge][1][0] for edge in (("b", "c"), ("c", "b"))) < more["d"].x_range[0]
