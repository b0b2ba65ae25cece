import math

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from kem_pymc.gp.fit import aic, bic, fit
from kem_pymc.gp.laplace import curvature_at, log_volume
from kem_pymc.kernels.composition import Composition
from kem_pymc.search import evaluation
from kem_pymc.search.evaluation import (
    Evaluator,
    best,
    coordinates_of,
    inherited,
    most_similar,
)
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled
from tests.search.conftest import series

GRAMMAR = Grammar()


@pytest.fixture(scope="module")
def evaluator():
    x, y, _ = scaled(*series(25))
    return Evaluator(x, y, Hyperpriors())


def hessian(objective, values):
    return curvature_at(objective, values, central=True)[2]


class TestLaplace:
    @pytest.mark.parametrize("sd", [0.005, 0.3])
    def test_evidence_of_a_constant_is_a_mean_over_the_mixture_of_the_noise(self, sd):
        """By quadrature of normal densities, with y'y and the mean as sufficient statistics.

        The constant has variance 1 and the log noise a mixture as prior; y isn't standardised.
        """
        y = 0.4 + sd * np.random.default_rng(0).normal(size=30)
        found = Evaluator(np.linspace(0, 1, 30)[:, None], y, Hyperpriors()).evaluate(Composition())
        grid = np.linspace(-14, 6, 20001)
        noise, n = np.exp(grid), len(y)
        prior = 0.5 * stats.norm.pdf(grid, 2 * math.log(0.01), 2 * math.sqrt(0.1))
        prior += 0.5 * stats.norm.pdf(grid, 2 * math.log(0.5), 2.0)
        logs = -0.5 * (n * y.var() / noise + n * y.mean() ** 2 / (noise + n))
        logs -= 0.5 * ((n - 1) * grid + np.log(noise + n) + n * math.log(2 * math.pi))
        exact = logs.max() + math.log(np.trapezoid(np.exp(logs - logs.max()) * prior, grid))
        assert found.score == pytest.approx(exact, abs=0.05)

    def test_modes_apart_add_up_and_the_best_of_all_periods_is_among_them(self):
        """Fits from a fine grid of periods, each with the score of its own optimum."""
        rng = np.random.default_rng(1)
        t = np.arange(60.0)
        x, y, _ = scaled(t, np.sin(2 * np.pi * t / 7.3) + 0.3 * rng.normal(size=60))
        evaluator, expression = Evaluator(x, y, Hyperpriors()), GRAMMAR.parse("PER0")
        found = evaluator.evaluate(expression)
        highest = -math.inf
        for part in (0, 1):
            objective = evaluator.objective(expression, part)
            start = evaluator.hyperpriors.of(objective.coordinates, part)[0]
            place = list(objective.coordinates.names).index("log PER0.period")
            for period in np.geomspace(0.04, 1, 60):
                start[place] = math.log(period)
                ended = fit(objective, [start])
                score = ended.height + log_volume(hessian(objective, ended.values)) - math.log(2)
                highest = max(highest, score)
        assert found.modes[0].score == pytest.approx(highest, abs=0.01)
        assert found.score == pytest.approx(
            math.log(sum(math.exp(mode.score) for mode in found.modes))
        )
        for i, mode in enumerate(found.modes):
            curvature = hessian(evaluator.objective(expression, mode.part), mode.fit.values)
            for other in found.modes[:i]:
                away = other.fit.values - mode.fit.values
                assert other.part != mode.part or away @ curvature @ away > 4

    def test_evidence_against_brute_force(self):
        """Importance sampling from the approximation itself, with heavy tails."""
        x, y, _ = scaled(*series(40))
        evaluator = Evaluator(x, y, Hyperpriors.with_noise(0.05))
        expression = GRAMMAR.parse("LIN0")
        found = evaluator.evaluate(expression)
        objective = evaluator.objective(expression)
        covariance = np.linalg.inv(hessian(objective, found.values))
        proposal = stats.multivariate_t(found.values, covariance, df=8, seed=1)
        draws = proposal.rvs(4000)
        logs = np.array([sum(objective.terms(draw)) for draw in draws]) - proposal.logpdf(draws)
        exact = logs.max() + math.log(np.exp(logs - logs.max()).mean())
        assert found.score == pytest.approx(exact, abs=0.15)

    def test_saddle_points_have_none(self, evaluator):
        expression = GRAMMAR.parse("SE0")
        objective = evaluator.objective(expression)
        values = evaluator.hyperpriors.of(objective.coordinates)[0].copy()
        values[list(objective.coordinates.names).index("log SE0.amplitude")] = -8.0
        assert (np.linalg.eigvalsh(hessian(objective, values)) < 0).any()
        assert log_volume(hessian(objective, values)) == -math.inf


