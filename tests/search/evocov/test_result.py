import math
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.result import predict
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.conftest import rhythm

X, Y = rhythm()
COMING = X[-1] + np.arange(1, 6) / 10


def test_best_is_the_kernel_with_the_smallest_bic(evolved):
    least = min(evolved.evaluations, key=lambda own: own.bic)
    assert evolved.best == least.tree
    assert evolved.path["score"].max() == -least.bic / 2
    assert evolved.selection.best.bic == least.bic
    assert least.tree.formula() in repr(evolved)
    assert escape(least.tree.formula()) in evolved._repr_html_()


def test_outcomes_are_counted(evolved):
    assert evolved.outcomes.total() == evolved.path["gradients"].sum()
    assert f"{evolved.outcomes['fine']} fine" in evolved._repr_html_()


def test_weights_of_different_kernels(evolved):
    kernels = evolved.selection.kernels
    texts = [str(kernel.tree) for kernel, _ in kernels]
    assert len(set(texts)) == len(texts)
    for kernel, weight in kernels:
        ratio = math.exp((kernels[0][0].bic - kernel.bic) / 2)
        assert weight / kernels[0][1] == pytest.approx(ratio)
        assert kernel.bic == min(o.bic for o in evolved.evaluations if o.tree == kernel.tree)


def test_of_several_fits_of_a_kernel_the_best_one_counts(evolved):
    first = evolved.selection.best
    worse, better = (replace(first, bic=first.bic + change) for change in (3.0, -3.0))
    again = replace(evolved, evaluations=(first, worse, better, worse))
    ((kernel, weight),) = again.selection.kernels
    assert kernel is better
    assert weight == 1.0


def test_predictions_are_the_mixture_in_the_targets_unit(evolved):
    selection, scaling = evolved.selection, evolved.scaling
    at = scaling.inputs(COMING[:, None])
    own = [predict(kernel, selection.x, selection.y, at, True) for kernel, _ in selection.kernels]
    weights = np.array([weight for _, weight in selection.kernels])
    weights /= weights.sum()
    assert len(own) > 1
    found = selection.predict(COMING, include_noise=True)
    mean = weights @ [p.mean for p in own]
    np.testing.assert_allclose(found.mean, scaling.mean_back(mean), rtol=1e-10)
    squares = weights @ [p.sd**2 + p.mean**2 for p in own] - mean**2
    np.testing.assert_allclose(found.sd, scaling.target_sd * np.sqrt(squares), rtol=1e-6)
    single = selection.predict(COMING, include_noise=True, single=True)
    np.testing.assert_allclose(single.mean, scaling.mean_back(own[0].mean), rtol=1e-10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exp(exp(exp(dot_prod(euc(x), h1, h0))))", "overflow"),
        ("multiply(sq_dist(euc(x), h0), hp(h1))", "isn't positive definite"),
    ],
)
def test_refuses_kernels_that_fail_on_the_data(text, message):
    """Far from the data a kernel may overflow that could be fitted."""
    x = np.linspace(0, 1, 10)[:, None]
    kernel = Individual(Tree.parse(text), np.array([1.0, 1.0, 0.1]), 0.0, 0.0, {})
    with pytest.raises(InputError, match=message):
        predict(kernel, x, x[:, 0], np.array([[50.0]]))
