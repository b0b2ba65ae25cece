"""Default candidates of a table."""

import numpy as np

from kem_pymc._system.options import checked
from kem_pymc.data.categories import (
    CAT,
    category_features,
    number_features,
    over_time,
    smooth_function,
)
from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.composition import Candidate, Factor
from kem_pymc.kernels.pool import CandidatePool

#: Base kernels of a table's default candidates.
DEFAULT_BASE = ("CONST", "LIN", "PER", "SE")


@checked
def default_pool(cohort: Cohort, interactions: bool = False) -> CandidatePool:
    """Return the default candidates of a table, used if the user names none.

    They are CONST, then LIN, PER and SE on every feature, and ARD, the product of SE over all; but
    a feature with two values has LIN alone, as in the paper's studies: a line goes through any two
    points. Categories have CAT, alone and multiplied by SE of the time. A feature whose value is
    the same in all rows of every user carries no information on the user's individual function, so
    it has no candidates and isn't part of ARD: it belongs to the function that users share.

    Parameters
    ----------
    cohort : Cohort
        Pilot users.
    interactions : bool
        Whether products of two factors are included as well.

    Returns
    -------
    CandidatePool
    """
    usual = CandidatePool.from_base(DEFAULT_BASE, cohort.dimension, interactions, ard=False)
    numbers = [d for d in number_features(cohort) if d not in cohort.constant]
    categories = sorted(category_features(cohort) - cohort.constant)
    values = np.concatenate(cohort.inputs).T
    two = {d for d, column in enumerate(values) if len(np.unique(column)) <= 2}

    def kept(candidate: Candidate) -> bool:
        flags = [factor for factor in candidate.factors if factor.dimension in two]
        once = len({factor.dimension for factor in flags}) == len(flags)
        lines = once and all(factor.base == "LIN" for factor in flags)
        return lines and candidate.dimensions <= {*numbers}

    # ARD: the product of SE over all numbers, including those with two values.
    smooth = smooth_function(numbers) if len(numbers) > 1 else []
    candidates = [c for c in usual if kept(c) or c in smooth]
    candidates += [c for c in smooth if c not in candidates]
    candidates += [Candidate((Factor(CAT, d),)) for d in categories]
    return CandidatePool([*candidates, *over_time(cohort, categories)], cohort.dimension)
