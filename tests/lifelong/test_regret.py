"""Values that are found, against those of random search: paired, with an interval."""

import numpy as np
import optuna
import pytensor
import pytest
from scipy.stats import t as student

from experiments.data.branin import RANGES, branin_sequence
from experiments.lifelong.samplers import sampler
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.training import training


def regret(own, functions, ranges, evaluations):
    """Return logs of what the smallest values lie above the minima, for each function."""
    above = []
    for function, minimum in functions:
        study = optuna.create_study(sampler=own)
        study.optimize(
            lambda trial, f=function: float(
                f(**{name: trial.suggest_float(name, *ends) for name, ends in ranges.items()})
            ),
            n_trials=evaluations,
        )
        above.append(study.best_value - minimum)
    return np.log(np.array(above) + 1e-3)


def largest_ratio(sequences, ranges, evaluations, **options):
    """Return the upper end of an interval for the ratio of the regrets, a geometric mean.

    Functions of one sequence depend on each other, so that there is one difference for each.
    """
    differences = []
    for seed, functions in enumerate(sequences):
        own = sampler("lbo", seed)
        own.model = LBO(seed=seed, **options)
        lbo, random = (
            regret(one, functions, ranges, evaluations) for one in (own, sampler("random", seed))
        )
        differences.append(np.mean(lbo - random))
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    return np.exp(np.mean(differences) + student.ppf(0.975, len(differences) - 1) * error)


def test_lbo_beats_random_search():
    """A model of which nothing is learned, or whose improvement has the wrong sign, doesn't."""
    waves = [[(lambda x, at=at: np.sin(3 * (x - at)) ** 2, 0.0)] for at in np.linspace(0.2, 0.8, 6)]
    options = {"max_networks": 1, "units": 10, "iterations": 20}
    assert largest_ratio(waves, {"x": (0, 1)}, 11, **options) < 0.7


@pytest.mark.slow
@pytest.mark.statistical
def test_lbo_beats_random_search_on_more_functions():
    """By a factor of four: networks that are certain of what they can't know don't."""
    rngs = [np.random.default_rng([77, seed]) for seed in range(4)]
    sequences = [[(f, f.minimum) for f in branin_sequence(0.1, 3, rng)] for rng in rngs]
    training.cache_clear()  # compiled as users have it, since thousands of steps are taken
    with pytensor.config.change_flags(mode="NUMBA"):
        assert largest_ratio(sequences, RANGES, 25) < 0.25
    training.cache_clear()
