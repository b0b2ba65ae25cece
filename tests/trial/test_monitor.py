"""Outcomes are those of the library's selections, tables those of other packages, alarms rare."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from scipy.special import ndtr
from scipy.stats import permutation_test, ttest_1samp, ttest_ind
from sqlalchemy import select
from statsmodels.stats.proportion import proportion_confint
from typer.testing import CliRunner

import kem_pymc as kem
from kem_pymc.cli.main import app
from kem_pymc.gp.calibration import Outcome
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scores import outcome_of
from kem_pymc.trial import Trial, alarms, monitor, schema, updating
from kem_pymc.trial.monitor import monitored
from kem_pymc.trial.service import create_app
from tests.selection.pilots import user
from tests.shown import Page
from tests.trial.conftest import insert

MONDAY = pd.Timestamp("2024-01-01")


def outcomes(rng, users, steps=10, points=3, change=None, at=5, constant=0.0):
    """Return outcomes of people who differ, as measured where pilot users were left out.

    From time step `at` on noise has twice the sd, to which predictions adapt, or answers shift by
    1.4 sds of predictions, of which half is left each next time step; or some people's are all the
    same.
    """
    level, sd = rng.normal(0, 0.2, (users, 1)), np.exp(rng.normal(0, 0.15, (users, 1, 1)))
    log_sd = rng.normal(0, 0.35, (users, 1)) + np.zeros((users, steps))
    noise = rng.standard_t(5, (users, steps, points)) / np.sqrt(5 / 3) * np.sqrt(1 - 0.35**2)
    z = (level + rng.normal(0, 0.35, (users, steps)))[..., None] + sd * noise
    if change == "noise":
        z[:, at] *= 1.55
        z[:, at + 1 :] *= 1.35
        log_sd[:, at + 1 :] += 0.35
    if change == "shift":
        z[:, at:] += 1.4 * 0.5 ** np.arange(steps - at)[:, None]
    fraud = np.arange(users) < constant * users
    z[fraud] *= 0.3
    log_sd[fraud] -= 1.2
    z = np.clip(z, -8, 8)
    density = -(z**2) / 2 - log_sd[..., None]
    sums = [values.sum(axis=2).ravel() for values in (density, z, abs(z))]
    step = np.tile(np.arange(1, steps + 1), users)
    names = dict(zip(alarms.QUANTITIES, sums, strict=True))
    reach = [(abs(z) <= r).sum(axis=2).ravel() for r in (0.67, 1.28, 1.96)]
    names |= dict(zip(("within50", "within80", "within95"), reach, strict=True))
    number = np.repeat(np.arange(users), steps)
    table = pd.DataFrame({"user": number, "time_step": step, "points": points, **names})
    week = MONDAY + pd.to_timedelta(7 * step, unit="D")
    table = table.assign(week=week, label=number.astype(str))
    return table.sort_values("week", kind="stable").reset_index(drop=True)


def kept(table):
    return tuple(Outcome(*row) for row in table[list(Outcome._fields)].itertuples(index=False))


def recorded(trial):
    query = select(schema.selections.c.outcome).order_by(schema.selections.c.id)
    found = trial._store.table(query)["outcome"]
    return [Outcome(*json.loads(one)) if isinstance(one, str) else None for one in found]


def test_outcomes_are_those_of_the_librarys_selections(trial, rows, evolutions):
    """Also of rows that come late; what was removed is gone."""
    trial.add(rows[rows["week"] < 3], register=True)
    trial.update()
    trial.add(rows[rows["week"] >= 3])
    trial.update()
    cohort = kem.Cohort.from_frame(rows, user="id", time="week", target="steps", scope="new")
    paths = kem.select_online(KEMSelector(evolutions), cohort)
    found = {(one.user, one.time_step): one for one in recorded(trial) if one is not None}
    assert len(found) == 12
    for u, path in enumerate(paths.values()):
        for step in range(1, 5):
            at, y = cohort.inputs[u][step : step + 1], cohort.targets[u][step]
            predicted = path[step - 1].predict(at, include_noise=True)
            one = found[u + 1, step]
            assert one.points == 1
            assert one.log_density == pytest.approx(predicted.log_predictive_density([y])[0])
            if abs(one.probit) < 8:
                assert predicted.quantile(ndtr(one.probit))[0] == pytest.approx(y)
            assert one.distance == abs(one.probit)
            served = path[step - 1].predict(at, include_noise=True, calibrated=True)
            for level, inside in zip((0.5, 0.8, 0.95), one[3:6], strict=True):
                low, high = (served.quantile(0.5 + sign * level / 2)[0] for sign in (-1, 1))
                assert inside == (low <= y <= high)
    trial.add([{"id": "ann", "week": 4, "steps": 9.0}])  # a correction takes the place of its row
    trial.update()
    first, second = (one for one in recorded(trial) if one is not None and one[:2] == (1, 4))
    assert first.probit != second.probit
    trial.add([{"id": "ann", "week": 0.5, "steps": 1.0}])  # all of the last time step was used
    trial.update()
    assert recorded(trial)[-1] is None
    table = trial.monitor().by_time_step.set_index(["time_step", "quantity"])
    own = [second.probit, *(found[u, 4].probit for u in (2, 3))]
    assert table.loc[(4, "probit"), "value"] == pytest.approx(np.mean(own))
    trial.remove("ann")
    assert {one.user for one in recorded(trial) if one is not None} == {2, 3}
    assert trial.monitor().participants == 2
    assert "don't say how pilot users were predicted" in str(trial.monitor())
    assert trial.replay() is None


def test_tables_have_intervals_over_participants():
    rng = np.random.default_rng(0)
    rows, pilots = outcomes(rng, 12), outcomes(rng, 10)
    found = monitored(rows, kept(pilots), NOTHING, LATER)
    own, theirs = (
        one[one["time_step"] == 4].set_index("user")["within80"] / 3 for one in (rows, pilots)
    )
    table = found.by_time_step.set_index(["time_step", "quantity"])
    one = table.loc[(4, "within80")]
    assert one["value"] == pytest.approx(own.mean())
    assert one["promised"] == pytest.approx(theirs.mean())
    # Korn and Graubard's interval, as R's survey package defines it.
    factor = ttest_1samp(own, 0).confidence_interval(0.95).high - own.mean()
    rows_alike = own.mean() * (1 - own.mean()) / (factor / 1.959964) ** 2
    ends = proportion_confint(own.mean() * rows_alike, rows_alike, method="beta")
    assert (one["low"], one["high"]) == pytest.approx(ends)
    density = rows[rows["time_step"] == 4]["log_density"] / 3
    ends = ttest_1samp(density, 0).confidence_interval(0.95)
    assert tuple(table.loc[(4, "log_density"), ["low", "high"]]) == pytest.approx((*ends,))
    # In the first week all are at the first time step.
    weeks = found.by_week.set_index(["week", "quantity"])["value"]
    assert weeks[MONDAY + pd.Timedelta(weeks=1), "probit"] == table.loc[(1, "probit"), "value"]


def test_p_values_are_those_of_all_permutations():
    """Enumerated by scipy with scipy's statistic; of one column, and of the largest of two."""
    table = np.random.default_rng(2).normal(size=(9, 2)) + np.array([2.0, 0.5]) * np.eye(9)[:, :1]
    table[:5] += 1.2

    def statistic(*groups, axis=-1):
        return abs(ttest_ind(*groups, equal_var=False, axis=axis).statistic)

    found, difference = alarms.permuted(table[:, :1], 4, 0.0001, 0)
    asked = permutation_test((table[:5, 0], table[5:, 0]), statistic, alternative="greater")
    assert found[0] == pytest.approx(asked.pvalue, abs=0.008)  # 50,000 draws
    assert difference[0] == pytest.approx(table[:5, 0].mean() - table[5:, 0].mean())
    both = alarms.permuted(table, 4, 0.0001, 0)[0]
    assert (both >= found[0]).all()


