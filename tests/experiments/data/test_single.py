import numpy as np
import pandas as pd
import pytest

from experiments.data.single import FILES, single
from kem_pymc.data.datasets import DataFileNotFoundError
from tests.data_home import needs
from tests.refusals import refused

#: Number of points and of inputs (PROVENANCE of the files).
SHAPES = {
    "airline": (144, 1),
    "mauna_loa": (545, 1),
    "solar": (402, 1),
    "methane_500": (500, 1),
    "concrete_full": (1030, 8),
    "boston_housing": (506, 13),
}


@pytest.mark.parametrize("name", FILES)
@needs(FILES["airline"])
def test_files_of_the_papers(name):
    found = single(name)
    assert found.x.shape == SHAPES[name]
    assert len(found.features) == SHAPES[name][1]
    assert np.isfinite(found.x).all()
    assert np.ptp(found.y) > 0
    if name == "boston_housing":
        assert (found.features[0], found.target, found.y[0]) == ("CRIM", "MEDV", 24.0)


def test_refusals(tmp_path):
    refused(lambda: single("boat"), "'boat'", "airline")
    with pytest.raises(DataFileNotFoundError, match=r"airline\.csv"):
        single("airline", tmp_path)
    (tmp_path / "boms").mkdir()
    pd.DataFrame({"x": ["a"], "y": [1]}).to_csv(tmp_path / "boms" / "airline.csv", index=False)
    refused(lambda: single("airline", tmp_path), "airline.csv")
