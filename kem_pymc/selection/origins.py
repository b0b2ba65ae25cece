"""What pilot users, each as if new, say on the weights of kernels of different origins."""

from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from kem_pymc.evolutions.novelty import (
    USUAL,
    WEIGHTS,
    Novelty,
    chosen_weight,
    probability_of_novelty,
)
from kem_pymc.gp.prediction import Prediction, averaged
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scorer import normalised
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous


class Origins(NamedTuple):
    """Predictions of a user's next time step by kernels of each origin.

    Origins are the kernels that followed the user's last one, the pilot users' final ones, and, if
    users share something, those of users who don't follow it. By Bayes' theorem the prediction is a
    mixture with weights proportional to prior times evidence.

    Attributes
    ----------
    user, step, points : int
        Positions of the user and of the time step, and the number of points up to it.
    novelty : float
        Probability of final kernels in the model, the least that they have.
    departure : float
        Prior probability that the user doesn't follow what pilot users share.
    log_evidence : ndarray, shape (k,)
        Log evidence of each origin's kernels for the user's data.
    predictions : list of Prediction, length k
    targets : ndarray, shape (m,)
        The targets that are predicted.
    """

    user: int
    step: int
    points: int
    novelty: float
    departure: float
    log_evidence: np.ndarray
    predictions: list[Prediction]
    targets: np.ndarray

    @classmethod
    def of(
        cls,
        selector: KEMSelector,
        selection: Selection,
        previous: Previous,
        user: int,
        step: int,
        x: np.ndarray,
        y: np.ndarray,
        given: dict[str, Any],
    ) -> Self:
        """Divide a selection by origins, and predict the points of the next time step.

        Parameters
        ----------
        selector : KEMSelector
        selection : Selection
            One of that selector in which no origin has the weight zero.
        previous : Selection or None
        user, step : int
        x, y, given
            Inputs (m, D) and targets (m,) to predict, and what is known of them.
        """
        evolutions, novelty = selector.evolutions, 1.0
        ways = [replace(selection, unshared=None, departure=0.0)] * 2  # where all have one origin
        if evolutions.final is not None:
            novelty = probability_of_novelty(evolutions, selector.parent(previous))
            ways = [selector.with_weight(selection, previous, weight) for weight in (0.0, 1.0)]
        if selection.unshared is not None:
            ways.append(selection.unshared)
        departure = 0.0 if selection.unshared is None else selector.departure
        evidence = np.array([way.log_evidence for way in ways])
        predictions = [way.predict(x, include_noise=True, **given) for way in ways]
        n = len(selection.y)
        return cls(user, step, n, novelty, departure, evidence, predictions, y)

    def weights(self, weight: float) -> np.ndarray:
        """Return the weights (k,) of origins, if final kernels have a prior weight."""
        share = 1.0
        if self.novelty < 1:
            share = max((weight - self.novelty) / (1 - self.novelty), 0.0)
        priors = [(1 - self.departure) * (1 - share), (1 - self.departure) * share, self.departure]
        with np.errstate(divide="ignore"):
            scores = np.log(priors[: len(self.predictions)]) + self.log_evidence
        return normalised(np.nan_to_num(scores, nan=-np.inf).tolist())

    def prediction(self, novelty: Novelty | None) -> Prediction:
        """Return the prediction with the weight of final kernels at the number of points."""
        weight = 1.0 if novelty is None else novelty.at(self.points)
        return averaged(self.predictions, self.weights(weight))

    def scores(self) -> np.ndarray:
        """Return the mean log density of the targets with each of `WEIGHTS`."""
        densities = np.array([p.observation.log_density(self.targets) for p in self.predictions])
        weights = np.array([self.weights(weight) for weight in WEIGHTS])
        return logsumexp(densities, b=weights[:, :, None], axis=1).mean(axis=1)


def learned_novelty(steps: list[Origins]) -> Novelty:
    """Return the weight of final kernels from 1, 2, 4, 8, ... points on.

    It is the usual one unless others predict better
    (:func:`kem_pymc.evolutions.novelty.chosen_weight`). Time steps between two doublings are taken
    together, and left out if fewer than two users have any.
    """
    every: defaultdict[int, defaultdict[int, list[np.ndarray]]]
    every = defaultdict(lambda: defaultdict(list))
    for one in steps:
        every[one.points.bit_length() - 1][one.user].append(one.scores())
    weights = {
        2**doubling: chosen_weight(np.array([np.mean(own, axis=0) for own in users.values()]))
        for doubling, users in sorted(every.items())
        if len(users) > 1
    } or {1: USUAL}
    return Novelty(tuple(weights), tuple(weights.values()))