def test_unusual_participants_are_found_by_prediction_intervals():
    """Student's t for one more value, and Benjamini and Hochberg by hand."""
    rng = np.random.default_rng(4)
    rows, pilots = outcomes(rng, 5, constant=0.2), outcomes(rng, 10)
    found = alarms.unusual(rows, pilots).set_index("user")
    own, theirs = (
        one.groupby("user")[list(alarms.QUANTITIES)].sum() / 30 for one in (rows, pilots)
    )
    quantity = found.loc[0, "quantity"]
    gap = own.loc[0, quantity] - theirs[quantity].mean()
    assert found.loc[0, "difference"] == pytest.approx(gap)
    value = (theirs[quantity] - own.loc[0, quantity]) / np.sqrt(1 + 1 / 10)
    side = "less" if quantity == "log_density" else "two-sided"
    moved = theirs[quantity] - theirs[quantity].mean()
    # The same as a test of a mean that is ten times as variable.
    p = ttest_1samp(moved * np.sqrt(10) + value.mean(), 0, alternative=side).pvalue
    assert found["q"].min() == found.loc[0, "q"] == pytest.approx(min(3 * p * 5, 1))
    assert found.loc[0, "q"] < alarms.DISCOVERY


NOTHING = pd.DataFrame({"entry": [], "status": [], "reason": []})
LATER = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.fixture
def promised(evolutions, url):
    """A trial with twelve pilot users to compare with, who are like its participants."""
    selector, held_out = KEMSelector(evolutions), []
    for u in range(12):
        y, previous = user(5, seed=100 + u)[1], None
        for n in range(1, 5):
            previous = selector.select(np.arange(float(n)), y[:n], previous)
            predicted = previous.predict([[n]], include_noise=True, calibrated=True)
            held_out.append(outcome_of(u, n, predicted, y[n : n + 1]))
    learned = replace(evolutions, held_out=tuple(held_out))
    with Trial.create(url, learned, user="id", time="week") as one:
        yield one


