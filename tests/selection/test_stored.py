"""Selections as plain data: what they predict is the same to the last bit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.stored import from_dict, to_dict
from kem_pymc.trial.answers import answers
from tests.selection.test_families import FAMILIES, data


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_are_the_same_and_all_answers_can_be_stored(learned, name):
    """Fails where observations that stand for targets of a family, or sizes, are left out."""
    x, y, sizes, scaling = data(name)
    selector = KEMSelector(replace(learned, scaling=scaling))
    given = {} if sizes is None else {"sizes": sizes}
    first = selector.select(x[:9], y[:9], **{key: one[:9] for key, one in given.items()})
    for way, one in answers(selector, x, y, first, given).items():
        found = one()
        back = from_dict(json.loads(json.dumps(to_dict(found))), selector, x, y, **given)
        assert json.dumps(to_dict(back)) == json.dumps(to_dict(found))
        for single in (False, True):
            before, after = (each.predict([[3.0], [22.0]], single=single) for each in (found, back))
            assert before.function.mean.tolist() == after.function.mean.tolist(), way
            assert before.function.sd.tolist() == after.function.sd.tolist(), way
            assert np.array_equal(before.noises, after.noises)
