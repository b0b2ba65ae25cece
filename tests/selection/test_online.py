import numpy as np

from kem_pymc.data.cohort import Cohort
from kem_pymc.selection.online import predictions
from tests.refusals import refused


def test_features_need_columns_of_their_own():
    cohort = Cohort(("a",), (np.ones((2, 1)),), (np.ones(2),), (np.array([2]),), ("mean",))
    refused(lambda: predictions({"a": []}, cohort), "'mean'")
