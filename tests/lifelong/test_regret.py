"""Values that are found, against those of random search: paired, with an interval."""

import numpy as np
import optuna
import pytensor
import pytest
from scipy.stats import t as student

from experiments.data.branin import RANGES, branin_sequence
from experiments.lifelong.samplers import sampler
from kem_pymc.lifelong.training import training


@pytest.fixture(autouse=True)
def fast():
    """Compiled as users have it, since thousands of steps are taken."""
    training.cache_clear()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with pytensor.config.change_flags(mode="NUMBA"):
        yield
    optuna.logging.set_verbosity(before)
    training.cache_clear()


def regret(method, functions, evaluations, seed):
    """Return logs of what the smallest values lie above the minima, for each function."""
    own, above = sampler(method, seed), []
    for function in functions:
        study = optuna.create_study(sampler=own)
        study.optimize(
            lambda trial, f=function: float(
                f(**{name: trial.suggest_float(name, *ends) for name, ends in RANGES.items()})
            ),
            n_trials=evaluations,
        )
        above.append(study.best_value - function.minimum)
    return np.log(np.array(above) + 1e-3)


def largest_ratio(sequences, count, evaluations):
    """Return the upper end of an interval for the ratio of the regrets, a geometric mean.

    Functions of one sequence depend on each other, so that there is one difference for each.
    """
    differences = []
    for seed in range(sequences):
        functions = branin_sequence(0.1, count, np.random.default_rng([77, seed]))
        lbo, random = (regret(m, functions, evaluations, seed) for m in ("lbo", "random"))
        differences.append(np.mean(lbo - random))
    n = len(differences)
    error = np.std(differences, ddof=1) / np.sqrt(n)
    return np.exp(np.mean(differences) + student.ppf(0.975, n - 1) * error)


def test_lbo_beats_random_search():
    """A model of which nothing is learned, or whose improvement has the wrong sign, doesn't."""
    assert largest_ratio(sequences=4, count=2, evaluations=25) < 0.7


@pytest.mark.slow
@pytest.mark.statistical
def test_lbo_beats_random_search_on_more_functions():
    """By a factor of four: networks that are certain of what they can't know don't."""
    assert largest_ratio(sequences=4, count=3, evaluations=25) < 0.25
