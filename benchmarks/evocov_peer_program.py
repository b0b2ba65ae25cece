"""Program of `benchmarks/evocov_peer.py` that runs in an environment of its own, with evocov 0.2.

Each line of the standard input is a JSON object with data, and either the seed of a search or a
kernel in the package's notation, values of its hyperparameters and the standard deviation of the
noise. The answer to a seed is a line with the number of likelihoods per CPU second of a search, its
CPU seconds, and the smallest BIC. The answer to a kernel has the log likelihood, the number of
likelihoods per CPU second, and those of fits by Powell's algorithm from these values: likelihoods
per CPU second, the CPU seconds of a fit, and the log likelihood that it reaches. If the package
refuses the covariance, there is only a null for the likelihood.
"""

import json
import random
import sys
import time
from contextlib import suppress

import numpy as np
from deap.gp import PrimitiveTree
from evocov.fitting_methods.evocov import EvoCov
from evocov.gen_prog_tools.primitive_set import get_primitive_set
from evocov.kernel_functions.gen_prog_kernel import GenProgKernel
from gplib.fitting_methods.local_search import LocalSearch
from gplib.fitting_methods.multi_start import MultiStart
from gplib.gaussian_process import GaussianProcess
from gplib.mean_functions.fixed import Fixed
from gplib.metrics.bic import BIC
from gplib.metrics.lml import LML
from gplib.validation_methods.full import Full

PRIMITIVES = get_primitive_set(20)

#: CPU seconds of each measurement, and largest number of likelihoods of a fit (the paper's for 129
#: points).
SECONDS, EVALUATIONS = 0.5, 2208


#: Numbers of likelihoods of a search, of a kernel, and of one start, from the package's example.
CALLS, CALLS_OF_KERNEL, CALLS_OF_START = 25000, 250, 100


class Log:
    """Attributes that the package sets."""


class Kernel(GenProgKernel):
    """Kernel, as the package creates it with DEAP."""

    pset, log = PRIMITIVES, Log


def answer(asked):
    """Return the answer to a request."""
    return searched(asked) if "seed" in asked else evaluated(asked)


def searched(asked):
    """Return the rate, the duration and the result of a search, with the example's settings."""
    random.seed(asked["seed"])
    np.random.seed(asked["seed"])  # noqa: NPY002
    calls = 0
    scores: list[float] = []

    def measured(**options):
        nonlocal calls
        calls += 1
        return LML().fold_measure(**options)

    def scored(**options):
        scores.append(float(BIC().fold_measure(**options)))
        return scores[-1]

    start = LocalSearch(measured, method="Powell", max_fun_call=CALLS_OF_START)
    fit = MultiStart(measured, max_fun_call=CALLS_OF_KERNEL, nested_fit_method=start)
    search = EvoCov(scored, max_fun_call=CALLS, nested_fit_method=fit)
    model = GaussianProcess(Fixed(), search.get_random_kernel())
    began = time.process_time()
    search.fit(model, Full().get_folds(data_of(asked)))
    seconds = time.process_time() - began
    return {"rate": calls / seconds, "seconds": seconds, "bic": min(scores)}


def data_of(asked):
    """Return the data of a request in the form of the package."""
    return {"X": np.array(asked["x"])[:, None], "Y": np.array(asked["y"])[:, None]}


def evaluated(asked):
    """Return how fast a kernel is evaluated and fitted."""
    kernel = Kernel(PrimitiveTree.from_string(asked["kernel"], PRIMITIVES))
    model = GaussianProcess(Fixed(), kernel)
    data = data_of(asked)
    values = [0.0, *asked["values"], asked["noise"]]  # of the mean, the kernel, and the noise
    model.set_param_values(values)
    try:
        height = -LML.measure(model, data)
    except np.linalg.LinAlgError:
        return {"height": None}
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < SECONDS:
        # The package remembers factors of covariances, which therefore have to differ. It refuses
        # some after it has computed the factor, because of rounding errors.
        model.set_param_values([*values[:-1], values[-1] * (1 + 1e-9 * count)])
        with suppress(np.linalg.LinAlgError):
            LML.measure(model, data)
        count += 1
    return {"height": height, "rate": count / spent, **of_fits(model, data, values)}


def of_fits(model, data, values):
    """Return the rate, the duration and the log likelihood of fits."""
    metric, calls = LML(), 0
    reached: list[float] = []

    def measured(**options):
        nonlocal calls
        calls += 1
        return metric.fold_measure(**options)

    search = LocalSearch(measured, method="Powell", max_fun_call=EVALUATIONS)
    folds = Full().get_folds(data)
    began = time.process_time()
    while (spent := time.process_time() - began) < SECONDS or not reached:
        model.set_param_values(values)
        reached.append(-search.fit(model, folds)["value"])
    seconds = spent / len(reached)
    return {"in_fits": calls / spent, "seconds": seconds, "reached": max(reached)}


np.seterr(all="ignore")
for line in sys.stdin:
    sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
    sys.stdout.flush()
