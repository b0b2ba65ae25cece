"""Expected improvement, by which the next point of an optimisation is chosen."""

import numpy as np
from scipy.special import log_ndtr, ndtr

#: Smallest standard deviation, and difference to the best value, in standard deviations, from which
#: an asymptotic expansion is exact enough.
SMALLEST, FAR = 1e-12, -25.0


def expected_improvement(mean: np.ndarray, sd: np.ndarray, best: float) -> np.ndarray:
    """Return the expected improvement on the smallest value (Jones et al. 1998, eq. 15).

    Parameters
    ----------
    mean, sd : ndarray, shape (m,)
        Moments of normal distributions. Without variance the improvement is certain.
    best : float
        Smallest value.
    """
    return np.exp(log_expected_improvement(mean, sd, best))


def log_expected_improvement(mean: np.ndarray, sd: np.ndarray, best: float) -> np.ndarray:
    """Return the logarithm of the expected improvement, also where that is too small for a float.

    With ``z = (best - mean) / sd`` the improvement is ``sd (phi(z) + z Phi(z))``. Below zero the
    sum is ``phi(z) (1 + z Phi(z) / phi(z))``, far below about ``phi(z) / z^2 (1 - 3 / z^2)``.
    """
    sd = np.maximum(sd, SMALLEST)
    z = (best - mean) / sd
    above, near, far = np.maximum(z, 0.0), np.clip(z, FAR, 0.0), np.minimum(z, FAR)
    constant = 0.5 * np.log(2 * np.pi)
    high = np.log(np.exp(-0.5 * above**2 - constant) + above * ndtr(above))
    ratio = np.exp(log_ndtr(near) + 0.5 * near**2 + constant)
    middle = -0.5 * near**2 - constant + np.log1p(near * ratio)
    low = -0.5 * far**2 - constant - 2 * np.log(-far) + np.log1p(-3 / far**2)
    return np.log(sd) + np.where(z > 0, high, np.where(z > FAR, middle, low))
