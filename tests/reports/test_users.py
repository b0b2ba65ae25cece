"""New users' pictures: what the selected kernels predict, computed anew from the tables."""

import json

import numpy as np
import pandas as pd
import pytest

from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.reports.theme import Look
from kem_pymc.reports.users import coverage, new_user_reports, selected
from kem_pymc.selection import online
from kem_pymc.selection.kem import KEMSelector
from tests.reports.conftest import FEATURE, cohort


def tables(folder):
    texts = {"user": str}
    return (
        pd.read_csv(folder / "selections.csv", dtype=texts),
        pd.read_csv(folder / "predictions.csv", dtype=texts),
        Evolutions.load(folder / "evolutions.json"),
    )


def user_reports_of(selections, predictions, learned):
    return new_user_reports(
        selections, predictions, learned, Look.of(learned, selected(selections, learned))
    )


def test_curves_are_what_the_selections_predict(study):
    user_reports = user_reports_of(*tables(study))
    new = cohort(users=2, seed=1)
    trajectories = online.select_online(
        KEMSelector(Evolutions.load(study / "evolutions.json")), new
    )
    for user_report, (user, own) in zip(user_reports, trajectories.items(), strict=True):
        assert user_report.name == user
        for moment, selection in zip(user_report.moments, own, strict=True):
            curve = moment.predicted.curve
            observed = selection.predict(curve.at).observation
            for ends, share in zip(curve.observed, (0.025, 0.975), strict=True):
                np.testing.assert_allclose(observed.cdf(ends), share, rtol=1e-6)
            if len(json.loads(selection.to_row()["averaged"])) == 1:
                message = selection.predict(curve.at)
                np.testing.assert_allclose(curve.median, message.mean, rtol=1e-9)
                upper = message.mean + 1.959964 * message.sd
                np.testing.assert_allclose(curve.function[1], upper, rtol=1e-6)
            assert moment.predicted.continuous
        x = new.inputs[new.users.index(user)]
        assert curve.at.min() < x.min()
        assert curve.at.max() > x.max()


def test_points_to_come_are_drawn_but_not_judged(study):
    selections, predictions, learned = tables(study)
    before = user_reports_of(selections, predictions, learned)
    user = before[0].name
    own = predictions[predictions["user"] == user]
    last = own[own["time_step"] == own["time_step"].max()].tail(1)
    coming = last.assign(**{FEATURE: last[FEATURE] + 3, "point": last["point"] + 1, "seen": False})
    longer = pd.concat([predictions, coming.assign(observed=np.nan)], ignore_index=True)
    user_reports = user_reports_of(selections, longer, learned)
    moment, was = user_reports[0].moments[-1], before[0].moments[-1]
    assert (moment.predicted.judged, moment.predicted.to_come) == (0, 1)
    assert moment.predicted.curve.at.max() >= float(last[FEATURE].iloc[0]) + 3
    assert "Points to come: 1." in moment.alt
    assert "nan" not in str(moment.picture)
    assert was.predicted.to_come == 0
    assert "to come" not in was.alt
    assert coverage(user_reports) == coverage(before)
    # Without a curve, there is a bar for each of them.
    bars = user_reports_of(selections.drop(columns="noise"), longer, learned)
    assert str(bars[0].moments[-1].picture).count('class="bar ahead"') == 1
    assert "nan" not in str(bars[0].moments[-1].picture)


@pytest.mark.parametrize("column", ["hyperparameters", "noise"])
def test_without_values_there_are_bars(study, column):
    selections, predictions, learned = tables(study)
    user_reports = user_reports_of(selections.drop(columns=column), predictions, learned)
    predicted = user_reports[0].moments[0].predicted
    assert not predicted.continuous
    first = predictions[
        (predictions["user"] == user_reports[0].name) & (predictions["time_step"] == 0)
    ]
    seen = first[first["seen"]]
    np.testing.assert_allclose(predicted.curve.at, seen[FEATURE])
    np.testing.assert_allclose(predicted.curve.observed, seen[["low_95", "high_95"]].T)
    np.testing.assert_allclose(predicted.curve.median, seen["median"])
    # Tables of earlier versions have no quantiles.
    before = user_reports_of(
        selections.drop(columns=column), predictions.drop(columns="median"), learned
    )
    ends = before[0].moments[0].predicted.curve.observed
    np.testing.assert_allclose(ends[1], seen["mean"] + 1.959964 * seen["sd"])


def test_several_features_have_bars(wide_study):
    user_reports = user_reports_of(*tables(wide_study))
    assert not any(m.predicted.continuous for p in user_reports for m in p.moments)
