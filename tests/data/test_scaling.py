import json
from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from tests.cohorts import cohort, numbered
from tests.refusals import refused


class TestScaling:
    def test_unit_counts_each_point_once(self):
        one = cohort(truth="in the users' units")
        scaling = Scaling.unit(one)
        scaled = scaling.apply(one)
        x, y = np.concatenate(scaled.inputs), np.concatenate(scaled.targets)
        np.testing.assert_array_equal(x.min(axis=0), [0, 0])
        np.testing.assert_array_equal(x.max(axis=0), [1, 1])
        assert scaling.target_mean == pytest.approx(32 / 6)
        assert scaling.target_sd == pytest.approx(np.sqrt(272 / 6 - (32 / 6) ** 2))
        assert y.mean() == pytest.approx(0, abs=1e-15)
        assert y.std() == pytest.approx(1)
        np.testing.assert_allclose(scaled.inputs[1], [[0.2, 5 / 6], [0.6, 0.5], [0.8, 1 / 3]])
        assert scaled.truth is None
        # And back.
        y = np.array([1.0, 7.0])
        np.testing.assert_allclose(scaling.mean_back(scaling.targets(y)), y)
        assert scaling.sd_back(2.0) == 2 * scaling.target_sd
        assert scaling.variance_back(4.0) == pytest.approx(scaling.sd_back(2.0) ** 2)

    def test_rare_events_keep_the_spread_of_their_log_odds(self):
        """A tenth of targets; moments of pseudo-observations have no variance left (sd .5)."""
        rng = np.random.default_rng(0)
        log_odds = np.repeat(rng.normal(-4, 2.5, size=(150, 1)), 10, axis=1)
        targets = tuple(rng.binomial(1, 1 / (1 + np.exp(-log_odds))).astype(float))
        pilots = Cohort(
            users=tuple(range(150)),
            inputs=(np.arange(10.0)[:, None],) * 150,
            targets=targets,
            ends=(np.array([10]),) * 150,
            features=("x",),
            family=Family.learn("binary", targets),
        )
        scaling = Scaling.unit(pilots)
        assert scaling.target_mean == pytest.approx(-4, abs=0.6)
        assert scaling.target_sd == pytest.approx(2.5, rel=0.25)

    def test_json_round_trip_is_exact(self):
        rng = np.random.default_rng(0)
        low = rng.normal(size=5) / 3
        one = Scaling(low, low + rng.exponential(size=5), np.pi, 1 / 3)
        other = Scaling.from_dict(json.loads(json.dumps(one.to_dict())))
        np.testing.assert_array_equal(other.feature_low, one.feature_low)
        np.testing.assert_array_equal(other.feature_high, one.feature_high)
        assert (other.target_mean, other.target_sd) == (one.target_mean, one.target_sd)

    @pytest.mark.parametrize(
        "change",
        [
            *({"extra": 1}, {"feature_low": [1]}, {"feature_low": [[0], [0]]}),
            *({"feature_high": [1, np.inf]}, {"feature_low": [1, 1]}, {"target_mean": np.nan}),
            *({"target_sd": 0.0}, {"target_sd": -1.0}),
        ],
    )
    def test_from_dict_refuses(self, change):
        refused(lambda: Scaling.from_dict(Scaling.identity(2).to_dict() | change))

    def test_refuses_missing_entries_and_constants_in_the_pilot(self):
        refused(lambda: Scaling.from_dict({"target_sd": 1.0}), "target_mean")
        refused(lambda: Scaling.unit(numbered(3).subset([1])), "'x'", "constant")
        flat = replace(numbered(2), targets=(np.array([1e-200]), np.array([2e-200])))
        refused(lambda: Scaling.unit(flat), "'y'", "so small", "Rescale")
        equal = replace(flat, targets=(np.array([1e-20]), np.array([2e-20])))
        assert np.isfinite(
            np.concatenate(Scaling.unit(equal, "yeo-johnson").apply(equal).targets)
        ).all()
        big = replace(flat, targets=(np.array([1e12]), np.array([np.nextafter(1e12, 0)])))
        refused(lambda: Scaling.unit(big, "log"), "'y'", "constant")
        refused(lambda: Scaling.unit(big, np.array(["log", "sqrt"])), "transform is array")
        refused(lambda: Scaling.from_dict([1.0]), "is [1.0]. Give a mapping")
        refused(lambda: Scaling(["a"], [1.0], 0.0, 1.0), "aren't a regular array of real numbers")
        refused(lambda: Scaling.identity(2).inputs(np.zeros((4, 3))), "2 columns")


def test_hyperparameters_back_give_the_same_kernel_in_the_users_units():
    pool = CandidatePool(["LIN0 x LIN0", "LIN0 x PER1", "RQ1", "SE0"], 2)
    scaling = Scaling(np.array([10.0, -3.0]), np.array([14.0, 5.0]), 7.0, 3.0)
    rng = np.random.default_rng(0)
    values = {h.name: rng.uniform(0.2, 2.0) for h in pool.hyperparameters}
    x = rng.uniform(-3, 14, (5, 2))
    composition = Composition(pool.candidates)
    back = scaling.hyperparameters_back(values | {"noise": 0.5})
    assert back["noise"] == 4.5
    assert back["RQ1.mixture"] == values["RQ1.mixture"]
    assert back["SE0.lengthscale"] == pytest.approx(4 * values["SE0.lengthscale"])
    ours = composition.to_pymc(back, 2)(x).eval()
    scaled = composition.to_pymc(values, 2)(scaling.inputs(x)).eval()
    np.testing.assert_allclose(ours, 9 * scaled, rtol=1e-10)
    refused(lambda: Scaling.identity(1).hyperparameters_back({"SE0.period": 1.0}), "SE0.period")
