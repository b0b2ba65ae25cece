"""A table as R writes it, with row numbers, words, codes and constants, through all commands."""

import json

import numpy as np
import pandas as pd
import pytest

from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.prose import TIMES
from tests.cli.conftest import SMALL, fine, refused, run

pytestmark = pytest.mark.integration

COLUMNS = ("--user", "Subject", "--time", "age", "--target", "distance")

STILL = "the same throughout each user's rows"


def table(users=8):
    """A sex and a dose by user, a diet in codes, a mood that changes; sex makes a difference."""
    rng = np.random.default_rng(0)
    n, user = 5 * users, np.repeat(np.arange(users), 5)
    sex = user % 2
    age = np.tile(np.arange(5) * 2.0, users)
    return pd.DataFrame(
        {
            "rownames": np.arange(1, n + 1),
            "distance": 20
            + age
            + 4 * sex
            + rng.normal(0, 0.3, users)[user]
            + rng.normal(0, 0.4, n),
            "age": age,
            "Subject": [f"S{u}" for u in user],
            "Sex": np.array(["Female", "Male"])[sex],
            "Dose": rng.choice([1.5, 2.5, 3.5], users)[user],
            "diet": (user * 5 // 3) % 3 + 1,
            "mood": rng.choice(["low", "mid", "high"], n),
        }
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quirky")
    table().to_csv(folder / "trial.csv", index=False)
    data = ("--data", folder / "trial.csv", *COLUMNS, "--skip-gaps", "--categorical", "diet")
    text = fine("fit", *data, *SMALL, "--out", folder / "results")
    return folder / "results", text


def test_says_what_the_columns_are(results):
    folder, text = results
    first, second, *_ = text.splitlines()
    assert first == (
        f"Features: age (time), Sex (categories, {STILL}), Dose (numbers, {STILL}), "
        f"diet (categories, {STILL}), mood (categories)."
    )
    assert second == "Not used: rownames (row numbers or ids)."
    assert (
        "Candidates  CONST, LIN(age), PER(age), SE(age), CAT(mood), CAT(mood) \xd7 SE(age)".replace(
            " \xd7 ", TIMES
        )
    ) in text
    learned = Evolutions.load(folder / "evolutions.json")
    assert learned.levels["diet"] == ("1", "2", "3")
    assert learned.levels == learned.final.levels
    assert {"age", "Sex"} <= {t.name for t in learned.shared.design.terms}
    # Codes are as they are but for what tells the kernel how many there are.
    assert learned.scaling.inputs([0, 1, 1.5, 2, 0])[[1, 3, 4]] == pytest.approx(
        [1, 11 / 6, -1 / 6]
    )


def test_answers_are_stored_beside_the_results(results):
    """Fails where differences aren't in the target's unit, or a level is taken for another.

    In this balanced table least squares on users' means is the reference: Sex says 3.01 (standard
    error .55, 3 degrees of freedom), since diets and sexes nearly go together.
    """
    folder, text = results
    assert "Sex Male minus that with Female is " in text
    found = pd.read_csv(folder / "effects" / "comparisons.csv").set_index("contrast")
    assert found.index.tolist() == ["Male - Female", "2 - 1", "3 - 1", "3 - 2"]
    users = (
        table()
        .groupby("Subject")
        .agg({"distance": "mean", "Dose": "first", "diet": "first", "Sex": "first"})
    )
    levels = pd.get_dummies(users[["Sex", "diet"]].astype(str), drop_first=True, dtype=float)
    design = np.column_stack([np.ones(8), levels, users["Dose"]])
    expected = np.linalg.lstsq(design, users["distance"])[0][1]
    assert found.loc["Male - Female", "estimate"] == pytest.approx(expected, abs=0.1)
    assert (found["low_95"] < found["estimate"]).all()
    assert (found["estimate"] < found["high_95"]).all()


def test_new_users_have_the_pilot_users_levels(results, tmp_path):
    """Fails where levels are numbered anew in another table, or a new one passes for an old one."""
    folder, _ = results
    new = table(2).assign(diet=[2] * 5 + [9] * 5, rownames=0).query("age < 8")
    new.to_csv(tmp_path / "new.csv", index=False)
    coming = table(2).assign(diet=[2] * 5 + [9] * 5).query("age == 8").drop(columns="distance")
    coming.to_csv(tmp_path / "coming.csv", index=False)
    select = ("select", "--evolutions", folder / "evolutions.json", "--data", tmp_path / "new.csv")
    files = ("--out", folder / "selections.csv", "--predictions", folder / "predictions.csv")
    result = run(*select, *COLUMNS, "--skip-gaps", *files, "--future", tmp_path / "coming.csv")
    assert result.exit_code == 0, result.output
    assert "User S1 has diet '9', which no pilot user had (1, 2, 3)." in result.stderr
    predicted = pd.read_csv(folder / "predictions.csv").query("age == 8")
    by_user = predicted[predicted["time_step"] == 3].set_index("user")
    assert by_user.loc["S0", "mean"] == pytest.approx(28, abs=2)
    assert by_user.loc["S1", "mean"] == pytest.approx(32, abs=2)
    fine("report", folder, "--overwrite")
    page = (folder / "report.html").read_text()
    assert ">Male - Female</td>" in page
    assert "Differences in distance by Sex" in page


def test_where_users_share_nothing_what_never_changes_is_named(tmp_path):
    table(4).to_csv(tmp_path / "t.csv", index=False)
    data = ("--data", tmp_path / "t.csv", *COLUMNS, "--skip-gaps", "--features", "age,Sex,mood")
    text = fine("fit", *data, *SMALL, "--shared", "none", "--out", tmp_path / "r")
    assert "Features without effect, since they never change within users: Sex.\n" in text
    assert not json.loads((tmp_path / "r" / "settings.json").read_text()).get("shared")
    wrong = ("--features", "age,mood", "--candidates", "SE1", "--out", tmp_path / "w")
    message = refused(run("fit", "--data", tmp_path / "t.csv", *COLUMNS, "--skip-gaps", *wrong))
    assert "treats the 3 categories of mood as numbers. Use CAT1." in message
