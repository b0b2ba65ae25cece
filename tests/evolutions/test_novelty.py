"""Probabilities of a user's next kernel, with compositions that are new below the last one."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.novelty import Novelty, chosen_weight, next_kernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.kem import KEMSelector

POOL = CandidatePool(["LIN0", "SE0", "LIN0 x SE0"])
WHITE, LIN, SE = Composition(), Composition.parse("LIN0"), Composition.parse("SE0")
VALUES = {WHITE: 1, LIN: 3, SE: 3}


def evolutions(rows, draws, **fields):
    """Evolutions of (draw, parent, child, count)."""
    clusters = tuple(
        Cluster(draw, parent, child, count, (0.1 * draw,) * VALUES[child])
        for draw, parent, child, count in rows
    )
    return Evolutions(POOL, Scaling.identity(1), ("x",), "y", clusters, draws, **fields)


#: LIN has members in the first of two draws alone: 3 of SE's, 1 of its own; alpha is 2.
FINAL = evolutions([(0, WHITE, SE, 4), (1, WHITE, LIN, 2), (1, WHITE, SE, 2)], 2)
LEARNED = evolutions(
    [(0, WHITE, LIN, 5), (0, LIN, SE, 3), (0, LIN, LIN, 1), (1, WHITE, SE, 5)],
    2,
    concentration=2.0,
    final=FINAL,
)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("parent", [WHITE, LIN, SE, LIN + SE], ids=str)
def test_probabilities_add_up_to_one(parent, weight, first):
    known, new, stays = next_kernel(LEARNED, parent, weight, first=first)
    children = sum(c.probability for c in LEARNED.children(parent))
    ends = sum(c.probability for c in FINAL.children(WHITE))
    assert known * children + new * ends + stays == pytest.approx(1)


def test_the_last_kernel_stays_as_the_base_distribution_has_it():
    """G_P(P) in closed form; alpha / (alpha + N) of final kernels is 1 / 5."""
    enter = {"base kernel": 0.4, "interaction": 0.25}
    learned = replace(LEARNED, priors={"stay": 0.9, "enter": enter})
    assert next_kernel(learned, LIN, 1.0, first=True).stays == 0
    for parent, same in {
        WHITE: 0.6**2 * 0.75,
        LIN: 0.9 * 0.6 * 0.75,
        LIN + SE: 0.81 * 0.75,
    }.items():
        _, new, stays = next_kernel(learned, parent, 1.0)
        assert stays / new == pytest.approx(same / 5)


def test_a_parent_with_members_in_some_draws():
    # E[alpha / (alpha + N)] over both draws: 2 / (2 + 4) in the first, one in the second.
    known, new, _ = next_kernel(LEARNED, LIN, 0.5, first=True)
    assert new * 4 / 5 == pytest.approx((2 / 6 + 1) / 2)
    children = {c.composition: known * c.probability for c in LEARNED.children(LIN)}
    assert children[SE] == pytest.approx(0.5 * 3 / 6)
    assert children[LIN] == pytest.approx(0.5 * 1 / 6)


def test_the_weight_of_final_kernels_counts_where_it_is_larger():
    """Final kernels are four of five: alpha / (alpha + N) is 1 / 5 with the default alpha."""
    plain, raised = (next_kernel(LEARNED, WHITE, weight, first=True) for weight in (0.0, 0.5))
    assert plain.new * 4 / 5 == pytest.approx(2 / 7)
    assert raised.new * 4 / 5 == pytest.approx(0.5)
    assert raised.seen == pytest.approx(0.5 / (5 / 7))


def test_a_weight_holds_from_its_number_of_points_on():
    novelty = Novelty((2, 5, 9), (1.0, 0.3, 0.0))
    assert [novelty.at(n) for n in (1, 2, 4, 5, 8, 9, 100)] == [1, 1, 1, 0.3, 0.3, 0, 0]


@pytest.mark.parametrize("other", [0.0, 1.0])
def test_the_usual_weight_unless_another_is_better(other):
    """Closed form: the mean of four differences is .1, their standard error .05."""
    gains = 0.1 + 0.1 * np.array([-1, -1, 1, 1]) * np.sqrt(3) / 2
    users = np.array([3.0, -2.0, 0.0, 7.0])  # in whose predictability users differ more
    weights = np.array([other, 0.8])
    assert chosen_weight(np.array([users + gains, users]).T, weights) == other
    assert chosen_weight(np.array([users + gains - 0.06, users]).T, weights) == 0.8
    assert chosen_weight(np.array([users, users + gains]).T, weights) == 0.8
    assert chosen_weight(np.array([users + 1e-13, users]).T, weights) == 0.8  # rounding
    three = np.array([users, users + gains, users + gains + [-0.1, 0.1, -0.1, 0.08]]).T
    assert chosen_weight(three, np.array([0.8, 0.3, 0.5])) == 0.5  # the nearest of the good ones


def test_power_of_the_choice():
    """With 10 pilot users, a gain of one sd of the gains is missed in 2 % of studies.

    One that isn't there is taken in 1 of 6, where another weight costs nothing on average. The
    standard error of either mean, in place of that of the difference, would miss nearly all gains.
    """
    rng = np.random.default_rng(0)
    users, noise = 3 * rng.normal(size=(2000, 10, 1)), 0.1 * rng.normal(size=(2000, 10))
    chosen = {}
    for gain in (0.0, 0.1):
        scores = users + np.stack([noise + gain, np.zeros_like(noise)], axis=2)
        weights = [chosen_weight(study, np.array([0.0, 0.8])) for study in scores]
        chosen[gain] = np.mean(np.array(weights) == 0)
    assert chosen[0.1] > 0.97
    assert chosen[0.0] == pytest.approx(1 / 6, abs=0.03)


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


@pytest.mark.parametrize("weight", [0.0, 0.8, 1.0])
def test_every_composition_is_one_option(weight):
    """Their probabilities add up; values are those that users ended up with, where any did."""
    selector = KEMSelector(replace(LEARNED, novelty=Novelty((1, 3, 4), (0.0, weight, 0.0))))
    selection = selector.select([0.1, 0.4, 0.9], [1.0, -1.0, 0.5], previous="LIN0")
    options = {row.composition: row for row in selection.considered}
    assert len(options) == len(selection.considered)
    assert sum(row.probability for row in options.values()) == pytest.approx(1)
    assert options[LIN].status == "current"
    assert options[SE].status == "child"
    known, new, stays = next_kernel(LEARNED, LIN, weight)
    share = {c.composition: c.probability for c in LEARNED.children(LIN)}
    end = {c.composition: c.probability for c in FINAL.children(WHITE)}
    assert options[SE].probability == pytest.approx(known * share[SE] + new * end[SE])
    assert options[LIN].probability == pytest.approx(known * share[LIN] + new * end[LIN] + stays)
    summaries = {p.composition: p.summary for p in selector._proposals(LEARNED, LIN, "LIN0", 3)}
    lasting = selector.select([0.1, 0.4, 0.9], [1.0, -1.0, 0.5], previous="LIN0 + SE0")
    kept = [row.composition for row in lasting.considered if row.status == "current"]
    assert kept == [LIN + SE]  # which no pilot user ever had
    for composition in (LIN, SE):
        final = next(c for c in FINAL.children(WHITE) if c.composition == composition)
        assert summaries[composition].centre.tolist() == final.centre.tolist()
