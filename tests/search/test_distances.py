import math

import numpy as np
import pytest

from kem_pymc._system.jit.simd import LANES
from kem_pymc.search.distances import NOISE, Distances, expected_distance, log_determinants
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors

GRAMMAR = Grammar(2)
X = np.random.default_rng(3).uniform(size=(60, 2))


def distances(draws=104, seed=0, table=None):
    return Distances(X, Hyperpriors(table or {}), np.random.default_rng(seed), draws)


def covariances(rng, count, n=6):
    roots = rng.normal(size=(count, n, n + 2))
    return roots @ roots.transpose(0, 2, 1) / n + 0.01 * np.eye(n)


def packed(matrices):
    rows, columns = np.triu_indices(matrices.shape[1])
    groups = matrices[:, rows, columns].reshape(-1, LANES, len(rows))
    return np.ascontiguousarray(groups.transpose(0, 2, 1))


class TestHellinger:
    def test_determinants(self):
        rng = np.random.default_rng(0)
        one, other = covariances(rng, 16), covariances(rng, 16)
        out = np.empty((2, LANES))
        for shift in (0, 1):
            log_determinants(packed(one), packed(other), shift, out)
            paired = np.roll(other, shift * LANES, axis=0)
            exact = np.linalg.slogdet((one + paired) / 2)[1]
            np.testing.assert_allclose(out.ravel(), exact, rtol=1e-12)

    def test_distance_by_numerical_integration(self):
        """In one dimension: 1 - the integral of the root of the product of two densities."""
        variances = np.linspace(0.5, 3.0, 16), np.linspace(2.0, 0.2, 16)
        at, step = np.linspace(-40, 40, 200_001, retstep=True)
        one, other = (
            np.exp(-0.5 * at**2 / v[:, None]) / np.sqrt(2 * math.pi * v[:, None]) for v in variances
        )
        exact = 1 - (np.sqrt(one * np.roll(other, LANES, axis=0)).sum(axis=1) * step).mean()
        packs = [packed(v[:, None, None]) for v in variances]
        logs = [np.log(v).reshape(-1, LANES) for v in variances]
        assert expected_distance(packs[0], logs[0], packs[1], logs[1]) == pytest.approx(exact)


class TestEmbeddings:
    def test_covariances_are_those_of_the_model(self):
        """With priors without spread, every draw is the model's covariance with noise."""
        table = {name: (mean, 1e-12) for name, (mean, _) in Hyperpriors().table.items()}
        found = distances(16, table=table)
        expression = GRAMMAR.parse("SE0 x PER1 + LIN0")
        x = found.x.T
        amplitude = 0.16
        per = np.exp(-2 * (np.sin(math.pi * (x[:, 1, None] - x[:, 1]) / 0.1) / 2.0) ** 2)
        se = np.exp(-0.5 * ((x[:, 0, None] - x[:, 0]) / 0.1) ** 2)
        exact = 1 + amplitude * (se * per + np.outer(x[:, 0], x[:, 0]))
        exact += NOISE * np.eye(len(x))
        own = found.embed(expression).covariances
        for group in own:
            np.testing.assert_allclose(group, packed(np.array([exact] * LANES))[0], rtol=1e-9)


class TestDistances:
    def test_are_symmetric_and_give_a_positive_definite_covariance(self):
        found = distances()
        texts = ("SE0", "RQ0", "LIN1", "PER0 x SE1", "SE0 + RQ0", "LIN0 + SE0", "RQ0 x RQ0")
        models = [found.embed(GRAMMAR.parse(text)) for text in texts]
        matrix = np.array([[found.between(a, b)[0] for b in models] for a in models])
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
        np.fill_diagonal(matrix, 0.0)
        for lengthscale in (0.3, 1.0, 5.0):
            assert np.linalg.eigvalsh(np.exp(-0.5 * matrix / lengthscale**2)).min() > 0

    @pytest.mark.parametrize("texts", [("SE0", "LIN0"), ("SE0", "SE0")])
    def test_against_independent_draws(self, texts):
        """Expected distances by plain Monte Carlo with NumPy, for a pair of models.

        Draws of two models that have factors in common are independent, too.
        """
        expressions = [GRAMMAR.parse(text) for text in texts]
        found = distances(1000)
        one, other = (found.embed(e) for e in expressions)
        rng = np.random.default_rng(1)
        draws = [_drawn(found.x, e, 4000, rng) for e in expressions]
        roots = [np.linalg.slogdet(k)[1] / 4 for k in draws]
        middle = np.linalg.slogdet((draws[0] + draws[1]) / 2)[1] / 2
        values = 1 - np.exp(roots[0] + roots[1] - middle)
        error = values.std() / math.sqrt(len(values)) + values.std() / math.sqrt(1000)
        assert found.between(one, other)[0] == pytest.approx(values.mean(), abs=4 * error)

    @pytest.mark.parametrize(
        ("one", "other", "squared"),
        [
            ("SE0", "SE0 + LIN1", 1.0),
            ("SE0", "SE0 x LIN1", 1.0),
            ("SE0", "SE1", 2.0),
            ("SE0 + SE0", "SE0", (math.sqrt(2) - 1) ** 2),
            ("LIN0 x LIN0", "LIN0", 0.0),
        ],
    )
    def test_structural(self, one, other, squared):
        found = distances(16)
        models = [found.embed(GRAMMAR.parse(text)) for text in (one, other)]
        assert found.between(*models)[1] == pytest.approx(squared)

    def test_few_inputs_and_repeated_ones(self):
        x = np.repeat([[0.0], [0.4], [1.0]], 5, axis=0)
        found = Distances(x, Hyperpriors(), np.random.default_rng(0))
        assert found.x.shape == (1, 3)
        se, lin = (found.embed(Grammar().parse(t)) for t in ("SE0", "LIN0"))
        assert 0 < found.between(se, lin)[0] < 1


def _drawn(x, expression, count, rng):
    """Covariances (count, n, n) of one base kernel on dimension 0, written out with NumPy."""
    table = Hyperpriors().table

    def normal(name):
        return table[name][0] + table[name][1] * rng.standard_normal((count, 1, 1))

    at = x[0]
    if str(expression) == "SE0":
        k = np.exp(-0.5 * ((at[:, None] - at) / np.exp(normal("lengthscale"))) ** 2)
    else:
        shift = normal("shift")
        k = (at[:, None] - shift) * (at - shift)
    return 1 + np.exp(normal("amplitude")) * k + NOISE * np.eye(len(at))
