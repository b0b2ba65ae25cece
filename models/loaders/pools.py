"""Candidate pools of the paper's studies (section 10.2.3), and of the others with loaders here.

The paper states each pool's size and which features interact; if it doesn't specify the candidates,
the comments below explain how they were chosen. Dimensions are indices of the loaders' features,
from 0. ``ARD`` is the product of SE over all dimensions.
"""

from collections.abc import Iterable

from kem_pymc.errors import InputError


def candidates(name: str) -> list[str]:
    """Return the candidate pool of a study.

    Parameters
    ----------
    name : str
        Name of the study: "synthetic", "energy", "housing", "fires", "concrete", "mimic",
        "heartsteps"; or "mimic_demo", "heartsteps_daily", "heartsteps_forecast", which aren't
        studies of the paper.

    Returns
    -------
    list of str
        Candidates, like ``"LIN0"``, ``"LIN0 x PER0"`` or ``"ARD"``. There are 8, 16, 38, 35, 39, 50
        and 95 for the studies of the paper, and 50, 73 and 68 for the others, in the order above.

    Raises
    ------
    InputError
        If the study is unknown.
    """
    if name not in _POOLS:
        raise InputError(f"There is no candidate pool {name!r}. Use one of {', '.join(_POOLS)}.")
    return list(_POOLS[name])


def _each(base: str, dimensions: Iterable[int]) -> list[str]:
    return [f"{base}{d}" for d in dimensions]


def _linear_times_smooth(dimension: int, others: Iterable[int]) -> list[str]:
    """Return products of LIN of a feature with SE of each other feature.

    Each models a smooth effect of the other feature that is proportional to this one.
    """
    return [f"LIN{dimension} x SE{d}" for d in others if d != dimension]


def _vitals() -> list[str]:
    """Return candidates for 13 vitals and a binary feature (13) that interacts with all of them."""
    settings = (1, 2, 5, 6)
    return [
        *_each("LIN", range(14)),
        *_each("PER", (d for d in range(13) if d not in settings)),
        *_each("SE", range(13)),
        *_linear_times_smooth(13, range(13)),
        "ARD",
    ]


def _days(numbers: int, binary: int) -> list[str]:
    """Return candidates for user-days of HeartSteps.

    The features are `numbers` numeric ones, followed by `binary` ones: travel, weekend and others.
    """
    travel, weekend = numbers, numbers + 1
    others = range(numbers + 2, numbers + binary)
    return [
        *_each("LIN", range(numbers + binary)),
        *_each("PER", range(numbers)),
        *_each("SE", range(numbers)),
        *_linear_times_smooth(travel, range(numbers)),
        *_linear_times_smooth(weekend, range(numbers)),
        *(f"LIN{flag} x LIN{d}" for flag in (travel, weekend) for d in others),
        f"LIN{travel} x LIN{weekend}",
        "ARD",
    ]


_POOLS: dict[str, list[str]] = {
    # 3 basic + 5 interactions. The paper lists PER0 x SE0 twice and states "up to the second
    # degree", so one of the two is interpreted as PER0 x PER0; SE0 x SE0 would be SE0 again.
    "synthetic": [
        "LIN0",
        "PER0",
        "SE0",
        "LIN0 x LIN0",
        "LIN0 x PER0",
        "LIN0 x SE0",
        "PER0 x PER0",
        "PER0 x SE0",
    ],
    # LIN on all 8 + SE on the 7 that aren't binary (overall_height, 4, has two values) + ARD.
    # No PER: every feature has at most 12 distinct values, too few to show a period.
    "energy": [*_each("LIN", range(8)), *_each("SE", (0, 1, 2, 3, 5, 6, 7)), "ARD"],
    # LIN on all 13 + PER and SE on the 12 that aren't binary (CHAS, 3, is 0 or 1) + ARD.
    "housing": [
        *_each("LIN", range(13)),
        *_each("PER", (d for d in range(13) if d != 3)),
        *_each("SE", (d for d in range(13) if d != 3)),
        "ARD",
    ],
    # 26 basic: LIN and SE on all 9, PER on the 8 other than month (1; four summer months show no
    # period) + wind speed (4) with each of the 8 other features + ARD. LIN on wind speed: the
    # Initial Spread Index is another feature's function times an increasing one of wind speed.
    "fires": [
        *_each("LIN", range(9)),
        *_each("PER", (d for d in range(9) if d != 1)),
        *_each("SE", range(9)),
        *_linear_times_smooth(4, range(9)),
        "ARD",
    ],
    # 24 basic + 14 interactions: cement (0) and age (7), each with the 7 other features + ARD.
    "concrete": [
        *_each("LIN", range(8)),
        *_each("PER", range(8)),
        *_each("SE", range(8)),
        *_linear_times_smooth(0, range(8)),
        *_linear_times_smooth(7, range(8)),
        "ARD",
    ],
    # LIN on all 14 + SE on the 13 that aren't binary + PER on the 9 of these that are measured, not
    # set at the ventilator (PEEP, 1, set tidal volume, 2, set rate, 5, and FiO2, 6, have about 12
    # round values, too few to show a period) + vasopressors (13) with each of the 13 others + ARD.
    "mimic": _vitals(),
    # The same, with hypotension (13) in place of vasopressors.
    "mimic_demo": _vitals(),
    # LIN on all 23 + PER and SE on the 14 that aren't binary + travel (14) and weekend (15) with
    # each of the 21 others, SE or, on a binary one, LIN + travel with weekend + ARD: 23 + 28 + 42 +
    # 2 = 95.
    "heartsteps": _days(numbers=14, binary=9),
    # The same rule on 12 numbers and 5 binary features: 17 + 24 + 30 + 2 = 73.
    "heartsteps_daily": _days(numbers=12, binary=5),
    # Without google_fit_steps.
    "heartsteps_forecast": _days(numbers=11, binary=5),
}
