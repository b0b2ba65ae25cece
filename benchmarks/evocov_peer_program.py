"""Program of `benchmarks/evocov_peer.py` that runs in an environment of its own, with evocov 0.2.

Each line of the standard input is a JSON object with a kernel in the package's notation, values of
its hyperparameters, the standard deviation of the noise, and data. The answer is a line with the
log likelihood, the number of likelihoods per CPU second, and those of fits by Powell's algorithm
from these values: likelihoods per CPU second, the CPU seconds of a fit, and the log likelihood that
it reaches. If the package refuses the covariance, there is only a null for the likelihood.
"""

import json
import sys
import time
from contextlib import suppress

import numpy as np
from deap.gp import PrimitiveTree
from evocov.gen_prog_tools.primitive_set import get_primitive_set
from evocov.kernel_functions.gen_prog_kernel import GenProgKernel
from gplib.fitting_methods.local_search import LocalSearch
from gplib.gaussian_process import GaussianProcess
from gplib.mean_functions.fixed import Fixed
from gplib.metrics.lml import LML
from gplib.validation_methods.full import Full

PRIMITIVES = get_primitive_set(20)

#: CPU seconds of each measurement, and largest number of likelihoods of a fit (the paper's for 129
#: points).
SECONDS, EVALUATIONS = 0.5, 2208


class Log:
    """Attributes that the package sets."""


class Kernel(GenProgKernel):
    """Kernel, as the package creates it with DEAP."""

    pset, log = PRIMITIVES, Log


def answer(asked):
    """Return the answer to a request."""
    kernel = Kernel(PrimitiveTree.from_string(asked["kernel"], PRIMITIVES))
    model = GaussianProcess(Fixed(), kernel)
    data = {"X": np.array(asked["x"])[:, None], "Y": np.array(asked["y"])[:, None]}
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
