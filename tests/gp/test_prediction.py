"""Predictions of one kernel, mixtures of them, and targets behind a transform."""

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.prediction import Component, Prediction, averaged, in_target_unit

MEAN, SD, NOISE = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 0.2]), 0.3
LOG = Scaling(np.zeros(1), np.ones(1), 0.0, 1.0, Transform("log"))


def of_one_kernel(include_noise=False):
    return Prediction.of(MEAN, SD, NOISE, include_noise=include_noise)


def test_what_is_asked_of_a_prediction_must_fit_it():
    with pytest.raises(InputError, match=r"shape \(2,\) for 3 predictions\. Give one"):
        of_one_kernel().log_predictive_density(np.zeros(2))
    for probability in (0.0, 1.0, -0.1, 97.5, np.nan):
        with pytest.raises(InputError, match=r"no quantile of probability .* above 0 and below 1"):
            of_one_kernel().quantile(probability)


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
    np.testing.assert_allclose(prediction.mean, MEAN, rtol=0, atol=1e-12)
    np.testing.assert_allclose(prediction.sd, law.std() if include_noise else SD, atol=1e-12)
    np.testing.assert_allclose(prediction.sd_function, SD, rtol=0, atol=1e-12)


@pytest.mark.parametrize("include_noise", [False, True])
def test_an_average_is_the_mixture_by_hand(include_noise):
    """Catches moments without the spread of the means, and quantiles of a normal distribution."""
    part = Component(np.ones(3), 2 * np.ones(3))
    one = Prediction.of(MEAN, SD, NOISE, {"SE0": part}, include_noise)
    other = Prediction.of(MEAN + 6.0, SD, 0.1, {}, include_noise)
    mixed = averaged([one, other], [0.25, 0.75])
    noise = 0.25 * NOISE + 0.75 * 0.1
    variance = SD**2 + 0.25 * 4.5**2 + 0.75 * 1.5**2
    np.testing.assert_allclose(mixed.mean, MEAN + 4.5, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mixed.sd**2, variance + noise * include_noise, atol=1e-12)
    np.testing.assert_allclose(mixed.sd_function**2, variance, rtol=0, atol=1e-12)
    assert mixed.noise == pytest.approx(noise)
    laws = norm(MEAN, np.sqrt(SD**2 + NOISE)), norm(MEAN + 6.0, np.sqrt(SD**2 + 0.1))
    at = mixed.quantile(0.4)
    below = 0.25 * laws[0].cdf(at) + 0.75 * laws[1].cdf(at)
    np.testing.assert_allclose(below, 0.4, rtol=0, atol=1e-9)
    density = np.log(0.25 * laws[0].pdf(0.4) + 0.75 * laws[1].pdf(0.4))
    np.testing.assert_allclose(mixed.log_predictive_density(np.full(3, 0.4)), density)
    # The other one lacks the component, which is zero there.
    component = mixed.components["SE0"]
    np.testing.assert_allclose(component.mean, 0.25)
    np.testing.assert_allclose(component.sd**2, 0.25 * (2**2 + 0.75**2) + 0.75 * 0.25**2)
    again = averaged([mixed, other], [0.5, 0.5])
    np.testing.assert_allclose(again.mean, MEAN + 0.5 * 4.5 + 0.5 * 6.0)


@pytest.mark.parametrize("include_noise", [False, True])
def test_behind_a_logarithm_predictions_are_log_normal(include_noise):
    """Catches moments of the wrong variance, and a density without its Jacobian."""
    back = in_target_unit(of_one_kernel(include_noise), LOG)

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
    assert (back.noise, back.offset) == (NOISE, 0.0)


def test_mixtures_behind_a_transform_mix_what_was_transformed():
    """Catches moments that are transformed after they were averaged."""
    own = [of_one_kernel(True), Prediction.of(MEAN + 1, SD, 0.1, include_noise=True)]
    mixed = in_target_unit(averaged(own, [0.5, 0.5]), LOG)
    single = [in_target_unit(p, LOG) for p in own]
    means = np.array([p.mean for p in single])
    squares = np.mean([p.sd**2 + p.mean**2 for p in single], axis=0)
    np.testing.assert_allclose(mixed.mean, means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(mixed.sd, np.sqrt(squares - means.mean(axis=0) ** 2), rtol=1e-9)
    sds = np.sqrt([SD**2 + NOISE, SD**2 + 0.1])
    parts = Mixture(np.full(2, 0.5), np.array([MEAN, MEAN + 1]), sds)
    y = np.array([0.3, 1.0, 4.0])
    expected = parts.log_density(np.log(y)) - np.log(y)
    np.testing.assert_allclose(mixed.log_predictive_density(y), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("include_noise", "words"), [(True, "included"), (False, "left out")])
def test_it_says_what_it_predicts_and_the_sd_of_its_noise(include_noise, words):
    """The sd, as targets have units, and not the variance."""
    what = "new observations" if include_noise else "the function"
    one = Prediction.of(np.zeros(1), np.ones(1), include_noise=include_noise)
    assert repr(one) == f"Prediction({what} at 1 input)"
    shown = Prediction.of(MEAN, SD, 0.09, include_noise=include_noise)
    assert repr(shown) == f"Prediction({what} at 3 inputs)"
    assert f"0.3, {words}" in shown._repr_html_()
