"""Schema of job files: the entry at fault is named."""

from dataclasses import asdict

import pytest

from kem_pymc.cli.job_schema import fault
from tests.cli.test_job import JOB

VALID = asdict(JOB)


def test_a_job_is_valid_and_earlier_ones_are():
    assert fault(VALID) == ""
    earlier = {name: value for name, value in VALID.items() if name != "likelihood"}
    assert fault(earlier) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampler": VALID["sampler"] | {"draws": 0}}, "entry sampler.draws:"),
        ({"sampler": VALID["sampler"] | {"draws": "7"}}, "entry sampler.draws:"),
        ({"columns": VALID["columns"] | {"missing": "guess"}}, "entry columns.missing:"),
        ({"model_of": VALID["model_of"] | {"priors": "mine"}}, "entry model_of.priors:"),
        ({"feedback": "both"}, "entry feedback:"),
        ({"more": 1}, "entry more:"),
        ({"out": ""}, "entry out:"),
        ({"study": "study.py"}, "both a study file and a table, or neither"),
        ({"data": None}, "both a study file and a table, or neither"),
        ({"directory": "a\0b"}, "a path contains a null character"),
    ],
)
def test_the_entry_at_fault_is_named(change, words):
    assert words in fault(VALID | change)
