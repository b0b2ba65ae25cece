"""``kem select``: the files that it writes, and what it refuses before it writes any."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kem_pymc import Cohort, Evolutions, KEMSelector
from kem_pymc.cli.select import _print_remarks
from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.evolutions.evolutions import DISAGREE
from kem_pymc.plots.report.gather import Material
from kem_pymc.selection import online
from tests.cli.conftest import SMALL, fine, refused, run, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "selections.md"

#: Points of the new users: two users with two time steps, and one with a single point.
POINTS = pd.concat([table(users=2, weeks=2, seed=1), table(users=2, weeks=2, seed=1).tail(1)])
POINTS = POINTS.assign(id=[*POINTS["id"][:-1], 7])


@pytest.fixture
def new(tmp_path):
    """A table of new users."""
    POINTS.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


@pytest.fixture
def select(evolutions, new, tmp_path):
    """Return the command with further options; it writes to s.csv."""

    def command(*options, out="s.csv", learned=evolutions):
        data = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / out)
        return ("select", "--evolutions", learned, *data, *options)

    return command


def points_of(user, n=None):
    """Return the first n inputs and targets of a new user."""
    own = POINTS[POINTS["id"] == user].head(n)
    return own[["sleep", "mood"]].to_numpy(), own["steps"].to_numpy()


def test_one_row_per_user_and_time_step(select, tmp_path):
    text = fine(*select())
    rows = pd.read_csv(tmp_path / "s.csv")
    assert rows[["user", "time_step", "n_points"]].to_numpy().tolist() == [
        *([0, 0, 2], [0, 1, 4], [1, 0, 2], [1, 1, 4], [7, 0, 1])
    ]
    assert (rows["run_time"] > 0).all()
    assert (rows["noise"] > 0).all()
    for row in rows.itertuples():
        considered = json.loads(row.considered)
        assert considered[row.composition]["bic"] == pytest.approx(row.bic)
        names = {name.split(".")[0] for name in json.loads(row.hyperparameters)}
        assert names == set(row.composition.split(" + ")) - {"WHITE"}
    assert "5 selections" in text


@pytest.mark.integration
def test_predictions_are_those_of_the_selections(select, evolutions, tmp_path):
    fine(*select("--predictions", tmp_path / "p.csv"))
    rows = pd.read_csv(tmp_path / "p.csv")
    own = rows[rows["user"] == 0]
    assert own[["time_step", "point", "seen"]].to_numpy().tolist() == [
        *([0, 0, True], [0, 1, True], [0, 2, False], [0, 3, False]),
        *([1, 0, True], [1, 1, True], [1, 2, True], [1, 3, True]),
    ]
    x, y = points_of(0)
    selection = KEMSelector(Evolutions.load(evolutions)).select(x[:2], y[:2])
    shown = selection.predict(x, True)
    first = own[own["time_step"] == 0]
    assert first["mean"].to_numpy() == pytest.approx(shown.mean)
    assert first["sd"].to_numpy() == pytest.approx(shown.sd)
    assert first["sd_function"].to_numpy() == pytest.approx(selection.predict(x).sd)
    for name, probability in online.QUANTILES.items():
        calibrated = selection.predict(x, True, calibrated=True)
        assert first[name].to_numpy() == pytest.approx(calibrated.quantile(probability))
    assert first["observed"].to_numpy() == pytest.approx(y)
    assert first[["sleep", "mood"]].to_numpy() == pytest.approx(x)


def future(folder, frame):
    """Return options that predict the points of a table as well."""
    frame.to_csv(folder / "tomorrow.csv", index=False)
    return ("--predictions", folder / "p.csv", "--future", folder / "tomorrow.csv")


@pytest.mark.integration
def test_empty_cells_of_points_to_come_are_integrated(select, evolutions, tmp_path):
    coming = table(users=1, weeks=2, seed=2).tail(3).assign(week=[2, 2, 3], id=[7, 1, 7])
    coming["mood"] = ["NA", "0.5", "0.1"]
    coming.loc[coming.index[2], "sleep"] = None
    fine(*select(*future(tmp_path, coming.drop(columns="steps"))))
    rows = pd.read_csv(tmp_path / "p.csv").query("observed.isna() and user == 7")
    learned = Evolutions.load(evolutions)
    at = rows[["sleep", "mood"]].to_numpy()
    assert np.isnan(at).tolist() == [[False, True], [True, False]]
    shown = KEMSelector(learned).select(*points_of(7)).predict(at, True, calibrated=True)
    assert rows["mean"].to_numpy() == pytest.approx(shown.mean)
    assert rows["low_95"].to_numpy() == pytest.approx(shown.quantile(0.025))
    pilot = Cohort.from_frame(table(), user="id", time="week", target="steps")
    known = FeatureDistribution.learn(pilot).margins["sleep"]
    stored = learned.distribution.margins["sleep"]
    assert stored.values == pytest.approx(known.values)
    assert stored.shares == pytest.approx(known.shares)


@pytest.mark.integration
def test_empty_cells_are_refused_before_the_work_without_a_distribution(
    select, evolutions, tmp_path
):
    old = tmp_path / "old.json"
    replace(Evolutions.load(evolutions), distribution=None).save(old)
    coming = table(users=1).tail(1).assign(id=7, mood=None)
    text = refused(run(*select(*future(tmp_path, coming), learned=old)))
    assert "missing value in line 2 of tomorrow.csv" in text
    assert "learn the evolutions again" in text
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.integration
def test_points_to_come_are_predicted_by_the_last_selections(select, evolutions, tmp_path):
    coming = table(users=1, weeks=2, seed=2).tail(3).assign(week=[2, 2, 3], id=[7, 1, 7])
    fine(*select(*future(tmp_path, coming.drop(columns="steps"))))
    rows = pd.read_csv(tmp_path / "p.csv")
    unknown = rows[rows["observed"].isna()]
    columns = ["user", "time_step", "point", "seen"]
    assert unknown[columns].to_numpy().tolist() == [
        *([1, 1, 4, False], [7, 0, 1, False], [7, 0, 2, False])
    ]
    at = coming.query("id == 7")[["sleep", "mood"]].to_numpy()
    shown = KEMSelector(Evolutions.load(evolutions)).select(*points_of(7)).predict(at, True)
    own = unknown[unknown["user"] == 7]
    assert own["mean"].to_numpy() == pytest.approx(shown.mean)
    assert own["sd"].to_numpy() == pytest.approx(shown.sd)
    assert own[["sleep", "mood"]].to_numpy() == pytest.approx(at)
    # Whatever stands there as their target changes nothing, nor do the other rows change.
    fine(*select(*future(tmp_path, coming.assign(steps="?")), "--overwrite"))
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), rows)
    fine(*select("--predictions", tmp_path / "q.csv", "--overwrite"))
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "q.csv"), rows.dropna().reset_index(drop=True)
    )


ROW = table().head(1).assign(id=7, week=5)


@pytest.mark.parametrize(
    ("coming", "words"),
    [
        (ROW.assign(id=9), "User 9 in line 2 of"),
        (ROW.assign(week=0), "Line 2 of tomorrow.csv of user 7 is earlier"),
        (
            ROW.assign(week=None),
            "'week' has a missing or infinite value in line 2 of tomorrow.csv",
        ),
        (ROW.assign(mood="good"), "'mood' has 'good' in line 2 of tomorrow.csv"),
        (ROW.drop(columns=["sleep", "week"]), "lacks the columns week, sleep"),
        (ROW.head(0), "has no rows"),
    ],
)
def test_points_to_come_that_are_refused(select, tmp_path, coming, words):
    assert words in refused(run(*select(*future(tmp_path, coming))))
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "tomorrow.csv"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--horizon", 2), "isn't a feature of the pilot study. Give future points with --future"),
        (("--cores", 2, "--cluster", "tcp://127.0.0.1:1"), "Give one of them"),
        (("--predictions", "new.csv"), "exists"),  # then selections aren't written either
        (("--out", "new.csv", "--predictions", "new.csv"), "would both be written"),
        (("--out", "new.csv"), "exists"),
        (("--out", "."), "is a folder"),
        (("--evolutions", "none.json"), "can't be read"),
    ],
)
def test_options_that_are_refused(select, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused(run(*select(*options)))
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv"}


def test_times_of_another_kind_are_refused(tmp_path):
    """Fails where days since the first row are taken for weeks, or the other way round."""
    weeks = table().drop(columns=["sleep", "mood"])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(7 * weeks["week"], unit="D")
    names, columns = ("numbers", "dates"), ("--user", "id", "--time", "week", "--target", "steps")
    for name, frame in zip(names, (weeks, weeks.assign(week=day)), strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    for pilots, new in (names, names[::-1]):
        data, out = tmp_path / f"{pilots}.csv", tmp_path / f"of-{pilots}"
        fit = ("fit", "--data", data, *columns, *SMALL, "--base", "LIN", "--shared", "none")
        fine(*fit, "--out", out)
        select = ("select", "--evolutions", out / "evolutions.json", *columns, "--out", out / "s")
        message = refused(run(*select, "--data", tmp_path / f"{new}.csv"))
        assert f"week has {new}, but it had {pilots} for the pilot users" in message
        mixed = ("--data", data, "--future", tmp_path / f"{new}.csv")
        assert "neither all numbers nor all dates" in refused(run(*select, *mixed))


def test_users_that_are_missing_or_have_other_features(select, evolutions, new):
    assert "Give a table with --data" in refused(run("select", "--evolutions", evolutions))
    points = ("study.py", "--evolutions", evolutions, "--future", new)
    assert "Add --data" in refused(run("select", *points))
    POINTS.rename(columns={"mood": "temper"}).to_csv(new, index=False)
    assert "has no column 'mood'" in refused(run(*select()))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sleep": 60}, "sleep is between 2"),
        ({"steps": 1e-3}, None),
        ({"steps": 1e3}, "for the pilot users, it had mean"),
        ({}, None),
    ],
)
def test_other_units_are_suspected(select, new, change, words):
    POINTS.assign(**{name: POINTS[name] * by for name, by in change.items()}).to_csv(
        new, index=False
    )
    result = run(*select())
    assert result.exit_code == 0
    assert ("Check that its unit is the same" in result.stderr) == (words is not None)
    assert words is None or words in result.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("--criterion", "bic", "--fit", "map"), {"criterion": "bic", "fit": "map"}),
        (("--average", 3), {"average": 3}),
    ],
)
def test_selections_are_the_librarys(select, evolutions, new, tmp_path, options, given):
    POINTS.rename(columns={"steps": "walked"}).to_csv(new, index=False)
    fine(*select(*options, "--target", "walked"))
    rows = pd.read_csv(tmp_path / "s.csv")
    selector = KEMSelector(Evolutions.load(evolutions), **given)
    first = selector.select(*points_of(0, 2))
    second = selector.select(*points_of(0), first)
    assert rows["composition"][0] == first.label()
    assert rows["bic"][1] == pytest.approx(second.considered[0].bic)
    assert rows["noise"][1] == pytest.approx(second.noise)
    shown = json.loads(rows["settings"][0])
    assert {name: shown[name] for name in given} == given


def test_files_beside_each_other_that_a_report_reads(select, evolutions, new, tmp_path):
    """Labels that a spreadsheet takes for formulas are escaped, and read back as they were."""
    labels = {0: "=1+1", 1: "-b", 7: "c"}
    POINTS.assign(id=POINTS["id"].map(labels)).to_csv(new, index=False)
    _, _, *coming = future(tmp_path, table(users=1).head(1).assign(id="=1+1", week=5))
    text = fine(*select(*coming, out="selections.csv"))
    assert f"Predictions are in {tmp_path / 'predictions.csv'}" in text
    for name in ("selections.csv", "predictions.csv"):
        assert set(pd.read_csv(tmp_path / name)["user"]) == {"'=1+1", "'-b", "c"}
    shutil.copy(evolutions, tmp_path)
    material = Material.of_folder(tmp_path)
    assert set(material.selections["user"]) == {*labels.values()}
    unknown = material.predictions["observed"].isna().groupby(material.predictions["user"])
    assert unknown.sum().to_dict() == {"=1+1": 1, "-b": 0, "c": 0}


@pytest.mark.integration
def test_the_document_has_every_column(select, tmp_path):
    fine(*select("--predictions", tmp_path / "p.csv"))
    _, selections, predictions = DOCUMENT.read_text("utf-8").split("\n## ", 3)[:3]
    for text, file in ((selections, "s.csv"), (predictions, "p.csv")):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        columns = re.findall(r"`(\w+)`", " ".join(rows))
        there = [name for name in pd.read_csv(tmp_path / file) if name not in ("sleep", "mood")]
        assert columns == there


def test_remarks_name_users_and_count_kernels(capsys):
    """Fails where a user counts who once departed, and follows the others now."""

    def remarks(departures, message=""):
        own = {
            user: [SimpleNamespace(departure=d, message=message) for d in values]
            for user, values in departures.items()
        }
        _print_remarks(own, Path("s.csv"))
        shown = capsys.readouterr()
        return " ".join((shown.out + shown.err).split())

    text = remarks({"a": (0.9, 0.2), "b": (0.1, 0.6), "c": (0.0, 0.0)})
    assert "little weight in predictions for b, because" in text
    assert not remarks({"a": (0.9, 0.2), "c": (0.0, 0.0)})
    assert "2 of 2 selections keep the previous kernel" in remarks({"a": (0.0, 0.0)}, "new")


@pytest.mark.integration
def test_chains_that_disagree_are_warned_of(select, evolutions, tmp_path):
    """Catches a setting that kem fit writes and kem select doesn't look for."""
    learned = Evolutions.load(evolutions)
    assert DISAGREE not in learned.settings  # there are too few draws to tell
    apart = replace(learned, settings={**learned.settings, DISAGREE: "The chains disagree in SE0."})
    apart.save(tmp_path / "apart.json")
    result = run(*select(learned=tmp_path / "apart.json"))
    assert result.exit_code == 0
    shown = " ".join(result.stderr.split())
    assert "The chains disagree in SE0. These selections average over all chains" in shown
    assert "--draws" in shown
