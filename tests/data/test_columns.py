"""Which columns are features: tables with the quirks of R's longitudinal ones."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.columns import feature_columns
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import DataWarning
from tests.refusals import refused

ROLES = {"user": "Subject", "time": "Days", "target": "Reaction"}


def table(**columns):
    """Six users of four days, with row numbers, a dose, a sex and a smoker by user, and a mood."""
    rng = np.random.default_rng(0)
    own = {
        "rownames": np.arange(1, 25),
        "Reaction": rng.normal(size=24),
        "Days": np.tile(np.arange(4), 6),
        "Subject": np.repeat([308, 309, 310, 330, 331, 332], 4),
        "Dose": np.repeat([4.0, 4.4, 4.0, 4.9, 5.3, 4.4], 4),
        "Sex": np.repeat(["Male", "Female", "Male", "Female", "Male", "Male"], 4),
        "smoker": np.repeat([True, False, False, False, True, True], 4),
        "mood": rng.choice(["low", "mid", "high"], 24),
    }
    return pd.DataFrame(own | columns)


def test_default_features_and_their_kinds():
    got = feature_columns(table(), **ROLES)
    still = "the same throughout each user's rows"
    assert str(got) == (
        f"Days (time), Dose (numbers, {still}), Sex (categories, {still}), "
        f"smoker (categories, {still}), mood (categories)"
    )
    assert got.left_out == (("rownames", "row numbers or ids"),)
    assert got.levels["Sex"] == ("Female", "Male")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"id": np.repeat(np.arange(6), 4)}, "row numbers or ids"),
        ({"Patient_ID": np.random.default_rng(1).permutation(24)}, "row numbers or ids"),
        ({"X": np.arange(24.0)}, "row numbers or ids"),
        ({"Unnamed: 0": np.arange(24.0)}, "it has no name in the file"),
        ({"initials": np.repeat(list("abcdef"), 4)}, "another name for users"),
        ({"note": [f"note {k}" for k in range(24)]}, "text with 24 different values"),
        ({"site": "Leiden"}, "the same in every row"),
        ({"visit": ["2024-03-01", "2024-03-02"] * 12}, "dates"),
        ({"dose": [1.5, 2.5, *[np.nan] * 22]}, "92 % of its values are missing"),
        # Not left out: ids by name alone, numbers that happen to differ, one number by user.
        ({"index": np.tile([1, 2, 2, 3], 6)}, None),
        ({"steps": np.random.default_rng(1).permutation(24)}, None),
        ({"age": np.repeat([31, 22, 54, 40, 29, 61], 4)}, None),
    ],
)
def test_what_is_left_out_and_why(values, reason):
    (name,) = values
    got = feature_columns(table(**values), **ROLES)
    assert dict(got.left_out).get(name) == reason
    assert (name in got.names) == (reason is None)
    assert feature_columns(table(**values), **ROLES, features=["Days", name]).names[1] == name


def test_a_time_that_never_changes_is_left_out_where_there_is_more():
    got = feature_columns(table(Days=3)[["Subject", "Days", "Reaction", "mood"]], **ROLES)
    assert (got.names, got.left_out) == (("mood",), (("Days", "the same in every row"),))
    got = feature_columns(table(Days=3)[["Subject", "Days", "Reaction"]], **ROLES)
    assert got.names == ("Days",)


def test_a_stray_cell_among_numbers_is_named():
    """Catches a column that is dropped for one typing error, or a missing category."""
    worded = table(mood=["low", None, *["mid"] * 22])
    refused(lambda: Cohort.from_frame(worded, **ROLES), "'mood'", "row 1 (user 308)")
    df = table(temp=["21.5", "21,5", *["20"] * 22])
    refused(lambda: feature_columns(df, **ROLES), "'temp' has '21,5' in row 1", "Correct")


def test_truth_values_have_marks():
    """Fails where R's NA is a third truth value, or TRUE another than True."""
    df = table(smoker=np.repeat(["TRUE", "FALSE", "NA", "false", "True", "."], 4))
    assert feature_columns(df, **ROLES).levels["smoker"] == ("False", "True")
    refused(lambda: Cohort.from_frame(df, **ROLES), "smoker in 8 ('NA': 4, '.': 4)")
    numbers = {**ROLES, "features": ["smoker"], "categorical": {}, "scope": "new"}
    got = Cohort.from_frame(df[~df["smoker"].isin(["NA", "."])], **numbers)
    assert [x[0, 0] for x in got.inputs] == [1, 0, 0, 1]