def test_alarms_are_raised_once_a_week_is_over(promised, url, monkeypatch):
    """Twelve participants are like pilot users; in their third week all answers shift."""
    seeds = [(f"p{k}", user(5, seed=k)[1]) for k in range(12)]
    table = pd.concat(
        [pd.DataFrame({"id": i, "week": np.arange(5.0), "steps": y}) for i, y in seeds]
    )
    table.loc[table["week"] > 1, "steps"] += 15
    said = []
    for week in range(4):
        now = datetime(2024, 1, 3, tzinfo=UTC) + timedelta(weeks=week)
        for module in (monitor, updating):
            monkeypatch.setattr(module, "now", lambda now=now: now.isoformat())
        promised.add(table[table["week"] == week], register=True)
        promised.update()
        said.append(promised.monitor())
    assert [len(one.alarms) > 0 for one in said] == [False, False, False, True]
    weeks = pd.date_range("2024-01-08", periods=3, freq="7D")
    assert list(said[-1].by_week["week"].unique()) == list(weeks)
    assert "answers are further from predictions" in str(said[-1])
    assert "Week of 2024-01-15" in said[-1].alarms[0]
    result = CliRunner().invoke(app, ["trial", "monitor", "--db", url])
    assert result.exit_code == 0
    assert result.stderr.count("Warning") == len(said[-1].alarms)
    assert "12 participants are compared with 12 pilot users." in result.stdout
    with TestClient(create_app(promised, [])) as client:
        page = client.get("/calibration")
    assert page.status_code == 200
    shown = Page(page.text)
    for line in said[-1].sentences():
        assert line in shown.text
    cells = [row[:2] for row in shown.tables[0][1:]]
    # Some of the rows that shifted are in quarantine.
    steps = said[-1].by_time_step.groupby("time_step")["participants"].first()
    assert cells == [[str(step + 1), str(count)] for step, count in steps.items()]
    assert cells[0] == ["2", "12"]
    assert "<svg" in page.text
    assert page.text.count('class="warning"') == len(said[-1].alarms)
    # Participants keep their artefact, and what it promised, when another one is adopted.
    number = insert(promised, replace(promised.evolutions, held_out=()))
    promised.adopt(number)
    assert "12 participants have artefact 1, which is monitored apart." in str(promised.monitor())
    assert promised.monitor().participants == 0
    assert promised.monitor(1).sentences() == said[-1].sentences()
    result = CliRunner().invoke(app, ["trial", "monitor", "--artefact", "1", "--db", url])
    assert result.stderr.count("Warning") == len(said[-1].alarms)
    with TestClient(create_app(promised, [])) as client:
        assert client.get("/calibration?artefact=1").text == page.text
        assert client.get("/calibration?artefact=7").status_code == 422


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("change", "constant", "least", "most"),
    [(None, 0, 0, 0.05), ("noise", 0, 0.4, 1), ("shift", 0, 0.8, 1), (None, 1 / 3, 0, 1)],
)
def test_false_alarms_are_rare_and_changes_are_found(change, constant, least, most):
    """Ten pilot users and thirty participants for ten weeks, with a look at each."""
    rng = np.random.default_rng(5)
    trials = 120 if most < 1 else 15
    alarmed, false, found = [], [], []
    for _ in range(trials):
        pilots = outcomes(rng, 10)
        rows = outcomes(rng, 30, change=change, constant=constant)
        looks = alarms.looks(rows, pilots)
        alarmed.append((looks["p"] <= looks["spent"]).any())
        odd = alarms.unusual(rows, pilots)
        odd = odd["user"][odd["q"] <= alarms.DISCOVERY]
        false.append((odd >= 30 * constant).sum() / max(len(odd), 1))
        found.append((odd < 30 * constant).sum() / max(30 * constant, 1))
    # The 99 % limit of a binomial share.
    slack = 2.33 * np.sqrt(0.05 * 0.95 / trials)
    assert least <= np.mean(alarmed) <= most + slack
    if change is None:
        assert np.mean(false) <= alarms.FALSE_DISCOVERIES
        assert np.mean(found) >= (0.35 if constant else 0)