class TestEvaluations:
    def test_criteria(self, evaluator):
        expression = GRAMMAR.parse("SE0 + LIN0")
        x, y = evaluator.x, evaluator.y
        own = {
            name: Evaluator(x, y, Hyperpriors(), name).evaluate(expression)
            for name in ("bic", "aic")
        }
        # Two amplitudes, a lengthscale, a shift and the noise.
        likelihood = own["bic"].log_likelihood
        assert own["bic"].score == bic(likelihood, 5, len(y)).score
        assert own["aic"].score == aic(likelihood, 5).score

    def test_dont_depend_on_what_came_before(self, evaluator):
        expression = GRAMMAR.parse("PER0")
        one = evaluator.evaluate(expression)
        evaluator.evaluate(GRAMMAR.parse("SE0"))
        again = evaluator.evaluate(expression)
        assert (one.score, one.gradients) == (again.score, again.gradients)
        np.testing.assert_array_equal(one.values, again.values)

    def test_a_starting_point_at_the_optimum_is_kept(self, evaluator):
        simple = evaluator.evaluate(GRAMMAR.parse("PER0"))
        richer = evaluator.evaluate(GRAMMAR.parse("PER0 + SE0"), [simple])
        assert richer.log_likelihood + 1 > simple.log_likelihood

    def test_repeated_inputs(self):
        x, y = series(20)
        scaled_x, scaled_y, _ = scaled(np.repeat(x, 2), np.repeat(y, 2) + np.tile([0.3, -0.3], 20))
        found = Evaluator(scaled_x, scaled_y, Hyperpriors()).evaluate(GRAMMAR.parse("RQ0 + PER0"))
        assert math.isfinite(found.score)


def test_a_poor_optimum_is_left(monkeypatch):
    """Products are drawn anew, one at a time: few draws suffice for a model of three products."""
    x, y, _ = scaled(*series(40))
    y = y + 0.3 * np.sin(40 * x[:, 0])
    expression = GRAMMAR.parse("PER0 + SE0 + LIN0")
    monkeypatch.setattr(evaluation, "DRAWS", 2)
    evaluator = Evaluator(x, y, Hyperpriors(), starts=1)
    evaluator.periods = [np.array([])]  # without hints
    scores = []
    for rounds in (evaluation.ROUNDS, 0):
        monkeypatch.setattr(evaluation, "ROUNDS", rounds)
        scores.append(evaluator.evaluate(expression).score)
    assert scores[0] > scores[1] + 5


class TestInheritedValues:
    def test_of_common_products_and_factors(self, evaluator):
        simple = evaluator.evaluate(GRAMMAR.parse("PER0 + SE0"))
        coordinates = coordinates_of(GRAMMAR.parse("LIN0 x PER0 + SE0 + SE0"), 1)
        rng = np.random.default_rng(0)
        drawn = evaluator.hyperpriors.draw(coordinates, 2, rng)
        points = inherited(coordinates, drawn, simple.expression, simple.modes[0].fit)
        theirs, noise = coordinates_of(simple.expression, 1).named(simple.values)
        for point, before in zip(points, drawn, strict=True):
            ours, own_noise = coordinates.named(point)
            fresh, _ = coordinates.named(before)
            assert own_noise == pytest.approx(noise)
            assert ours["LIN0 x PER0.amplitude"] == pytest.approx(theirs["PER0.amplitude"])
            assert ours["LIN0 x PER0.PER0.period"] == pytest.approx(theirs["PER0.period"])
            assert ours["SE0.lengthscale"] == pytest.approx(theirs["SE0.lengthscale"])
            # A second SE with the values of the first would be at a saddle.
            assert ours["SE0 #2.lengthscale"] == pytest.approx(fresh["SE0 #2.lengthscale"])
            assert ours["LIN0 x PER0.LIN0.shift"] == pytest.approx(fresh["LIN0 x PER0.LIN0.shift"])

    def test_of_the_most_similar_model(self, evaluator):
        models = [evaluator.evaluate(GRAMMAR.parse(t)) for t in ("LIN0", "PER0", "PER0 + SE0")]
        assert most_similar(GRAMMAR.parse("PER0 + SE0 + RQ0"), models) == [models[2], models[1]]
        assert most_similar(GRAMMAR.parse("PER0 + SE0"), models, 1) == [models[2]]
        assert most_similar(GRAMMAR.parse("RQ0 + LIN0"), models) == [models[0]]
        assert most_similar(GRAMMAR.parse("RQ0"), models) == []
        assert best(models).score == max(model.score for model in models)


def test_model_is_that_of_pymc(evaluator):
    """Log likelihood and log prior at the optimum, written as a PyMC model."""
    found = evaluator.evaluate(GRAMMAR.parse("PER0 x SE0"))
    coordinates = coordinates_of(found.expression, 1)
    fitted, part, _ = found.modes[0]
    means, sds = evaluator.hyperpriors.of(coordinates, part)
    with pm.Model() as model:
        v = pm.Normal("v", means, sds)
        natural = {
            h.name: pt.exp(v[i]) if h.positive else v[i]
            for i, h in enumerate(coordinates.hyperparameters)
        }
        gp = pm.gp.Marginal(cov_func=coordinates.composition.to_pymc(natural, 1))
        gp.marginal_likelihood("y", evaluator.x, evaluator.y, sigma=pt.exp(v[-1] / 2), jitter=0.0)
    logp = model.compile_logp(mode="FAST_COMPILE")({"v": found.values})
    assert fitted.height == pytest.approx(float(logp), rel=1e-8)
