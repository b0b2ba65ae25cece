"""Predictions of one kernel, mixtures of them, and targets behind a transform."""

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Component, Prediction, averaged, back_transformed


def test_targets_must_match_the_predictions():
    prediction = Prediction(np.zeros(3), np.ones(3), {"SE0": Component(np.zeros(3), np.ones(3))})
    with pytest.raises(InputError, match=r"shape \(2,\) for 3 predictions\. Give one"):
        prediction.log_predictive_density(np.zeros(2))


def test_an_average_has_the_moments_of_the_mixture():
    # By a million draws: what a mixture of sds without the means' spread would miss is seen.
    rng = np.random.default_rng(0)
    one = Prediction(np.array([1.0]), np.array([0.5]), {"SE0": Component(*np.ones((2, 1)))}, 0.04)
    other = Prediction(np.array([-2.0]), np.array([1.0]), {}, 0.25)
    mixed = averaged([one, other], [0.3, 0.7])
    which = rng.random(10**6) < 0.3
    function = np.where(which, rng.normal(1, 0.5, 10**6), rng.normal(-2, 1, 10**6))
    assert mixed.mean[0] == pytest.approx(function.mean(), abs=0.006)
    assert mixed.sd[0] == pytest.approx(function.std(), abs=0.006)
    assert mixed.noise == pytest.approx(0.3 * 0.04 + 0.7 * 0.25)
    share = np.where(which, rng.normal(1, 1, 10**6), 0.0)
    assert mixed.components["SE0"].mean[0] == pytest.approx(share.mean(), abs=0.005)
    assert mixed.components["SE0"].sd[0] == pytest.approx(share.std(), abs=0.005)
    density = 0.3 * norm(1, np.sqrt(0.29)).pdf(0.4) + 0.7 * norm(-2, np.sqrt(1.25)).pdf(0.4)
    assert mixed.log_predictive_density([0.4])[0] == pytest.approx(np.log(density))


MEAN, SD, NOISE = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 0.2]), 0.3


def of_one_kernel(include_noise):
    sd = np.sqrt(SD**2 + NOISE) if include_noise else SD
    return Prediction(MEAN, sd, noise=NOISE, include_noise=include_noise)


@pytest.mark.parametrize("include_noise", [False, True])
def test_observations_have_the_noise_once_whatever_the_sd_includes(include_noise):
    prediction = of_one_kernel(include_noise)
    law = norm(MEAN, np.sqrt(SD**2 + NOISE))
    for probability in (0.025, 0.5, 0.9):
        found = prediction.quantile(probability)
        np.testing.assert_allclose(found, law.ppf(probability), rtol=0, atol=1e-9)
    y = np.array([0.0, 1.0, 2.0])
    found = prediction.log_predictive_density(y)
    np.testing.assert_allclose(found, law.logpdf(y), rtol=0, atol=1e-12)
    np.testing.assert_allclose(prediction.sd_function, SD, rtol=0, atol=1e-12)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 97.5, np.nan])
def test_quantiles_of_no_probability_are_refused(probability):
    with pytest.raises(InputError, match=r"no quantile of probability .* above 0 and below 1"):
        of_one_kernel(False).quantile(probability)


def test_an_average_has_the_quantiles_of_the_mixture():
    """Catches quantiles of a normal distribution with the mixture's moments."""
    apart = Prediction(MEAN + 6.0, SD, noise=0.1)
    mixed = averaged([of_one_kernel(False), apart], [0.25, 0.75])
    variance = 0.25 * (SD**2 + 4.5**2) + 0.75 * (SD**2 + 1.5**2)
    np.testing.assert_allclose(mixed.mean, MEAN + 4.5, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mixed.sd, np.sqrt(variance), rtol=0, atol=1e-12)
    at = mixed.quantile(0.4)
    below = 0.25 * norm(MEAN, np.sqrt(SD**2 + NOISE)).cdf(at)
    below += 0.75 * norm(MEAN + 6.0, np.sqrt(SD**2 + 0.1)).cdf(at)
    np.testing.assert_allclose(below, 0.4, rtol=0, atol=1e-9)


@pytest.mark.parametrize("include_noise", [False, True])
def test_behind_a_logarithm_predictions_are_log_normal(include_noise):
    """Catches moments of the wrong variance, and a density without its Jacobian."""
    back = back_transformed(of_one_kernel(include_noise), Transform("log"))

    def moments(variance):
        mean = np.exp(MEAN + variance / 2)
        return mean, mean * np.sqrt(np.expm1(variance))

    mean, sd = moments(SD**2 + NOISE * include_noise)
    np.testing.assert_allclose(back.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(back.sd, sd, rtol=1e-6)
    np.testing.assert_allclose(back.sd_function, moments(SD**2)[1], rtol=1e-6)
    law = norm(MEAN, np.sqrt(SD**2 + NOISE))
    np.testing.assert_allclose(back.quantile(0.9), np.exp(law.ppf(0.9)), rtol=1e-9)
    y = np.array([0.3, 1.0, 4.0])
    expected = law.logpdf(np.log(y)) - np.log(y)
    np.testing.assert_allclose(back.log_predictive_density(y), expected, rtol=0, atol=1e-10)


def test_mixtures_of_predictions_behind_a_transform_mix_what_was_transformed():
    own = [of_one_kernel(True), Prediction(MEAN + 1, SD, noise=0.1)]
    mixed = averaged([back_transformed(p, Transform("log")) for p in own], [0.5, 0.5])
    sds = np.sqrt([SD**2 + NOISE, SD**2 + 0.1])
    parts = Mixture(np.full(2, 0.5), np.array([MEAN, MEAN + 1]), sds)
    y = np.array([0.3, 1.0, 4.0])
    expected = parts.log_density(np.log(y)) - np.log(y)
    np.testing.assert_allclose(mixed.log_predictive_density(y), expected, rtol=0, atol=1e-10)


def test_it_says_what_it_predicts():
    assert repr(of_one_kernel(False)) == "Prediction(the function at 3 inputs)"
    one = Prediction(np.zeros(1), np.ones(1), include_noise=True)
    assert repr(one) == "Prediction(new observations at 1 input)"


@pytest.mark.parametrize(("include_noise", "words"), [(True, "included"), (False, "left out")])
def test_a_prediction_shows_the_sd_of_its_noise(include_noise, words):
    """The sd, as targets have units, and not the variance."""
    text = Prediction(MEAN, SD, noise=0.09, include_noise=include_noise)._repr_html_()
    assert f"0.3, {words}" in text
