import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from kem_pymc import Evolutions, KEMSelector
from kem_pymc.cli.folders import DISAGREE
from kem_pymc.cli.select import _print_remarks
from kem_pymc.selection import online
from tests.cli.conftest import COLUMNS, fine, refused, run, table


@pytest.fixture
def new(tmp_path):
    """A table of new users; one of them is new indeed."""
    path = tmp_path / "new.csv"
    frame = table(users=2, weeks=2, seed=1)
    pd.concat([frame, frame.tail(1).assign(id=7)]).to_csv(path, index=False)
    return path


def selections(evolutions, new, out, *options):
    columns = ("--user", "id", "--time", "week")
    text = fine(
        "select", "--evolutions", evolutions, "--data", new, *columns, *options, "--out", out
    )
    return text, pd.read_csv(out)


def test_one_row_per_user_and_time_step(evolutions, new, tmp_path):
    text, rows = selections(evolutions, new, tmp_path / "s.csv")
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
def test_predictions_are_those_of_the_selections(evolutions, new, tmp_path):
    file = tmp_path / "p.csv"
    selections(evolutions, new, tmp_path / "s.csv", "--predictions", file)
    rows = pd.read_csv(file)
    own = rows[rows["user"] == 0]
    assert own[["time_step", "point", "seen"]].to_numpy().tolist() == [
        *([0, 0, True], [0, 1, True], [0, 2, False], [0, 3, False]),
        *([1, 0, True], [1, 1, True], [1, 2, True], [1, 3, True]),
    ]
    points = table(users=2, weeks=2, seed=1).query("id == 0")
    x, y = points[["sleep", "mood"]].to_numpy(), points["steps"].to_numpy()
    shown = KEMSelector(Evolutions.load(evolutions)).select(x[:2], y[:2]).predict(x, True)
    first = own[own["time_step"] == 0]
    assert first["mean"].to_numpy() == pytest.approx(shown.mean)
    assert first["sd"].to_numpy() == pytest.approx(shown.sd)
    function = KEMSelector(Evolutions.load(evolutions)).select(x[:2], y[:2]).predict(x)
    assert first["sd_function"].to_numpy() == pytest.approx(function.sd)
    for name, probability in online.QUANTILES.items():
        assert shown.observation.cdf(first[name].to_numpy()) == pytest.approx(probability)
    assert first["observed"].to_numpy() == pytest.approx(y)
    assert first[["sleep", "mood"]].to_numpy() == pytest.approx(x)


def to_come(tmp_path, frame, name="tomorrow.csv"):
    frame.to_csv(tmp_path / name, index=False)
    return ("--predictions", tmp_path / "p.csv", "--future", tmp_path / name)


@pytest.mark.integration
def test_points_to_come_are_predicted_by_the_last_selections(evolutions, new, tmp_path):
    coming = table(users=1, weeks=2, seed=2).tail(3).assign(week=[2, 2, 3], id=[7, 1, 7])
    options = to_come(tmp_path, coming.drop(columns="steps"))
    selections(evolutions, new, tmp_path / "s.csv", *options)
    rows = pd.read_csv(tmp_path / "p.csv")
    unknown = rows[rows["observed"].isna()]
    columns = ["user", "time_step", "point", "seen"]
    assert unknown[columns].to_numpy().tolist() == [
        *([1, 1, 4, False], [7, 0, 1, False], [7, 0, 2, False])
    ]
    past = pd.read_csv(new).query("id == 7")
    x, y = past[["sleep", "mood"]].to_numpy(), past["steps"].to_numpy()
    at = coming.query("id == 7")[["sleep", "mood"]].to_numpy()
    shown = KEMSelector(Evolutions.load(evolutions)).select(x, y).predict(at, True)
    own = unknown[unknown["user"] == 7]
    assert own["mean"].to_numpy() == pytest.approx(shown.mean)
    assert own["sd"].to_numpy() == pytest.approx(shown.sd)
    assert own[["sleep", "mood"]].to_numpy() == pytest.approx(at)
    # Whatever stands there as their target changes nothing, nor do the other rows change.
    options = to_come(tmp_path, coming.assign(steps="?"))
    selections(evolutions, new, tmp_path / "t.csv", *options, "--overwrite")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), rows)
    selections(evolutions, new, tmp_path / "u.csv", "--predictions", tmp_path / "q.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "q.csv"), rows.dropna().reset_index(drop=True)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": 9}, "User 9 in line 2 of"),
        ({"week": 0}, "Line 2 of tomorrow.csv of user 7 is earlier"),
        ({"sleep": None}, "'sleep' has a missing or infinite value in line 2 of tomorrow.csv"),
        ({"mood": "good"}, "'mood' has 'good' in line 2 of tomorrow.csv"),
    ],
)
def test_points_to_come_that_are_refused(evolutions, new, tmp_path, change, words):
    coming = table().head(1).assign(**{"id": 7, "week": 5} | change)
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    options = to_come(tmp_path, coming)
    message = refused(run("select", "--evolutions", evolutions, *arguments, *options))
    assert words in message
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "tomorrow.csv"}


