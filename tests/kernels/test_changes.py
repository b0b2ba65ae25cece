"""Change points and windows: factors that share hyperparameters."""

import pickle

import numpy as np
import pytensor
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.kernels import base
from kem_pymc.kernels.changes import register_changes
from kem_pymc.kernels.composition import Candidate, Composition, Factor
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.prose import describe
from tests.refusals import refused


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Kernels of changes, in a registry that other tests don't see."""
    before = dict(base._REGISTRY)
    for name in before.keys() - {"LIN", "PER", "SE"}:  # fewer kernels are compiled
        del base._REGISTRY[name]
    register_changes()
    yield
    base._REGISTRY.clear()
    base._REGISTRY.update(before)


TEXT = "AFTER0@1 x PER0 + BEFORE0@1 x LIN0 + BEFORE0@1 x SE0 + INSIDE0@2 x SE0 + OUTSIDE0@2"


def objective(text=TEXT, n=14):
    composition = Composition.parse(text)
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.uniform(size=(n, 1)), axis=0), rng.normal(size=n)
    coordinates = Coordinates(CandidatePool(composition, 1), composition)
    values = rng.normal(-0.5, 0.3, len(coordinates))
    return Objective(coordinates, x, y), values


def test_covariance_is_that_of_the_formulas():
    problem, values = objective()
    h, noise = problem.coordinates.named(values)
    x = problem.problem.x[0]
    rise = lambda x, c, w: 1 / (1 + np.exp(-(x - c) / w))  # noqa: E731
    after = rise(x, h["CHANGE0@1.location"], h["CHANGE0@1.width"])
    start, span, width = (h[f"WINDOW0@2.{kind}"] for kind in ("location", "span", "width"))
    inside = rise(x, start, width) * (1 - rise(x, start + span, width))
    d = x[:, None] - x

    def se(name):
        length = h[f"{name}.SE0.lengthscale"]
        return h[f"{name}.amplitude"] * np.exp(-0.5 * (d / length) ** 2)

    shift = x - h["BEFORE0@1 x LIN0.LIN0.shift"]
    rhythm = np.sin(np.pi * d / h["AFTER0@1 x PER0.PER0.period"])
    per = np.exp(-2 * (rhythm / h["AFTER0@1 x PER0.PER0.lengthscale"]) ** 2)
    k = np.outer(after, after) * h["AFTER0@1 x PER0.amplitude"] * per
    k += np.outer(1 - after, 1 - after) * (
        h["BEFORE0@1 x LIN0.amplitude"] * np.outer(shift, shift) + se("BEFORE0@1 x SE0")
    )
    k += np.outer(inside, inside) * se("INSIDE0@2 x SE0")
    k += np.outer(1 - inside, 1 - inside) * h["OUTSIDE0@2.amplitude"]
    k += noise * np.eye(len(x))
    root = np.tril(Conditioned.of(problem, values).conditional.root)
    np.testing.assert_allclose(root @ root.T, k, rtol=1e-10)
    of_pymc = problem.coordinates.composition.to_pymc(h, 1)(x[:, None])
    natural = pytensor.function([], of_pymc, mode=pytensor.compile.Mode("py", None))()
    np.testing.assert_allclose(natural + noise * np.eye(len(x)), k, rtol=1e-10)


def test_gradient_adds_up_over_factors_that_share():
    problem, values = objective()
    _, gradient = problem.evaluate(values[None])
    steps = 1e-6 * np.eye(len(values))
    ahead, _ = problem.evaluate(values + steps)
    behind, _ = problem.evaluate(values - steps)
    np.testing.assert_allclose(gradient[0], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)


def test_hyperparameters_are_listed_once_and_last():
    composition = Composition.parse(TEXT)
    names = [h.name for h in composition.hyperparameters]
    assert len(names) == len(set(names))
    assert names[-5:] == [
        *("CHANGE0@1.location", "CHANGE0@1.width"),
        *("WINDOW0@2.location", "WINDOW0@2.span", "WINDOW0@2.width"),
    ]
    # Of a composition in a larger pool, only those that it uses are coordinates.
    pool = CandidatePool(["SE0", *composition], 1)
    assert len(Coordinates(pool, Composition.parse("SE0"))) == 3
    part = Coordinates(pool, Composition.parse("BEFORE0@1 x SE0"))
    assert part.names[2:] == ("CHANGE0@1.location", "log CHANGE0@1.width", "log noise")


def test_printed_forms():
    assert Factor.parse("AFTER2@13") == Factor("AFTER", 2, 13)
    candidate = Candidate.parse("SE0 x BEFORE0@1 #2")
    assert Candidate.parse(str(candidate)) == candidate
    for text in ("AFTER0", "AFTER0@", "AFTER0@x", "SE0@1", "SE0@"):
        refused(lambda text=text: Factor.parse(text), repr(text))
    refused(lambda: Factor("SE", 0, 1), "SE", "1")
    refused(lambda: Factor("AFTER", 0), "AFTER", "BEFORE0@1")


def test_description_and_units():
    composition = Composition.parse("BEFORE0@1 x SE0 + AFTER0@1")
    scaling = Scaling(np.array([1950.0]), np.array([1960.0]), 0.0, 2.0)
    values = {
        "BEFORE0@1 x SE0.amplitude": 1.0,
        "BEFORE0@1 x SE0.SE0.lengthscale": 0.2,
        "AFTER0@1.amplitude": 1.0,
        "CHANGE0@1.location": 0.7,
        "CHANGE0@1.width": 0.01,
    }
    back = scaling.hyperparameters_back(values)
    assert back["CHANGE0@1.location"] == pytest.approx(1957)
    assert back["CHANGE0@1.width"] == pytest.approx(0.1)
    text = describe(composition, ["year"], back)
    assert "until year reaches a change point (at 1957)" in text
    assert "a level after year changes (at 1957)" in text


def test_pools_survive_in_other_processes():
    pool = CandidatePool(Composition.parse(TEXT), 1)
    again = pickle.loads(pickle.dumps(pool))
    assert again == pool
    assert again.hyperparameters == pool.hyperparameters
