import numpy as np
import pytest

from kem_pymc.search import evaluation
from tests.refusals import refused
from tests.search.conftest import paths, quiet, series

X, Y = series(30)

T = np.arange(96.0)

#: A step, a line and a season, with the sd of the noise.
SIGNALS = {
    "step": (2.0 * (T > 50), 0.5),
    "line": (T, 4.0),
    "season": (5 * np.sin(2 * np.pi * T / 12), 4.0),
}


class TestSearch:
    def test_finds_the_structure_of_a_series(self, found):
        bases = {factor.base for candidate in found.best for factor in candidate.factors}
        assert "PER" in bases
        x, _ = series()
        predicted = found.selection.predict(x[-1] + np.arange(1, 9) / 8, include_noise=True)
        clean = 100 + 10 * (x[-1] + np.arange(1, 9) / 8 - 1990)
        clean += 5 * np.sin(2 * np.pi * (x[-1] + np.arange(1, 9) / 8))
        assert np.sqrt(np.mean((predicted.mean - clean) ** 2)) < 3
        assert (np.abs(predicted.mean - clean) < 5 * predicted.sd).all()

    @pytest.mark.parametrize("method", ["cks", "boms", "random"])
    def test_same_seed_same_models(self, method):
        one, again, other = (
            quiet(X, Y, method, budget=5, draws=16, seed=seed) for seed in (1, 1, 2)
        )
        assert paths(one).equals(paths(again))
        assert len(one.evaluations) == 6  # with the constant
        if method != "boms":  # which begins with SE, and then has one score only
            assert not paths(one).equals(paths(other))

    def test_several_inputs(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(40, 2))
        y = np.sin(6 * x[:, 1]) + 0.1 * rng.normal(size=40)
        result = quiet(x, y, "boms", budget=8, draws=16)
        assert 1 in result.best.dimensions
        assert result.selection.predict(x).mean.shape == (40,)

    def test_initial_expressions_come_first(self):
        result = quiet(X, Y, budget=3, initial=["PER0 x LIN0", "LIN0 x PER0", "SE0"])
        assert [str(e.expression) for e in result.evaluations[:3]] == [
            "WHITE",
            "LIN0 x PER0",
            "SE0",
        ]

    def test_units_do_not_matter(self):
        one = quiet(X, Y, budget=3)
        other = quiet(365.25 * X, 1e-6 * Y - 7, budget=3)
        np.testing.assert_allclose(one.path["score"], other.path["score"], rtol=1e-4)
        # In the limit of huge scales and offsets, too.
        far = quiet(X, 1e9 + 1e3 * Y, budget=3)
        np.testing.assert_allclose(one.path["score"], far.path["score"], rtol=1e-3)


class TestRefusals:
    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ((X[:4], Y[:4]), ("points is 4", "at least 5")),
            ((X, np.full(30, 3.0)), ("All targets are 3.0",)),
            ((np.full(30, 3.0), Y), ("column 0 is constant",)),
            ((np.column_stack([X, 0 * X]), Y), ("column 1 is constant",)),
            ((X, Y[:-1]), ("(30, 1)", "(29,)")),
            ((X.reshape(5, 3, 2), Y), ("shape",)),
            ((X, np.where(X[3] == X, np.nan, Y)), ("targets",)),
            ((np.where(X[3] == X, np.inf, X), Y), ("inputs",)),
            ((X.astype(str), Y), ("inputs",)),
            ((X, 1e13 * Y), ("targets",)),
        ],
    )
    def test_data(self, data, words):
        refused(lambda: quiet(*data), *words)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"budget": 0}, ("budget is 0",)),
            ({"starts": 0}, ("starts is 0",)),
            ({"draws": 0}, ("draws is 0",)),
            ({"seed": -1}, ("seed is -1",)),
            ({"method": "gpss"}, ("'gpss'", "cks, boms, random")),
            ({"criterion": "waic"}, ("'waic'", "laplace, bic, aic")),
            ({"bases": ("SE", "SQ")}, ("'SQ'",)),
            ({"initial": ["SE3"]}, ("SE3",)),
        ],
    )
    def test_options(self, options, words):
        refused(lambda: quiet(X, Y, **options), *words)


def test_a_change_point_is_found():
    """A rhythm until 6, a level after it; without change points the evidence is much lower."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 10, 60)
    y = np.where(x < 6, np.sin(2 * np.pi * x), 3) + 0.05 * rng.normal(size=60)
    options = {"budget": 1, "bases": ("PER", "SE")}
    changing = "BEFORE0@1 x PER0 + AFTER0@1 x SE0"
    one = quiet(x, y, changes=True, initial=[changing], **options)
    other = quiet(x, y, initial=["PER0 + SE0"], **options)
    assert one.path["score"].max() > other.path["score"].max() + 20
    values = one.scaling.hyperparameters_back(one.selection.hyperparameters)
    assert values["CHANGE0@1.location"] == pytest.approx(6, abs=0.2)
    assert one.selection.predict([6.5, 8.0]).mean == pytest.approx([3, 3], abs=0.3)


class TestNoise:
    """Noise is called noise, and structure in it is found."""

    @pytest.mark.parametrize("seed", [0, 1])
    def test_nothing_is_found_where_nothing_is(self, seed):
        y = np.random.default_rng(seed).normal(0, 2, 60)
        result = quiet(np.arange(60.0), y, budget=8)
        assert not result.found
        assert "Nothing found" in result.verdict
        assert result.selection.noise_in_target_units**0.5 == pytest.approx(2, rel=0.25)

    @pytest.mark.parametrize("name", SIGNALS)
    def test_its_sd_is_found_beside(self, name):
        rng = np.random.default_rng(4)
        signal, sd = SIGNALS[name]
        result = quiet(T, signal + rng.normal(0, sd, len(T)), budget=12)
        assert result.found
        assert "times as probable as a constant plus noise" in result.verdict
        assert result.selection.noise_in_target_units**0.5 == pytest.approx(sd, rel=0.25)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["cks", "boms"])
    def test_nothing_is_found_in_19_of_20(self, method):
        found = []
        for seed in range(20):
            y = np.random.default_rng(seed).normal(0, 2, (60, 120)[seed % 2])
            found.append(quiet(np.arange(len(y)), y, method, budget=25, seed=seed).found)
        assert sum(found) <= 1


def test_many_points_are_compared_on_some_of_them(monkeypatch):
    """The model, its noise, and predictions are those of all points."""
    monkeypatch.setattr(evaluation, "MOST", 60)
    rng = np.random.default_rng(0)
    x = np.arange(300.0)
    result = quiet(x, np.sin(2 * np.pi * x / 40) + 0.2 * rng.normal(size=300), budget=4)
    assert "300, models are compared on 60 of them" in result._facts()["Points"]
    assert result.path["score_per_point"][0] == pytest.approx(result.constant / 60)
    assert result.selection.noise_in_target_units**0.5 == pytest.approx(0.2, rel=0.25)
    predicted = result.selection.predict(x)
    # With 60 points alone the sd of the function would be about sqrt(5) times as large.
    assert predicted.sd.mean() < 0.2 / np.sqrt(10)
