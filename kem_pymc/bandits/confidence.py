"""How far upper confidence bounds are above means: beta_t of theorems 7 and 8."""

import math

from kem_pymc._system.options import check_whole, checked
from kem_pymc.errors import InputError


@checked
def exploration(
    t: int,
    *,
    points: int | None = None,
    components: int = 1,
    dimension: int = 1,
    width: float = 1.0,
    smoothness: tuple[float, float] = (1.0, 1.0),
    delta: float = 0.05,
) -> float:
    """Return beta_t of theorems 7 and 8, for a finite number of points or a continuous space.

    For m points it is ``2 log(m J t^2 pi^2 / (6 delta))``, with J = 1 for a linear decomposition
    (theorem 7). For a continuous space it is ``2 log(2 J t^2 pi^2 / (3 delta))
    + 2 d log(t^2 d b r sqrt(log(4 d a / delta)))``, whose second logarithm isn't below zero here.

    With the probability 1 - delta or more, all components (J = 1: the objective) are within
    sqrt(beta_t) posterior standard deviations of their means at all points and in all rounds, and
    the regret is below the theorems' bound. This supposes that the components are draws of the
    processes, with their hyperparameters and noise and, for the regret, variances of one at most;
    and in a continuous space that a and b are right. A smaller beta has no such probability: a
    fifth of it, as in the paper's experiments, is sqrt(beta) = 2.0 for 1,000 points and a delta of
    .05 in the first round, when 21 of the points are expected to have values beyond their upper
    bounds.

    Parameters
    ----------
    t : int
        Number of the round, from 1 on.
    points : int, optional
        Number of points m; by default the space is continuous.
    components : int
        J of theorem 8; 1 for theorem 7.
    dimension : int
        Number of inputs d.
    width : float
        Largest width r of the space.
    smoothness : tuple of two floats
        a and b: the probability that a derivative exceeds L is at most ``a exp(-(L / b)^2)``.
    delta : float
        Probability with which the bounds may fail.
    """
    number = 1 if points is None else points
    check_whole(t=t, points=number, components=components, dimension=dimension)
    if not (0 < delta < 1 and width > 0 and all(number > 0 for number in smoothness)):
        raise InputError(
            f"delta is {delta}, width {width} and smoothness {smoothness}. Give a delta between 0 "
            "and 1, and a positive width and two positive numbers."
        )
    if points is not None:
        return 2 * math.log(points * components * t**2 * math.pi**2 / (6 * delta))
    a, b = smoothness
    spread = t**2 * dimension * b * width * math.sqrt(math.log(4 * dimension * a / delta))
    first = 2 * math.log(2 * components * t**2 * math.pi**2 / (3 * delta))
    return first + 2 * dimension * math.log(max(spread, 1.0))
