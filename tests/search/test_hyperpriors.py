import math

import numpy as np
import pytest

from kem_pymc.kernels.composition import Hyperparameter
from kem_pymc.search.evaluation import coordinates_of
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from tests.refusals import refused


def test_priors_draw_what_they_say():
    coordinates = coordinates_of(Grammar(2).parse("PER0 x SE1"), 2)
    hyperpriors = Hyperpriors({"SE.lengthscale": (1.5, 0.25)})
    means, sds = hyperpriors.of(coordinates)
    rows = dict(zip(coordinates.names, zip(means, sds, strict=True), strict=True))
    assert rows["log PER0 x SE1.SE1.lengthscale"] == (1.5, 0.25)
    assert rows["log PER0 x SE1.PER0.lengthscale"] == pytest.approx((math.log(2), math.sqrt(0.5)))
    assert rows["log PER0 x SE1.amplitude"] == pytest.approx((2 * math.log(0.4), 2.0))
    assert rows["log noise"] == pytest.approx((2 * math.log(0.01), 2 * math.sqrt(0.1)))
    draws = hyperpriors.draw(coordinates, 4000, np.random.default_rng(2))
    np.testing.assert_allclose(draws.mean(axis=0), means, atol=0.12)
    np.testing.assert_allclose(draws.std(axis=0), sds, rtol=0.05)


def test_refusals():
    refused(lambda: Hyperpriors(noise=[(math.nan, 1.0)]), "noise", "nan")
    refused(lambda: Hyperpriors(noise=[(0.0, 0.0)]), "noise", "0.0")
    refused(lambda: Hyperpriors(noise=[]), "noise", "at least one")
    refused(lambda: Hyperpriors({"perio": (0.0, 1.0)}), "'perio'", "period")
    refused(lambda: Hyperpriors({"PERIOD.lengthscale": (0.0, 1.0)}), "'PERIOD.lengthscale'")
    refused(lambda: Hyperpriors.with_noise(0.0), "sd of 0.0")


def test_kinds_without_a_prior():
    unknown = Hyperparameter("TILT0.tilt", "tilt", "SE")
    refused(lambda: Hyperpriors().row(unknown), "tilt")
