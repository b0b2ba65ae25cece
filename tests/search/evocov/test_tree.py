"""Text, formulas and hyperparameters of trees."""

import pytest

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import PRIMITIVES, SE, TABLE_1


@pytest.mark.parametrize(
    "text", ["exp(7.25)", *PRIMITIVES.values(), *(row[0] for row in TABLE_1.values())]
)
def test_text_is_read_as_it_is_written(text):
    tree = Tree.parse(text)
    assert str(tree) == text
    assert Tree.parse(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "isn't one complete"),
        ("add(1.0", "isn't one complete"),
        ("add(1.0, 2.0) 3.0", "isn't one complete"),
        ("add 1.0 2.0", "isn't one complete"),
        ("exp(inf)", "no primitive 'inf'"),
        ("exp(7_5.0)", "no primitive '7_5.0'"),
        ("exp(\u00a01.0)", "no primitive"),  # no space, to DEAP
        ("__import__('os').system('echo')", "no primitive"),
        ("exp(h0)", "wrong type"),
        ("sq_dist(x, h0)", "wrong type"),
        ("spectral(x, h0)", "gives Features"),
        ("h0", "gives Scalar"),
        (40 * "exp(" + "1.0" + 40 * ")", "41 levels"),
    ],
)
def test_refuses_what_is_not_a_tree(text, message):
    """A file must not run code, nor give a tree that the interpreter can't run."""
    with pytest.raises(InputError, match=message):
        Tree.parse(text)


def test_frequencies_are_what_spectral_multiplies_by():
    tree = Tree.parse("add(sq_dist(spectral(x, h1), h0), dot_prod(spectral(x, h2), h3, h1))")
    assert tree.hyperparameters == ("h1", "h0", "h2", "h3")
    assert tree.frequencies == (True, False, True, False)


def test_positive_unless_only_a_shift():
    """The log of a shift would exclude negative ones, that of a length can't be left out."""
    tree = Tree.parse("add(dot_prod(spectral(x, h4), h2, h0), dot_prod(euc(x), h0, h7))")
    assert tree.hyperparameters == ("h4", "h2", "h0", "h7")
    assert tree.positive == (True, False, True, True)


def test_formulas():
    """Parentheses are where they are needed."""
    tree = Tree.parse(SE)
    assert tree.formula() == "h0^2 * exp(-0.5 * |x - x'|^2 / h1^2)"
    assert tree.latex() == (
        r"\theta_{0}^2 \, \exp\left(-0.5 \, \frac{\lVert x - x' \rVert^2}{\theta_{1}^2}\right)"
    )
    tree = Tree.parse("multiply(add(-1.0, hp(h0)), square(div(add(2.0, power(-1.0, h1)))))")
    assert tree.formula() == "(-1 + h0) * (1 / (2 + (-1)^h1))^2"
    tree = Tree.parse("dot_prod(spectral(x, h0), h1, h2)")
    assert tree.formula() == "(sincos(h0 x) - h1)·(sincos(h0 x') - h1) / h2"
    tree = Tree.parse("multiply(div(hp(h0)), multiply(hp(h1), div(multiply(hp(h2), exp(1.0)))))")
    assert tree.formula() == "1 / h0 * h1 / (h2 * exp(1))"
