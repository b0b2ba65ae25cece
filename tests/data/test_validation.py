import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points
from kem_pymc.gp.process import draw_functions
from kem_pymc.search.points import scaled
from tests.cohorts import ROLES, frame
from tests.refusals import refused


class TestCheckPoints:
    def test_one_feature_may_come_flat(self):
        x, y = check_points([1, 2], [3, 4], 1)
        assert (x.shape, y.shape) == ((2, 1), (2,))
        assert x.dtype == y.dtype == np.float64

    def test_tables_and_columns(self):
        x, y = check_points(frame()[["x", "z"]], frame()["y"], 2)
        np.testing.assert_array_equal(x, frame()[["x", "z"]].to_numpy())
        assert y.shape == (6,)

    @pytest.mark.parametrize(
        ("x", "y", "dimension"),
        [
            ([1, 2], [3, 4], 2),
            ([[1, 2]], [3], 1),
            ([[[1]]], [3], 1),
            ([[1], [2]], [3], 1),
            ([[1], [2]], [[3], [4]], 1),
            (np.zeros((0, 1)), [], 1),
            ([], [], 1),
            (1.0, 1.0, 1),
            ([[1, 2], [3]], [1, 2], 2),
            ([np.nan], [1], 1),
            ([1], [np.inf], 1),
            ([2e12], [1], 1),
            (["1"], [1], 1),
            ([1], ["1"], 1),
            ([None], [1], 1),
            ([1j], [1], 1),
        ],
    )
    def test_refuses(self, x, y, dimension):
        refused(lambda: check_points(x, y, dimension))


def test_masked_numbers_are_missing():
    """Fails where what is below a mask is taken for data, at a door where arrays come in."""
    y = np.ma.array([1.0, 99.0, 3, 4, 5, 6], mask=[0, 1, 0, 0, 0, 0])
    whole, known, ends = np.ma.array(y, dtype=int), y.data.copy(), np.ma.array([2, 6], mask=[1, 0])
    for bad in (y, whole, np.ma.array([known, y])[1]):
        refused(lambda bad=bad: check_points(known, bad, 1), "targets contain a missing")
        refused(lambda bad=bad: check_points(bad, known, 1), "inputs contain a missing")
        refused(lambda bad=bad: scaled(bad, known), "missing")
        refused(lambda bad=bad: draw_functions("SE0", bad, {}), "aren't finite")
        assert np.isnan(Scaling.identity(1).targets(bad)[1])
        refused(lambda bad=bad: Cohort.from_frame(frame(y=bad), **ROLES), "'y'", "row 1")
    refused(lambda: check_points([[1, 2], [3, 4]], np.ma.masked_all(2), 2), "missing")
    rows = [np.ma.array([1.0, 99], mask=[0, 1]), np.ma.array([3.0, 4])]
    refused(lambda: check_points(rows, [1, 2], 2), "missing")
    refused(lambda: Cohort((1,), (known[:, None],), (known,), (ends,), ("x",)), "end at")
    # Without a masked number, an array is one like others.
    np.testing.assert_array_equal(check_points(known, np.ma.array(known), 1)[1], known)
