from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.kernels import base
from kem_pymc.kernels.changes import register_changes
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors import Priors, noise_by_size
from models.loaders import candidates


def test_the_most_specific_entry_wins(pool):
    table = prior_tables.synthetic().replace(
        {
            "LIN.shift": pm.Normal.dist(1, 1),
            "LIN0 x PER0.amplitude": pm.LogNormal.dist(3, 1),
            "LIN0 x PER0.LIN0.shift": pm.Normal.dist(2, 1),
        }
    )
    describe = dict(table.to_frame(pool).to_numpy())
    assert describe["LIN0.shift"] == "Normal(1, 1)"
    assert describe["LIN0 x PER0.LIN0.shift"] == "Normal(2, 1)"
    assert describe["LIN0 x PER0.amplitude"] == "LogNormal(3, 1)"
    assert describe["SE0.amplitude"] == "LogNormal(0, 2)"


def test_as_text_there_is_one_line_a_row():
    table = prior_tables.synthetic()
    lines = repr(table).splitlines()
    start = lines[0].index("prior")
    found = {line[:start].rstrip(): line[start:] for line in lines[1:]}
    assert found == dict(table.to_frame().to_numpy())


def test_a_level_has_the_amplitudes_prior_unless_it_has_its_own():
    pool = CandidatePool(["LIN0", "CONST", "LIN0 x PER0"])
    table = prior_tables.synthetic()
    assert list(map(table.entering, pool)) == [0.1, 0.1, 0.02]
    assert dict(table.to_frame(pool).to_numpy())["CONST.amplitude"] == "LogNormal(0, 2)"
    own = table.replace({"CONST.amplitude": pm.LogNormal.dist(-1, 1)}, enter={"CONST": 0.4})
    assert list(map(own.entering, pool)) == [0.1, 0.4, 0.02]
    described = dict(own.to_frame(pool).to_numpy())
    assert described["CONST.amplitude"] == "LogNormal(-1, 1)"
    assert described["LIN0.amplitude"] == "LogNormal(0, 2)"


def test_tables_round_trip_through_plain_data():
    """Fails where the parameters that are stored aren't those of the distribution's class."""
    table = prior_tables.paper().replace(
        {"PER.period": pm.Gamma.dist(2, 3)}, noise=noise_by_size((1, 0), (1, 2))
    )
    again = Priors.from_dict(table.to_dict())
    assert again.to_dict() == table.to_dict()
    for name, rv in table.hyperparameters.items():
        densities = (pm.logp(prior, 0.7).eval() for prior in (rv, again.hyperparameters[name]))
        assert next(densities) == pytest.approx(float(next(densities)), abs=1e-7)


def test_the_floor_of_fits_is_stored_and_shown():
    table = prior_tables.paper().replace(noise_floor=1e-3)
    data = table.to_dict()
    assert Priors.from_dict(data).noise_floor == table.without_parent().noise_floor == 1e-3
    del data["noise_floor"]
    assert Priors.from_dict(data).noise_floor == prior_tables.synthetic().noise_floor == 0.01
    assert dict(table.to_frame().to_numpy())["smallest noise of a fit"] == "0.001"


DIST = pm.LogNormal.dist(0, 1)


