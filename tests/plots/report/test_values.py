from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.plots.report.values import ENOUGH, intervals
from kem_pymc.plots.style import spelled


def study(label, *natural, scaling=None, features=("week", "age"), counts=None):
    """Return evolutions of WHITE to one composition, a draw for each row of natural values."""
    child = Composition.parse(label)
    pool = CandidatePool([*child], len(features))
    positive = [*(h.positive for h in child.hyperparameters), True]
    counts = counts or [1] * len(natural)
    clusters = tuple(
        Cluster(
            draw,
            Composition(),
            child,
            count,
            tuple(np.where(positive, np.log(np.abs(row)), row).tolist()),
        )
        for draw, (row, count) in enumerate(zip(natural, counts, strict=True))
    )
    scaling = scaling or Scaling(np.array([10.0, 0.0]), np.array([30.0, 5.0]), 100.0, 4.0)
    return Evolutions(pool, scaling, features, "steps", clusters, len(natural))


def message(evolutions):
    """Return medians and units, of one draw that stands for enough of them."""
    (one,) = evolutions.clusters
    alike = [replace(one, draw=draw) for draw in range(ENOUGH)]
    return {
        (r.part, r.hyperparameter): (round(r.median, 9), r.unit)
        for r in intervals(evolutions, alike).itertuples()
    }


def test_values_are_in_the_studys_own_units():
    assert message(study("PER0", [9.0, 0.5, 0.25, 0.04])) == {
        ("PER(week)", "size (sd)"): (12.0, "steps"),  # sqrt(9) x 4
        ("PER(week)", "lengthscale"): (0.5, ""),  # of the distance on a circle: no unit
        ("PER(week)", "period"): (5.0, "week"),
        ("noise", "sd"): (0.8, "steps"),
    }
    assert message(study("LIN1", [0.25, -0.2, 1.0])) == {
        ("LIN(age)", "size (sd)"): (0.4, "steps per age"),  # .5 x 4 over 5 years
        ("LIN(age)", "shift"): (-1.0, "age"),
        ("noise", "sd"): (4.0, "steps"),
    }
    assert message(study("LIN0", [0.25, 0.2, 1.0]))["LIN(week)", "shift"] == (14.0, "week")
    level = message(study("CONST", [9.0, 0.04]))
    assert level["CONST", "size (sd)"] == (12.0, "steps")  # sqrt(9) x 4, whatever the features


def test_products_name_their_factors():
    table = message(study("LIN0 x PER1", [1.0, 0.1, 0.5, 0.4, 1.0]))
    product = spelled("LIN(week) x PER(age)")
    assert table[product, "PER(age) period"] == (2.0, "age")
    twice = study("PER1 x PER1", [1.0, 0.5, 0.2, 0.5, 0.4, 1.0])
    names = intervals(twice, twice.clusters)["hyperparameter"]
    assert names[1:5].tolist() == [
        f"PER(age) no. {n} {kind}" for n in (1, 2) for kind in ("lengthscale", "period")
    ]


def test_clusters_count_by_their_members():
    rows = [[1.0, value, 1.0] for value in (0.1, 0.2, 0.3)] + 9 * [[1.0, 0.3, 1.0]]
    few = study("SE0", *rows, counts=[6, 4, 1] + 9 * [0])
    many = study("SE0", *rows, counts=[1, 2, 30] + 9 * [0])
    table = intervals(few, few.clusters)
    assert table.loc["SE0.lengthscale", "median"] == pytest.approx(2.0)
    row = intervals(many, many.clusters).loc["SE0.lengthscale"]
    assert (row["low"], row["median"], row["high"]) == pytest.approx((4.0, 6.0, 6.0))


@pytest.mark.parametrize("draws", [9, 10])
def test_a_composition_in_few_draws_has_no_numbers(draws):
    few = study("SE0", *(draws * [[1.0, 0.2, 1.0]]))
    rows = intervals(few, few.clusters)
    assert rows["hyperparameter"].tolist() == ["size (sd)", "lengthscale", "sd"]
    assert (np.isfinite(rows[["low", "median", "high"]]) == (draws == 10)).all(axis=None)
