"""Marks of tests that read data which aren't in the repository."""

import pytest

from kem_pymc.data.datasets import data_home


def needs(*names):
    """Skip tests if the data home lacks one of the files or folders with these names."""
    missing = [name for name in names if not (data_home() / name).exists()]
    reason = f"not in the data home: {', '.join(missing)}. Set KEM_DATA to the folder that has it"
    return pytest.mark.skipif(bool(missing), reason=reason)