def test_points_to_come_need_a_table_and_a_place(evolutions, new, tmp_path):
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    few = to_come(tmp_path, table().head(1).drop(columns=["sleep", "week"]))
    assert "lacks the columns week, sleep" in refused(
        run("select", "--evolutions", evolutions, *arguments, *few)
    )
    same = ("--data", new, "--user", "id", "--time", "week", "--out", few[1])
    assert "would both be" in refused(run("select", "--evolutions", evolutions, *same, *few))
    assert "Add --data" in refused(run("select", "study.py", "--evolutions", evolutions, *few[2:]))
    none = to_come(tmp_path, table().head(0))
    assert "has no rows" in refused(run("select", "--evolutions", evolutions, *arguments, *none))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.assign(sleep=60 * t["sleep"]), "sleep is between 2"),
        (lambda t: t.assign(steps=t["steps"] / 1000), None),
        (lambda t: t.assign(steps=1000 * t["steps"]), "for the pilot users, it had mean"),
        (lambda t: t, None),
    ],
)
def test_other_units_are_suspected(evolutions, new, tmp_path, change, words):
    change(pd.read_csv(new)).to_csv(new, index=False)
    columns = ("--data", new, "--user", "id", "--time", "week")
    result = run("select", "--evolutions", evolutions, *columns, "--out", tmp_path / "s.csv")
    assert result.exit_code == 0
    warned = "Check that its unit is the same" in result.stderr
    assert warned == (words is not None)
    assert words is None or words in result.stderr


def test_neither_file_is_written_if_one_cant_be(evolutions, new, tmp_path):
    (tmp_path / "p.csv").touch()
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    refused(
        run(
            *("select", "--evolutions", evolutions, *arguments),
            *("--predictions", tmp_path / "p.csv"),
        )
    )
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.integration
def test_several_processes_select_the_same(evolutions, new, tmp_path):
    _, alone = selections(evolutions, new, tmp_path / "a.csv", "--cores", "1")
    _, shared = selections(evolutions, new, tmp_path / "b.csv", "--cores", "2")
    pd.testing.assert_frame_equal(alone.drop(columns="run_time"), shared.drop(columns="run_time"))


