"""Probabilities of a user's next kernel, with compositions that are new below the last one."""

from dataclasses import replace

import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.novelty import next_kernel, probability_of_staying
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.kem import KEMSelector

POOL = CandidatePool(["LIN0", "SE0", "LIN0 x SE0"])
WHITE, LIN, SE = Composition(), Composition.parse("LIN0"), Composition.parse("SE0")
PRIORS = {"stay": 0.8, "enter": {"base kernel": 0.1, "SE0": 0.3, "interaction": 0.05}}
VALUES = {WHITE: 1, LIN: 3, SE: 3}


def evolutions(rows, draws, **fields):
    """Evolutions of (draw, parent, child, count)."""
    clusters = tuple(
        Cluster(draw, parent, child, count, (0.1 * draw,) * VALUES[child])
        for draw, parent, child, count in rows
    )
    return Evolutions(
        POOL, Scaling.identity(1), ("x",), "y", clusters, draws, priors=PRIORS, **fields
    )


#: LIN has members in the first of two draws alone: 3 of SE's, 1 of its own; alpha is 2.
FINAL = evolutions([(0, WHITE, SE, 4), (1, WHITE, LIN, 2), (1, WHITE, SE, 2)], 2)
LEARNED = evolutions(
    [(0, WHITE, LIN, 5), (0, LIN, SE, 3), (0, LIN, LIN, 1), (1, WHITE, SE, 5)],
    2,
    concentration=2.0,
    final=FINAL,
)


def total(learned, parent, novelty):
    known, new, stays = next_kernel(learned, parent, novelty)
    children = sum(c.probability for c in learned.children(parent))
    ends = sum(c.probability for c in learned.final.children(WHITE))
    return known * children + new * ends + stays


@pytest.mark.parametrize("novelty", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("parent", [WHITE, LIN, SE, LIN + SE], ids=str)
def test_probabilities_add_up_to_all_but_the_base_distribution(parent, novelty):
    staying = probability_of_staying(LEARNED, parent)
    _, weight, _ = next_kernel(LEARNED, parent, novelty)
    rest = 1 / 5  # alpha / (alpha + N) of where 4 users ended up, with alpha = 1
    assert total(LEARNED, parent, novelty) == pytest.approx(1 - weight * rest * (1 - staying))


def test_a_parent_with_members_in_some_draws():
    # E[alpha / (alpha + N)] over both draws: 2 / (2 + 4) in the first, one in the second.
    known, weight, _ = next_kernel(LEARNED, LIN, novelty=0.5)
    assert weight == pytest.approx((2 / 6 + 1) / 2)
    children = {c.composition: known * c.probability for c in LEARNED.children(LIN)}
    assert children[SE] == pytest.approx(0.5 * 3 / 6)
    assert children[LIN] == pytest.approx(0.5 * 1 / 6)


def test_the_least_weight_of_new_kernels_counts_where_it_is_larger():
    plain, raised = (next_kernel(LEARNED, WHITE, novelty) for novelty in (0.0, 0.5))
    assert plain.new == pytest.approx(2 / 7)
    assert raised.new == 0.5
    assert raised.seen == pytest.approx(0.5 / (5 / 7))


def test_staying_goes_by_the_priors():
    assert probability_of_staying(LEARNED, LIN) == pytest.approx(0.8 * 0.7 * 0.95)
    assert probability_of_staying(LEARNED, WHITE) == pytest.approx(0.9 * 0.7 * 0.95)
    assert probability_of_staying(replace(LEARNED, priors={}), LIN) == 1


def test_without_final_evolutions_there_is_nothing_new():
    with pytest.raises(InputError, match=r"pilot users' final compositions\. Learn them"):
        next_kernel(replace(LEARNED, final=None), LIN, 0.5)


def test_files_keep_where_users_ended_up(tmp_path):
    LEARNED.save(tmp_path / "evolutions.json")
    again = Evolutions.load(tmp_path / "evolutions.json")
    assert again == LEARNED
    assert again.final == FINAL


def test_other_candidates_are_refused():
    other = replace(FINAL, pool=CandidatePool(["SE0", "LIN0", "PER0"]))
    with pytest.raises(InputError, match="other candidates"):
        replace(LEARNED, final=other)


@pytest.mark.parametrize("novelty", [0.0, 0.8, 1.0])
def test_every_composition_is_one_option(novelty):
    """Their probabilities add up; values are those that users ended up with, where any did."""
    selector = KEMSelector(LEARNED, novelty=novelty)
    selection = selector.select([0.1, 0.4, 0.9], [1.0, -1.0, 0.5], previous="LIN0")
    options = {row.composition: row for row in selection.considered}
    assert len(options) == len(selection.considered)
    expected = total(LEARNED, LIN, novelty)
    assert sum(row.probability for row in options.values()) == pytest.approx(expected)
    assert options[LIN].status == "current"
    assert options[SE].status == "child"
    known, new, _ = next_kernel(LEARNED, LIN, novelty)
    share = {c.composition: c.probability for c in LEARNED.children(LIN)}
    end = {c.composition: c.probability for c in FINAL.children(WHITE)}
    assert options[SE].probability == pytest.approx(known * share[SE] + new * end[SE])
    summaries = {p.composition: p.summary for p in selector._proposals(LEARNED, LIN, "LIN0")}
    for composition in (LIN, SE):
        final = next(c for c in FINAL.children(WHITE) if c.composition == composition)
        assert summaries[composition].centre.tolist() == final.centre.tolist()
