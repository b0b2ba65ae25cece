from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from kem_pymc.cli.learning import verdict


def posterior(chains, draws, shift=0.0):
    values = np.random.default_rng(0).normal(size=(chains, draws))
    values += shift * np.arange(chains)[:, None]
    variables = {name: (("chain", "draw"), values) for name in ("n_clusters", "log_joint")}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


BOTH = "The chains agree in the number of clusters (R-hat 1.00), the log joint density (R-hat 1.00)"


@pytest.mark.parametrize(
    ("idata", "apart", "words"),
    [
        (posterior(4, 200), "", BOTH),
        (posterior(4, 200), "", "To check every dataset, run `kem diagnose 'my fit'`."),
        (posterior(4, 200), "The chains disagree in SE0.", "The chains disagree in SE0. Sample"),
        (posterior(4, 200, 2.0), "", "The chains still differ in the number of clusters (R-hat"),
        (
            posterior(4, 200, 2.0),
            "",
            "Sample more draws (--draws and --tune of kem fit).",
        ),
        (posterior(1, 200), "", "too few to tell"),
        (posterior(4, 20), "", "too few to tell"),
    ],
)
def test_verdict(idata, apart, words):
    """It claims what it looked at, names who looks at the rest, and what helps."""
    assert words in verdict(idata, apart, Path("my fit"))
