"""Final and Stratified consider what pilot users had, whatever the user had before."""

import pytest

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.ablations import FinalSelector, StratifiedSelector
from kem_pymc.selection.kem import KEMSelector
from tests.selection.pilots import pilot_cluster, user


def names(selection):
    return {str(c.composition) for c in selection.considered}


def below_white(learned, *children):
    """Evolutions of one process: counts of children in a single draw."""
    state = {name: getattr(learned, name) for name in learned.__dataclass_fields__}
    clusters = tuple(pilot_cluster(0, "WHITE", child, n, 0.5) for child, n in children)
    return Evolutions(**(state | {"clusters": clusters, "n_draws": 1}))


@pytest.fixture
def final(learned):
    return below_white(learned, ("LIN0 + PER0", 5), ("SE0", 4))


@pytest.mark.parametrize("previous", [None, "WHITE", "LIN0", "SE0"])
def test_final_considers_the_same_at_every_step(final, previous):
    selection = FinalSelector(final).select(*user(10), previous=previous)
    assert names(selection) == {"LIN0 + PER0", "SE0"}
    assert {c.status for c in selection.considered} == {"child"}
    assert selection.message == ""


def test_final_is_kem_at_the_first_step(final):
    x, y = user(12)
    ours, kem = FinalSelector(final).select(x, y), KEMSelector(final).select(x, y)
    assert ours.considered == kem.considered


def test_final_refuses_what_was_learned_over_time(learned):
    with pytest.raises(InputError, match="several time steps"):
        FinalSelector(learned)


@pytest.mark.parametrize(
    ("n", "expected"),
    [(3, "LIN0"), (5, "LIN0"), (7, "LIN0"), (8, "SE0"), (12, "SE0"), (40, "PER0")],
)
def test_stratified_goes_by_the_number_of_points(learned, n, expected):
    strata = [below_white(learned, (child, 9)) for child in ("LIN0", "SE0", "PER0")]
    selection = StratifiedSelector(strata, [5, 10, 15]).select(*user(n), previous="LIN0 x SE0")
    assert names(selection) == {expected}


def test_stratified_takes_the_options_of_kem(final):
    selector = StratifiedSelector([final], [5], "ml", "bic", max_candidates=1)
    selection = selector.select(*user(9))
    assert names(selection) == {"LIN0 + PER0"}
    assert selection.considered[0].criterion == selection.considered[0].bic
    assert "1 time step, fit='ml', criterion='bic'" in repr(selector)
    with pytest.raises(InputError, match="no fit"):
        StratifiedSelector([final], [5], "nonsense")


def test_one_number_of_points_for_each_time_step(final):
    for evolutions, points in (([final], [5, 10]), ([], [])):
        with pytest.raises(InputError, match="Numbers of points"):
            StratifiedSelector(evolutions, points)
