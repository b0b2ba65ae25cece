import numpy as np
import pytest

from kem_pymc.data.validation import check_points
from tests.cohorts import frame
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
