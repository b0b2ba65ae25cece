import numpy as np
import pytest
from scipy.optimize import minimize

from kem_pymc.kernels.composition import Composition
from kem_pymc.search.backtests import Backtest, backtest, origins, stacked
from kem_pymc.search.evaluation import Evaluator
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled
from tests.refusals import refused
from tests.search.conftest import evaluated, quiet, series

YEARS = 1990 + np.arange(48) / 8
RHYTHM = 0.3 * np.sin(2 * np.pi * YEARS) + 0.3 * (YEARS - 1990)
NOISE = np.random.default_rng(3).normal(0, 0.05, 48)


@pytest.fixture(scope="module")
def grown():
    """A search, with a horizon, on a rhythm that grows with its level."""
    return quiet(YEARS[:40], np.exp(RHYTHM + NOISE)[:40], budget=6, horizon=8)


class TestOrigins:
    def test_are_a_horizon_or_a_tenth_apart(self):
        assert origins(100, 12) == [88, 76, 64]
        assert origins(100, 2) == [98, 88, 78]
        assert origins(100, 25) == [75, 50]  # 40 % come before each
        assert origins(100, 60) == [40]

    @pytest.mark.parametrize(
        ("horizon", "words"),
        [
            (61, ("horizon is 61 of 100 points", "at most 60")),
            (0, ("horizon is 0",)),
            (2.5, ("horizon is 2.5",)),
        ],
    )
    def test_none_are_left(self, horizon, words):
        refused(lambda: origins(100, horizon), *words)
        refused(lambda: quiet(*series(100), horizon=horizon), *words[:1])

    def test_too_few_points(self):
        refused(lambda: origins(5, 1), "horizon is 1 of 5 points", "Give more points")


class TestWeights:
    @pytest.mark.parametrize("models", [2, 3])
    @pytest.mark.parametrize("horizon", [4, 20])
    def test_maximise_the_log_score_with_the_prior(self, models, horizon):
        """By another optimiser, of densities that are written down anew."""
        rng = np.random.default_rng(models)
        densities = rng.normal(-1, 0.5, size=(models, 3, horizon))
        densities[0, 0, 0] = -50.0  # counts as 4 nats below the best
        scores = np.array([10.0, 4.0, 0.0])[:models]
        tried = [
            Backtest(evaluated(f"{base}0", s), d)
            for base, s, d in zip(("SE", "RQ", "LIN"), scores, densities, strict=False)
        ]
        prior = np.exp(0.1 * scores) / np.exp(0.1 * scores).sum()
        bounded = np.maximum(densities, densities.max(axis=0) - 4)
        logs = min(horizon, 12) * bounded.mean(axis=2)

        def loss(free):
            weights = np.exp(np.append(free, 0.0))
            weights /= weights.sum()
            return -np.log(weights @ np.exp(logs)).sum() - prior @ np.log(weights)

        start = np.zeros(models - 1)
        free = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
        expected = np.exp(np.append(free.x, 0.0))
        expected /= expected.sum()
        found = {str(e): weight for e, weight in stacked(tried)}
        assert list(found.values()) == sorted(found.values(), reverse=True)
        for one, weight in zip(tried, expected, strict=True):
            assert found.get(one.evaluation.model, 0.0) == pytest.approx(weight, abs=1e-6)

    def test_selection_has_them(self, grown):
        weights = dict.fromkeys((str(e) for e, _ in stacked(grown.backtests)), 0.0)
        for row in grown.selection.considered:
            weights[str(row.composition).removeprefix("CONST + ").replace("CONST", "WHITE")] += (
                row.weight
            )
        assert list(weights.values()) == pytest.approx([w for _, w in stacked(grown.backtests)])
        assert f"{grown.selection.label()} has the largest" in grown._facts()["Weights"]


def test_forecasts_dont_see_what_comes_after_them():
    """Values after an origin change only how probable they are themselves."""
    x, y, scaling = scaled(*series(40))
    other = np.where(np.arange(40) < 36, y, y + 3)
    evaluation = Evaluator(x, y, Hyperpriors()).evaluate(Composition.parse("LIN0"))
    found, changed = (
        backtest(Evaluator(x, values, Hyperpriors()), evaluation, scaling, 4).log_densities
        for values in (y, other)
    )
    assert found.shape == (3, 4)
    np.testing.assert_array_equal(found[1:], changed[1:])
    assert (found[0] > changed[0]).all()


class TestSearch:
    def test_growth_is_predicted_on_the_scale_of_logs(self, grown):
        assert grown.scaling.transform.name == "log"
        assert grown._facts()["Scale"] == "log(target)"
        assert grown.found
        predicted = grown.selection.predict(YEARS[40:], include_noise=True)
        errors = np.log(predicted.mean) - RHYTHM[40:]
        assert np.sqrt(np.mean(errors**2)) < 0.15
        inside = np.abs(np.log(predicted.quantile(0.5)) - RHYTHM[40:]) < 0.4
        assert inside.all()

    def test_sums_are_not(self):
        result = quiet(YEARS[:40], 10 * (RHYTHM + NOISE)[:40] + 10, budget=6, horizon=8)
        assert result.scaling.transform is None

    def test_is_continued(self, tmp_path):
        """Files that were cut off are completed, byte for byte but for durations."""
        options = {"budget": 3, "horizon": 3}
        x, y = series(24)
        whole = quiet(x, y, out=tmp_path, **options)
        file = tmp_path / "backtests.jsonl"
        before = file.read_bytes()
        names = {path.name for path in tmp_path.glob("*.jsonl")}
        assert names == {*(f"evaluations-{i}.jsonl" for i in "123"), "walks.jsonl", file.name}
        file.write_bytes(before[: len(before) // 2])
        again = quiet(x, y, out=tmp_path, **options)
        assert file.read_bytes() == before
        new = x[-1] + np.arange(1, 4) / 8
        one, other = (result.selection.predict(new) for result in (whole, again))
        np.testing.assert_array_equal(one.mean, other.mean)
        refused(lambda: quiet(x, y, out=tmp_path, budget=3), "different horizon")

    def test_rows_may_come_in_any_order(self):
        x, y = series(24)
        rows = np.random.default_rng(1).permutation(24)
        found = quiet(x[rows], y[rows], budget=1, bases=("LIN",), horizon=3)
        np.testing.assert_allclose(found.scaling.targets_back(found.data[1]), y)