def test_cores_or_a_cluster(evolutions, new, tmp_path):
    arguments = ("--data", new, "--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    where = ("--cores", "2", "--cluster", "tcp://127.0.0.1:1")
    refused(run("select", "--evolutions", evolutions, *arguments, *where))
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.integration
def test_selections_are_the_librarys(evolutions, new, tmp_path):
    _, rows = selections(evolutions, new, tmp_path / "s.csv", "--criterion", "bic", "--fit", "map")
    own = table(users=2, weeks=2, seed=1).query("id == 0")
    x, y = own[["sleep", "mood"]].to_numpy(), own["steps"].to_numpy()
    selector = KEMSelector(Evolutions.load(evolutions), "map", "bic")
    first = selector.select(x[:2], y[:2])
    second = selector.select(x, y, first)
    assert rows["composition"][0] == first.label()
    assert rows["bic"][1] == pytest.approx(second.considered[0].bic)


@pytest.mark.integration
def test_target_under_another_name(evolutions, new, tmp_path):
    pd.read_csv(new).rename(columns={"steps": "walked"}).to_csv(new, index=False)
    _, rows = selections(evolutions, new, tmp_path / "s.csv", "--target", "walked")
    assert len(rows) == 5


@pytest.mark.integration
def test_test_users_of_a_study(evolutions, new, tmp_path):
    study = tmp_path / "study.py"
    study.write_text(
        f"""
import pandas as pd
import kem_pymc as kem
columns = dict(user="id", time="week", target="steps", features=["sleep", "mood"])
test = kem.Cohort.from_frame(pd.read_csv({str(new)!r}), **columns, scope="new")
model = kem.EvolutionModel(
    kem.Cohort.from_frame(pd.read_csv({str(new)!r}), **columns, scope="new"),
    kem.CandidatePool(["LIN0"], 2),
)
"""
    )
    arguments = ("select", study, "--evolutions", evolutions, "--out", tmp_path / "of_study.csv")
    fine(*arguments)
    _, rows = selections(evolutions, new, tmp_path / "of_table.csv")
    of_study = pd.read_csv(tmp_path / "of_study.csv")
    pd.testing.assert_frame_equal(of_study.drop(columns="run_time"), rows.drop(columns="run_time"))
    assert "can only be used with --data" in refused(run(*arguments, "--batch", 5))


def test_users_who_do_not_follow_the_others_are_named(capsys):
    departures = {"a": (0.9, 0.2), "b": (0.1, 0.6), "c": (0.0, 0.0)}
    trajectories = {
        user: [SimpleNamespace(departure=d, message="") for d in own]
        for user, own in departures.items()
    }
    _print_remarks(trajectories, Path("s.csv"))
    assert "little weight in predictions for user b, because" in " ".join(
        capsys.readouterr().out.split()
    )
    del trajectories["b"]
    _print_remarks(trajectories, Path("s.csv"))
    assert not capsys.readouterr().out


@pytest.mark.integration
def test_file_that_exists_stays(evolutions, new, tmp_path):
    selections(evolutions, new, tmp_path / "s.csv")
    arguments = ("select", "--evolutions", evolutions, "--data", new, *COLUMNS)
    assert "exists" in refused(run(*arguments, "--out", tmp_path / "s.csv"))
    assert "is a folder" in refused(run(*arguments, "--out", tmp_path))
    fine(*arguments, "--out", tmp_path / "s.csv", "--overwrite")
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "s.csv"}


def test_other_features_than_the_pilots(evolutions, new, tmp_path):
    pd.read_csv(new).rename(columns={"mood": "temper"}).to_csv(new, index=False)
    arguments = ("select", "--evolutions", evolutions, "--data", new, *COLUMNS)
    message = refused(run(*arguments, "--out", tmp_path / "s.csv"))
    assert "lacks the pilot study's features mood" in message
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data.update(schema_version=99), "newer version"),
        (lambda data: data.update(concentration=2.0), "was changed"),
        (lambda data: data.pop("schema_version"), "doesn't contain evolutions"),
    ],
)
def test_evolutions_that_cannot_be_trusted(evolutions, new, tmp_path, change, complaint):
    data = json.loads(evolutions.read_text())
    change(data)
    path = tmp_path / "evolutions.json"
    path.write_text(json.dumps(data))
    assert complaint in refused(run("select", "--evolutions", path, "--data", new, *COLUMNS))


def test_no_evolutions(new, tmp_path):
    missing = tmp_path / "evolutions.json"
    message = refused(run("select", "--evolutions", missing, "--data", new, *COLUMNS))
    assert "can't be read" in message


def test_neither_table_nor_study(evolutions):
    assert "Give a table with --data" in refused(run("select", "--evolutions", evolutions))


@pytest.mark.integration
def test_chains_that_disagree_are_warned_of(evolutions, new, tmp_path):
    """Catches a setting that kem fit writes and kem select doesn't look for."""
    learned = Evolutions.load(evolutions)
    assert DISAGREE not in learned.settings  # there are too few draws to tell
    apart = replace(learned, settings={**learned.settings, DISAGREE: "The chains disagree in SE0."})
    apart.save(tmp_path / "apart.json")
    columns = ("--user", "id", "--time", "week", "--out", tmp_path / "s.csv")
    result = run("select", "--evolutions", tmp_path / "apart.json", "--data", new, *columns)
    assert result.exit_code == 0
    shown = " ".join(result.stderr.split())
    assert "The chains disagree in SE0. These selections average over all chains" in shown
    assert "--draws" in shown
    assert "kem.diagnostics.stack" in shown
