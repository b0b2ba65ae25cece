"""Files that came from somewhere else, changed in thousands of ways: refused, or sound."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kem_pymc.data.feature_distribution import FeatureDistribution, Margin
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.files import content_hash
from kem_pymc.population.design import Design, Feature, Surface, Term
from kem_pymc.population.mean_process import MeanProcess, Smooth
from kem_pymc.runs.folder import Plan, Run
from kem_pymc.runs.storage import ChainFiles
from tests.evolutions.by_hand import LIN, SE, WHITE, evolutions
from tests.mutations import mutated, written
from tests.refusals import refused

pytestmark = pytest.mark.faults

#: The same examples every time.
FIXED = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


def study():
    """Evolutions with everything that a file may hold."""
    ends = (Cluster(0, WHITE, LIN, 3, (0.1, 0.2, 0.3)), Cluster(1, WHITE, SE, 2, (0.1, 0.2, 0.3)))
    week = Feature.given("week", [], (), 0.5, 0.3, 0.0, 1.0)
    terms = tuple(Term.parse(name) for name in ("level", "s(week)"))
    surfaces = {"s(week)": Surface(np.array([[0.0], [0.5], [1.0]]), np.array([0.3]))}
    design, smooths = Design((week,), terms, surfaces), {"s(week)": Smooth(0.5, (0.3,))}
    priors = {
        "hyperparameters": {"shift": {"distribution": "Normal", "parameters": ["mu", "inf"]}},
        "noise": {"by_size": {"mu": [0.0, 1.0], "sigma": [1.0, 2.0]}},
        "noise_without_parent": {"text": "a function"},
        "stay": 0.9,
        "enter": {"base kernel": 0.1},
        "noise_floor": 0.01,
        "population": {"mu": {"distribution": "Normal", "parameters": [0.0, 1.0]}},
    }
    return evolutions(
        concentration=(1.0, 0.5),
        population={"mu": (0.1, 0.2)},
        priors=priors,
        settings={"feedback": "cut", "shared": {"shares": {"shared": 0.4}}},
        shared=MeanProcess(design, smooths, np.arange(4.0), np.tri(4)),
        distribution=FeatureDistribution(
            ("week",),
            {"week": Margin(np.array([0.1, 0.7]), np.array([0.25, 0.75]))},
            *(np.empty((1, 0)), np.ones(1), np.zeros((1, 1)), np.eye(1)),
        ),
        final=evolutions(ends),
        unshared=evolutions(ends),
    )


STUDY = json.loads(json.dumps(study().to_dict()))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "evolutions.json"


def names(error, path):
    """Check that a message names the file, and can be read."""
    message = str(error)
    assert str(path) in message
    assert len(message) < 1000
    message.encode()


def rehashed(data):
    try:
        return data | {"sha256": content_hash(data)}
    except (ValueError, RecursionError):
        return data | {"sha256": ""}


@settings(max_examples=2000, **FIXED)
@given(data=mutated(STUDY))
def test_evolutions(path, data):
    path.write_bytes(written(rehashed(data)))
    try:
        found = Evolutions.load(path)
    except InputError as error:
        names(error, path)
        return
    repr(found)
    numbers = found.to_frame().select_dtypes("number").to_numpy()
    assert np.isfinite(numbers).all()
    assert numbers.min() >= 0
    for child in {cluster.child for cluster in found.clusters}:
        assert np.isfinite(found.typical(child).centre).all()
    found.save(path)
    assert Evolutions.load(path) == found


def test_a_whole_file_is_read(path):
    """Or all of them would be refused for one fault."""
    study().save(path)
    assert Evolutions.load(path) == study()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["clusters"][2].update(count=0), "clusters[2].count"),
        (lambda d: d["clusters"][2].update(draw=-1), "clusters[2].draw"),
        (lambda d: d["clusters"][2].update(values=[1.0, 1e308, 0]), "clusters[2].values[1]"),
        (
            lambda d: d["clusters"][2].update(values=[1e11, 0, 0]),
            "clusters[2] has 3 values, up to 1e+11",
        ),
        (lambda d: d.update(n_draws=10**12), "n_draws"),
        (lambda d: d.update(concentration=0), "concentration"),
        (lambda d: d["final"]["clusters"][0].pop("count"), "final.clusters[0].count"),
        (lambda d: d["shared"]["root"].pop(), "shared"),
    ],
)
def test_the_entry_is_named(path, change, words):
    data = json.loads(json.dumps(STUDY))
    change(data)
    path.write_bytes(written(rehashed(data)))
    refused(lambda: Evolutions.load(path), str(path), words)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"\xff\xfe", b'{"a": NaN}', b"null"]
)
def test_other_files(path, text):
    path.write_bytes(text)
    refused(lambda: Evolutions.load(path), str(path))


def test_a_newer_version_is_named(path):
    data = STUDY | {"schema_version": 4, "versions": {"kem-pymc": "7.1"}, "new": 1}
    path.write_bytes(written(rehashed(data)))
    refused(lambda: Evolutions.load(path), "newer version of kem_pymc (7.1)", "Update")


RUN = {
    "schema_version": 1,
    "plan": {"draws": 12, "tune": 8, "chains": 2, "random_seed": 1, "chunk": 4},
    "hyperparameters": {"LIN0": ["LIN0.amplitude", "LIN0.shift"], "SE0": ["SE0.amplitude"]},
    "model": {"data": "abc", "concentration": 1.0, "versions": {"kem-pymc": "0.1.0", "numpy": "2"}},
}


@settings(max_examples=500, **FIXED)
@given(data=mutated(RUN))
def test_runs(path, data):
    (path.parent / "run.json").write_bytes(written(data))
    try:
        found = Run.open(path.parent)
        found.check(RUN["model"])
    except InputError as error:
        names(error, path.parent)
        return
    assert isinstance(found.plan, Plan)
    assert len(found.plan.generators()) == found.plan.chains
    assert found.counts.min(initial=0) >= 0


@settings(max_examples=200, **FIXED)
@given(st.data())
def test_chunks(path, data):
    """Bytes of a chunk changed, or arrays in it."""
    folder = ChainFiles(path.parent / "chain-0", np.array([2, 1]))
    folder.clean()
    structure = np.zeros((2, 1, 1, 3), dtype=np.int16)
    about = {"generator": np.random.default_rng(1).bit_generator.state, "seconds": 0.5}
    arrays = {
        "structure": structure,
        "noise": np.ones(2),
        "hyperparameters": np.ones(0),
        "sample_stats.energy": np.ones(2),
    }
    odd = [structure, structure[0], structure + 3, np.array("x"), np.ones(1), np.ones(5)]
    what = data.draw(st.sampled_from([*arrays, "about", "bytes", "bytes"]))
    if what in arrays:
        arrays[what] = data.draw(st.sampled_from(odd))
        arrays.pop(data.draw(st.sampled_from([what, "", "", ""])), None)
    arrays["about"] = np.array(json.dumps(data.draw(mutated(about)) if what == "about" else about))
    file = folder.folder / "draws-000000.npz"
    np.savez_compressed(file, **arrays)
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.sampled_from([0, 1, 20])) if what == "bytes" else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    try:
        (chunk,) = folder.chunks()
    except InputError as error:
        names(error, file)
        return
    assert len(chunk) == 2
