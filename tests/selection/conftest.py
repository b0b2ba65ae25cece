"""Evolutions made by hand: WHITE -> LIN0 or SE0; LIN0 -> LIN0 + PER0; SE0 -> SE0."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.kem import KEMSelector
from tests.selection.pilots import POOL, pilot_cluster, user


@pytest.fixture(scope="session")
def learned():
    """Evolutions of two posterior draws; alpha is 1."""
    clusters = [
        cluster
        for draw, stretch in enumerate((0.8, 1.25))
        for cluster in (
            pilot_cluster(draw, "WHITE", "LIN0", 6, 2.0, stretch),
            pilot_cluster(draw, "WHITE", "SE0", 3, 1.0, stretch),
            pilot_cluster(draw, "LIN0", "LIN0 + PER0", 3, 0.5, stretch),
            pilot_cluster(draw, "SE0", "SE0", 4, 0.5, stretch),
        )
    ]
    return Evolutions(
        pool=POOL,
        scaling=Scaling.identity(1),
        features=("week",),
        target="steps",
        clusters=tuple(clusters),
        n_draws=2,
    )


@pytest.fixture(scope="session")
def in_other_units():
    """The same evolutions for users whose inputs are days and whose targets have an offset."""

    def convert(learned):
        state = {name: getattr(learned, name) for name in learned.__dataclass_fields__}
        scaling = Scaling(np.array([0.0]), np.array([7.0]), 100.0, 50.0)
        return Evolutions(**(state | {"scaling": scaling}))

    return convert


@pytest.fixture
def selection(learned, in_other_units):
    """A selection with fitted values only."""
    x, y = user(25)
    whole = KEMSelector(in_other_units(learned)).select(7 * x, 100 + 50 * y, previous="LIN0")
    return replace(whole, considered=tuple(replace(c, draws=()) for c in whole.considered))
