"""Densities of hyperparameters: ArviZ's, of every cluster's values by its members."""

import numpy as np
import pytest
from arviz_plots import PlotCollection
from matplotlib import pyplot

from kem_pymc.errors import InputError
from kem_pymc.plots import hyperparameters
from kem_pymc.plots.hyperparameters import _samples
from tests.evolutions.by_hand import evolutions


def test_clusters_count_by_their_members():
    values = {name: v[1][0] for name, v in _samples(evolutions(), "LIN0", "WHITE").items()}
    assert set(values) == {"log10 LIN0.amplitude", "LIN0.shift", "log10 noise variance"}
    # Clusters of 3, 1 and 5 members at levels 1, 2 and 1.5; coordinates are natural logs.
    level = np.repeat([1.0, 2.0, 1.5], [3, 1, 5])
    np.testing.assert_allclose(values["log10 LIN0.amplitude"], level / np.log(10))
    np.testing.assert_allclose(values["LIN0.shift"], level + 0.1)
    np.testing.assert_allclose(values["log10 noise variance"], (level + 0.2) / np.log(10))


def test_it_is_arviz_own():
    drawn = hyperparameters(evolutions(), "LIN0")
    assert isinstance(drawn, PlotCollection)
    figure = drawn.viz["figure"].item()
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["log10 LIN0.amplitude", "LIN0.shift", "log10 noise variance"]
    assert not pyplot.get_fignums()


def test_options_are_arviz():
    figure = hyperparameters(evolutions(), "LIN0", figure_kwargs={"figsize": (3, 2)})
    assert tuple(figure.viz["figure"].item().get_size_inches()) == (3, 2)


@pytest.mark.parametrize(("composition", "parent"), [("PER0", None), ("LIN0", "SE0")])
def test_what_no_user_had_is_refused(composition, parent):
    with pytest.raises(InputError, match=f"No pilot user had {composition}"):
        hyperparameters(evolutions(), composition, parent)
