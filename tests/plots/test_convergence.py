import numpy as np
import pytest
from arviz_plots import PlotCollection

from kem_pymc.errors import InputError
from kem_pymc.plots import edges_by_chain, traces
from tests.diagnostics.conftest import mixing, posterior_of


def test_traces_and_ranks_of_two_quantities():
    drawn = traces(posterior_of(*mixing(chains=3, draws=60)))
    assert isinstance(drawn, PlotCollection)
    figure = drawn.viz["figure"].item()
    assert [ax.get_title() for ax in figure.axes] == ["log joint"] * 2 + ["clusters"] * 2
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("chain 0", "chain 1", "chain 2")
    ]


def test_one_chain_has_no_ranks():
    with pytest.raises(InputError, match="at least 2"):
        traces(posterior_of(*mixing(chains=1, draws=10)))


def test_every_edge_has_a_row_with_all_chains(typed):
    inclusion, assignment = mixing(chains=2, draws=10)
    inclusion[0, ..., 1], inclusion[1, ..., 1] = True, False
    ax = edges_by_chain(posterior_of(inclusion, assignment))
    names = [typed(label.get_text()) for label in ax.get_yticklabels()]
    # In chain 0 WHITE -> LIN0 + PER0, which stays; in chain 1 the same with LIN0.
    assert sorted(names) == [
        *("LIN(week) + PER(week) stays", "LIN(week) stays"),
        "noise only \N{RIGHTWARDS ARROW} LIN(week)",
        "noise only \N{RIGHTWARDS ARROW} LIN(week) + PER(week)",
    ]
    marks = np.stack([c.get_offsets()[:, 0] for c in ax.collections[2:]])
    row = names.index("noise only \N{RIGHTWARDS ARROW} LIN(week)")
    np.testing.assert_allclose(marks[:, row], [0, 2 / 3])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["chain 0", "chain 1"]


def test_the_most_travelled_edges_are_drawn():
    tree = posterior_of(*mixing(chains=2, draws=10))
    assert len(edges_by_chain(tree, max_edges=1).get_yticks()) == 1
    with pytest.raises(InputError, match="max_edges is 0"):
        edges_by_chain(tree, max_edges=0)