def test_whole_numbers_may_be_codes():
    df = table(diet=np.repeat([1, 2, 3, 4, 2, 1], 4))
    assert feature_columns(df, **ROLES).codes == (("diet", 4),)
    got = feature_columns(df, **ROLES, categorical=["diet"])
    assert (got.levels["diet"], got.codes) == (("1", "2", "3", "4"), ())
    coded = table(diet=np.repeat(["1", "2", "3", "NA", "2", "1"], 4))
    assert feature_columns(coded, **ROLES, categorical=["diet"]).levels["diet"] == ("1", "2", "3")
    refused(lambda: Cohort.from_frame(coded, **ROLES, categorical=["diet"]), "diet in 4 ('NA': 4)")
    refused(lambda: feature_columns(df, **ROLES, categorical=["food"]), "'food'")
    refused(lambda: feature_columns(df, **ROLES, categorical=["Days"]), "'Days'", "categorical")


def test_a_cohort_has_codes_and_names():
    """Fails where levels are numbered otherwise, or get lost on the way of a cohort."""
    diet = pd.Categorical(np.repeat(list("cabcab"), 4), categories=list("dcba"))
    one = Cohort.from_frame(table(diet=diet), **ROLES)
    assert one.levels["diet"] == ("c", "b", "a")
    assert [x[0, -1] for x in one.inputs] == [0, 2, 1, 0, 2, 1]
    assert one.time == "Days"
    for other in (one.subset([309, 308]), one.truncate(2), pickle.loads(pickle.dumps(one))):
        assert (other.levels, other.time) == (one.levels, "Days")
    assert one.digest() != replace(one, levels={**one.levels, "diet": ("c", "b", "e")}).digest()
    back = Cohort.from_frame(
        one.to_frame(), user="user", time="time_step", target="Reaction", features=one.features
    )
    assert dict(back.levels) == dict(one.levels)
    np.testing.assert_array_equal(back.inputs[0], one.inputs[0])


def test_levels_that_no_pilot_user_had():
    pilot = Cohort.from_frame(table(), **ROLES)
    new = table(mood=["mid", "wild"] * 12, smoker=True).iloc[:8]
    options = {**ROLES, "features": pilot.features, "categorical": pilot.levels}
    with pytest.warns(DataWarning, match="User 308 has mood 'wild', which no pilot user had"):
        got = Cohort.from_frame(new, **options, scope="new")
    assert got.inputs[0][:2, -1].tolist() == [pilot.levels["mood"].index("mid"), -1]
    assert got.inputs[0][0, -2] == 1  # True, the only value, is still the second level
    refused(lambda: Cohort.from_frame(new, **options), "'wild'", "row 1", "add the level")
    # What had numbers may not have words now.
    worded = table(Dose="high").iloc[:8]
    refused(lambda: Cohort.from_frame(worded, **options, scope="new"), "'Dose'", "numbers")


def test_categories_are_not_scaled():
    one = Cohort.from_frame(table(), **ROLES)
    for scaling in (Scaling.unit(one), Scaling.none(one)):
        x = np.concatenate(scaling.apply(one).inputs)
        raw = np.concatenate(one.inputs)
        np.testing.assert_array_equal(x[:, 2:4], raw[:, 2:4])  # 0 and 1
        np.testing.assert_allclose(x[:, 4], raw[:, 4] + 1 / 3 - 1 / 2)
