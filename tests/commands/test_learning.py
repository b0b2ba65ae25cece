import numpy as np
import pytest
import xarray as xr

from kem_pymc.commands.learning import verdict


def posterior(chains, draws, shift=0.0):
    values = np.random.default_rng(0).normal(size=(chains, draws))
    values += shift * np.arange(chains)[:, None]
    variables = {name: (("chain", "draw"), values) for name in ("n_clusters", "log_joint")}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


@pytest.mark.parametrize(
    ("idata", "words"),
    [
        (posterior(4, 200), "the chains agree: R-hat 1.00 for n_clusters, 1.00 for log_joint."),
        (posterior(4, 200, shift=2.0), "The chains differ still"),
        (posterior(1, 200), "too few to tell"),
        (posterior(4, 20), "too few to tell"),
    ],
)
def test_verdict(idata, words):
    assert words in verdict(idata)
