"""Candidates for categorical features: CAT, alone and multiplied by a smooth function of time."""

from collections.abc import Iterable

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Factor

#: Name of the base kernel of categories.
CAT = "CAT"


def category_features(cohort: Cohort) -> frozenset[int]:
    """Return the indices of the features of a cohort that are categories."""
    return frozenset(d for d, name in enumerate(cohort.features) if name in cohort.levels)


def number_features(cohort: Cohort) -> list[int]:
    """Return the indices of the features of a cohort that aren't categories."""
    return [d for d in range(cohort.dimension) if d not in category_features(cohort)]


def smooth_function(features: Iterable[int]) -> list[Candidate]:
    """Return a list with the product of SE over these features; empty if there are none."""
    factors = tuple(Factor("SE", d) for d in features)
    return [Candidate(factors)] if factors else []


def over_time(cohort: Cohort, categories: Iterable[int]) -> list[Candidate]:
    """Return CAT of each of these features times SE of the time.

    Empty if the time isn't a feature.
    """
    if cohort.time is None:
        return []
    time = Factor("SE", cohort.features.index(cohort.time))
    return [Candidate((Factor(CAT, d), time)) for d in sorted(categories)]


def suits(candidate: Candidate, cohort: Cohort) -> bool:
    """Return whether a candidate treats no categories as numbers, and no numbers as categories.

    A feature with two levels, coded 0 and 1, may also be treated as numbers.
    """
    return all(_suits(factor, cohort) for factor in candidate.factors)


def check_categories(candidates: Iterable[Candidate], cohort: Cohort) -> None:
    """Check that candidates suit the features of a cohort; see :func:`suits`.

    Factors of features that the cohort doesn't have are not checked.

    Raises
    ------
    InputError
        If a candidate doesn't suit the features.
    """
    for candidate in candidates:
        for factor in candidate.factors:
            if factor.dimension >= cohort.dimension or _suits(factor, cohort):
                continue
            name = cohort.features[factor.dimension]
            if factor.base == CAT:
                raise InputError(
                    f"Candidate {candidate} treats {name} as categories, but it has numbers. Use "
                    f"LIN{factor.dimension} or SE{factor.dimension}, or read the column as "
                    "categories ({categorical}).",
                    categorical=...,
                )
            raise InputError(
                f"Candidate {candidate} treats the {len(cohort.levels[name])} categories of {name} "
                f"as numbers. Use {CAT}{factor.dimension}."
            )


def _suits(factor: Factor, cohort: Cohort) -> bool:
    levels = cohort.levels.get(cohort.features[factor.dimension], ())
    return bool(levels) if factor.base == CAT else len(levels) <= 2
