"""Compare likelihoods per second with those of the authors' package for EvoCov, on the same trees.

The package (evocov 0.2 with gplib 0.19, GPL) runs as a program of its own, in an environment that
uv makes. Trees are random ones of our primitives, and compositions of base kernels, on 129 points
of one input, as of the training part of the airline data. Ours is the log marginal likelihood with
its gradient; that of the package has none for trees. Both use one thread; rates are per CPU second.
Log likelihoods are first checked to be equal; trees whose covariance the package refuses are left
out. Rates are compared for calls one after the other, in fits (ours by L-BFGS, those of the package
by Powell's algorithm), and in whole searches of the package, with the settings of its example, and
ours. Other figures are how much longer a fit of the package takes than ours takes to reach its log
likelihood from the same values, and a search than ours takes to reach its BIC.

    uv run python benchmarks/evocov_peer.py

Run it twice after a change of compiled code, as `benchmarks/evocov.py`.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import math
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from evocov import POINTS, kernels
from measure import Row, at_least

from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Offspring
from kem_pymc.search.evocov.objective import TreeObjective
from kem_pymc.search.evocov.run import evolve
from kem_pymc.search.evocov.tree import Tree, is_hyperparameter

#: The package in an environment of its own.
COMMAND = (
    *("uv", "run", "--no-project", "--python", "3.13", "--with", "evocov==0.2.0"),
    *("--with", "gplib==0.19.2", "python", "-P", "-W", "ignore"),
    str(Path(__file__).with_name("evocov_peer_program.py")),
)

#: Least number of times as many likelihoods per second.
TARGET = 20.0

#: CPU seconds of each measurement, noise variance, and evaluations of the shortest fit.
SECONDS, NOISE, EVALUATIONS = 0.5, 0.1, 20

#: Numbers of searches, and of kernels of each of ours.
SEARCHES, KERNELS = 3, 1410

#: How far a log likelihood may be below another to be as good, in nats.
CLOSE = 0.01

SE = "exp(multiply(-0.5, sq_dist(euc(x), {})))"
PER = "exp(multiply(-0.5, sq_dist(spectral(x, {}), {})))"

#: Compositions: SE, and LIN x PER + SE x PER.
COMPOSITIONS = (
    f"multiply(hp(h0), {SE.format('h1')})",
    f"add(multiply(dot_prod(euc(x), h0, h1), {PER.format('h2', 'h3')}), "
    f"multiply(multiply(hp(h4), {SE.format('h5')}), {PER.format('h6', 'h7')}))",
)


def translated(tree: Tree, natural: dict[str, float]) -> tuple[str, list[float]]:
    """Return a tree in the notation of the package, with the values of its hyperparameters.

    The package divides and shifts features by hyperparameters, where table 2 has lengthscales in
    distances and products. Every leaf is a hyperparameter of its own.
    """
    values: list[float] = []

    def new(value: float) -> str:
        values.append(value)
        return f"hp{len(values) - 1}"

    def constant(value: float) -> str:
        text = f"constant(x_shape(x), {abs(value)}, onlyvar)"
        return f"negative({text})" if value < 0 else text

    forms: dict[str, Callable[..., str]] = {
        "euc": lambda _: "map(x)",
        "spectral": lambda _, w: f"spectral(x_div(map(x), {new(2 * math.pi / w)}))",
        "sq_dist": lambda x, scale: f"sq_distance(x_div({x}, {new(scale)}), onlyvar)",
        "dot_prod": lambda x, s, scale: (
            f"dot_product(x_div(x_sub({x}, {new(s)}), {new(math.sqrt(scale))}), onlyvar)"
        ),
        "hp": lambda value: f"constant(x_shape(x), {new(value)}, onlyvar)",
        "power": lambda w, exponent: f"power({w}, {new(exponent)})",
    }
    stack: list = []
    for node in reversed(tree):
        given = [stack.pop() for _ in range(node.arity)]
        if is_hyperparameter(node):
            stack.append(natural[node.name])
        elif node.name == "x":
            stack.append("x")
        elif node.name in forms:
            stack.append(forms[node.name](*given))
        elif node.arity:
            stack.append(f"{node.name}({', '.join(given)})")
        else:
            stack.append(constant(node.value))
    return stack[0], values


def rate(function: Callable[[], int]) -> float:
    """Return how many evaluations a function makes per CPU second; it returns their number."""
    function()
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < SECONDS:
        count += function()
    return count / spent


def trees(x: np.ndarray, y: np.ndarray) -> list[tuple[Tree, np.ndarray]]:
    """Return trees with coordinates, of which shifts are positive, as in the package."""
    rng = np.random.default_rng(2)
    found = kernels(x, y, math.log(NOISE))
    for text in COMPOSITIONS:
        tree = Tree.parse(text)
        values = np.append(rng.normal(0, 0.5, len(tree.hyperparameters)), math.log(NOISE))
        found.append((tree, values))
    return [
        (tree, np.where([*tree.positive, True], values, np.abs(values))) for tree, values in found
    ]


def rows() -> list[Row]:
    """Return, for each tree, how many times as many likelihoods per second there are."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, POINTS)[:, None]
    y = np.sin(40 * x[:, 0]) + x[:, 0] + 0.3 * rng.normal(size=POINTS)
    found = []
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as peer:
        for tree, values in trees(x, y):
            found += compared(peer, tree, values, x, y)
        for seed in range(SEARCHES):
            found += searched(peer, seed, x, y)
        assert peer.stdin is not None
        peer.stdin.close()
    return found


