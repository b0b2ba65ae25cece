"""Posteriors in files: read as they were written, or refused."""

import warnings

import numpy as np
import pytest
from numcodecs import Zstd

from kem_pymc.evolutions.posteriors import HASH, VARIABLES, read_posterior, write_posterior
from kem_pymc.kernels.pool import CandidatePool
from tests.diagnostics.conftest import POOL, mixing, posterior_of
from tests.refusals import refused


@pytest.fixture(scope="module")
def tree():
    """Return a posterior of two users with values given here, and all groups it needs."""
    inclusion, assignment = mixing(chains=1, draws=3)
    found = posterior_of(inclusion, assignment)
    counts = [len(c.hyperparameters) for c in CandidatePool(POOL)]
    names = [h.name for h in CandidatePool(POOL).hyperparameters]
    dims = found["posterior"]["noise"].dims
    active = np.repeat(inclusion, counts, axis=-1)
    own = found["posterior"].to_dataset().assign_coords(hyperparameter=names)
    own["hyperparameters"] = (*dims, "hyperparameter"), np.where(active, 0.5, np.nan)
    own["dataset_log_likelihood"] = dims, np.zeros(assignment.shape)
    found["posterior"] = own
    return found


def stored(tree, path, **changes):
    """Write a posterior with other values of some variables."""
    found = tree.copy()
    found["posterior"] = found["posterior"].to_dataset().assign(changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr's, of its own format
        write_posterior(found, path)
    return path


def test_a_posterior_is_read_as_it_was_written(tree, tmp_path):
    again = read_posterior(stored(tree, tmp_path / "p.zarr"))
    for name in VARIABLES:
        np.testing.assert_array_equal(again["posterior"][name], tree["posterior"][name])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("noise", -1.0, "noise has values that aren't positive numbers"),
        ("noise", np.nan, "noise has values that aren't positive numbers"),
        ("inclusion", 2, "inclusion has values other than 0 and 1"),
        ("assignment", 2, "refers to datasets that don't represent a cluster"),
        ("assignment", -1, "not the same ones in every draw"),
        ("hyperparameters", np.nan, "hyperparameters has values that are out of range"),
    ],
)
def test_draws_that_cannot_be_are_refused(tree, tmp_path, name, value, words):
    """Of one draw, user and time step, where LIN0 is in."""
    variable = tree["posterior"][name].copy(deep=True)
    variable[0, 1, 1, 1] = value
    path = stored(tree, tmp_path / "p.zarr", **{name: variable})
    refused(lambda: read_posterior(path), str(path), words, "run kem fit again")


def test_missing_folders_and_labels_are_refused(tree, tmp_path):
    refused(lambda: read_posterior(tmp_path / "none"), "can't be read")
    others = tree["posterior"]["inclusion"].assign_coords(candidate=[*POOL[:2], "RQ0"])
    changed = tree["posterior"].to_dataset().drop_vars("candidate")
    other = tree.copy()
    other["posterior"] = changed.assign(inclusion=others)
    path = stored(other, tmp_path / "p.zarr")
    refused(lambda: read_posterior(path), "labels of candidate aren't those of its settings")


def test_what_was_changed_is_refused(tree, tmp_path):
    """Values that may be, a chunk that Zarr would fill, an attribute, and the hash itself."""
    dates = np.array(["2024-01-01", "2024-02-01"], "M8[D]")  # Zarr keeps them in another unit
    own = tree.copy()
    own["posterior"] = tree["posterior"].to_dataset().assign_coords(user=dates)
    own["posterior"].attrs["sampling_time"] = 1.5
    path = stored(own, tmp_path / "p.zarr")
    assert HASH not in read_posterior(path).attrs
    chunk, top = next(path.glob("posterior/noise/c/*/*/*/*")), path / "zarr.json"
    whole, text = chunk.read_bytes(), top.read_text()
    assert "1.5" in text

    def changed():
        refused(lambda: read_posterior(path), str(path), "it was changed after it was written")

    chunk.write_bytes(Zstd().encode((np.frombuffer(Zstd().decode(whole)) * 2).tobytes()))
    changed()
    chunk.unlink()
    refused(lambda: read_posterior(path), "can't be read")
    chunk.write_bytes(whole)
    top.write_text(text.replace("1.5", "2.5"))
    changed()
    top.write_text(text.replace(HASH, "other"))
    refused(lambda: read_posterior(path), str(path), "it has no hash of its content")


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0x80FEFF12])  # none stands for a character
def test_labels_that_are_no_text_are_refused(tree, tmp_path, code):
    path = stored(tree, tmp_path / "p.zarr")
    for labels in ("setting", "candidate"):
        for file in path.glob(f"*/{labels}/c/0"):
            intact = file.read_bytes()
            points = np.frombuffer(bytes(Zstd().decode(intact)), "<u4").copy()
            points[3] = code
            file.write_bytes(Zstd().encode(points.tobytes()))
            refused(lambda: read_posterior(path), str(path), "can't be read", "run kem fit again")
            file.write_bytes(intact)
    read_posterior(path)