def test_every_entry_that_is_used_can_be_replaced(monkeypatch):
    """Of all built-in kernels, products of them, powers, copies, and a change point."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    register_changes()
    single = (f"{one.name}0" for one in base.base_kernels() if not one.tied)
    several = ("LIN0 x PER1", "PER0 x PER0", "SE0 #2", "AFTER0@1 x PER0", "BEFORE0@1 x LIN0")
    pool = CandidatePool(["CONST", *single, *several], 2)
    table = prior_tables.paper()
    for own in pool.hyperparameters:
        assert table.replace({own.name: DIST}).of(own) is DIST
        names = own.kind, f"{own.base}.{own.kind}", f"{own.name.split('.')[0]}.{own.kind}"
        for name in names if own.base else names[::2]:
            only = replace(table, hyperparameters={}).replace({name: DIST})
            assert only.of(own) is DIST
    assert table.replace(enter={str(c): 0.3 for c in pool}).entering(next(iter(pool))) == 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengthscale": 3.0}, "not a scalar PyMC distribution"),
        ({"lengthscale": pm.Normal.dist(shape=2)}, "not a scalar PyMC distribution"),
        ({"noise": pm.LogNormal.dist(0, 1)}, r"noise is .*Give a function"),
        ({"stay": 1.0}, "between 0 and 1"),
        ({"noise_floor": 0.0}, "Give a positive number"),
        ({"noise_floor": np.inf}, "Give a positive number"),
        ({"noise_floor": "low"}, r"noise_floor is 'low'\. Give a number"),
        ({"enter": {"interaction": -0.1}}, "between 0 and 1"),
        ({"SE0.lengthscal": DIST}, r"called 'SE0.lengthscal'.* mean 'SE0.lengthscale'\?"),
        ({"noize": DIST}, r"mean 'noise'\?"),
        ({"SE0.period": DIST}, "after a base kernel or candidate that has it"),
        ({"SEE.lengthscale": DIST}, "called 'SEE.lengthscale'"),
        ({"SE.amplitude": DIST}, "called 'SE.amplitude'"),
        ({"SE0 x LIN0.amplitude": DIST}, "called 'SE0 x LIN0.amplitude'"),
        ({".lengthscale": DIST}, "called '.lengthscale'"),
        ({"enter": ["SE0"]}, "mappings by name"),
        (["SE0"], "Give a mapping"),
        ({"enter": {"LINO": 0.1}}, "called 'LINO'.* such as SE0"),
        ({"enter": {"SE0 x LIN0": 0.1}}, "Give LIN0 x SE0"),
    ],
)
def test_bad_entries(change, message):
    with pytest.raises(InputError, match=message):
        prior_tables.synthetic().replace(change)


def test_a_missing_entry(pool):
    table = prior_tables.synthetic()
    without = {k: v for k, v in table.hyperparameters.items() if k != "shift"}
    with pytest.raises(InputError, match=r"no prior for LIN0\.shift"):
        Priors(without, table.noise, table.noise_without_parent).compile(pool)


def test_as_many_candidates_enter_however_many_there_are():
    table = prior_tables.paper()
    for name, dimension, additions in (("synthetic", 1, 0.4), ("heartsteps", 23, 5.98)):
        pool = CandidatePool(candidates(name), dimension)
        assert sum(map(table.entering, pool)) == pytest.approx(additions)
        few = table.expecting(0.4, pool)
        assert sum(map(few.entering, pool)) == pytest.approx(0.4)
        single, product = few.enter["base kernel"], few.enter["interaction"]
        assert single / product == pytest.approx(5)
        assert few.stay == table.stay


def test_more_candidates_than_there_are_cannot_enter():
    with pytest.raises(InputError, match=r"base kernel is .* Give a number between 0 and 1"):
        prior_tables.synthetic().expecting(7, CandidatePool(candidates("synthetic")))


def test_a_kind_of_a_kernel_of_ones_own(monkeypatch):
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    kinds = ("location", "width")
    base.register_kernel(base.BaseKernel("GATE", kinds, lambda x, z, *_: x * z, ("location",)))
    pool = CandidatePool(["GATE0"])
    assert [h.positive for h in pool.hyperparameters] == [True, False, True]
    assert pool.layout.positive.tolist() == [True, False, True]
    table = prior_tables.synthetic().replace(location=pm.Normal.dist(3.0, 2.0))
    with pytest.raises(InputError, match=r"no prior for GATE0\.width. Add an entry for 'width'"):
        table.compile(pool)
    described = dict(table.replace({"GATE.width": pm.Gamma.dist(2, 3)}).to_frame(pool).to_numpy())
    assert described["GATE0.location"] == "Normal(3, 2)"
    assert described["GATE0.width"].startswith("Gamma(2")


def test_draws_of_a_composition_follow_the_table(pool):
    table = prior_tables.synthetic().replace({"LIN0 x PER0.PER0.period": pm.Gamma.dist(3, 2)})
    drawn = table.draw("LIN0 x PER0 + SE0", pool, 4000, parent="SE0", rng=1)
    expected = {
        "LIN0 x PER0.amplitude": stats.lognorm(2),
        "LIN0 x PER0.LIN0.shift": stats.norm(0, 0.1),
        "LIN0 x PER0.PER0.lengthscale": stats.lognorm(2),
        "LIN0 x PER0.PER0.period": stats.gamma(3, scale=0.5),
        "SE0.amplitude": stats.lognorm(2),
        "SE0.lengthscale": stats.lognorm(2),
        "noise": stats.lognorm(1, scale=np.e),  # below a parent of size 1
    }
    assert drawn.keys() == expected.keys()
    for name, distribution in expected.items():
        assert stats.kstest(drawn[name], distribution.cdf).pvalue > 1e-3
    between = np.corrcoef(drawn["SE0.amplitude"], drawn["LIN0 x PER0.amplitude"])[0, 1]
    assert abs(between) < 0.2  # no two share a draw
    again = table.draw("LIN0 x PER0 + SE0", pool, 4000, parent="SE0", rng=1)
    np.testing.assert_array_equal(drawn["noise"], again["noise"])


def test_draws_of_a_composition_from_elsewhere(pool):
    with pytest.raises(InputError, match="pool"):
        prior_tables.synthetic().draw("PER0 x PER0", pool)