def compared(
    peer: subprocess.Popen, tree: Tree, values: np.ndarray, x: np.ndarray, y: np.ndarray
) -> list[Row]:
    """Return the rows of one tree; none if the package refuses its covariance."""
    objective = TreeObjective(tree, x, y)
    natural = np.where([*tree.positive, True], np.exp(values), values)
    kernel, theirs = translated(tree, dict(zip(tree.hyperparameters, natural, strict=False)))
    asked = {"kernel": kernel, "values": theirs, "noise": math.sqrt(NOISE)}
    answer = asked_of(peer, x, y, **asked)
    if answer["height"] is None:
        return []
    height = objective.evaluate(values).height
    assert math.isclose(height, answer["height"], rel_tol=1e-5), (height, answer["height"])

    def once() -> int:
        objective.evaluate(values)
        return 1

    fitter, offspring = Fitter(x, y, EVALUATIONS), Offspring(tree, natural)

    def fit() -> int:
        return sum(fitter.evaluate(offspring, 0).outcomes.values())

    ours, fits = rate(once), rate(fit)
    label = f"{len(tree)} nodes: ours {{:.0f}}/s, evocov {{:.0f}}/s"
    rates = {
        label.format(ours, answer["rate"]): ours / answer["rate"],
        f"  in fits: {label.format(fits, answer['in_fits'])}": fits / answer["in_fits"],
    }
    out = [at_least(figure, ratio, TARGET, "x") for figure, ratio in rates.items()]
    if seconds := seconds_to(answer["reached"], fitter, offspring):
        figure = f"  fits to {answer['reached']:.1f}: ours {seconds:.2g} s, "
        figure += f"evocov {answer['seconds']:.2g} s"
        out.append(at_least(figure, answer["seconds"] / seconds, 1.0, "x"))
    return out


def searched(peer: subprocess.Popen[str], seed: int, x: np.ndarray, y: np.ndarray) -> list[Row]:
    """Return how many times as many likelihoods a search makes, and how soon it is as good."""
    answer = asked_of(peer, x, (y - y.mean()) / y.std(), seed=seed)
    began = time.process_time()
    found = evolve(x, y, budget=KERNELS, seed=seed, cores=1, progressbar=False)
    rate = sum(found.outcomes.values()) / (time.process_time() - began)
    good = [own.bic <= answer["bic"] for own in found.evaluations]
    needed = found.evaluations[: good.index(True) + 1] if any(good) else found.evaluations
    seconds = sum(own.seconds for own in needed) if any(good) else math.inf
    label = f"search {seed}: ours {rate:.0f}/s, evocov {answer['rate']:.0f}/s"
    figure = f"  to a BIC of {answer['bic']:.1f}: ours {seconds:.2g} s, "
    figure += f"evocov {answer['seconds']:.2g} s"
    return [
        at_least(label, rate / answer["rate"], TARGET, "x"),
        at_least(figure, answer["seconds"] / seconds, TARGET, "x"),
    ]


def asked_of(
    peer: subprocess.Popen[str], x: np.ndarray, y: np.ndarray, **asked: object
) -> dict[str, float]:
    """Return the answer of the package's program to a request."""
    asked |= {"x": x[:, 0].tolist(), "y": y.tolist()}
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(json.dumps(asked) + "\n")
    line = peer.stdout.readline()
    if not line:
        raise SystemExit("The program of the package ended. Check that uv can install evocov.")
    return json.loads(line)


def seconds_to(height: float, fitter: Fitter, offspring: Offspring) -> float:
    """Return the CPU seconds of the shortest fit to a log likelihood; zero if none reaches it."""
    for evaluations in EVALUATIONS * 2 ** np.arange(8):
        longer = replace(fitter, evaluations=int(evaluations))
        began = time.process_time()
        found = longer.evaluate(offspring, 0)
        if found.log_likelihood > height - CLOSE:
            return time.process_time() - began
    return 0.0


if __name__ == "__main__":
    from run import main

    main(("evocov_peer",))
