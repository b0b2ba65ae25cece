"""Features known only at the end of a user's follow-up, and features that repeat another."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2, kruskal, spearmanr

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets import data_home
from kem_pymc.errors import DataWarning
from tests.data_home import needs

ROLES = {"user": "id", "time": "day", "target": "y"}


def table(rng, users=30):
    """Users whose visits end after a random number of days, with features of nothing."""
    visits = rng.integers(2, 9, users)
    user = np.repeat(np.arange(users), visits)
    day = np.concatenate([np.cumsum(rng.integers(1, 60, n)) for n in visits])
    return pd.DataFrame({"id": user, "day": day, "y": rng.normal(size=len(day))}).assign(
        base=rng.normal(size=users)[user],
        age=rng.integers(30, 80, users)[user],
        code=np.maximum(rng.permutation(users) - users + 3, 0)[user],
        arm=np.array(["a", "b", "c"])[rng.permutation(users) % 3][user],
    )


def said(df, **roles):
    features = [c for c in df if c not in {*(ROLES | roles).values(), "rownames"}]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        Cohort.from_frame(
            df, **ROLES | roles, features=[(ROLES | roles)["time"], *features], gaps="skip"
        )
    return [str(warning.message) for warning in caught]


def lengths(df):
    return df.groupby("id")["day"].agg(lambda day: day.iloc[-1] - day.iloc[0])


def test_false_alarms_are_as_rare_as_stated():
    """Of tables without leaks at most one in a hundred has a warning, however many users it has."""
    rng, tables = np.random.default_rng(1), 150
    for users in (6, 12, 40):
        alarms = sum(bool(said(table(rng, users))) for _ in range(tables))
        assert alarms <= binom.ppf(0.999, tables, 0.01)


@pytest.mark.parametrize("what", ["arm", "code"])
def test_the_probability_is_that_of_rank_tests(what):
    """The test of Kruskal and Wallis for levels, and the normal one of Spearman for numbers."""
    rng = np.random.default_rng(2)
    df = table(rng)[["id", "day", "y"]]
    followed = lengths(df)
    code = pd.cut(followed + rng.normal(0, 40, len(followed)), 3, labels=False)
    df[what] = df["id"].map(code.map(dict(enumerate("abc"))) if what == "arm" else code)
    p = kruskal(*(followed[code == k] for k in range(3))).pvalue
    if what == "code":
        p = chi2.sf((len(followed) - 1) * spearmanr(followed, code).statistic ** 2, 1)
    (message,) = said(df)
    assert message.startswith(f"{what} is the same throughout each user's rows, and goes with how")
    assert f"(p = {p:.0e})" in message


def test_an_end_and_rows_after_it_are_named():
    rng = np.random.default_rng(3)
    df = table(rng)
    last = df.groupby("id")["day"].transform("last")
    until = last + rng.integers(0, 50, 30)[df["id"]]
    (message,) = said(df.assign(until=until))
    assert message.startswith("until is the same")
    assert "at or after the end of their follow-up" in message
    first, second = np.flatnonzero(df["id"].isin([4, 9]) & (df["day"] == last))
    df.loc[[first, second], "day"] = 9999
    messages = said(df.assign(until=until))
    assert messages[1].startswith("Rows later than the user's until: 2, the first one at day")
    assert f"9999 in row {first}" in messages[1]
    # Before a user's last time, it is known in time; one of few users' last time needs no test.
    assert not said(table(rng, 40).assign(until=lambda t: t.groupby("id")["day"].transform("min")))
    few = table(rng, 5)[["id", "day", "y"]]
    assert len(said(few.assign(n=few.groupby("id")["day"].transform("max")))) == 1


def test_doubles_are_named():
    """Fails where codes of several categories count as numbers, or only one sign does."""
    df = table(np.random.default_rng(4))
    df["less"], df["new"], df["b"] = 3 - 2 * df["day"], df["code"] > 0, df["code"] > 0
    df["order"] = df["arm"].map({"a": 0, "b": 1, "c": 2})
    (message,) = said(df)
    assert message.endswith("leave out one of day and less (-1), new and b (1).")


@needs("longitudinal/Oxboys.csv", "longitudinal/pbcseq.csv", "longitudinal/epil.csv")
def test_real_tables():
    cases = {
        "sleepstudy": ("Subject", "Days", "Reaction"),
        "Orthodont": ("Subject", "age", "distance"),
        "Theoph": ("Subject", "Time", "conc"),
        "ChickWeight": ("Chick", "Time", "weight"),
        "BodyWeight": ("Rat", "Time", "weight"),
        "epil": ("subject", "period", "y"),
        "pbcseq": ("id", "day", "bili"),
        "Oxboys": ("Subject", "age", "height"),
    }
    found = {}
    for name, roles in cases.items():
        df = pd.read_csv(data_home() / "longitudinal" / f"{name}.csv")
        df = df[df.groupby(roles[0])[roles[1]].transform("size") > 1]
        columns = {"epil": ["trt", "base", "age"], "pbcseq": ["futime", "status", "age", "sex"]}
        df = df[[*roles, *columns[name]]] if name in columns else df
        found[name] = said(df, **dict(zip(ROLES, roles, strict=True)))
    assert {name for name, messages in found.items() if messages} == {"pbcseq", "Oxboys"}
    assert [message.split()[0] for message in found["pbcseq"]] == ["futime", "status"]
    assert found["Oxboys"][0].endswith("age and Occasion (0.999).")
