"""Settings, priors and versions of a study, as text."""

import re

import numpy as np

from kem_pymc import priors
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.plots.report import study
from kem_pymc.plots.report.gather import Material
from kem_pymc.population.shared_part import learn_shared
from tests.evolutions.by_hand import evolutions
from tests.tiny_study import make_cohort


def found(written=None, **fields):
    """Return the rows of a study, with what `kem fit` wrote down of it."""
    return dict(study.settings(Material("t", evolutions(**fields), settings=written or {})))


def test_settings_are_those_of_the_evolutions():
    rows = found()
    assert (rows["Target"], rows["Features"]) == ("steps", "week")
    assert rows["Evolutions computed from"] == "2 draws"
    assert rows["Posterior"].startswith("cut: ")
    assert rows["Concentration"] == "2, fixed"
    assert rows["Likelihood power"].startswith("0.3")
    assert not {"Data", "Seed", "Interrupted", "Failed chains"} & set(rows)
    assert found(settings={"feedback": "joint"})["Posterior"].startswith("joint: ")


def test_the_target_and_what_users_share_are_said():
    """Fails where the modelled quantity is log(steps) in one row and steps in another."""
    scaling = Scaling(np.array([0.0]), np.array([7.0]), 0.0, 1.0, Transform("log"))
    rows = found({"data": "Cohort(3 users: week -> steps)"}, scaling=scaling)
    assert (rows["Target"], rows["Data"]) == ("log(steps)", "3 users: week -> log(steps)")
    assert rows["Shared function"].startswith("Users share nothing")
    part = learn_shared(make_cohort(), ["x"])
    assert found(shared=part.process)["Shared function"] == str(part)


def test_what_was_learned_has_median_and_interval():
    """By hand, of 101 draws. Fails where the interval isn't of 90 %."""
    draws = tuple(np.random.default_rng(0).permutation(101) / 10)
    rows = found(
        n_draws=101, concentration=tuple(d + 1 for d in draws), population={"spread": draws}
    )
    assert rows["Concentration"] == "learned: median 6.00, 90 % interval 1.50 to 10.50"
    words = "learned: median 5.00, 90 % interval 0.50 to 9.50"
    assert rows["Population parameter spread"] == words


def test_what_the_command_wrote_is_listed():
    assert "was interrupted" in found({"interrupted": True})["Interrupted"]
    assert found({"failed_chains": [1]})["Failed chains"] == "[1]"
    row = found({"data": "Cohort(3 users)", "sampler": {"random_seed": 0}, "command": "kem fit"})
    assert (row["Data"], row["Seed"], row["Command"]) == ("3 users", "0", "kem fit")


def test_candidates_priors_and_versions():
    material = Material("t", evolutions(priors=priors.paper().to_dict()))
    text = "".join(study.tables(material))
    for cells in ((r"SE\(week\)", "a smooth curve in week"), ("kem_pymc", "0.1.0")):
        assert re.search("{}</td>\\s*<td[^>]*>{}<".format(*cells), text)
    assert dict(study.priors(material))["shift"] == "Normal(0, 0.1)"
    given = Material("t", evolutions(), settings={"priors": {"shift": "mine"}})
    assert study.priors(given) == [("shift", "mine")]
    assert study.priors(Material("t", evolutions(priors={"stay": 0.9}))) == []
