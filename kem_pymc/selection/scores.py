"""Scores of selections: accuracy of their predictions of later data, and changes over time."""

import math
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.calibration import FURTHEST, NORMAL, Outcome, score
from kem_pymc.gp.prediction import Prediction
from kem_pymc.gp.response import Response
from kem_pymc.selection.online import Trajectories
from kem_pymc.selection.selection import Selection

type ScoreTarget = Literal["next", "truth"]

#: Probabilities of the central predictive intervals whose coverage is reported, in per cent.
LEVELS = (50, 80, 95)

#: Least log density of a point that is kept, in place of infinitely little.
LEAST = -1e6


@checked
def scores(
    trajectories: Trajectories, cohort: Cohort, target: ScoreTarget = "next"
) -> pd.DataFrame:
    """Score every selection of :func:`kem_pymc.select_online` against later data.

    Parameters
    ----------
    trajectories : dict
        Selections of each user at each time step, from :func:`kem_pymc.select_online`.
    cohort : Cohort
        Cohort for which the selections were made.
    target : {"next", "truth"}
        Data against which predictions are scored: the batch of the next time step, which excludes
        the last selection of every user; or the true function with noise on a grid, for simulated
        users.

    Returns
    -------
    DataFrame
        One row per user and time step. The columns are ``user`` and ``time_step`` (from 0);
        predictive scores as means over the points, in units of scaled targets (``log_likelihood``,
        ``crps``, ``rmse``, and coverage of central intervals ``cover50``, ``cover80``,
        ``cover95``); ``observed`` and ``classes`` if targets are classes, see
        :func:`predictive_scores`; and properties of the selection: ``points``, ``composition``,
        ``size``, ``features``, ``noise``, ``considered``, ``seconds``, and ``dropped``, the number
        of features that the previous selection used and this one doesn't.

    Raises
    ------
    InputError
        If the selections are those of other users, the cohort has no truth, or no user has a next
        time step.
    """
    if list(trajectories) != list(cohort.users) or (target == "truth" and cohort.truth is None):
        raise InputError(
            "The selections are those of other users than the cohort's, or the cohort has no "
            "truth. Give the cohort for which they were made, and for real users call "
            "scores(..., target='next')."
        )
    rows = []
    for position, (user, selections) in enumerate(trajectories.items()):
        for step, selection in enumerate(selections):
            points = points_to_predict(cohort, position, step, target)
            if points is not None:
                x, y, given = points
                row = row_of(selection, selections[step - 1] if step else None)
                score = predictive_scores(selection, x, y, **given)
                rows.append({"user": user, "time_step": step} | score | row)
    if not rows:
        raise InputError(
            "The scores need a next batch, but no user has a second time step. "
            "Give users with two or more time steps."
        )
    return pd.DataFrame(rows)


def points_to_predict(
    cohort: Cohort, user: int, time_step: int, target: str
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]] | None:
    """Return the points against which the predictions of a selection are scored.

    Parameters
    ----------
    cohort : Cohort
        Test users.
    user, time_step : int
        Positions of the user and of the time step, from 0.
    target : {"truth", "next"}
        The true function with noise on a grid, or the batch of the next time step.

    Returns
    -------
    tuple of ndarray, shapes (m, D) and (m,), and dict, or None
        Inputs, targets and what is known of them; None if there is no next time step.
    """
    if target == "truth":
        return cohort.truth.x_test, cohort.truth.y_test[user], {}
    ends = cohort.ends[user]
    if time_step + 1 == len(ends):
        return None
    coming = slice(ends[time_step], ends[time_step + 1])
    given = {name: values[coming] for name, values in cohort.given(user).items()}
    return cohort.inputs[user][coming], cohort.targets[user][coming], given


def predictive_scores(
    selection: Selection,
    x: np.ndarray,
    y: np.ndarray,
    *,
    single: bool = False,
    unit: float | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Score predictions of new points, in units of scaled targets.

    Parameters
    ----------
    selection : Selection
    x, y : ndarray, shapes (m, D) and (m,)
        Inputs and targets of the new points, in the users' units.
    single : bool
        Whether predictions use only the selected kernel, with its fitted values.
    unit : float, optional
        Unit of the scores, in the target's unit; by default the scaling's
        :attr:`~kem_pymc.data.scaling.Scaling.target_unit`.
    **given
        Known noise, or sizes, as for :meth:`~kem_pymc.selection.selection.Selection.predict`.

    Returns
    -------
    dict
        Means over the points: ``log_likelihood``, ``crps`` (smaller is better; the Brier score of
        ``binary`` targets, the ranked probability score of ``ordinal`` ones), ``rmse`` (the root of
        the mean squared error), and ``cover50``, ``cover80`` and ``cover95``, the fractions of
        points inside central predictive intervals. With these two families also ``observed``, the
        targets, and ``classes``, the predicted probabilities of each class.
    """
    prediction = selection.predict(x, include_noise=True, single=single, **given)
    unit = selection.scaling.target_unit if unit is None else unit
    observation = prediction.observation
    density = observation.log_density(y) + math.log(unit)
    before, until = below_and_at(prediction, y)
    classes: dict[str, Any] = {}
    if isinstance(observation, Response) and observation.family.name in ("binary", "ordinal"):
        each = zip(observation.family.levels, observation.probabilities().T.tolist(), strict=True)
        classes = {"observed": y.tolist(), "classes": {int(k): p for k, p in each}}
    return {
        "log_likelihood": float(np.mean(density)),
        "crps": float(np.mean(observation.crps(y))) / unit,
        "rmse": float(np.sqrt(np.mean((y - prediction.mean) ** 2))) / unit,
        **{
            f"cover{p}": float(np.mean((until >= 0.5 - p / 200) & (before <= 0.5 + p / 200)))
            for p in LEVELS
        },
        **classes,
    }


def below_and_at(prediction: Prediction, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities (m,) of less than each new target (m,), and of at most it.

    They differ for discrete families: ends of intervals of whole numbers are whole numbers, which
    belong to them.
    """
    discrete = prediction.family is not None and prediction.family.discrete
    until = prediction.observation.cdf(y)
    return (prediction.observation.cdf(y - 1) if discrete else until), until


def outcome_of(user: int, time_step: int, prediction: Prediction, y: np.ndarray) -> Outcome:
    """Compare targets (m,) of a user's time step with what was predicted of them."""
    before, until = below_and_at(prediction, y)
    calibration = prediction.calibration
    reaches = NORMAL if calibration is None else np.array(calibration.reaches)
    probit = np.clip(ndtri((before + until) / 2), -FURTHEST, FURTHEST)
    density = np.maximum(prediction.observation.log_density(y), LEAST)
    within = (score(before, until)[:, None] <= reaches).sum(axis=0).tolist()
    sums = (float(values.sum()) for values in (density, probit, np.abs(probit)))
    return Outcome(user, time_step, len(y), *within, *sums)


def row_of(selection: Selection, previous: Selection | None) -> dict[str, Any]:
    """Return the properties of a selection that don't depend on later data.

    Parameters
    ----------
    selection : Selection
    previous : Selection or None
        Selection at the time step before; with None there is no entry ``dropped``.
    """
    row: dict[str, Any] = {
        "points": len(selection.y),
        "composition": str(selection.composition),
        "size": len(selection.composition),
        "features": len(selection.composition.dimensions),
        "noise": selection.noise,
        "considered": len(selection.considered),
        "seconds": selection.run_time,
    }
    if previous is not None:
        lost = previous.composition.dimensions - selection.composition.dimensions
        row["dropped"] = len(lost)
    return row
