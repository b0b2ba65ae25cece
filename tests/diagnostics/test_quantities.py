"""What is read from a posterior, and which quantities are assessed."""

import numpy as np
import pytest

from kem_pymc.diagnostics.convergence import RHAT
from kem_pymc.diagnostics.diagnosis import diagnose
from kem_pymc.diagnostics.quantities import Draws, compositions, parents, varying
from kem_pymc.errors import InputError
from tests.diagnostics.conftest import mixing, posterior_of


def test_a_learned_concentration_is_a_quantity(mixed):
    assert "concentration" not in diagnose(mixed).convergence["quantity"].tolist()
    alpha = np.random.default_rng(0).gamma(2, size=(4, 200))
    alpha[3] += 5
    tree = posterior_of(*mixing(), concentration=alpha)
    row = diagnose(tree).convergence.set_index("quantity").loc["concentration"]
    assert row["mean"] == pytest.approx(alpha.mean())
    assert row["r_hat"] > RHAT


@pytest.mark.parametrize(
    ("name", "words"),
    [("noise", "lacks variables"), ("concentration", "lacks the variable concentration")],
)
def test_variables_have_to_be_there(name, words):
    tree = posterior_of(*mixing(), concentration=np.ones((4, 200)))
    tree["posterior"] = tree["posterior"].to_dataset().drop_vars(name)
    with pytest.raises(InputError, match=words):
        diagnose(tree)


def test_compositions_are_numbered_with_the_empty_one_first():
    """Fails where the empty composition has no number because no draw has it."""
    inclusion, assignment = mixing(chains=1, draws=6, users=1, steps=3)
    inclusion[0, :, 0, 2] = [False, True, True]
    draws = Draws.of(posterior_of(inclusion, assignment))
    code, named = compositions(draws)
    names = [str(composition) for composition in named]
    assert names[0] == "WHITE"
    assert set(names[1:]) == {"LIN0", "LIN0 + PER0", "PER0 + SE0"}
    assert [names[k] for k in code[0, :, 0, 2]] == ["PER0 + SE0"] * 6
    both = inclusion[0, :, 0, 0, 1]
    assert [names[k] for k in code[0, :, 0, 0]] == [
        "LIN0 + PER0" if own else "LIN0" for own in both
    ]
    above = parents(code)
    assert (above[..., 0] == 0).all()
    np.testing.assert_array_equal(above[..., 1:], code[..., :-1])


def test_what_hardly_varies_is_left_out(mixed):
    """Fails where candidates that are always in or out count as quantities that agree."""
    draws = Draws.of(mixed)
    table = varying(draws)
    size = table["value"].sel(column=(table["quantity"] == "size") & (table["user"] == "u0"))
    np.testing.assert_array_equal(size.values, draws.inclusion[:, :, 0].sum(axis=-1))
    inclusion = mixed["posterior"]["inclusion"].values.copy()
    inclusion[0, :10, 0, 0, 2] = 1  # 10 of 800 draws: less than 2 percent
    few = varying(Draws.of(posterior_of(inclusion.astype(bool), draws.assignment)))
    inclusion[0, :20, 0, 0, 2] = 1
    more = varying(Draws.of(posterior_of(inclusion.astype(bool), draws.assignment)))
    assert more.sizes["column"] == few.sizes["column"] + 1 == table.sizes["column"] + 1
    assert "SE0" in more["candidate"].values
