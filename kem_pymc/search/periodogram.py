"""Periods that data suggest, from which fits of periodic kernels start."""

import numpy as np
from scipy.signal import find_peaks, lombscargle

#: Number of frequencies per independent one.
OVERSAMPLING = 4

#: Number of entries of a matrix of frequencies by points.
ENTRIES = 1_000_000

#: Degree of the polynomial that is subtracted first: a trend would have the largest power.
DEGREE = 2


def periods(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Return the periods of the highest peaks of the Lomb-Scargle periodogram, the highest first.

    Parameters
    ----------
    x : ndarray, shape (n,)
        Values of one input, scaled to [0, 1]; they may be repeated and irregular.
    y : ndarray, shape (n,)
        Standardised targets.
    count : int
        Number of periods at most.

    Returns
    -------
    ndarray, shape (p,)
        Periods from two mean steps between different inputs to half of their range; none if there
        are fewer than 8 different inputs.
    """
    different = len(np.unique(x))
    if different < 8:
        return np.empty(0)
    rest = y - np.polynomial.Polynomial.fit(x, y, DEGREE)(x)
    if not rest.std() > 1e-10 * y.std():
        return np.empty(0)
    frequencies = np.arange(2.0, different / 2, 1 / OVERSAMPLING)
    # SciPy makes matrices of frequencies by points: at once they would take gigabytes.
    parts = np.array_split(2 * np.pi * frequencies, 1 + len(frequencies) * len(x) // ENTRIES)
    power = np.concatenate([lombscargle(x, rest, part) for part in parts])
    peaks, _ = find_peaks(np.pad(power, 1))
    peaks -= 1
    highest = peaks[np.argsort(-power[peaks], kind="stable")[:count]]
    return 1 / frequencies[highest]
